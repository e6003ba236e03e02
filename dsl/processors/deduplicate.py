"""The operator that keeps the first of equal records (semantics 147). It has no counterpart in Kafka Streams.

Its window store has a row for each record that was kept, in the window of length ``within`` in which its time lies.
Records that are kept are at least ``within`` apart, so a window has one row at most, and what may be near a record lies
in its own window or in one beside it: reads are of single rows, which for a key that is new cost least. Rows leave by
segments, without tombstones; a key-value store with a time to live writes one for each key, and goes by the time of the
task, which other inputs may move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.user_functions import user_function
from dsl.processors.windows.emission import kept_stream_time
from processor_api.context import OperatorContext
from processor_api.processor import Operator, OwnTime
from processor_api.record import NO_TIMESTAMP, DropReason, Forward, HeaderList
from state.windowed.segments import time_name

NOTHING = b""

Identify = Callable[[Any, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Deduplicate(Operator):
    """Drops a record if one with the same key was kept less than ``within_ms`` before or after its time.

    :param grace_ms: how far behind its stream time a record may come.
    """

    store: str
    within_ms: int
    grace_ms: int

    def own_time(self) -> OwnTime:
        """Returns the name of its time: by that a restore tells which rows are needed though they have expired."""
        return OwnTime(self.store, time_name(self.store), window_ms=self.within_ms)

    def bind(self, context: OperatorContext) -> Forward:
        return self._bound(context, lambda key, value: key)

    def _bound(self, context: OperatorContext, identify: Identify) -> Forward:
        store = context.store(self.store)
        write_key, timed, find = store.write_key, store.timed, self._finding(store.timed)
        row_of, put = timed.row_of, timed.put_row
        within, grace = self.within_ms, self.grace_ms
        forward, drop, fail = context.forward, context.drop, context.fail
        late = context.dropping_late(DropReason.LATE_COPY, "grace", grace)
        copy = context.counting(DropReason.COPY)
        is_copy, origin = _knowing_copies(context)
        observed = NO_TIMESTAMP
        observed = kept_stream_time(context, self.store, lambda: observed)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            nonlocal observed
            if timestamp > observed:
                observed = timestamp
            try:
                found = None if key is None else identify(key, value)
                raw = None if found is None else write_key(found)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if raw is None:
                drop(DropReason.NULL_KEY_OR_ID)
                return
            if timestamp < observed - grace:
                late(observed - grace - timestamp)
                return
            start = timestamp - timestamp % within
            row = row_of(raw, start)
            kept = find(row, raw, timestamp, start, observed)
            if kept is not None and is_copy(raw, timestamp, kept):
                copy()
                return
            put(row, raw, start, origin(raw), timestamp)
            forward(key, value, timestamp, headers)

        return process

    def _finding(self, timed: Any) -> Callable[[bytes, bytes, int, int, int], Any]:
        row_of, get, within = timed.row_of, timed.get_row, self.within_ms

        def find(row: bytes, raw: bytes, timestamp: int, start: int, observed: int) -> Any:
            """Returns the row of an equal record that is near; ``None`` if there is none."""
            found = get(row, start)
            if found is not None:
                return found
            # The first window has none before it: there are no negative times.
            if start:
                before = start - within
                found = get(row_of(raw, before), before)
                if found is not None and timestamp - found[1] < within:
                    return found
            after = start + within
            # No record was that late yet, so no row is there: a read is saved for nearly each record.
            if after > observed:
                return None
            found = get(row_of(raw, after), after)
            return found if found is not None and found[1] - timestamp < within else None

        return find


def _knowing_copies(
    context: OperatorContext,
) -> tuple[Callable[[bytes, int, Any], bool], Callable[[bytes], bytes]]:
    """Returns a function that checks whether a record is a duplicate, and one that returns the location of a kept
    record.

    At least once, a record may be kept in the store, by its changelog, and lost on its way down when the process dies.
    It is read again, finds its own row, and is kept once more. In one run of the task no record is read twice: equal
    records of one place were made of one record then, and all but the first are copies.
    """
    place_of = context.origin
    current: tuple[str | None, int, int] | None = None
    kept_now: set[bytes] = set()

    def origin(raw: bytes) -> bytes:
        nonlocal current
        place = place_of()
        if place != current:
            current = place
            kept_now.clear()
        kept_now.add(raw)
        return _text(place)

    def is_copy(raw: bytes, timestamp: int, kept: Any) -> bool:
        place = place_of()
        if kept[1] != timestamp or place[0] is None or kept[0] != _text(place):
            return True
        return place == current and raw in kept_now

    return is_copy, origin


def _text(place: tuple[str | None, int, int]) -> bytes:
    topic, partition, offset = place
    return NOTHING if topic is None else f"{topic}-{partition}@{offset}".encode()


@dataclass(frozen=True, kw_only=True)
class DeduplicateById(Deduplicate):
    """Drops a record if one with the same key and id was kept less than ``within_ms`` before or after its time."""

    id_selector: Identify = field(metadata=user_function("key", "value"))

    def bind(self, context: OperatorContext) -> Forward:
        id_of = self.id_selector

        def identify(key: Any, value: Any) -> Any:
            found = id_of(key, value)
            return None if found is None else (key, found)

        return self._bound(context, identify)
