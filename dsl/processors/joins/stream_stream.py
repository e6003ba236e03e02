"""The operators of a join of two streams (semantics 54 to 61).

Each side has two: one that keeps the records of the side, and one that looks for their partners among those of the
other. A record is joined before it is kept, so that a stream joined with itself meets each record once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dsl.processors.joins.unmatched import Release, Unmatched
from dsl.processors.user_functions import reversed_joiner, user_function, with_key
from processor_api.context import OperatorContext
from processor_api.record import DropReason, Forward, HeaderList


@dataclass(frozen=True, kw_only=True)
class StreamJoinStore:
    """Passes the records of one side on to be joined, and then keeps those that have a key for the other side."""

    part: ClassVar[str] = "keep"
    store: str

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        store = context.store(self.store)
        add, write_key, forward, fail = store.add, store.write_key, context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            # A left join has sent it on without a partner; no later record finds it.
            forward(key, value, timestamp, headers)
            if key is None:
                return
            try:
                add(write_key(key), timestamp, value, timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)

        return process


@dataclass(frozen=True, kw_only=True)
class StreamJoinSide:
    """Joins the records of one side with those that the other side has kept.

    :param from_left: whether the records that come are those of the left stream.
    :param keeps: whether a record of this side is forwarded without a partner too.
    :param before_ms: how much earlier a partner may be; so ``after_ms``.
    :param unmatched: the state of the third store of a left or outer join; ``None`` for an inner join, and for one that
        forwards what has no partner at once.
    """

    joiner: Callable[..., Any] = field(metadata=user_function("value", "other", key_if="takes_key"))
    takes_key: bool
    from_left: bool
    keeps: bool
    before_ms: int
    after_ms: int
    other_store: str
    unmatched: Unmatched | None = None

    @property
    def part(self) -> str:
        """The side whose records come."""
        return "left" if self.from_left else "right"

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        joiner = (with_key if self.from_left else reversed_joiner)(self.joiner, self.takes_key)
        if self.unmatched is None:
            return self._early(context, joiner) if self.keeps else self._inner(context, joiner)
        return self._outer(context, joiner, self.unmatched)

    def _inner(self, context: OperatorContext, joiner: Callable[[Any, Any, Any], Any]) -> Forward:
        other = context.store(self.other_store)
        find, write_key, before, after = other.timed.find, other.write_key, self.before_ms, self.after_ms
        forward, drop, fail = context.forward, context.drop, context.fail
        alone = context.counting(DropReason.NO_PARTNER)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if key is None or value is None:
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            try:
                partners = find(write_key(key), timestamp - before, timestamp + after)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if not partners:
                alone()
            for partner in partners:
                try:
                    joined = joiner(key, value, partner[3])
                except Exception as error:
                    fail(error, key, value, timestamp, headers)
                    return
                time = partner[1]
                forward(key, joined, time if time > timestamp else timestamp, headers)

        return process

    def _early(self, context: OperatorContext, joiner: Callable[[Any, Any, Any], Any]) -> Forward:
        inner, other = self._inner(context, joiner), context.store(self.other_store)
        find, write_key, before, after = other.timed.find, other.write_key, self.before_ms, self.after_ms
        forward, fail = context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if value is None:
                inner(key, value, timestamp, headers)
                return
            try:
                alone = key is None
                if not alone:
                    partners = find(write_key(key), timestamp - before, timestamp + after)
                    alone = not partners
                joined = joiner(key, value, None) if alone else None
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if alone:
                forward(key, joined, timestamp, headers)
            else:
                inner(key, value, timestamp, headers)

        return process

    def _outer(self, context: OperatorContext, joiner: Callable[[Any, Any, Any], Any], unmatched: Unmatched) -> Forward:
        other, waiting = context.store(self.other_store), context.store(unmatched.store)
        find, write_key, before, after = other.timed.find, other.write_key, self.before_ms, self.after_ms
        wait, delete_present, shared = waiting.put, waiting.delete_present, waiting.time
        # After a restart each store has its time, and the pair of sides has none yet.
        shared.stream_time = max(shared.stream_time, other.timed.segments.stream_time)
        forward, drop, fail = context.forward, context.drop, context.fail
        look = Release(context, unmatched, with_key(self.joiner, self.takes_key), from_left=self.from_left).look
        from_left, keeps = self.from_left, self.keeps

        def alone(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                joined = joiner(key, value, None)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if shared.send_rest is not None:  # of another record of the same call or drain
                shared.send_rest()
            if timestamp > shared.stream_time:
                shared.stream_time = timestamp
            if value is None or (key is None and not keeps):
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            if key is None:
                alone(key, value, timestamp, headers)
                return
            # Only a record that is at the front of time brings others out, as in Kafka Streams (semantics 57).
            if timestamp == shared.stream_time:
                look(timestamp, headers)
            try:
                partners = find(write_key(key), timestamp - before, timestamp + after)
                waits = keeps and not partners and timestamp + after >= shared.stream_time
                if waits:
                    wait((key, timestamp, from_left), (value, from_left), timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if shared.send_rest is not None and (partners or (keeps and not waits)):
                shared.send_rest()  # before the results of this record
            if waits:
                if shared.oldest is not None and timestamp < shared.oldest:
                    shared.oldest = timestamp
            elif keeps and not partners:
                alone(key, value, timestamp, headers)
            for partner in partners:
                time = partner[1]
                try:
                    # It has a partner now. One after the other: a joiner may fail (semantics 59).
                    delete_present((key, time, not from_left), timestamp, headers)
                    joined = joiner(key, value, partner[3])
                except Exception as error:
                    fail(error, key, value, timestamp, headers)
                    return
                forward(key, joined, time if time > timestamp else timestamp, headers)

        return process
