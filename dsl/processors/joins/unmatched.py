"""Records of left and outer joins that wait for a partner, and how they leave (semantics 56 to 60)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from processor_api.context import OperatorContext
from processor_api.record import HeaderList
from state.formats.keys import MAX_TIME

__all__ = ["EMIT_INTERVAL", "Unmatched", "release"]

EMIT_INTERVAL = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """The store that both sides of a left or outer join share, and for how long records stay in it.

    :param left_wait_ms: how far stream time has to be past a left record for it to leave; so ``right_wait_ms``.
    """

    store: str
    left_wait_ms: int
    right_wait_ms: int


def release(
    context: OperatorContext, unmatched: Unmatched, joiner: Callable[[Any, Any, Any], Any], *, from_left: bool
) -> Callable[[int, HeaderList | None], None]:
    """Returns a function that forwards, without partners, the records whose windows have closed.

    It is called with the timestamp and the headers of a record that has moved stream time, and mostly does nothing:
    at most once per interval of the wall clock it goes through the store. After that it starts from the last record
    that it looked at, not from the oldest that is left: this is Kafka Streams' rule, and which record brings a result
    out depends on it.

    :param joiner: takes the key, the left and the right value.
    :param from_left: whether the current record is of the left stream.
    """
    store = context.store(unmatched.store)
    shared, rows, items, delete = store.time, store.rows, store.items, store.put
    left_wait, right_wait = unmatched.left_wait_ms, unmatched.right_wait_ms
    own_wait = left_wait if from_left else right_wait
    interval_ms = int(context.processing_context().app_configs().get(EMIT_INTERVAL, 1000))
    time_ms, alone = context.clock.time_ms, _alone(context, joiner)

    def let_go(timestamp: int, headers: HeaderList | None) -> None:
        if shared.oldest is None:  # the task has just started; what waits was restored
            shared.oldest = next((key.timestamp for key, _ in rows()), MAX_TIME)
        if shared.oldest != MAX_TIME and shared.oldest + own_wait >= shared.stream_time:
            return
        now = time_ms()
        if shared.next_emit_ms - interval_ms <= now < shared.next_emit_ms:  # else the clock was set back
            return
        shared.next_emit_ms = now + interval_ms
        through_store(timestamp, headers)

    def through_store(timestamp: int, headers: HeaderList | None) -> None:
        left_open = right_open = False
        shared.oldest = MAX_TIME
        for key, row in rows():
            shared.oldest = key.timestamp
            if left_open and right_open:
                return
            if key.timestamp + (left_wait if key.left else right_wait) < shared.stream_time:
                for value, _ in items(row):
                    alone(key, value, headers)
                delete(key, None, timestamp, headers)
                continue
            if key.left:
                left_open = True
            else:
                right_open = True
            if left_open and right_open and len(items(row)) > 1:
                return  # the record looked at last is the second one of this list

    def send_rest() -> bool:
        shared.stream_time = MAX_TIME
        through_store(max(0, context.stream_time_ms()), None)
        return False

    context.on_end(send_rest)
    return let_go


def _alone(
    context: OperatorContext, joiner: Callable[[Any, Any, Any], Any]
) -> Callable[[Any, Any, HeaderList | None], None]:
    """Returns the function that forwards the result of a record without a partner."""
    forward, fail = context.forward, context.fail

    def alone(key: Any, value: Any, headers: HeaderList | None) -> None:
        left, right = (value, None) if key.left else (None, value)
        try:
            joined = joiner(key.key, left, right)
        except Exception as error:
            fail(error, key.key, value, key.timestamp, headers)
            return
        forward(key.key, joined, key.timestamp, headers)

    return alone
