"""`streams dlq replay`: sends dead letters back to where they came from, each once (semantics 178, 179)."""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from processor_api.texts import repr_of, shown
from streams.cli.changes_nothing import changes_nothing, dry_run
from streams.cli.command_parser import add_with_examples
from streams.dead_letters import letters
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import counted, counted_were, say
from streams.kafka.producing.transactions import transaction
from streams.kafka.topics.application import Use, application_topics

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer, KafkaClients, Producer

BATCH = 500
"""Records of one transaction."""
FORGOTTEN_MS = 7 * 24 * 3_600_000
"""The time after which a broker forgets what a group without members has committed (``offsets.retention.minutes``)."""
ROOM_S = 0.1
_EXAMPLES = """
examples:
  streams dlq replay app.py --dry-run
  streams dlq replay app.py --error KeyError --rate 100
  streams dlq replay app.py --partition 0 --offset 17
"""


def add_parser(commands: Any) -> None:
    parser = add_with_examples(
        commands,
        "replay",
        "send dead letters back to their source topics",
        _EXAMPLES,
        "Sends dead letters back to the topic and partition that they came from, with their key, value, headers and"
        " timestamp. The same transaction stores what was sent in the group <application.id>~dlq-replay, so the"
        " command never sends a letter twice. It ends at the end of the dead letters when it started. Exit status: 1"
        " if a matching dead letter cannot be sent, otherwise 0.",
    )
    letters.add_letter_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent, and send nothing")
    parser.add_argument("--rate", metavar="N", type=_rate, default=math.inf, help="send at most N records per second")
    parser.add_argument(
        "--max-replays",
        metavar="N",
        type=_count,
        default=3,
        help="skip records that have failed again after this many replays (default: %(default)s)",
    )
    parser.add_argument(
        "--first",
        action="store_true",
        help="state that nothing was replayed before: also send letters that are so old that the brokers could have"
        " deleted the record of it",
    )
    parser.set_defaults(command=changes_nothing(run, dry_run))


def _rate(text: str) -> float:
    number = float(text.removesuffix("/s"))
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return number


def run(arguments: argparse.Namespace, *, clients: KafkaClients | None = None, clock: Clock | None = None) -> int:
    """Sends the letters; returns the exit status."""
    clock = clock or SystemClock()
    wanted = letters.filter_of(arguments)
    queue = letters.LetterQueue.of(arguments, clients, read_only=arguments.dry_run)
    inputs = _inputs(queue)
    with queue.consumer() as consumer:
        if arguments.dry_run:
            plan = _plan(queue, consumer, wanted, _Limits(inputs, arguments.max_replays))
            _check_remembered(queue, plan, arguments, clock)
            _say_plan(plan, "would be sent")
            return plan.status
        with queue.connection.transactional_producer(inputs, queue.group) as producer:
            queue.end_former_replay(consumer)
            plan = _plan(queue, consumer, wanted, _Limits(inputs, arguments.max_replays))
            _check_remembered(queue, plan, arguments, clock)
            replay = _Replay(queue, consumer, producer, plan, clock)
            try:
                replay.send_all(arguments.rate)
            finally:
                _say_plan(replay.done, "sent")
                sys.stdout.flush()
    return plan.status


def _inputs(queue: letters.LetterQueue) -> dict[str, int]:
    """Returns the topics that letters may be sent to, with their partitions: those that the application reads."""
    counts = {name: info.partitions for name, info in queue.existing.items()}
    topics = application_topics(queue.target.known_topology(), queue.target.settings, counts)
    read = {one.name for one in topics if not {Use.INPUT, Use.REPARTITION}.isdisjoint(one.uses)}
    return {name: count for name, count in counts.items() if name in read}


# ---------------------------------------------------------------------- the plan


@dataclass(frozen=True)
class _Limits:
    """Decides which letters may be sent."""

    inputs: Mapping[str, int]
    max_replays: int

    def reason_against(self, letter: letters.DeadLetter) -> str | None:
        """Returns why a letter cannot be sent; ``None`` if it can."""
        if not letter.topic or letter.source_partition < 0:
            return "no header has their source"
        if letter.topic not in self.inputs:
            return f"the application does not read their source topic {repr_of(letter.topic)}"
        if letter.source_partition >= self.inputs[letter.topic]:
            return f"topic {letter.topic!r} no longer has partition {letter.source_partition}"
        if letter.replays >= self.max_replays:
            return f"they failed again after {counted(self.max_replays, 'replay')} (--max-replays)"
        return None


@dataclass
class _ReplayPlan:
    """The letters to send, or those that were sent."""

    memories: Mapping[int, letters.ReplayMemory] = field(default_factory=dict)
    chosen: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """Their offsets by partition of the dead letters."""
    topics: Counter[str] = field(default_factory=Counter)
    """How many go to each topic."""
    left: Counter[str] = field(default_factory=Counter)
    """How many cannot be sent, by the reason."""
    oldest_unknown_ms: int = 1 << 63
    """The time of the oldest letter in a partition of which the group remembers nothing."""

    @property
    def status(self) -> int:
        return FAILED if self.left else CLEAN


def _plan(queue: letters.LetterQueue, consumer: Consumer, wanted: letters.LetterFilter, limits: _Limits) -> _ReplayPlan:
    """Reads the dead letters to their end, and chooses those to send."""
    ends = consumer.end_offsets(queue.partitions)
    plan = _ReplayPlan(queue.memories(consumer, ends))
    starts = {one: plan.memories[one.partition].before for one in queue.partitions}
    for letter in letters.letters_between(consumer, starts, ends):
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


def _check_remembered(
    queue: letters.LetterQueue, plan: _ReplayPlan, arguments: argparse.Namespace, clock: Clock
) -> None:
    """Refuses letters of which it is not known whether they were sent already."""
    if plan.chosen and plan.oldest_unknown_ms < clock.time_ms() - FORGOTTEN_MS and not arguments.first:
        raise CannotRun(
            "nothing was sent: no replay is stored, and some of the dead letters are older than 7 days, after which"
            " brokers delete stored replays. Give --first if none was ever replayed, otherwise set the start by"
            f" kafka-consumer-groups --reset-offsets --group {queue.group}"
        )


def _say_plan(plan: _ReplayPlan, verb: str) -> None:
    topics = ", ".join(f"{count} to {topic}" for topic, count in sorted(plan.topics.items()))
    say(f"{counted(plan.topics.total(), 'dead letter')} {verb}{': ' if topics else ''}{topics}")
    for reason, count in sorted(plan.left.items()):
        say(f"{counted_were(count, 'dead letter')} not sent: {reason}")


# ---------------------------------------------------------------------- sending


class _Replay:
    """Sends the letters of a plan, and commits with them what was sent."""

    def __init__(
        self, queue: letters.LetterQueue, consumer: Consumer, producer: Producer, plan: _ReplayPlan, clock: Clock
    ) -> None:
        self._queue, self._consumer, self._producer, self._plan = queue, consumer, producer, plan
        self._clock = clock
        self._refused: list[str] = []
        self.done = _ReplayPlan(left=plan.left)
        """The letters whose transactions are committed."""

    def send_all(self, rate: float) -> None:
        """Sends all letters of the plan.

        :param rate: the number of records that are sent in a second at most.
        :raises StreamsError: if one cannot be sent, or another replay has begun; those that are in ``done`` are sent.
        """
        size = max(1, int(min(BATCH, rate)))
        clock, batch = self._clock, list[letters.DeadLetter]()
        begin = clock.monotonic()
        for letter in self._letters():
            is_chosen = letter.offset in self._plan.chosen[TopicPartition(self._queue.topic, letter.partition)]
            memory = self._plan.memories[letter.partition]
            if is_chosen and len(batch) == size:
                self._commit(batch)
                batch = []
                clock.wait(begin + self.done.topics.total() / rate - clock.monotonic())
            if is_chosen:
                batch.append(letter)
            memory.passed(letter.offset, is_sent=is_chosen or memory.has(letter.offset))
        self._commit(batch)  # also of nothing: what is remembered is kept for longer

    def _letters(self) -> Iterator[letters.DeadLetter]:
        starts = {one: self._plan.memories[one.partition].before for one in self._plan.chosen}
        ends = {one: max(offsets) + 1 for one, offsets in self._plan.chosen.items()}
        return letters.letters_between(self._consumer, starts, ends)

    def _commit(self, batch: list[letters.DeadLetter]) -> None:
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
                raise CannotRun(
                    f"the replayed dead letters form too many separate ranges to store ({error}): replay the dead"
                    " letters between them first"
                ) from error
            self._producer.send_offsets(offsets, self._consumer.group_metadata())
        self.done.topics.update(letter.topic for letter in batch)

    def _send(self, letter: letters.DeadLetter) -> None:
        headers: HeaderList = [*letter.headers, (letters.REPLAYS, str(letter.replays + 1).encode())]
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
