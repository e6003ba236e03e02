"""Sends dead letters back to where they came from, each once (semantics 178, 179)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from processor_api.texts import repr_of, shown
from streams.dead_letters.letters import REPLAYS, DeadLetter, DeadLetterError, LetterFilter
from streams.dead_letters.log import LetterLog
from streams.dead_letters.memory import ReplayMemory
from streams.kafka.producing.transactions import transaction

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer, Producer

BATCH = 500
"""Records of one transaction."""
FORGOTTEN_MS = 7 * 24 * 3_600_000
"""The time after which a broker forgets what a group without members has committed (``offsets.retention.minutes``)."""
ROOM_S = 0.1


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """The letters that a replay sends or has sent, and those that it cannot send."""

    topics: Mapping[str, int]
    """The number of letters by the topic that they go to."""
    left: Mapping[str, int]
    """The number of matching letters that cannot be sent, by the reason."""

    @property
    def count(self) -> int:
        """The number of letters that are sent."""
        return sum(self.topics.values())


# ---------------------------------------------------------------------- the plan


def failed_again(max_replays: int) -> str:
    """Returns the reason for leaving letters that were sent this many times."""
    return f"they failed again after {max_replays} replay{'' if max_replays == 1 else 's'}"


@dataclass(frozen=True)
class ReplayLimits:
    """Decides which letters may be sent."""

    inputs: Mapping[str, int]
    """The topics that the application reads, with their partitions."""
    max_replays: int

    def reason_against(self, letter: DeadLetter) -> str | None:
        """Returns why a letter cannot be sent; ``None`` if it can."""
        if not letter.topic or letter.source_partition < 0:
            return "no header has their source"
        if letter.topic not in self.inputs:
            return f"the application does not read their source topic {repr_of(letter.topic)}"
        if letter.source_partition >= self.inputs[letter.topic]:
            return f"topic {letter.topic!r} no longer has partition {letter.source_partition}"
        if letter.replays >= self.max_replays:
            return failed_again(self.max_replays)
        return None


@dataclass
class ReplayPlan:
    """The letters to send, and what was sent before."""

    memories: Mapping[int, ReplayMemory]
    chosen: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """Their offsets by partition of the dead letters."""
    topics: Counter[str] = field(default_factory=Counter)
    """How many go to each topic."""
    left: Counter[str] = field(default_factory=Counter)
    """How many cannot be sent, by the reason."""
    oldest_unknown_ms: int = 1 << 63
    """The time of the oldest letter in a partition of which the group remembers nothing."""

    def report(self) -> ReplayReport:
        """Returns the part of it that a user sees."""
        return ReplayReport(topics=dict(self.topics), left=dict(self.left))

    def check_remembered(self, clock: Clock, group: str) -> None:
        """Refuses letters of which it is not known whether they were sent already.

        :raises DeadLetterError: if there are any.
        """
        if self.chosen and self.oldest_unknown_ms < clock.time_ms() - FORGOTTEN_MS:
            raise DeadLetterError(
                "nothing was sent: no replay is stored, and some of the dead letters are older than 7 days, after which"
                " brokers delete stored replays. Give first=True (--first) if none was ever replayed, otherwise set the"
                f" start by kafka-consumer-groups --reset-offsets --group {group}"
            )


def plan_of(queue: LetterLog, consumer: Consumer, wanted: LetterFilter, limits: ReplayLimits) -> ReplayPlan:
    """Reads the dead letters to their end, and chooses those to send."""
    ends = consumer.end_offsets(queue.partitions)
    plan = ReplayPlan(queue.memories(consumer, ends))
    starts = {one: plan.memories[one.partition].before for one in queue.partitions}
    for letter in queue.letters(consumer, starts, ends):
        memory = plan.memories[letter.partition]
        if not memory.is_known:
            plan.oldest_unknown_ms = min(letter.timestamp, plan.oldest_unknown_ms)
        if memory.has(letter.offset) or not wanted.takes(letter):
            continue
        if (reason := limits.reason_against(letter)) is not None:
            plan.left[reason] += 1
            continue
        plan.chosen.setdefault(TopicPartition(queue.topic, letter.partition), set()).add(letter.offset)
        plan.topics[letter.topic] += 1
    return plan


# ---------------------------------------------------------------------- sending


class Replay:
    """Sends the letters of a plan, and commits with them what was sent."""

    def __init__(
        self, queue: LetterLog, consumer: Consumer, producer: Producer, plan: ReplayPlan, clock: Clock
    ) -> None:
        self._queue, self._consumer, self._producer, self._plan = queue, consumer, producer, plan
        self._clock = clock
        self._refused: list[str] = []
        self._sent = Counter[str]()
        """The letters whose transactions are committed, by the topic that they went to."""

    @property
    def done(self) -> ReplayReport:
        """The letters that were sent up to now, and those that cannot be."""
        return ReplayReport(topics=dict(self._sent), left=dict(self._plan.left))

    def send_all(self, rate: float, progress: Callable[[ReplayReport], object]) -> None:
        """Sends all letters of the plan.

        :param rate: the number of records that are sent in a second at most.
        :param progress: receives what was sent, before the first transaction and after each.
        :raises StreamsError: if one cannot be sent, or another replay has begun; those that ``progress`` has
            received are sent.
        """
        progress(self.done)
        size = max(1, int(min(BATCH, rate)))
        clock, batch = self._clock, list[DeadLetter]()
        begin = clock.monotonic()
        for letter in self._letters():
            is_chosen = letter.offset in self._plan.chosen[TopicPartition(self._queue.topic, letter.partition)]
            memory = self._plan.memories[letter.partition]
            if is_chosen and len(batch) == size:
                self._commit(batch)
                progress(self.done)
                batch = []
                clock.wait(begin + self._sent.total() / rate - clock.monotonic())
            if is_chosen:
                batch.append(letter)
            memory.passed(letter.offset, is_sent=is_chosen or memory.has(letter.offset))
        self._commit(batch)  # also of nothing: what is remembered is kept for longer
        progress(self.done)

    def _letters(self) -> Iterator[DeadLetter]:
        starts = {one: self._plan.memories[one.partition].before for one in self._plan.chosen}
        ends = {one: max(offsets) + 1 for one, offsets in self._plan.chosen.items()}
        return self._queue.letters(self._consumer, starts, ends)

    def _commit(self, batch: list[DeadLetter]) -> None:
        """Sends letters, and commits what was sent up to now, in one transaction."""
        with transaction(self._producer):
            for letter in batch:
                self._send(letter)
            self._producer.flush()
            if self._refused:
                raise StreamsError(f"a dead letter cannot be sent: {'; '.join(dict.fromkeys(self._refused))}")
            try:
                offsets = {
                    TopicPartition(self._queue.topic, partition): memory.committed()
                    for partition, memory in self._plan.memories.items()
                }
            except ValueError as error:
                raise DeadLetterError(
                    f"the replayed dead letters form too many separate ranges to store ({error}): replay the dead"
                    " letters between them first"
                ) from error
            self._producer.send_offsets(offsets, self._consumer.group_metadata())
        self._sent.update(letter.topic for letter in batch)

    def _send(self, letter: DeadLetter) -> None:
        headers: HeaderList = [*letter.headers, (REPLAYS, str(letter.replays + 1).encode())]
        timestamp = letter.source_timestamp or self._producer.zero_timestamp_ms
        if timestamp < 0:
            timestamp = self._clock.time_ms()
        topic, partition = letter.topic, letter.source_partition
        place = f"{letter.partition}:{letter.offset}"

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                self._refused.append(f"the one at {place}, to {topic}: {shown(str(error))}")

        while True:
            try:
                self._producer.produce(topic, letter.value, letter.key, partition, delivered, None, timestamp, headers)
                return
            except BufferError:
                self._producer.poll(ROOM_S)
            except (StreamsError, TypeError):
                raise
            except Exception as error:
                self._producer.refused(error, topic)
