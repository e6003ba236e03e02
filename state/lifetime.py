"""What a store with a time to live knows of time.

Its time is the task's stream time, and never goes back: the latest is a row, written with each commit. A key has
expired when the time to live has passed since its own time; where that is not known (rows that were there before the
store had a time to live, KIP-258's -1), since the first commit with it.
"""

from __future__ import annotations

import struct

from processor_api.errors import StateError
from processor_api.record import NO_TIMESTAMP
from processor_api.time_to_live import TimeToLive
from state.advice import rebuild_store
from state.cursor import Cursor
from state.engine import Batch, Engine, Family

__all__ = ["EXPIRY", "EXPIRY_ROW", "Lifetime"]

EXPIRY = "expiry"
"""Suffix of the family: ``record_time`` or ``access`` to the row of that mode (frozen on disk)."""
EXPIRY_ROW = struct.Struct(">qq")
"""The latest time, and the time of the first commit; -1 is none."""


class Lifetime:
    """Of one store. Written with each commit (:class:`state.kind.Upkeep`).

    :raises StateError: if the engine's row about it is damaged.
    """

    def __init__(self, engine: Engine, store: str, time_to_live: TimeToLive, cursor: Cursor) -> None:
        self.family_name = f"{store}.{EXPIRY}"
        self._family = engine.family(self.family_name)
        self._key = time_to_live.by.encode()
        self._cursor = cursor
        self.length = time_to_live.ms
        self.latest = self._since = self._next = NO_TIMESTAMP
        """`latest` is the store's time at the last commit."""
        found = self._family.get(self._key)
        if found is not None:
            if len(found) != EXPIRY_ROW.size:
                raise StateError(
                    f"store {store!r} is damaged: its row about expiry has {len(found)} bytes, not {EXPIRY_ROW.size};"
                    f" {rebuild_store(store)}",
                    store=store,
                )
            self.latest, self._since = EXPIRY_ROW.unpack(found)

    def now(self) -> int:
        """The store's time in ms; -1 before the first record."""
        time = self._cursor.stream_time
        return time if time > self.latest else self.latest

    def latest_of(self, family: Family) -> int:
        """The time of the last commit, as a snapshot of the store's family `EXPIRY` has it."""
        found = family.get(self._key)
        return NO_TIMESTAMP if found is None else EXPIRY_ROW.unpack(found)[0]

    def committed_limit(self) -> int:
        """As :meth:`limit`, as of the last commit."""
        return self.latest - self.length

    def limit(self) -> int:
        """What is of this time or an earlier one has expired."""
        time = self._cursor.stream_time
        return (time if time > self.latest else self.latest) - self.length

    def is_over(self, time: int, limit: int) -> bool:
        """Whether a key of this time, or of -1, has expired by a :meth:`limit`."""
        return time <= limit and (time >= 0 or 0 <= self._since <= limit)

    # ---------------------------------------------------------------- commits

    @property
    def pending(self) -> bool:
        return self.now() > self.latest

    def apply(self, batch: Batch) -> None:
        self._next = self.now()
        since = self._next if self._since < 0 else self._since
        batch.put(self._key, EXPIRY_ROW.pack(self._next, since), self._family.handle)

    def applied(self) -> None:
        self.latest = self._next
        if self._since < 0:
            self._since = self._next

    def close(self) -> None:
        """Nothing to give back."""
