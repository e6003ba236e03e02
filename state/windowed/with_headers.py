"""Window and session stores with headers (KIP-1271): the rows of :mod:`state.windowed.rows`, whose values are pairs of
a value and headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from processor_api.record import HeaderList
from state.row_format.row_format import Entry
from state.windowed.base import TimedOperator, WindowOf
from state.windowed.key_layout import Found, RowLayout
from state.windowed.rows import TimedRows
from state.windowed.segments import Retention
from state.write_buffer.buffer import FlushCallback
from state.write_buffer.headers_codec import HeadersLog, WithHeaders
from state.write_buffer.store_kind import CommitParticipant, Opening


class HeadersRows(TimedRows):
    """Rows with headers. On the changelog, headers are those of the record; of a deletion, those of the record that
    made it."""

    def __init__(self, opening: Opening, layout: RowLayout, retention: Retention) -> None:
        self._headers_log = None if opening.log is None else HeadersLog(opening.log, opening.cursor)
        # No call for many rows: each has headers of its own on the changelog.
        super().__init__(
            replace(opening, value_serde=WithHeaders(opening.value_serde), log=self._headers_log, log_many=None),
            layout,
            retention,
        )

    @property
    def participants(self) -> tuple[CommitParticipant, ...]:
        found = super().participants
        return found if self._headers_log is None else (*found, self._headers_log)

    def put(
        self, key: bytes, time: int, rest: int, value: Any, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        if value is None:
            # Before the put, which may log the deletion at once.
            self._note(key, time, rest, headers)
        super().put(key, time, rest, value, timestamp, headers)

    def log_null(
        self,
        key: bytes,
        time: int,
        rest: int,
        timestamp: int,
        headers: HeaderList | None = None,
        *,
        logs_headers: bool = False,
    ) -> None:
        self._note(key, time, rest, headers)
        super().log_null(key, time, rest, timestamp, headers)

    def _note(self, key: bytes, time: int, rest: int, headers: HeaderList | None) -> None:
        if self._headers_log is not None:
            self._headers_log.note_deletion(self.layout.keys.write(key, time, rest), headers)


class ValuesOnly:
    """The rows of a store as operators see them: only values; what they put has no headers (semantics 19)."""

    def __init__(self, timed: HeadersRows) -> None:
        self._timed = timed
        self.layout, self.rows, self.segments = timed.layout, timed.rows, timed.segments
        self.row_of = timed.row_of

    def put(
        self, key: bytes, time: int, rest: int, value: Any, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Puts a value without headers (:meth:`~state.windowed.rows.TimedRows.put`)."""
        self._timed.put(key, time, rest, None if value is None else (value, []), timestamp, headers)

    def put_row(
        self, row: bytes, key: bytes, time: int, value: Any, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Puts a value without headers, by the key of its row."""
        self.put(key, time, self.layout.parts(row)[2], value, timestamp, headers)

    def get_row(self, row: bytes, time: int) -> Entry | None:
        """Reads the value of one row, by the row's key."""
        found = self._timed.get_row(row, time)
        return None if found is None else (found[0][0], found[1])

    def get(self, key: bytes, time: int, rest: int) -> Entry | None:
        """Reads the value of one row (:meth:`~state.windowed.rows.TimedReads.get`)."""
        found = self._timed.get(key, time, rest)
        return None if found is None else (found[0][0], found[1])

    def finding_forwarded(self) -> Callable[[bytes, int, int], Entry | None]:
        """Returns :meth:`get` without the changes that wait in a cache."""
        find = self._timed.finding_forwarded()

        def find_value(key: bytes, time: int, rest: int) -> Entry | None:
            found = find(key, time, rest)
            return None if found is None else (found[0][0], found[1])

        return find_value

    def of_key(self, key: bytes, low: int, high: int, *, reverse: bool) -> Iterator[Found]:
        """Reads the values of a key (:meth:`~state.windowed.rows.TimedReads.of_key`)."""
        return _values_only(self._timed.of_key(key, low, high, reverse=reverse))

    def find(self, key: bytes, low: int, high: int) -> list[Found]:
        """Finds the values of a key (:meth:`~state.windowed.rows.TimedRows.find`)."""
        return list(_values_only(iter(self._timed.find(key, low, high))))

    def find_sessions(self, key: bytes, low: int, latest_start: int) -> list[Found]:
        """Finds the values of sessions (:meth:`~state.windowed.rows.TimedRows.find_sessions`)."""
        return list(_values_only(iter(self._timed.find_sessions(key, low, latest_start))))

    def of_keys(
        self, key_from: bytes | None, key_to: bytes | None, low: int, high: int, *, reverse: bool
    ) -> Iterator[Found]:
        """Reads the values of a range of keys (:meth:`~state.windowed.rows.TimedReads.of_keys`)."""
        return _values_only(self._timed.of_keys(key_from, key_to, low, high, reverse=reverse))

    def of_times(self, low: int, high: int, *, reverse: bool, expired: bool = False) -> Iterator[Found]:
        """Reads the values of a range of times (:meth:`~state.windowed.rows.TimedReads.of_times`)."""
        return _values_only(self._timed.of_times(low, high, reverse=reverse, expired=expired))

    @property
    def in_order_of_time(self) -> bool:
        """Whether rows are in order of time, then key."""
        return self._timed.in_order_of_time

    def times_from(self, low: int) -> Iterator[int]:
        """Yields the times of rows (:meth:`~state.windowed.rows.TimedReads.times_from`)."""
        return self._timed.times_from(low)

    def of_times_behind(self, low: int, high: int, last: tuple[bytes, int, int] | None) -> Iterator[Found]:
        """Reads the values that follow a row (:meth:`~state.windowed.rows.TimedReads.of_times_behind`)."""
        return _values_only(self._timed.of_times_behind(low, high, last))


def _values_only(found: Iterator[Found]) -> Iterator[Found]:
    return ((key, time, rest, value[0], timestamp) for key, time, rest, value, timestamp in found)


class HeadersWindowOperator(TimedOperator):
    """A store with headers as operators get it (:class:`ValuesOnly`)."""

    __slots__ = ()

    with_headers = True

    def __init__(self, opening: Opening, timed: HeadersRows, window_of: WindowOf) -> None:
        super().__init__(opening, timed, window_of, ValuesOnly(timed))

    def on_flush(self, callback: FlushCallback, *, old_values: bool) -> None:
        super().on_flush(_with_values_only(callback), old_values=old_values)


def _with_values_only(callback: FlushCallback) -> Callable[..., None]:
    def flushed(key: Any, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
        callback(key, None if new is None else new[0], None if old is None else old[0], timestamp, headers)

    return flushed
