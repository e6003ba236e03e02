"""The common part of window and session stores: opening, restore, and the base of their facades."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from processor_api.errors import StateError, StoreError
from processor_api.record import NO_TIMESTAMP, HeaderList
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.windowed import Window, Windowed
from processor_api.texts import error_text, repr_of
from processor_api.user_code.durations import whole_ms
from state.engine.port import Batch, Engine, Family
from state.formats.keys import MAX_TIME
from state.formats.values import read_session_with_headers, write_session_with_headers
from state.row_format.checked_serdes import key_writer, reader
from state.row_format.codec import Logged, RowCodec
from state.row_format.migration import older_handles
from state.row_format.row_format import Entry
from state.row_format.value_forms import Shown, Timestamped, WithoutHeaders
from state.windowed.key_layout import SESSION, Found, RowLayout, TimeFirst
from state.windowed.row_functions import logged_key_reader
from state.windowed.rows import TimedReads, TimedRows
from state.windowed.segments import LARGEST_SEQUENCE, HeldSegments, Retention, Segments, stored_facts
from state.write_buffer.buffer import FlushCallback
from state.write_buffer.iterators import ClosableFacade, OpenIterators, RowIterator
from state.write_buffer.row_reader import Get
from state.write_buffer.store_kind import AS_OF, Opening, Restore, is_persistent

WindowOf = Callable[[int, int], Window]
"""``(time, rest)`` of a row to its window."""


class PutNumbers:
    """Holds the number of the last value that was put into a store that keeps duplicates."""

    __slots__ = ("last",)

    def __init__(self, last: int) -> None:
        self.last = last


class TimedStoreReads(ClosableFacade):
    """A store of windows or sessions, for reading; base of what processors get.

    :param shown: shows values, and takes those that are put apart.
    :param window_of: the window of a row from its time and the rest of its key.
    :param iterators: opens its iterators; all forms of a store share them.
    :param numbers: of a window store that keeps duplicates.
    """

    def __init__(
        self,
        timed: TimedReads,
        key_serde: Serde[Any],
        shown: Shown,
        window_of: WindowOf,
        iterators: OpenIterators | None = None,
        numbers: PutNumbers | None = None,
    ) -> None:
        self.numbers = numbers
        self._timed = timed
        self._key_serde = key_serde
        self._shown = shown
        self._window_of = window_of
        self._write_key = key_writer(key_serde, self.name)
        self._read_key = reader(key_serde, "key", self.name)
        self._iterators = iterators or OpenIterators(self.name)

    def without_timestamps(self) -> Self:
        """Returns the same store in the form that shows only its values."""
        return self._shown_as(self._shown.value_only())

    def without_headers(self) -> Self:
        """Returns a window store with headers, its values shown with timestamps."""
        return self._shown_as(WithoutHeaders(Timestamped(self.name, self._timed.rows.cursor)))

    def _shown_as(self, shown: Shown) -> Self:
        return type(self)(self._timed, self._key_serde, shown, self._window_of, self._iterators, self.numbers)

    def rows_after(
        self, place: bytes | None, time_from: int, time_to: int, *, key: Any = None, reverse: bool = False
    ) -> RowIterator:
        """Returns the rows that follow a place, each as ``(place, (windowed key, value))``: so they are read page by
        page.

        The rows of one key come by time; those of all keys as the store has them, segment by segment, in each by key,
        or by time in a store that is in order of time. A row that is there all the while comes once, whatever is put
        and deleted beside it.

        :param place: of a row, which may be gone; ``None`` begins with the first one.
        :param time_from: the times of windows' starts, or of sessions' ends, both included.
        :param key: the one key whose rows are read; ``None`` reads all.
        :raises ValueError: if the place is none of a store of this kind.
        """
        self._iterators.check()
        low, high = self._limit(time_from, "time_from"), self._limit(time_to, "time_to")
        keys = self._timed.layout.keys
        last = None if place is None else keys.read(place)
        if key is None:
            found = self._timed.of_times_after(low, high, last, reverse=reverse)
        else:
            found = self._timed.of_key_after(self._write_key(key), low, high, last, reverse=reverse)
        show, window_of, key_of, write = self._shown.show, self._window_of, self._read_key, keys.write
        rows = (
            (write(data, time, rest), (Windowed(key_of(data), window_of(time, rest)), show(value, timestamp)))
            for data, time, rest, value, timestamp in found
        )
        return self._iterators.open(rows)

    @property
    def timed(self) -> TimedReads:
        """The rows that it reads."""
        return self._timed

    @property
    def name(self) -> str:
        return self._timed.rows.name

    @property
    def persistent(self) -> bool:
        return self._timed.rows.persistent

    # ---------------------------------------------------------------- helpers

    def _one(self, key: bytes, time: int, rest: int) -> Any:
        entry = self._timed.get(key, time, rest)
        return None if entry is None else self._shown.show(entry[0], entry[1])

    def _listed(self, found: Iterator[Found]) -> RowIterator:
        show, window_of, key_of = self._shown.show, self._window_of, self._read_key
        rows = (
            (Windowed(key_of(key), window_of(time, rest)), show(value, timestamp))
            for key, time, rest, value, timestamp in found
        )
        return self._iterators.open(rows)

    def _bound(self, key: Any) -> bytes | None:
        return None if key is None else self._write_key(key)

    def _time(self, value: Any, what: str) -> int:
        """A time to put under."""
        found = value if type(value) is int else whole_ms(value)
        if found is None or not 0 <= found <= MAX_TIME:
            raise StoreError(
                f"store {self.name!r}: the {what} must be an integer of milliseconds from 0 to {MAX_TIME}, got"
                f" {repr_of(value)}",
                store=self.name,
            )
        return found

    def _limit(self, value: Any, what: str) -> int:
        """A time to read from or to, which may be out of the range of times."""
        found = value if type(value) is int else whole_ms(value)
        if found is None:
            raise StoreError(
                f"store {self.name!r}: {what} must be an integer of milliseconds or a datetime with a zone, got"
                f" {repr_of(value)}",
                store=self.name,
            )
        return found


class TimedOperator:
    """A store of windows or sessions as operators of the DSL get it: functions of keys, times and what is kept with
    them, without wrapper objects.

    :param shown_as: instead of the rows, rows in another form.
    """

    __slots__ = ("_layout", "_on_flush", "add", "cached", "name", "read_key", "timed", "window_of", "write_key")

    with_headers = False
    """Whether headers are kept beside the values."""

    def __init__(self, opening: Opening, timed: TimedRows, window_of: WindowOf, shown_as: Any = None) -> None:
        self.name = timed.rows.name
        self.cached = timed.rows.cached
        self.timed: Any = shown_as or timed
        self.add = timed.add_with_headers
        """Adds a row (:data:`~state.windowed.appended_rows.AddRow`); ``None`` unless the store keeps duplicates."""
        self.write_key = key_writer(opening.key_serde, self.name)
        self.read_key = reader(opening.key_serde, "key", self.name)
        self.window_of = window_of
        self._layout = timed.layout
        self._on_flush = timed.rows.on_flush

    @property
    def get(self) -> Get:
        """Finds the row of a window of a key, a :class:`Windowed`: as key-value stores find those of keys."""
        return self._look_up(forwarded=False)

    @property
    def get_forwarded(self) -> Get:
        """The same without the changes that wait in a cache: rows as those below know them."""
        return self._look_up(forwarded=self.cached)

    def _look_up(self, *, forwarded: bool) -> Get:
        find: Callable[[bytes, int, int], Entry | None]
        find = self.timed.finding_forwarded() if forwarded else self.timed.get
        name, write_key, session = self.name, self.write_key, self._layout.keys is SESSION

        def look_up(key: Any) -> Entry | None:
            if not isinstance(key, Windowed):
                raise StoreError(
                    f"the key of a row of store {name!r} must be Windowed(key, window), got {repr_of(key)}", store=name
                )
            start, end = key.window
            if not session:
                return find(write_key(key.key), start, 0)
            found = find(write_key(key.key), end, start)
            # The timestamp of a session is its end, as in Java; what its row has may be another record's.
            return None if found is None else (found[0], end)

        return look_up

    def on_flush(self, callback: FlushCallback, *, old_values: bool) -> None:
        """Sets the function that is called with each cached change when it is drained; keys are :class:`Windowed`."""
        key_of, parts, window_of = self.read_key, self._layout.parts, self.window_of
        make = tuple.__new__  # half the time of the class itself

        def flushed(row: bytes, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
            key, time, rest = parts(row)
            callback(make(Windowed, (key_of(key), window_of(time, rest))), new, old, timestamp, headers)

        self._on_flush(flushed, old_values=old_values)


def restore_timed(
    builder: StoreBuilder[Any, Any],
    engine: Engine,
    codec: RowCodec,
    layout: RowLayout,
    retention: Retention,
    *,
    with_headers: bool = False,
) -> Restore:
    """Rows of a store from its changelog, as if they were put: what has expired meanwhile is left out.

    :param with_headers: whether its rows have the headers of the records.
    """
    name = builder.name
    family = engine.family(f"{name}.{codec.family_suffix}")
    segments = Segments(name, family, retention, lambda by_ms: None)
    as_of = builder.supplier.parameters.get(AS_OF)
    if as_of is not None:
        segments.keep_from(retention.live_from(as_of))
    fill, handle, read, row_of = codec.fill, family.handle, layout.keys.read, layout.row
    index_row = layout.index.row if isinstance(layout, TimeFirst) else None
    numbered, persistent = bool(builder.supplier.parameters.get("retain_duplicates")), is_persistent(builder, engine)

    def rows(batch: Batch, records: Iterable[tuple[bytes, bytes | None, int]]) -> Iterator[Logged]:
        for logged, value, timestamp in records:
            try:
                key, time, rest = read(logged)
            except (TypeError, ValueError) as error:
                raise _wrong_key(builder, error) from error
            if numbered:
                if value is None:  # no row's deletion: see WindowFacade
                    # Only a store in memory has moved its time by it.
                    if not persistent and time > segments.stream_time:
                        segments.observe(time)
                    continue
                segments.numbers.take(rest, value=True)
            if time > segments.stream_time:
                segments.observe(time)
            # The put was dropped as well, though it was logged.
            if time < segments.dropped_before:
                continue
            # By the interval of the rows that are there: the retention may have changed since.
            segment = time // segments.interval
            segments.hold(segment)
            if index_row is not None:
                _restore_index(batch, family, index_row(segment, key, time, rest), deleted=value is None)
            yield row_of(segment, key, time, rest), value, timestamp

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        if with_headers:
            values = map(write_session_with_headers, values, headers)
        fill(batch, handle, rows(batch, zip(keys, values, timestamps, strict=True)))
        # Behind the rows: it also deletes those that a later record of the same batch lets expire.
        segments.apply(batch)
        # Before the batch is written: where that fails, the restore ends, and the next one begins with what is written.
        segments.applied()

    return restore


def timed_as_records(
    builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec, layout: RowLayout, *, with_headers: bool = False
) -> Iterator[ChangelogRecord]:
    """Yields the rows of a store as records of its changelog, segment by segment, so that a restore drops none of them
    that the store shows.

    Rows that have expired and are not deleted are among them, because a restore as of an earlier time needs them. If no
    row has the stream time of the store, for instance because the last session was removed, a deletion of a row that
    does not exist follows with this time: without it, a restore would show expired rows again. In a store that keeps
    duplicates the row that was put last comes last, once more if need be, because the numbers of later puts continue
    from it. The number of a put that has left no row is not known; no row can have it.

    :param with_headers: whether its rows have the headers of the records.
    """
    name = builder.name
    family = engine.family(f"{name}.{codec.family_suffix}")
    stream_time, _, sequence = stored_facts(name, family) or (NO_TIMESTAMP, 0, 0)
    numbered = bool(builder.supplier.parameters.get("retain_duplicates"))
    logged_key, size, unpack = logged_key_reader(layout), layout.keys.tail.size, layout.keys.tail.unpack_from
    latest, record, last, before = NO_TIMESTAMP, None, None, LARGEST_SEQUENCE + 1
    for segment in HeldSegments.in_family(family).ids:
        for row, data, timestamp in codec.logged(family.range(*layout.segment_bounds(segment))):
            headers: HeaderList | None = None
            if with_headers:
                data, headers = read_session_with_headers(data)
            key = logged_key(row)
            record = ChangelogRecord(key, data, timestamp, headers)
            yield record
            time, rest = unpack(key, len(key) - size)
            if time > latest:
                latest = time
            # Numbers begin again behind the largest one, so the last put is the one that is nearest to the last number.
            if numbered and (sequence - rest & LARGEST_SEQUENCE) < before:
                last, before = record, sequence - rest & LARGEST_SEQUENCE
    if last is not None and last is not record:
        yield last
    if stream_time > latest:
        rest = stream_time if layout.keys is SESSION else 0
        yield ChangelogRecord(layout.keys.write(b"", stream_time, rest), None, stream_time, None)


def _restore_index(batch: Batch, family: Family, row: bytes, *, deleted: bool) -> None:
    for old_handle in older_handles(family):
        batch.delete(row, old_handle)
    if deleted:
        batch.delete(row, family.handle)
    else:
        batch.put(row, b"", family.handle)


def _wrong_key(builder: StoreBuilder[Any, Any], error: Exception) -> StateError:
    return StateError(
        f"store {builder.name!r} cannot be restored: its changelog has a key that a {builder.kind} store cannot have"
        f" ({error_text(error)}); the topic may have been written by a store of another kind",
        store=builder.name,
    )
