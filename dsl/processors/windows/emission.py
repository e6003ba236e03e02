"""Sends the results of windows on when the windows close (KIP-825, semantics 51)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dsl.processors.tables.operator import TableOperator
from dsl.processors.user_functions import user_function
from processor_api.context import HeldBack, OperatorContext
from processor_api.processor import OwnTime
from processor_api.record import NO_TIMESTAMP, Forward, HeaderList
from processor_api.stores.windowed import Windowed
from state.formats.keys import MAX_TIME
from state.windowed.key_layout import Found
from state.windowed.segments import sent_name, time_name

EMIT_INTERVAL = "__emit.interval.ms.kstreams.windowed.aggregation__"

OPEN_WINDOWS = ("result of an open window", "results of open windows")
"""The words for one that waits for the end of its window, and for several."""

PART_ROWS = "final.results.part.rows"
"""The setting of how many results are sent on at a time."""

FinalResults = Callable[[int, int, HeaderList | None], None]
"""``(close_time, time_to_put, headers)`` sends on what has closed; called for each record before it is put."""

Bounds = Callable[[int, int], tuple[int, int]]
"""``(last_close_time, close_time)`` to the smallest and the largest row time of windows that have closed between."""

SendRow = Callable[[Found, HeaderList | None], None]
"""Sends the result of one row of the store on, with the headers of the record that has closed its window."""


@dataclass(frozen=True, kw_only=True)
class WindowedAggregate(TableOperator):
    """The base of aggregations over windows of any kind."""

    initializer: Callable[[], Any] = field(metadata=user_function())
    aggregator: Callable[[Any, Any, Any], Any] = field(metadata=user_function("key", "value", "aggregate"))
    final: bool = False
    """Whether each result is sent on once, when its window has closed."""

    def own_time(self) -> OwnTime:
        """Returns the names of its times: by them a restore tells which rows are needed though they have expired."""
        store = str(self.store)
        return OwnTime(store, time_name(store, self.part), store if self.final else None, self.logged_window_ms)

    @property
    def logged_window_ms(self) -> int | None:
        """The length of the windows, if no row is later than the timestamp with which it is logged."""
        return None


def kept_stream_time(context: OperatorContext, store: str | None, current: Callable[[], int], part: str = "") -> int:
    """Returns the stream time of an operator as of the last commit, -1 if there was none (semantics 3).

    :param store: the store of the operator, which goes from one deployment to the next with its time.
    :param current: returns the stream time for the next commit.
    :param part: tells apart the operators that have one store.
    """
    return context.keep_time(time_name(store, part), current)


def rows_of_part(context: OperatorContext) -> int:
    """Returns how many final results are sent on at a time."""
    return int(context.processing_context().app_configs().get(PART_ROWS, 1000))


def final_results(
    context: OperatorContext,
    store: Any,
    bounds: Bounds,
    closed: Callable[[], int],
    *,
    wait_ms: int,
    reach_ms: int | None = None,
    ends: bool = False,
) -> FinalResults:
    """Returns the function that sends on the results of windows which have closed.

    It looks at most once per interval of the wall clock (``__emit.interval.ms...``), and before that when the record's
    own put would move the store's time so far that the store would delete results which were not sent on: Kafka
    Streams loses these.

    Many results are sent in parts. How many of the rows behind the last close time are sent is committed with the
    offsets; the store keeps the rows until all are.

    :param closed: returns the time at which windows have closed by now.
    :param wait_ms: how far stream time must be past the time of a row for its result.
    :param reach_ms: how far before its own time a record may change a row that has closed; ``None`` if none does.
    :param ends: whether results get the ends of their windows as timestamps, rather than those that are stored.
    """
    timed, segments = store.timed, store.timed.segments
    retention_ms, segment_ms = segments.retention.at_least_ms, segments.interval
    interval_ms = int(context.processing_context().app_configs().get(EMIT_INTERVAL, 1000))
    time_ms = context.clock.time_ms
    next_look_ms = 0
    results = _Results(context, store, bounds, closed, _row_sender(context.forward, store, ends=ends))
    send_part = context.in_parts(results.send_part, left=results.begun)

    def emit(close_time: int, time_to_put: int, headers: HeaderList | None) -> None:
        nonlocal next_look_ms
        if results.sent:  # another record of the same call or drain, which may change a row that is not sent yet
            results.finish()
        now, last = time_ms(), results.last
        if not next_look_ms - interval_ms <= now < next_look_ms:  # earlier: the clock was set back
            next_look_ms = now + interval_ms
        elif (time_to_put - retention_ms) // segment_ms <= bounds(last, close_time)[0] // segment_ms:
            return
        if last != NO_TIMESTAMP and last >= close_time:
            return
        changes_closed = reach_ms is not None and time_to_put - reach_ms < close_time
        if changes_closed or not timed.in_order_of_time:
            results.send(close_time, headers)
            return
        results.begin(close_time, headers)
        send_part()
        results.keep_rows()

    def send_rest() -> bool:
        results.send(MAX_TIME, None)
        return False

    context.on_end(send_rest)
    context.report_held(store.name, lambda most: results.open(wait_ms, most))
    return emit


def _row_sender(forward: Forward, store: Any, *, ends: bool) -> SendRow:
    read_key, window_of = store.read_key, store.window_of

    def send_row(found: Found, headers: HeaderList | None) -> None:
        key, time, rest, value, timestamp = found
        window = window_of(time, rest)
        forward(Windowed(read_key(key), window), (value, None), window.end if ends else timestamp, headers)

    return send_row


class _Results:
    """The results of the windows of one store that have closed, and how far they are sent on.

    Windows that have closed no longer change. So the number of rows that are sent, in the order of the store,
    tells the next life of the task which are left.
    """

    def __init__(
        self, context: OperatorContext, store: Any, bounds: Bounds, closed: Callable[[], int], send_row: SendRow
    ) -> None:
        self._context, self._timed = context, store.timed
        self._bounds, self._closed, self._send_row = bounds, closed, send_row
        self._part_rows = rows_of_part(context)
        self._headers: HeaderList | None = None
        self._send_rows: Callable[[], bool] = self._send
        self._row: tuple[bytes, int, int] | None = None
        """Key, time and rest of the row behind `last` that was sent last in this life of the task."""
        self.last = NO_TIMESTAMP
        """The close time up to which all is sent."""
        self.last = context.keep_time(store.name, lambda: self.last, named=True)
        self.sent = 0
        """1 and the number of rows behind `last` that are sent, if there may be others; else 0."""
        self.sent = context.keep_progress(sent_name(store.name), lambda: self.sent, since=store.name)
        self._close_time = closed() if self.begun else NO_TIMESTAMP
        self.keep_rows()

    @property
    def begun(self) -> bool:
        """Whether results are sent in parts, and some may be left."""
        return self.sent > 0

    def send(self, close_time: int, headers: HeaderList | None) -> None:
        """Sends all results up to a close time at once."""
        low, high = self._bounds(self.last, close_time)
        if high < 0:
            return
        for found in self._timed.of_times(low, high, reverse=False, expired=True):
            self._send_row(found, headers)
        self.last = close_time

    def begin(self, close_time: int, headers: HeaderList | None) -> None:
        """Begins to send the results up to a close time in parts, as results of the current record."""
        if self._bounds(self.last, close_time)[1] >= 0:
            self._close_time, self._headers, self.sent, self._row = close_time, headers, 1, None
            self._send_rows = self._context.with_record(self._send)

    def open(self, wait_ms: int, most: int | None) -> HeldBack | None:
        """Returns the results of windows that are open."""
        if most is not None and not self._timed.in_order_of_time:
            return None  # it would have to read all rows
        first = max(0, self._bounds(self.last, self._closed())[1] + 1)
        return HeldBack.of(OPEN_WINDOWS, (time + wait_ms for time in self._timed.times_from(first)), most)

    def keep_rows(self) -> None:
        """Has the store keep the rows that are left, which the record's own put may make expire."""
        if self.begun:
            self._timed.segments.keep_from(max(0, self._bounds(self.last, self._close_time)[0]))

    def send_part(self) -> bool:
        """Sends a part of the results; returns whether there are more."""
        return self.begun and self._send_rows()

    def finish(self) -> None:
        """Sends all that is left."""
        while self.send_part():
            pass

    def _send(self) -> bool:
        low, high = self._bounds(self.last, self._close_time)
        rows = self._timed.of_times_behind(max(0, low), high, self._row)
        if self._row is None:
            rows = islice(rows, self.sent - 1, None)  # of a former life
        left = self._part_rows
        for found in rows:
            if not left:
                return True
            left -= 1
            self._send_row(found, self._headers)
            self._row = found[:3]
            self.sent += 1
        self.last, self.sent, self._row, self._send_rows = self._close_time, 0, None, self._send
        if self._timed.segments.needed_from is not None:
            self._timed.segments.keep_no_more()
        return False
