"""Sends the results of windows on when the windows close (KIP-825, semantics 51)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.context import OperatorContext
from processor_api.record import NO_TIMESTAMP, HeaderList
from processor_api.stores.windowed import Windowed
from state.formats.keys import MAX_TIME

__all__ = ["EMIT_INTERVAL", "FinalResults", "final_results", "kept_stream_time"]

EMIT_INTERVAL = "__emit.interval.ms.kstreams.windowed.aggregation__"

FinalResults = Callable[[int, int, HeaderList | None], None]
"""``(close_time, time_to_put, headers)`` sends on what has closed; called for each record before it is put."""

Bounds = Callable[[int, int], tuple[int, int]]
"""``(last_close_time, close_time)`` to the smallest and the largest row time of windows that have closed between."""


def kept_stream_time(context: OperatorContext, store: str | None, current: Callable[[], int], part: str = "") -> int:
    """Returns the stream time of an operator as of the last commit, -1 if there was none (semantics 3).

    :param store: the store of the operator, which goes from one deployment to the next with its time.
    :param current: returns the stream time for the next commit.
    :param part: tells apart the operators that have one store.
    """
    return context.keep_time(f"{store}/stream-time{part}", current)


def final_results(context: OperatorContext, store: Any, bounds: Bounds, *, ends: bool = False) -> FinalResults:
    """Returns the function that sends on the results of windows which have closed.

    It looks at most once per interval of the wall clock (``__emit.interval.ms...``), and before that when the record's
    own put would move the store's time so far that the store would delete results which were not sent on: Kafka
    Streams loses these.

    :param ends: whether results get the ends of their windows as timestamps, rather than those that are stored.
    """
    timed, read_key, window_of, forward = store.timed, store.read_key, store.window_of, context.forward
    segments = timed.segments
    retention_ms, segment_ms = segments.retention.at_least_ms, segments.interval
    interval_ms = int(context.processing_context().app_configs().get(EMIT_INTERVAL, 1000))
    time_ms = context.clock.time_ms
    next_look_ms = 0
    last = NO_TIMESTAMP

    def committed() -> int:
        return last

    last = context.keep_time(store.name, committed, named=True)

    def emit(close_time: int, time_to_put: int, headers: HeaderList | None) -> None:
        nonlocal next_look_ms
        now = time_ms()
        if not next_look_ms - interval_ms <= now < next_look_ms:  # earlier: the clock was set back
            next_look_ms = now + interval_ms
        elif (time_to_put - retention_ms) // segment_ms <= bounds(last, close_time)[0] // segment_ms:
            return
        if last == NO_TIMESTAMP or last < close_time:
            send(close_time, headers)

    def send(close_time: int, headers: HeaderList | None) -> None:
        nonlocal last
        low, high = bounds(last, close_time)
        if high < 0:
            return
        for key, time, rest, value, timestamp in timed.of_times(low, high, reverse=False, expired=True):
            window = window_of(time, rest)
            forward(Windowed(read_key(key), window), (value, None), window.end if ends else timestamp, headers)
        last = close_time

    def send_rest() -> bool:
        send(MAX_TIME, None)
        return False

    context.on_end(send_rest)
    return emit
