"""The dead letters of an application, for programs: a notebook, a pipeline, the command `streams dlq`."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import ConfigError, RetryableError
from processor_api.task_id import TopicPartition
from processor_api.texts import repr_of
from processor_api.topology.function import TopologyLike, topology_of
from processor_api.user_code.durations import Timeout, to_seconds, whole_number
from streams.config import StreamsConfig
from streams.dead_letters.groups import DeadLetterGroup, LetterGroups
from streams.dead_letters.letters import DeadLetter, DeadLetterError, LetterFilter
from streams.dead_letters.log import LetterLog
from streams.dead_letters.replay import Replay, ReplayLimits, ReplayReport, plan_of
from streams.kafka.cluster_clients import ClusterClients
from streams.kafka.topics.application import DEAD_LETTERS, Use, application_topics, dead_letter_topic

if TYPE_CHECKING:
    from streams.kafka.ports import KafkaClients

MOST_LOOKED_AT = 1000
"""Offsets before one without a letter in which the previous letter is searched for."""
_ALL = LetterFilter()


class DeadLetterQueue:
    """The dead letters of an application: reads them, and sends them back to the topics that they came from.

    Nothing is asked of the brokers until a method is called, and each call makes its own clients and closes them. Only
    :meth:`replay` writes.

    :param topology: of the application: a topology, a builder, or a function that makes either.
    :param config: the settings of the application.
    :param topic: the topic of the dead letters; that of ``errors.dead.letter.queue.topic.name`` if not given.
    :param clients: makes the Kafka clients; librdkafka's if not given.
    :param clock: tells the time of a replay; the system's if not given.
    :param timeout: how long a call may read, as a ``timedelta`` or in seconds; without one, until it has read all.
        Then it raises a ``RetryableError``; letters whose transactions are committed are sent.
    :raises ConfigError: if a setting is wrong, or none names the topic.
    :raises TopologyError: if the topology is none.
    """

    def __init__(
        self,
        topology: TopologyLike,
        config: StreamsConfig | Mapping[str, Any],
        *,
        topic: str | None = None,
        clients: KafkaClients | None = None,
        clock: Clock | None = None,
        timeout: Timeout | None = None,
    ) -> None:
        self._config = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        self._topology = topology_of(topology, self._config)
        found = topic if topic is not None else dead_letter_topic(self._config.dotted())
        if found is None:
            raise ConfigError(f"{DEAD_LETTERS} is not set: set it, or name the topic of the dead letters by topic=")
        self.topic = found
        """The topic of the dead letters."""
        self._clients, self._clock = clients, clock or SystemClock()
        self._most_s = math.inf if timeout is None else to_seconds(timeout, "timeout")

    def _log(self, *, read_only: bool = True) -> LetterLog:
        name = self._config.application_id
        clients = ClusterClients(self._config, f"{name}-dead-letters", self._clients, read_only=read_only)
        clock, end = self._clock, self._clock.monotonic() + self._most_s

        def check() -> None:
            if clock.monotonic() > end:
                raise RetryableError(
                    f"the dead letters could not be read in {self._most_s:g} s: choose fewer, or use `streams dlq`",
                    topic=self.topic,
                )

        return LetterLog.of(clients, name, self.topic, check)

    # ------------------------------------------------------------------ reading

    def letters(self, only: LetterFilter = _ALL) -> Iterator[DeadLetter]:
        """Yields the letters that there are now, in the order of their offsets in each partition.

        :param only: chooses letters; all if not given.
        :raises MissingTopicError: if the topic does not exist.
        """
        log = self._log()

        def found() -> Iterator[DeadLetter]:
            with log.consumer() as consumer:
                ends = consumer.end_offsets(log.partitions)
                read = log.letters(consumer, consumer.beginning_offsets(log.partitions), ends)
                yield from filter(only.takes, read)

        return found()

    def newest(self, count: int) -> list[tuple[DeadLetter, bool]]:
        """Returns the newest letters, each with whether it was replayed, the newest first.

        It looks at the last offsets of each partition only, twice as many as letters are wanted: half of them may be
        markers of transactions.

        :param count: of letters, at most.
        :raises MissingTopicError: if the topic does not exist.
        """
        log = self._log()
        with log.consumer() as consumer:
            ends, beginnings = consumer.end_offsets(log.partitions), consumer.beginning_offsets(log.partitions)
            memories = log.memories(consumer, ends)
            starts = {one: max(beginnings[one], ends[one] - 2 * count) for one in log.partitions}
            found = heapq.nlargest(
                count, log.letters(consumer, starts, ends), key=lambda one: (one.timestamp, one.offset)
            )
        return [(one, memories[one.partition].has(one.offset)) for one in found]

    def groups(self, only: LetterFilter = _ALL) -> list[DeadLetterGroup]:
        """Returns the letters that there are now in groups of one cause, the largest group first.

        :param only: chooses letters; all if not given.
        :raises MissingTopicError: if the topic does not exist.
        """
        log, groups = self._log(), LetterGroups()
        with log.consumer() as consumer:
            ends = consumer.end_offsets(log.partitions)
            memories = log.memories(consumer, ends)
            for letter in log.letters(consumer, consumer.beginning_offsets(log.partitions), ends):
                if only.takes(letter):
                    groups.add(letter, is_replayed=memories[letter.partition].has(letter.offset))
        return groups.most_frequent_first()

    def letter(self, partition: int, offset: int) -> DeadLetter:
        """Returns one letter.

        :param partition: of the topic of the dead letters.
        :param offset: of the letter there.
        :raises DeadLetterError: if there is none; the text names the nearest letters.
        :raises MissingTopicError: if the topic does not exist.
        """
        return _letter_at(self._log(), TopicPartition(self.topic, partition), offset)

    # ------------------------------------------------------------------ replay

    def plan_replay(self, only: LetterFilter = _ALL, *, max_replays: int = 3, first: bool = False) -> ReplayReport:
        """Returns what :meth:`replay` with the same arguments would send now, and sends nothing."""
        log = self._log()
        limits = self._limits(max_replays, log)
        with log.consumer() as consumer:
            plan = plan_of(log, consumer, only, limits)
        if not first:
            plan.check_remembered(self._clock, log.group)
        return plan.report()

    def replay(
        self,
        only: LetterFilter = _ALL,
        *,
        max_replays: int = 3,
        rate: float = math.inf,
        first: bool = False,
        progress: Callable[[ReplayReport], object] = lambda _: None,
    ) -> ReplayReport:
        """Sends letters back to the topics and partitions that they came from, each letter once, also after a crash.

        The letters are those that there are when it begins. They go in transactions of up to 500, which also store what
        was sent, in the group ``<application.id>~dlq-replay``. Another replay of the same application is ended by it.

        :param only: chooses letters; all if not given.
        :param max_replays: leaves records that have failed again after this many replays.
        :param rate: the most records per second.
        :param first: states that nothing was replayed before, so that letters are sent that are so old that the brokers
            could have deleted the record of it.
        :param progress: is called with what was sent: before the first transaction, and after each. An error that it
            raises ends the replay.
        :return: what was sent, and what cannot be sent.
        :raises DeadLetterError: if it is unknown whether letters were replayed before, or the progress does not fit.
        :raises MissingTopicError: if the topic does not exist.
        :raises StreamsError: if a letter cannot be sent, or another replay has begun. What ``progress`` has received
            is sent, and nothing else.
        :raises ValueError: if a number is out of its range.
        """
        if not rate > 0:
            raise ValueError(f"rate must be more than 0, got {repr_of(rate)}")
        log = self._log(read_only=False)
        limits = self._limits(max_replays, log)
        with (
            log.consumer() as consumer,
            log.clients.transactional_producer(limits.inputs, log.group) as producer,
        ):
            log.end_former_replay(consumer)
            plan = plan_of(log, consumer, only, limits)
            if not first:
                plan.check_remembered(self._clock, log.group)
            replay = Replay(log, consumer, producer, plan, self._clock)
            replay.send_all(rate, progress)
        return replay.done

    def _limits(self, max_replays: int, log: LetterLog) -> ReplayLimits:
        number = whole_number(max_replays)
        if number is None or number < 1:
            raise ValueError(f"max_replays must be 1 or more, got {repr_of(max_replays)}")
        counts = {name: info.partitions for name, info in log.existing.items()}
        topics = application_topics(self._topology, self._config.dotted(), counts)
        read = {one.name for one in topics if not {Use.INPUT, Use.REPARTITION}.isdisjoint(one.uses)}
        return ReplayLimits({name: count for name, count in counts.items() if name in read}, number)


def _letter_at(log: LetterLog, partition: TopicPartition, offset: int) -> DeadLetter:
    if partition not in log.partitions:
        raise DeadLetterError(f"topic {log.topic!r} has partitions 0 to {len(log.partitions) - 1}")
    with log.consumer() as consumer:
        end = consumer.end_offsets([partition])[partition]
        beginning = consumer.beginning_offsets([partition])[partition]
        if beginning >= end:
            raise DeadLetterError(f"partition {partition.partition} of {log.topic!r} is empty")
        start, following = max(offset, beginning), None
        if start < end:
            following = next(log.letters(consumer, {partition: start}, {partition: end}), None)
        if following is not None and following.offset == offset:
            return following
    last, before = min(offset, end), deque[DeadLetter](maxlen=1)
    if last > beginning:
        start = max(beginning, last - MOST_LOOKED_AT)
        with log.consumer() as consumer:
            before.extend(log.letters(consumer, {partition: start}, {partition: last}))
    near = [f"{one.partition}:{one.offset}" for one in (*before, following) if one is not None]
    inside = ", which is a transaction marker or was deleted" if beginning <= offset < end else ""
    nearest = (
        f". The nearest dead {'letter is' if len(near) == 1 else 'letters are'} {' and '.join(near)}" if near else ""
    )
    raise DeadLetterError(
        f"partition {partition.partition} of {log.topic!r} has no record at offset {offset}{inside}: give an offset"
        f" from {beginning} to {end - 1}{nearest}"
    )
