"""Records of left and outer joins that wait for a partner, and how they leave (semantics 56 to 60)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsl.processors.windows.emission import rows_of_part
from processor_api.context import HeldBack, OperatorContext
from processor_api.record import HeaderList
from state.formats.keys import MAX_TIME

EMIT_INTERVAL = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"
ALONE = ("record without a partner", "records without a partner")


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """The store that both sides of a left or outer join share, and for how long records stay in it.

    :param left_wait_ms: how far stream time must be past a left record for it to leave; so ``right_wait_ms``.
    """

    store: str
    left_wait_ms: int
    right_wait_ms: int


class _Look:
    """One pass through the waiting records, and how far it has come.

    :param until: the last key that there was when the look began: the record that began it may wait behind.
    :param timestamp: of the record that began it, in ms; so ``headers``.
    """

    __slots__ = ("behind", "headers", "left_open", "right_open", "timestamp", "until")

    def __init__(self, until: Any, timestamp: int, headers: HeaderList | None) -> None:
        self.until, self.timestamp, self.headers = until, timestamp, headers
        self.behind: Any = None
        """The key that was looked at last."""
        self.left_open = self.right_open = False
        """Whether a record of the side was found that stays."""

    @property
    def both_open(self) -> bool:
        return self.left_open and self.right_open

    def stays(self, *, left: bool) -> bool:
        """Notes that a record of a side stays; returns whether there is one of each side."""
        if left:
            self.left_open = True
        else:
            self.right_open = True
        return self.both_open


class Release:
    """Forwards, without partners, the records of a join whose windows have closed, as results of one of its sides.

    At most once per interval of the wall clock it goes through the store. After that it starts from the last record
    that it looked at, not from the oldest that is left: this is Kafka Streams' rule, and which record brings a result
    out depends on it.

    Many results leave in parts. Those of one look are results of the record that began it: they are all sent before
    another record of either side is looked at.

    :param joiner: takes the key, the left and the right value.
    :param from_left: whether the side is the left one.
    """

    def __init__(
        self,
        context: OperatorContext,
        unmatched: Unmatched,
        joiner: Callable[[Any, Any, Any], Any],
        *,
        from_left: bool,
    ) -> None:
        self._context, self._alone = context, _alone(context, joiner)
        self._store = context.store(unmatched.store)
        self._shared = self._store.time
        self._unmatched = unmatched
        self._own_wait = unmatched.left_wait_ms if from_left else unmatched.right_wait_ms
        self._interval_ms = int(context.processing_context().app_configs().get(EMIT_INTERVAL, 1000))
        self._part_rows = rows_of_part(context)
        self._look: _Look | None = None
        self._send = self._look_on
        self._send_due = context.in_parts(self._send_part, left=False)
        context.report_held(unmatched.store, self._held)
        context.on_end(self._end)

    def _held(self, most: int | None) -> HeldBack | None:
        store, left_wait, right_wait = self._store, self._unmatched.left_wait_ms, self._unmatched.right_wait_ms
        due = (
            key.timestamp + (left_wait if key.left else right_wait) + 1
            for key, row in store.rows()
            for _ in range(store.length(row))
        )
        return HeldBack.of(ALONE, due, most)

    def look(self, timestamp: int, headers: HeaderList | None) -> None:
        """Forwards what is due, or a part of it. Mostly it does nothing.

        :param timestamp: of a record that has moved stream time, in ms; so ``headers``.
        """
        shared, interval_ms = self._shared, self._interval_ms
        if shared.oldest is None:  # the task has just started; what waits was restored
            shared.oldest = next((key.timestamp for key, _ in self._store.rows()), MAX_TIME)
        if shared.oldest != MAX_TIME and shared.oldest + self._own_wait >= shared.stream_time:
            return
        # The clock is asked last: nearly every record ends before that.
        now = self._context.clock.time_ms()
        if shared.next_emit_ms - interval_ms <= now < shared.next_emit_ms:  # otherwise the clock was set back
            return
        shared.next_emit_ms = now + interval_ms
        self._begin(timestamp, headers)
        self._send_due()

    def _begin(self, timestamp: int, headers: HeaderList | None) -> None:
        self._shared.oldest = MAX_TIME
        until = self._store.last_key()
        if until is None:
            return
        self._look = _Look(until, timestamp, headers)
        self._send = self._context.with_record(self._look_on)
        self._shared.send_rest = self._finish

    def _finish(self) -> None:
        while self._send_part():
            pass

    def _send_part(self) -> bool:
        """Forwards a part of what is due; returns whether there is more."""
        if self._look is None:
            return False
        if self._send():
            return True
        self._shared.send_rest = self._look = None
        return False

    def _look_on(self) -> bool:
        store, shared, look, left = self._store, self._shared, self._look, self._part_rows
        assert look is not None
        left_wait, right_wait = self._unmatched.left_wait_ms, self._unmatched.right_wait_ms
        for key, row in store.rows(behind=look.behind, until=look.until):
            due = key.timestamp + (left_wait if key.left else right_wait) < shared.stream_time
            if due and left <= 0 and not look.both_open:
                return True
            shared.oldest, look.behind = key.timestamp, key
            # The first behind one of each side that stays: it passes for the oldest from now on (semantics 57).
            if look.both_open:
                return False
            if due:
                items = store.items(row)
                left -= len(items)
                for value, _ in items:
                    self._alone(key, value, look.headers)
                store.put(key, None, look.timestamp, look.headers)
            elif look.stays(left=key.left) and len(store.items(row)) > 1:
                return False  # the record looked at last is the second one of this list
        return False

    def _end(self) -> bool:
        shared = self._shared
        if shared.send_rest is None:
            # No more records arrive: every window has closed.
            shared.stream_time = MAX_TIME
            self._begin(max(0, self._context.stream_time_ms()), None)
        return self._send_part()


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
