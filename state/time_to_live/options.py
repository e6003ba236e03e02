"""The time of a store with a time to live.

It is the task's stream time, and never goes back: the latest is a row, written with each commit. A key has expired when
the time to live has passed since its own time. The own time of some rows is not known: those of before the store had a
time to live, those written under the other measure (by record time or by access), and those with KIP-258's timestamp
-1. Such rows count from the first commit with this measure. The row of the other measure is deleted, so that a measure
that comes back starts again.
"""

from __future__ import annotations

import struct

from processor_api.errors import StateError
from processor_api.record import NO_TIMESTAMP
from processor_api.stores.time_to_live import ACCESS, RECORD_TIME, TimeToLive
from state.engine.port import Batch, Engine, Family
from state.engine.repair_hints import rebuild_store
from state.row_format.record_context import Cursor
from state.write_buffer.store_kind import CommitParticipant

EXPIRY = "expiry"
"""Suffix of the family: ``record_time`` or ``access`` to the row of that measure (frozen on disk). There is one row, or
two in directories of before."""
EXPIRY_ROW = struct.Struct(">qq")
"""The latest time, and the time of the first commit; -1 is none."""


class Lifetime(CommitParticipant):
    """The time of one store with a time to live, written with each commit.

    :raises StateError: if the engine's row about it is damaged.
    """

    def __init__(self, engine: Engine, store: str, time_to_live: TimeToLive, cursor: Cursor) -> None:
        self.family_name = f"{store}.{EXPIRY}"
        self._store = store
        self._family = engine.family(self.family_name)
        self._key = time_to_live.by.encode()
        self._other = (RECORD_TIME if time_to_live.by == ACCESS else ACCESS).encode()
        self._cursor = cursor
        self.length = time_to_live.ms
        self.latest, self._since = self._read(self._family, self._key)
        """`latest` is the store's time at the last commit."""
        self._next = NO_TIMESTAMP
        self._committed: int | None = None
        """The time up to which rows may be deleted once they have expired; ``None`` if it is the present one."""
        self._takes_over = self._family.get(self._other) is not None
        if self._takes_over:
            other, _ = self._read(self._family, self._other)
            if other >= self.latest:  # the other measure counted last
                self.latest, self._since = other, NO_TIMESTAMP

    def _read(self, family: Family, key: bytes) -> tuple[int, int]:
        found = family.get(key)
        if found is None:
            return NO_TIMESTAMP, NO_TIMESTAMP
        if len(found) != EXPIRY_ROW.size:
            raise StateError(
                f"store {self._store!r} is damaged: its row about expiry has {len(found)} bytes, not"
                f" {EXPIRY_ROW.size}; {rebuild_store(self._store)}",
                store=self._store,
            )
        latest, since = EXPIRY_ROW.unpack(found)
        return latest, since

    def now(self) -> int:
        """Returns the store's time in ms; -1 before the first record."""
        time = self._cursor.stream_time
        return time if time > self.latest else self.latest

    def latest_of(self, family: Family) -> int:
        """Returns the time of the last commit, as a snapshot of the store's family `EXPIRY` has it."""
        return max(self._read(family, key)[0] for key in (self._key, self._other))

    def committed_limit(self) -> int:
        """Returns the :meth:`limit` as of the last commit."""
        return self.latest - self.length

    def limit(self) -> int:
        """Returns the time up to which rows have expired."""
        time = self._cursor.stream_time
        return (time if time > self.latest else self.latest) - self.length

    def is_over(self, time: int, limit: int) -> bool:
        """Whether a key of this time, or of -1, has expired by a :meth:`limit`."""
        return time <= limit and (time >= 0 or 0 <= self._since <= limit)

    # ---------------------------------------------------------------- commits

    @property
    def time(self) -> int:
        return self.now()

    def go_back(self, time: int) -> None:
        """Has the store's time be an earlier one again: what has expired since then is there again, and is deleted by
        the commit behind the one with which it expires."""
        self.latest = min(time, self.latest)
        self._committed = time

    def commit_ended(self) -> None:
        if self._committed is not None:
            self._committed = self.latest

    @property
    def deleted_at(self) -> int:
        """The time by which rows are deleted: a commit that does not come to its end takes none that are needed."""
        return self.now() if self._committed is None else self._committed

    @property
    def pending(self) -> bool:
        return self.now() > self.latest

    def apply(self, batch: Batch) -> None:
        self._next = self.now()
        since = self._next if self._since < 0 else self._since
        batch.put(self._key, EXPIRY_ROW.pack(self._next, since), self._family.handle)
        if self._takes_over:
            batch.delete(self._other, self._family.handle)

    def applied(self) -> None:
        self.latest, self._takes_over = self._next, False
        if self._since < 0:
            self._since = self._next

    @property
    def unknown_time(self) -> int:
        """The time for keys whose own time is not known: that of the first commit, or of this one."""
        return self._since if self._since >= 0 else self.now()

    def close(self) -> None:
        """Does nothing: there is nothing to release."""
