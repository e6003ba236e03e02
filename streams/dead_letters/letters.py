"""The topic of dead letters, its records as the handlers write them, and which of them a command is about."""

from __future__ import annotations

import argparse
import base64
import binascii
import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from processor_api.errors import AuthorizationError, StreamsError
from processor_api.forms.times import time_ms
from processor_api.handlers import HEADER_PREFIX, LETTER_HEADERS, origin_in, split_letter_headers
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.cli.cluster.connection import ClusterConnection, Target, partitions_of, target_of
from streams.cli.cluster.positions import PartitionReading
from streams.cli.output.causes import CannotRun
from streams.cli.output.terminal import say_error
from streams.cli.settings_options import add_settings_options
from streams.cli.topology_function import APP_HELP
from streams.kafka.own_names import former_replay_group, replay_group
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.topics.application import DEAD_LETTERS, dead_letter_topic

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer, KafkaClients, TopicInfo

REPLAYS = "__streams.replays"
"""The header that counts how often a record was sent again."""
MOST_METADATA = 4096
"""Bytes of text that a broker takes with an offset by default (``offset.metadata.max.bytes``)."""


# ---------------------------------------------------------------------- letters


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A record of the topic of dead letters; what its headers do not say is empty, or -1."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: HeaderList
    """The headers of the record itself, without those of the error and the count of its replays."""
    exception: str
    message: str
    stacktrace: str
    topic: str
    """The topic that the record came from."""
    source_partition: int
    source_offset: int
    node: str
    source_timestamp: int
    """The timestamp of the record that it came from, in ms."""
    added_headers: str
    """The headers that were added to the record before it failed, as JSON; empty if there were none."""
    replays: int
    """How often it was sent again before it died again."""

    @property
    def origin(self) -> tuple[str, int, int] | None:
        """Topic, partition and offset of the record that one of a repartition topic was made from, if that is known."""
        return origin_in(self.headers)

    @classmethod
    def of(cls, message: Any) -> DeadLetter:
        """Reads a message. A letter that died itself has two headers of each name, of which the last is the error's."""
        headers, ours = split_letter_headers(list(message.headers() or ()))
        place = next((at for at in reversed(range(len(headers))) if headers[at][0] == REPLAYS), None)
        if place is not None:
            ours = [*ours, headers.pop(place)]
        said = {name: (value or b"").decode("utf-8", "replace") for name, value in ours}
        exception, text, stacktrace, topic, partition, offset, node, timestamp, added = (
            said.get(HEADER_PREFIX + name, "") for name in LETTER_HEADERS
        )
        return cls(
            partition=message.partition(),
            offset=message.offset(),
            timestamp=message.timestamp()[1],
            key=message.key(),
            value=message.value(),
            headers=headers,
            exception=exception,
            message=text,
            stacktrace=stacktrace,
            topic=topic,
            source_partition=_number(partition, -1),
            source_offset=_number(offset, -1),
            node=node,
            source_timestamp=_number(timestamp, message.timestamp()[1]),
            added_headers=added,
            replays=_number(said.get(REPLAYS, ""), 0),
        )


def _number(text: str, missing: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else missing


@dataclass(frozen=True, kw_only=True)
class LetterFilter:
    """The letters that a command is about; ``None`` leaves out nothing."""

    topic: str | None
    error: str | None
    node: str | None
    since_ms: int | None
    until_ms: int | None
    partition: int | None
    offset: int | None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a letter has all that is asked for."""
        return (
            self.topic in (None, letter.topic)
            and self.node in (None, letter.node)
            and self.partition in (None, letter.partition)
            and self.offset in (None, letter.offset)
            and (self.since_ms is None or letter.timestamp >= self.since_ms)
            and (self.until_ms is None or letter.timestamp < self.until_ms)
            and (self.error is None or self._is_error(letter, self.error))
        )

    @staticmethod
    def _is_error(letter: DeadLetter, error: str) -> bool:
        return error in (letter.exception, letter.exception.rpartition(".")[2]) or error in letter.message


def add_letter_options(parser: argparse.ArgumentParser) -> None:
    """Adds APP and the options that say which letters a command is about."""
    parser.add_argument("topology", metavar="APP", help=APP_HELP)
    group = parser.add_argument_group("filters", "a dead letter must match all of these")
    group.add_argument("--topic", metavar="TOPIC", help="dead letters from this topic")
    group.add_argument(
        "--error", metavar="TEXT", help="dead letters with this class of error, or with this in the text of the error"
    )
    group.add_argument("--node", metavar="NODE", help="dead letters of this node of the topology")
    group.add_argument("--since", metavar="TIME", help="dead letters at or after this time, ISO 8601 or ms since 1970")
    group.add_argument("--until", metavar="TIME", help="dead letters before this time")
    group.add_argument(
        "--partition", metavar="N", type=int, help="dead letters in this partition of the dead-letter topic"
    )
    group.add_argument("--offset", metavar="N", type=int, help="the dead letter at this offset; needs --partition")
    add_queue_options(parser)


def add_queue_options(parser: argparse.ArgumentParser) -> None:
    """Adds the option that names the topic of dead letters, and those of settings."""
    parser.add_argument("--queue", metavar="TOPIC", help=f"the dead-letter topic (default: {DEAD_LETTERS})")
    add_settings_options(parser)


def filter_of(arguments: argparse.Namespace) -> LetterFilter:
    """Returns which letters the options of :func:`add_letter_options` ask for.

    :raises CannotRun: if a time is none, or an offset has no partition.
    """
    if arguments.offset is not None and arguments.partition is None:
        raise CannotRun("--offset needs --partition: each partition has a record at that offset")
    return LetterFilter(
        topic=arguments.topic,
        error=arguments.error,
        node=arguments.node,
        since_ms=_time("--since", arguments.since),
        until_ms=_time("--until", arguments.until),
        partition=arguments.partition,
        offset=arguments.offset,
    )


def _time(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else time_ms(text)
    except ValueError as error:
        raise CannotRun(f"{option}: {error}") from None


# ---------------------------------------------------------------------- what was replayed


class ReplayMemory:
    """The letters of one partition that were sent again: all before an offset, and some behind it.

    Letters are passed in the order of their offsets. Between two letters there may be offsets without one, such as the
    marks of transactions, so a run of letters is what lies between two that were not sent.
    """

    def __init__(self, before: int, runs: list[tuple[int, int]] | None = None, *, is_known: bool = True) -> None:
        self.before = before
        """Each letter before this offset was sent."""
        self.is_known = is_known
        """Whether the group remembers the partition."""
        self._old = runs or []
        self._runs: list[tuple[int, int]] = []
        """The runs of letters that were passed, each from its first to behind its last."""
        self._is_whole = True
        self._in_run = False
        self._passed = before

    @classmethod
    def of(cls, committed: OffsetAndMetadata | None, beginning: int, end: int) -> ReplayMemory:
        """Returns what the group has committed for a partition. An offset behind the end is one of a topic that was
        deleted.

        :raises ValueError: if the metadata is not of this command.
        """
        if committed is None or committed.offset > end:
            return cls(beginning, is_known=False)
        runs = _decoded(committed.metadata) if committed.metadata else []
        return cls(max(committed.offset, beginning), runs)

    def has(self, offset: int) -> bool:
        """Whether the letter at an offset was sent again."""
        if offset < self.before:
            return True
        at = bisect_right(self._old, offset, key=itemgetter(0)) - 1
        return at >= 0 and offset < self._old[at][1]

    def passed(self, offset: int, *, is_sent: bool) -> None:
        """Notes the next letter, and whether it was sent again, now or before."""
        self._passed = offset + 1
        if not is_sent:
            self._is_whole = self._in_run = False
        elif self._is_whole:
            self.before = offset + 1
        elif self._in_run:
            self._runs[-1] = (self._runs[-1][0], offset + 1)
        else:
            self._runs.append((offset, offset + 1))
            self._in_run = True

    def committed(self) -> OffsetAndMetadata:
        """Returns what the group is to commit.

        :raises ValueError: if it is longer than a broker takes.
        """
        rest = [(max(first, self._passed), behind) for first, behind in self._old if behind > self._passed]
        runs = [*self._runs, *rest]
        return OffsetAndMetadata(self.before, _encoded(runs) if runs else "")


def _encoded(runs: list[tuple[int, int]]) -> str:
    numbers, last = [], 0
    for first, behind in runs:
        numbers += [first - last, behind - first]
        last = behind
    text = base64.b64encode(zlib.compress(" ".join(map(str, numbers)).encode(), 9)).decode()
    if len(text) > MOST_METADATA:
        raise ValueError(f"{len(runs)} runs of letters")
    return text


def _decoded(text: str) -> list[tuple[int, int]]:
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 1 << 20)
        numbers = list(map(int, data.split()))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"the metadata {text[:40]!r}") from error
    runs, last = [], 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        runs.append((last + gap, last + gap + length))
        last += gap + length
    return runs


# ---------------------------------------------------------------------- the topic


@dataclass(frozen=True, kw_only=True)
class LetterQueue:
    """The topic of dead letters of an application."""

    target: Target
    connection: ClusterConnection
    topic: str
    existing: Mapping[str, TopicInfo]
    """The topics of the cluster."""

    @classmethod
    def of(cls, arguments: argparse.Namespace, clients: KafkaClients | None, *, read_only: bool = True) -> LetterQueue:
        """Finds the topic.

        :param read_only: whether the clients must not change the cluster.
        :raises CannotRun: if none is named, or it does not exist.
        """
        target = target_of(arguments)
        topic = arguments.queue or dead_letter_topic(target.settings)
        if topic is None:
            raise CannotRun(f"the settings of {target.app} do not have {DEAD_LETTERS}: give the topic by --queue")
        connection = ClusterConnection(target.config, clients, read_only=read_only)
        with connection.admin() as admin:
            existing = admin.topics()
        if topic not in existing:
            raise CannotRun(f"topic {topic!r} does not exist: streams topics {target.app} --create creates it")
        return cls(target=target, connection=connection, topic=topic, existing=existing)

    @property
    def group(self) -> str:
        """The group that remembers what was sent again, which is also the transactional id of the replay."""
        return replay_group(self.target.config.application_id)

    @property
    def partitions(self) -> list[TopicPartition]:
        return partitions_of([self.topic], self.existing)

    def consumer(self) -> AbstractContextManager[Consumer]:
        """Makes a consumer of the group that has not joined it, and closes it."""
        return self.connection.consumer(group=self.group)

    def memories(self, consumer: Consumer, ends: Mapping[TopicPartition, int]) -> dict[int, ReplayMemory]:
        """Returns what was sent again of each partition.

        :raises StreamsError: if another program has committed offsets of the group.
        """
        partitions = self.partitions
        committed, beginnings = consumer.committed(partitions), consumer.beginning_offsets(partitions)
        committed = {**self._of_former_version(set(partitions) - committed.keys()), **committed}
        try:
            return {
                one.partition: ReplayMemory.of(committed.get(one), beginnings[one], ends[one]) for one in partitions
            }
        except ValueError as error:
            raise StreamsError(
                f"group {self.group!r} does not record what was replayed: {error} was not written by this command."
                " Delete its offsets if nothing was replayed"
            ) from error

    @property
    def _former_group(self) -> str:
        return former_replay_group(self.target.config.application_id)

    def _of_former_version(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Returns what a former version remembered in a group of another name, which may be an application's: then it
        has members, or metadata of another form."""
        if not partitions:
            return {}
        try:
            with self.connection.consumer(group=self._former_group) as former:
                found = former.committed(sorted(partitions))
        except AuthorizationError:  # This user has not replayed by that version then.
            say_error(
                f"group {self._former_group!r} may not be read, so the letters that a former version has replayed are"
                " unknown"
            )
            return {}
        if not found:
            return {}
        with self.connection.admin() as admin:
            is_application = bool(admin.group_members(self._former_group))
        try:
            for one in found.values():
                ReplayMemory.of(one, 0, one.offset)
        except ValueError:
            is_application = True
        return {} if is_application else found

    def end_former_replay(self, consumer: Consumer) -> None:
        """Ends a replay of a former version that still runs, so that no letter is sent by both, and says what is taken
        over from it.

        :param consumer: one of the group.
        """
        unknown = set(self.partitions) - consumer.committed(self.partitions).keys()
        if not unknown:
            return
        with self.connection.admin() as admin:
            if self._former_group in admin.open_transactions():
                admin.fence_producer(self._former_group)  # Its offsets cannot be read before.
            if not self._of_former_version(unknown):
                return
            admin.fence_producer(self._former_group)
        say_error(f"what was replayed up to now is taken over from group {self._former_group!r} of a former version")


def letters_between(
    consumer: Consumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[DeadLetter]:
    """Yields the letters between two offsets of each partition."""
    for messages in PartitionReading(consumer, starts, ends).batches():
        for message in messages:
            yield DeadLetter.of(message)
