"""The operator that joins a stream with itself in one store (KIP-862, semantics 62), and its substitutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dsl.processors.user_functions import user_function, with_key
from processor_api.context import OperatorContext
from processor_api.record import DropReason, Forward, HeaderList


@dataclass(frozen=True, kw_only=True)
class SelfJoin:
    """Joins each record with those before it, as the left one and as the right one, and with itself.

    :param before_ms: how much earlier than the left record the right one may be; so ``after_ms``.
    :param keeps_left: whether a left record is forwarded without a partner too; so ``keeps_right``.
    """

    joiner: Callable[..., Any] = field(metadata=user_function("value", "other", key_if="takes_key"))
    takes_key: bool
    store: str
    before_ms: int
    after_ms: int
    keeps_left: bool = False
    keeps_right: bool = False

    @property
    def meets_itself(self) -> bool:
        """Whether a record is in the window of itself."""
        return self.before_ms >= 0 and self.after_ms >= 0

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        store = context.store(self.store)
        find, write_key, segments = store.timed.find, store.write_key, store.timed.segments
        joiner, before, after = with_key(self.joiner, self.takes_key), self.before_ms, self.after_ms
        keeps_left, keeps_right, meets_itself = self.keeps_left, self.keeps_right, self.meets_itself
        forward, drop, fail = context.forward, context.drop, context.fail
        alone = context.counting(DropReason.NO_PARTNER)

        def pairs(key: Any, value: Any, timestamp: int) -> list[tuple[Any, Any, int]]:
            """Left value, right value and time of each result; a value of ``None`` stands for no partner."""
            if key is None:
                as_left_only = [(value, None, timestamp)]
                return [*as_left_only, (None, value, timestamp)] if keeps_right else as_left_only
            raw = write_key(key)
            later = find(raw, timestamp - before, timestamp + after)
            found = [(value, other[3], max(timestamp, other[1])) for other in later]
            as_left = len(found)
            # A store drops what is too late: such a record would not find itself with two stores either.
            itself = meets_itself and (timestamp > segments.stream_time or timestamp >= segments.live_from)
            place = len(found)
            for other in find(raw, timestamp - after, timestamp + before):
                found.append((other[3], value, max(timestamp, other[1])))
                # The match with itself stands behind the earlier ones, and those of the same time (semantics 62).
                if other[1] <= timestamp:
                    place = len(found)
            as_right = len(found) - as_left
            if itself:
                found.insert(place, (value, value, timestamp))
                return found
            if keeps_left and as_left == 0:
                found.append((value, None, timestamp))
            if keeps_right and as_right == 0:
                found.append((None, value, timestamp))
            return found

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if value is None or (key is None and not keeps_left):
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            try:
                found = pairs(key, value, timestamp)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if not found:
                alone()
            for left, right, time in found:
                try:
                    joined = joiner(key, left, right)
                except Exception as error:
                    fail(error, key, value, timestamp, headers)
                    return
                forward(key, joined, time, headers)

        return process


@dataclass(frozen=True, kw_only=True)
class JoinResults:
    """Passes the results of both sides on.

    :param alone: what takes the place of both sides if they turn out to be the same stream and the application wants
        one store for that; ``None`` if the join cannot do with one.
    """

    part: ClassVar[str] = "results"
    alone: SelfJoin | None = None

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        return context.forward
