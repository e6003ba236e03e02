"""The kit for tests of clones and live shadows: an application that counts words, and a process that is killed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cluster_cli import ClusterCommands, Printed
from processor_api.task_id import TopicPartition
from runtime_support.failing_clients import Trapped
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.record_ranges import read_ranges
from waiting import wait_until

__all__ = [
    "COUNT",
    "GUARANTEES",
    "WORDS",
    "Killed",
    "KilledClients",
    "app",
    "clone",
    "content",
    "ends",
    "expected",
    "offsets_of",
    "records",
    "results",
    "run_until_read",
    "send",
    "unread",
    "write_behind",
]

Clients = Any
COUNT = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
counts = builder.stream("in").group_by(lambda k, v: v).count(materialized=Materialized(name="counts"))
counts.to_stream().to("out", Produced(value_serde="long"))
"""
WORDS = [(f"k{number % 5}", f"w{number % 7}") for number in range(40)]
GUARANTEES = ("at_least_once", "exactly_once_v2")


def app(cli: ClusterCommands, name: str, guarantee: str = "exactly_once_v2", text: str = COUNT, after: str = "") -> str:
    return cli.app(text, name, after=f"settings['processing.guarantee'] = {guarantee!r}\n{after}")


def send(cli: ClusterCommands, words: list[tuple[str, str]]) -> None:
    cli.kafka.create_input_topic("in", "string", "string").pipe_key_values(words)


def run_until_read(cli: ClusterCommands, file: str, group: str) -> None:
    """Runs an application until it has committed all of its input, and stops it."""
    application = cli.start(file)
    wait_until("all is committed", lambda: not unread(cli, group))
    application.close()


def unread(cli: ClusterCommands, group: str, topics: tuple[str, ...] = ("in", "counts-repartition")) -> bool:
    """Returns whether an application has committed records before it."""
    names = [name if name == "in" else f"{group}-{name}" for name in topics]
    with cli.kafka.broker.lock:
        if not all(name in cli.kafka.broker.topics for name in names):
            return True
        offsets = {place: one.offset for place, one in cli.kafka.broker.groups.group(group).offsets.items()}
    return any(records(cli, name, offsets) for name in names)


def ends(cli: ClusterCommands, topic: str) -> dict[TopicPartition, int]:
    with cli.kafka.broker.lock:
        partitions = cli.kafka.broker.topics[topic].partitions
        return {TopicPartition(topic, number): one.end_offset for number, one in enumerate(partitions)}


def records(cli: ClusterCommands, topic: str, since: dict[TopicPartition, int] | None = None) -> list[Any]:
    """Returns the committed records of a topic, from some offsets on."""
    reader = cli.kafka.clients.consumer(
        {"group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    try:
        last = reader.end_offsets(list(ends(cli, topic)))
        return list(read_ranges(reader, {place: ((since or {}).get(place, 0), end) for place, end in last.items()}))
    finally:
        reader.close()


def results(cli: ClusterCommands, since: dict[TopicPartition, int] | None = None) -> dict[str, int]:
    """Returns the last count of each word."""
    return {one.key().decode(): int.from_bytes(one.value()) for one in records(cli, "out", since)}


def clone(cli: ClusterCommands, file: str, *words: str, name: str = "shop2", **more: Any) -> Printed:
    return cli.run("state", "clone", file, "--as", name, *words, **more)


def stopped(cli: ClusterCommands, words: list[tuple[str, str]] = WORDS, **options: Any) -> str:
    """Returns the file of an application that has counted some words, and was stopped."""
    cli.kafka.create_topics("in", "out", partitions=2)
    file = app(cli, "shop", **options)
    send(cli, words)
    run_until_read(cli, file, "shop")
    return file


def cloned(cli: ClusterCommands, file: str, *words: str, **more: Any) -> Printed:
    """Makes a clone, and returns what that printed."""
    done = clone(cli, file, *words, **more)
    assert done.status == 0, done.err
    return done


def expected(*words: list[tuple[str, str]]) -> dict[str, int]:
    return dict(Counter(word for some in words for _, word in some))


def write_behind(cli: ClusterCommands, name: str, words: list[str]) -> None:
    """Writes what the first half of the application writes for the second, which is stopped."""
    topic = cli.kafka.create_input_topic(f"{name}-counts-repartition", "string", "string")
    topic.pipe_key_values([(word, word) for word in words])


class Killed(BaseException):
    """Stands for the end of the process."""


class KilledClients:
    """Clients of which each call fails from the n-th on, as in a process that was killed before it.

    :param of: counts the calls of this name only.
    """

    CALLS = frozenset(
        (
            *("committed", "commit", "end_offsets", "beginning_offsets", "assign", "consume", "close"),
            *("init_transactions", "begin_transaction", "produce", "flush", "send_offsets", "commit_transaction"),
            *("abort_transaction", "topics", "topic_ids", "topic_settings", "create_topics", "group_members"),
            *("log_ends", "delete_group", "group_metadata", "delete_topics", "group_offsets", "offsets_for_time"),
            *("topic_states", "divergences"),
            *("describe_group", "groups", "fence_producer", "open_transactions", "add_partitions", "remove_members"),
        )
    )

    def __init__(self, clients: Clients, left: int, of: str | None) -> None:
        self._clients = clients
        self._left, self._of = left, of
        self.open: list[Any] = []

    def end(self) -> None:
        """Closes the consumers, as the end of a process does."""
        for client in self.open:
            if hasattr(client, "assignment"):
                client.close()

    def _count(self, call: str) -> None:
        if self._left < 0:
            raise Killed(call)
        if self._of in (None, call):
            self._left -= 1
            if self._left < 0:
                raise Killed(call)

    def __getattr__(self, name: str) -> Any:
        make = getattr(self._clients, name)

        def made(config: Any) -> Any:
            self.open.append(client := make(config))
            return Trapped(client, self._count, self.CALLS)

        return made


def content(cli: ClusterCommands, topic: str, since: dict[TopicPartition, int] | None = None) -> list[tuple[Any, ...]]:
    """Returns what the records of a topic say."""
    found = records(cli, topic, since)
    return [(one.partition(), one.key(), one.value(), one.timestamp()[1], one.headers()) for one in found]


def offsets_of(cli: ClusterCommands, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    with cli.kafka.broker.lock:
        return dict(cli.kafka.broker.groups.group(group).offsets)
