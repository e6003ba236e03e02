"""Finds and adds the rows of a store that keeps duplicates, for the operators that do so with each record: joins of
streams.

They are functions that hold what they need in their closures, as those of :mod:`state.write_buffer.fast_path` do.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from processor_api.record import HeaderList
from state.formats.keys import MAX_TIME
from state.row_format.row_format import ENTRY_OVERHEAD_BYTES, Entry, RowFormat
from state.row_format.row_probe import probed_put
from state.windowed.index import IndexRows
from state.windowed.key_layout import Found, KeyFirst, RowLayout
from state.windowed.key_lookup import Find, between_of
from state.windowed.segments import LARGEST_SEQUENCE, SEGMENT, Segments, SegmentTimes
from state.write_buffer.buffer import DROPPED_AT_ONCE, Rows
from state.write_buffer.fast_path import make_keep
from state.write_buffer.row_reader import Overlay
from state.write_buffer.shared_rows import Logged

# The write buffer of a store that keeps duplicates, in which no row is put twice or deleted before it expires.
#
# Operators read such a store by key with each record: a join looks for the partners of each. So the buffer knows
# where the latest rows are, also those that the engine has already, and reads ranges of the engine only where it may
# not know all rows.

NUMBER_BITS = LARGEST_SEQUENCE.bit_length()
"""A place is the time of a row, moved left by these bits, and its number."""

PLACE_BYTES = ENTRY_OVERHEAD_BYTES + 16
"""The cost of a place in the cache, beside that of the key."""


FORGOTTEN_TOGETHER = 1000
"""The number of places, added one after the other, that are dropped together."""

LEAST_TOGETHER = 50
"""The places of smaller commits are put together until there are so many: a list for each would be larger than they."""


@dataclass
class _Committed:
    """Some places of rows that the engine has.

    :param newest: the largest of them.
    :param cost: the bytes that they take of the cache.
    """

    keys: list[bytes]
    newest: int
    cost: int


class AppendedRows(Rows):
    """Rows that are never changed: those that wait for the commit, and the places of the latest of all.

    Places are part of the cache: over its limit those of the rows that were added first are dropped at the next commit.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.places: dict[bytes, int | list[int]] = {}
        """The place known of each key, or several, in order: mostly it is one, and lists take memory and time. That of
        every row that waits for the commit is known."""
        self.complete_from = 0
        """The least time from which on all places are known."""
        self.added_keys: list[bytes] = []
        """The keys of the rows that wait for the commit, in the order in which they were added."""
        self.added_places: list[int] = []
        """Their places."""
        self._committed: deque[_Committed] = deque()
        self._times: SegmentTimes | None = None

    def follow(self, segments: Segments) -> None:
        """Takes the times of the rows that the engine has from an earlier life."""
        self._times = segments
        if segments.held.known:
            # Rows whose store has no time may be of any: then a number behind all times, so that the engine is asked.
            self.complete_from = segments.stream_time + 1 if segments.stream_time >= 0 else 1 << 63

    # ------------------------------------------------------------------ rows

    @property
    def read_through(self) -> Callable[[Any], Entry | None]:
        return self.read_row

    def read_row(self, row: bytes) -> Entry | None:
        """Returns the value and the timestamp of a row that waits for the commit or is in the engine."""
        # Each put is logged at once, so no row is ever in `dirty`, and `clean` is not used.
        logged = self.drained.get(row)
        if logged is None:
            return self._read_family(row)
        return None if logged[1] is None else self.format.values.stored(logged[1]), logged[2]

    def _overlay(self, low: bytes | None, high: bytes | None, reverse: bool) -> Overlay:
        _, found = self.waiting.between(low, high, reverse=reverse)
        return [(row, entry) for row in found if (entry := self.read_row(row)) is not None]

    # ------------------------------------------------------------------ places

    def applied(self) -> None:
        """Counts the places of the rows that the engine holds now as part of the cache, and forgets expired ones."""
        assert self._times is not None
        for first in range(0, len(self.added_keys), FORGOTTEN_TOGETHER):
            end = first + FORGOTTEN_TOGETHER
            self._note_committed(self.added_keys[first:end], max(self.added_places[first:end]))
        self.added_keys.clear()
        self.added_places.clear()
        live = self._times.live_from << NUMBER_BITS
        while self._committed and self._committed[0].newest < live:
            self._forget_first(live)
        # Last: it may look for room, and no place is dropped while rows wait in `added_keys`.
        super().applied()

    def _note_committed(self, keys: list[bytes], newest: int) -> None:
        cost = sum(map(len, keys)) + len(keys) * PLACE_BYTES
        self.budget.clean += cost
        last = self._committed[-1] if self._committed else None
        if last is None or len(last.keys) >= LEAST_TOGETHER:
            self._committed.append(_Committed(keys, newest, cost))
        else:
            last.keys += keys
            last.newest = max(last.newest, newest)
            last.cost += cost

    def _drop_clean(self, keep: Any) -> None:
        if self.added_keys:  # no engine has these rows: their places stay until they are committed
            return
        budget = self.budget
        limit = budget.cache_limit
        if budget.cached > limit:  # some more, since each time takes a while
            limit -= limit >> DROPPED_AT_ONCE
        while self._committed and budget.cached > limit:
            self._forget_first(0)

    def forget_below(self, key: bytes) -> None:
        """Leaves the places of expired rows to :meth:`applied`."""

    def _forget_first(self, end: int) -> None:
        """Forgets the places that were committed first, and of their keys all that are smaller than ``end``."""
        first, places = self._committed.popleft(), self.places
        if end <= first.newest:
            # `complete_from` counts whole times, so all rows of the newest one are forgotten.
            end = (first.newest >> NUMBER_BITS) + 1 << NUMBER_BITS
        for key in first.keys:
            known = places.get(key)
            # A list before this one, with a later time in it, has taken them along.
            if known is None:
                continue
            if (known if isinstance(known, int) else known[-1]) < end:
                del places[key]
            elif isinstance(known, list) and known[0] < end:
                del known[: bisect_left(known, end)]
        self.complete_from = max(self.complete_from, end >> NUMBER_BITS)
        self.budget.clean -= first.cost

    def close(self) -> None:
        self.budget.clean -= sum(some.cost for some in self._committed)
        self._committed.clear()
        self.added_keys.clear()
        self.added_places.clear()
        self.places.clear()
        super().close()


AddRow = Callable[[bytes, int, Any, int, "HeaderList | None"], None]
"""``(key, time, value, timestamp, headers)`` adds a value beside those of the same key and time; its changelog record
has the headers."""

FEW = 8
"""This many places are compared in less time than it takes to search them."""


def make_find(layout: KeyFirst, rows: AppendedRows, segments: Segments) -> Find:
    """Returns the function that finds the rows of a key by time: by their places where all of these are known, else
    those of the engine by a range."""
    places_of, drained_get, make_row = rows.places.get, rows.drained.get, layout.row_maker(segments.interval)
    read_below, by_range = rows.family.get, _make_find_in_range(layout, rows, segments)
    format = rows.format
    read = format.values.serde.deserialize if format.values.encoded else format.values.decode
    entry_of = format.codec.reading(read)

    def find(key: bytes, low: int, high: int) -> list[Found]:
        if low < segments.live_from:
            low = segments.live_from
        if high > MAX_TIME:
            high = MAX_TIME
        if low < rows.complete_from:
            return by_range(key, low, high)
        known = places_of(key)
        if known is None:
            return []
        first, end = low << NUMBER_BITS, high + 1 << NUMBER_BITS
        places: Sequence[int] = (known,) if isinstance(known, int) else known
        if len(places) > FEW:
            places = places[bisect_left(places, first) : bisect_left(places, end)]
        found: list[Found] = []
        for place in places:
            if not first <= place < end:
                continue
            time, number = place >> NUMBER_BITS, place & LARGEST_SEQUENCE
            row = make_row(key, time, number)
            logged = drained_get(row)
            data = read_below(row) if logged is None else logged[1]
            if data is None:
                continue
            try:
                value, timestamp = entry_of(data) if logged is None else (read(data), logged[2])
            except Exception:
                value, timestamp = _read_again(format, data, logged)
            found.append((key, time, number, value, timestamp))
        return found

    return find


def _read_again(format: RowFormat, data: bytes, logged: Logged | None) -> tuple[Any, int]:
    """Reads a row that could not be read: with errors that name the store, and what strings have instead of bad bytes.

    :param logged: the row, if it waits for the commit; otherwise the data is that of the engine.
    """
    if logged is not None:
        return format.values.read(data), logged[2]
    value, timestamp = format.entry_of(data)
    return format.values.value_of(value), timestamp


def _make_find_in_range(layout: KeyFirst, rows: AppendedRows, segments: Segments) -> Find:
    """Returns the function that finds rows in the engine, and by their places those that wait for the commit."""
    places, drained_get, interval = rows.places, rows.drained.get, segments.interval
    row_of, bounds, row_bytes, time_and_rest = layout.row, layout.key_bounds, layout.row_bytes, layout.time_and_rest
    between, stored, entry_of = between_of(rows.family), rows.format.values.stored, rows.format.entry_of
    value_of = rows.format.values.value_of if rows.format.values.encoded else None

    def find(key: bytes, low: int, high: int) -> list[Found]:
        entries: dict[bytes, Any] = {}
        length = row_bytes(key)  # rows of longer keys may lie between those of the key
        for segment in segments.between(low, high, reverse=False):
            for row, data in between(*bounds(segment, key, low, high)):
                if len(row) == length:
                    entries[row] = entry_of(data)
        first, end = low << NUMBER_BITS, high + 1 << NUMBER_BITS
        known = places.get(key, ())
        for place in (known,) if isinstance(known, int) else known:
            if not first <= place < end:
                continue
            time = place >> NUMBER_BITS
            row = row_of(time // interval, key, time, place & LARGEST_SEQUENCE)
            logged = drained_get(row)
            if logged is not None:  # otherwise the engine has it
                entries[row] = stored(logged[1]), logged[2]  # type: ignore[arg-type]
        return [
            (key, *time_and_rest(row), value if value_of is None else value_of(value), timestamp)
            # Row keys differ, so the sort never compares two entries.
            for row, (value, timestamp) in sorted(entries.items())
        ]

    return find


def make_add_row(
    rows: AppendedRows,
    segments: Segments,
    layout: RowLayout,
    index: IndexRows | None,
    logged_as: Callable[..., None] | None,
    add_null: Callable[[bytes, int, int, HeaderList | None], None],
) -> AddRow:
    """Returns the function that adds a value; one that comes too late is logged and dropped.

    :param logged_as: logs a row under its key on the changelog; ``None`` without a changelog.
    :param add_null: is called instead of adding ``None``, without the value.
    """
    interval, make_row = segments.interval, layout.row_maker(segments.interval)
    held, hold, numbers = segments.held.known, segments.hold, segments.numbers
    write, before = _make_write(rows.format), _make_before(rows, index)
    log, begin = _make_log(rows, layout, logged_as)
    drained, uncommitted, waiting, budget = rows.drained, rows.shared.uncommitted, rows.waiting, rows.budget
    places, note_key, note_place = rows.places, rows.added_keys.append, rows.added_places.append
    places_of = places.get

    def add_row(key: bytes, time: int, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        if value is None:
            add_null(key, time, timestamp, headers)
            return
        number = numbers.last + 1 & LARGEST_SEQUENCE
        row, is_late = make_row(key, time, number), time < segments.dropped_before
        if before is not None and not is_late:
            before(row, value)
        data = write(value)
        if log is not None:
            if headers is None:
                log(row[begin:], data, timestamp)
            else:
                log(row[begin:], data, timestamp, headers)
        if is_late:
            segments.drop(time)
        else:
            drained[row] = (row, data, timestamp)
            if (fresh := uncommitted.fresh) is not None:
                fresh.append(row)
            place, known = time << NUMBER_BITS | number, places_of(key)
            if known is None:
                places[key] = place
            elif type(known) is list and place > known[-1]:
                known.append(place)
            else:
                places[key] = _with_place(known, place)
            note_key(key)
            note_place(place)
            cost = len(row) + len(data) + ENTRY_OVERHEAD_BYTES
            waiting.bytes += cost
            budget.uncommitted += cost
            if index is not None:
                index.put(row, data)
            # `hold` asks this as well; here it saves a call for nearly each record.
            if time // interval not in held:
                hold(time // interval)
            # The time moves behind the row: a view completes the time of a row, and cannot make a row of a time.
            if time > segments.stream_time:
                segments.observe(time)
        # A late put has used its number as well: it is on the changelog.
        numbers.last = numbers.last_value = number

    return add_row


def _with_place(known: int | list[int], place: int) -> list[int]:
    """Returns the places of a key with one more, which may be anywhere among them."""
    if isinstance(known, int):
        return [known, place] if known < place else [place, known]
    insort(known, place)
    return known


def _make_write(format: RowFormat) -> Callable[[Any], bytes]:
    """Returns the function from a value as its user gives it to its bytes, checked."""
    keep, write_value = make_keep(format), format.values.write
    return keep if format.values.encoded else lambda value: write_value(keep(value))


def _make_before(rows: AppendedRows, index: IndexRows | None) -> Callable[[bytes, Any], None] | None:
    """Returns the function that is called with each row and its value before it is added; mostly there is none."""
    if index is None and rows.cursor.probe is None:
        return None
    freeze = _nothing if index is None else index.freeze
    return probed_put(rows, bytes, lambda row, value: freeze())


def _nothing() -> None:
    """Does nothing."""


def _make_log(
    rows: AppendedRows, layout: RowLayout, logged_as: Callable[..., None] | None
) -> tuple[Callable[..., None] | None, int]:
    """Returns the function that logs a row, and where in the row begins what that function takes for it."""
    # A key on the changelog is then the row without its first bytes: a slice instead of calls that take it apart.
    is_direct = isinstance(layout, KeyFirst) and layout.as_logged and rows.cursor.probe is None
    return (logged_as, SEGMENT.size) if is_direct else (rows.logging.log, 0)
