"""Inputs that end where another application has committed, or at offsets that are known.

A shadow reads the inputs of the application that it follows no further than that one has committed. So it is never
ahead, and where the other one stops, its state comes to stand at the same offsets. To the runtime an input ends there
(docs/decisions/command-line-and-settings.md, "A live shadow is an application with other clients").
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Admin, Consumer
from streams.log import RepeatedLines

log = logging.getLogger("streams.shadow")

LOOK_S = 1.0
"""The time between two looks how far the other application is."""
_UNKNOWN = -1.0
"""The limit of an input as long as it is not known how far the other application is."""


class Limits(Protocol):
    """Says how far inputs may be read."""

    def is_limited(self, topic: str) -> bool:
        """Returns whether a topic is an input from outside, and not one that the application writes for itself."""
        ...

    def find(self, places: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """Returns the offset before which each partition may be read, infinity for no limit.

        :raises RetryableError: if that cannot be asked now.
        """
        ...

    def close(self) -> None: ...


class FixedLimits:
    """Limits that are known: a partition that is not among them is not read.

    :param own: the topics that the application writes for itself, which have no limit.
    """

    def __init__(self, limits: Mapping[TopicPartition, int], own: Collection[str]) -> None:
        self._limits, self._own = limits, own

    def is_limited(self, topic: str) -> bool:
        return topic not in self._own

    def find(self, places: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        return {place: self._limits.get(place, 0) for place in places}

    def close(self) -> None:
        pass


class FollowedGroup:
    """The limits that another application's committed offsets are.

    An input of which that application has committed nothing is one that it does not read, and has no limit. If it has
    committed nothing at all, nothing is read: its id may be wrong.

    :param own: the topics that the shadow writes for itself.
    :param inputs: the topics that its sources name.
    """

    def __init__(
        self, admin: Admin, group: str, own: Collection[str], inputs: Collection[str], repeated: RepeatedLines
    ) -> None:
        self._admin, self._group, self._own = admin, group, own
        self._topics: dict[str, int] = dict.fromkeys(inputs, 0)
        self._unlimited: set[str] = set()
        self._repeated = repeated

    def is_limited(self, topic: str) -> bool:
        return topic not in self._own

    def find(self, places: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        self._count(places)
        known = [TopicPartition(topic, number) for topic, count in self._topics.items() for number in range(count)]
        committed = self._admin.group_offsets(self._group, known)
        if not committed:
            self._repeated.log(
                "the application that is followed has committed nothing: nothing is read", of=self._group
            )
            return dict.fromkeys(places, 0.0)
        followed = {place.topic for place in committed}
        for topic in sorted({place.topic for place in places} - followed - self._unlimited):
            self._unlimited.add(topic)
            log.info("input that the followed application does not read", extra={"topic": topic, "of": self._group})
        return {
            place: committed[place].offset if place in committed else 0.0 if place.topic in followed else math.inf
            for place in places
        }

    def _count(self, places: Collection[TopicPartition]) -> None:
        """Asks for the partitions of topics that are not known, or have got more."""
        counts = self._topics
        if all(counts.values()) and all(place.partition < counts.get(place.topic, 0) for place in places):
            return
        names = counts.keys() | {place.topic for place in places}
        existing = self._admin.topics()
        counts.update({name: existing[name].partitions if name in existing else 0 for name in names})

    def close(self) -> None:
        self._admin.close()


class LimitedConsumer:
    """A consumer to which an input ends at its limit.

    Records behind it that the client has fetched already are kept, and their partition is paused.
    """

    def __init__(self, consumer: Consumer, limits: Limits, clock: Clock) -> None:
        self._consumer, self._limits, self._clock = consumer, limits, clock
        self._known: dict[TopicPartition, float] = {}
        """The limits of assigned inputs."""
        self._held: dict[TopicPartition, deque[Any]] = {}
        self._paused: set[TopicPartition] = set()
        """The partitions that the runtime has paused."""
        self._next_look = -math.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    # ------------------------------------------------------------------ records

    def consume(self, most: int, timeout_s: float) -> Sequence[Any]:
        self._look()
        return self._released(most) or self._allowed(self._consumer.consume(most, timeout_s))

    def poll(self, timeout_s: float) -> Any:
        self._look()
        found: Sequence[Any] = self._released(1)
        if not found and (message := self._consumer.poll(min(timeout_s, LOOK_S))) is not None:
            found = self._allowed((message,))
        return found[0] if found else None

    def _look(self) -> None:
        """Asks for the limits, if it is time to."""
        now = self._clock.monotonic()
        if now < self._next_look or not self._known:
            return
        self._next_look = now + LOOK_S
        try:
            self._known.update(self._limits.find(list(self._known)))
        except RetryableError as error:
            log.debug("not known how far the followed application is", extra={"error": str(error)})

    def _released(self, most: int) -> list[Any]:
        """Returns records that were kept and are before their limit now."""
        found: list[Any] = []
        for place in [place for place in self._held if place not in self._paused]:
            queue, limit = self._held[place], self._known.get(place, _UNKNOWN)
            while queue and len(found) < most and queue[0].offset() < limit:
                found.append(queue.popleft())
            if not queue:
                del self._held[place]
                self._consumer.resume([place])
        return found

    def _allowed(self, messages: Sequence[Any]) -> Sequence[Any]:
        if not self._known:
            return messages
        found: list[Any] = []
        for message in messages:
            place = TopicPartition(message.topic() or "", message.partition() or 0)
            limit = self._known.get(place, math.inf)
            if message.error() is not None:
                is_end = message.error().code() == self._consumer.partition_eof
                if not (is_end and (place in self._held or message.offset() > limit)):
                    found.append(message)
            elif place in self._held or message.offset() >= limit:
                self._hold(place, message)
            else:
                found.append(message)
        return found

    def _hold(self, place: TopicPartition, message: Any) -> None:
        if place not in self._held:
            self._held[place] = deque()
            self._consumer.pause([place])
        self._held[place].append(message)

    # ------------------------------------------------------------------ partitions

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._forget(partitions)
        self._consumer.assign(partitions)
        limited = [place for place in partitions if self._limits.is_limited(place.topic)]
        self._known.update(dict.fromkeys(limited, _UNKNOWN))
        self._next_look = -math.inf

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)
        self._consumer.unassign(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for place in partitions:
            self._held.pop(place, None)
            self._known.pop(place, None)
            self._paused.discard(place)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if self._held.pop(partition, None) is not None and partition not in self._paused:
            self._consumer.resume([partition])
        self._consumer.seek(partition, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.update(partitions)
        self._consumer.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.difference_update(partitions)
        self._consumer.resume([place for place in partitions if place not in self._held])

    # ------------------------------------------------------------------ offsets

    def position(self, partition: TopicPartition) -> int | None:
        held = self._held.get(partition)
        return held[0].offset() if held else self._consumer.position(partition)

    def fetched_end(self, partition: TopicPartition) -> int | None:
        end = self._consumer.fetched_end(partition)
        return None if end is None else self._limited(partition, end)

    def end_offsets(self, partitions: Collection[TopicPartition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        ends = self._consumer.end_offsets(partitions, timeout_s)
        return {place: self._limited(place, end) for place, end in ends.items()}

    def _limited(self, place: TopicPartition, end: int) -> int:
        return int(min(end, max(0, self._known.get(place, math.inf))))

    def close(self) -> None:
        try:
            self._consumer.close()
        finally:
            self._limits.close()
