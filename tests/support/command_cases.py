"""The commands that change a cluster in steps, each on a small cluster that it changes, and what it leaves there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from clone_kit import app, clone, content, run_until_read
from cluster_cli import ClusterCommands
from processor_api.clock import SystemClock
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata

__all__ = ["CASES", "AheadClock", "CommandCase", "left"]

WORDS = [(f"k{number % 3}", f"w{number % 4}") for number in range(12)]
NOW_MS = SystemClock().time_ms()
CHANGELOG = "-changelog"
UPPER = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").map_values(lambda value: value.upper()).to("out")
"""


class AheadClock(SystemClock):
    """A clock whose waits end at once, so that nothing that is awaited takes long."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:  # type: ignore[override]
        return self.ahead_s

    def wait(self, seconds: float) -> None:  # type: ignore[override]
        self.ahead_s += seconds


@dataclass(frozen=True)
class CommandCase:
    """A command, and the cluster on which it is called."""

    name: tuple[str, ...]
    """The words that name the command, for a test that none is missing here."""
    prepare: Callable[[ClusterCommands], list[str]]
    """Prepares the cluster; returns the words of the command."""
    more: Callable[[], dict[str, Any]] = field(default=dict)
    """What the function of the command gets besides."""
    yes: tuple[str, ...] = ()
    dry_run: bool = True


def offsets(cli: ClusterCommands, group: str, found: dict[tuple[str, int], int], **notes: Any) -> None:
    """Commits offsets for a group, with the ids of their topics."""
    consumer = cli.kafka.clients.consumer({"group.id": group, "client.id": "former"})
    ids = cli.kafka.clients.admin({}).topic_ids({topic for topic, _ in found})
    consumer.commit(
        {
            TopicPartition(*place): OffsetAndMetadata(
                offset, TopicPartitionMetadata(partition_time=7, topic_id=ids[place[0]], **notes).encode()
            )
            for place, offset in found.items()
        }
    )
    consumer.close()


def send(cli: ClusterCommands, words: list[tuple[str, str]] = WORDS, topic: str = "in") -> None:
    """Sends records with times that are the same on each cluster, so that what is left can be compared."""
    cli.kafka.create_input_topic(topic, "string", "string", start_timestamp=NOW_MS).pipe_key_values(words)


# ------------------------------------------------------------------ the clusters


def _counted(cli: ClusterCommands) -> str:
    """Returns the file of an application that has counted some words, and left two repartition records."""
    cli.kafka.create_topics("in", "out")
    file = app(cli, "shop")
    send(cli)
    run_until_read(cli, file, "shop")
    send(cli, [("w1", "w1"), ("w2", "w2")], "shop-counts-repartition")
    return file


def _clone(cli: ClusterCommands) -> list[str]:
    return ["state", "clone", _counted(cli), "--as", "green"]


def _promotion(cli: ClusterCommands) -> list[str]:
    """The shadow has the name of the group in which former versions kept the progress."""
    cli.kafka.create_topics("in", "out")
    file, shadow = app(cli, "shop"), app(cli, "shop-clone", after="settings['shadow.of'] = 'shop'\n")
    send(cli)
    run_until_read(cli, file, "shop")
    assert clone(cli, file, name="shop-clone").status == 0
    return ["shadow", shadow, "--against", file, "--id", "shop-clone", "--promote"]


def _shadow_topics(cli: ClusterCommands) -> list[str]:
    cli.kafka.create_topics("in", "out", "green-out-shadow", "green-2-out-shadow", "green-more-shadow", "more")
    offsets(cli, "green-2", {("in", 0): 0})
    old, green = app(cli, "shop"), app(cli, "green", after="settings['shadow.of'] = 'shop'\n")
    return ["shadow", green, "--against", old, "--id", "green", "--delete-topics"]


def _reset(cli: ClusterCommands) -> list[str]:
    file = app(cli, "shop")
    cli.kafka.create_topics("in", "out", partitions=2)
    cli.kafka.create_topics("shop-0-tasks", "shop-1-tasks", "shop-counts-changelog", "shop-counts-repartition")
    cli.kafka.create_topics("shop-2-counts-changelog", "shop-2-0-tasks")
    send(cli)
    offsets(cli, "shop", {("in", 0): 3, ("in", 1): 1, ("shop-counts-repartition", 0): 0})
    return ["reset", file]


def _offsets_only(cli: ClusterCommands) -> list[str]:
    return [*_reset(cli), "--offsets-only", "--to-latest"]


def _letters(cli: ClusterCommands) -> list[str]:
    cli.kafka.create_topics("in", "out", "dead", partitions=2)
    for number in range(5):
        origin = {"topic": "in", "partition": str(number % 2), "offset": "7", "exception": "KeyError"}
        headers = [(f"__streams.errors.{name}", text.encode()) for name, text in origin.items()]
        cli.kafka.produce("dead", b"k%d" % number, b"v", NOW_MS, headers)
    file = app(cli, "shop", text=UPPER, after="settings['errors.dead.letter.queue.topic.name'] = 'dead'\n")
    return ["dlq", "replay", file, "--rate", "2"]


def _upgrade(cli: ClusterCommands) -> list[str]:
    cli.kafka.create_topics("in", "out", partitions=2)
    file = app(cli, "shop", text=UPPER, after="settings['group.protocol'] = 'streams'\n")
    send(cli)
    running = cli.start(file)
    cli.kafka.read_records("out", len(WORDS), "string", "string")
    running.close()
    return ["groups", "upgrade-topology", file, "--offsets-file", str(cli.folder / "shop-offsets.csv")]


def _topics(cli: ClusterCommands) -> list[str]:
    return ["topics", app(cli, "shop"), "--create", "--partitions", "2"]


def _ahead() -> dict[str, Any]:
    return {"clock": AheadClock()}


CASES = {
    "state clone": CommandCase(("state", "clone"), _clone),
    "shadow --promote": CommandCase(("shadow",), _promotion),
    "shadow --delete-topics": CommandCase(("shadow",), _shadow_topics),
    "reset": CommandCase(("reset",), _reset, _ahead, ("--yes",)),
    "reset --offsets-only": CommandCase(("reset",), _offsets_only, _ahead, ("--yes",)),
    "dlq replay": CommandCase(("dlq", "replay"), _letters, _ahead),
    "groups upgrade-topology": CommandCase(("groups",), _upgrade, yes=("--yes",)),
    "topics --create": CommandCase(("topics",), _topics, dry_run=False),
}


# ------------------------------------------------------------------ what is left


def left(cli: ClusterCommands, *, exactly: bool = False) -> dict[str, Any]:
    """Returns what a cluster holds: its topics with their committed records, and the offsets of its groups.

    An offset is told by the records that are still to be read, since the markers of transactions have offsets too. A
    changelog is told by its rows, since a running application logs one change of a row for each commit, whose times
    differ; and copies by whether they have the same records.

    :param exactly: compares offsets and metadata as they are, for two looks at the same cluster.
    """
    broker = cli.kafka.broker
    with broker.lock:
        topics = {name: topic.id for name, topic in broker.topics.items()}
        groups = {name: dict(broker.groups.group(name).offsets) for name in broker.groups.names()}
        protocols = {name: broker.groups.group(name).streams is None for name in broker.groups.names()}
    found = {name: content(cli, name) for name in topics}
    changelogs = [name for name in found if name.endswith(CHANGELOG) and not exactly]
    copies = {name: [found[one] for one in changelogs if one.endswith(name)] for name in map(_store, changelogs)}
    return {
        "topics": {name: _rows(said) if name in changelogs else said for name, said in found.items()},
        "copies": {name: all(one == same[0] for one in same) for name, same in copies.items()},
        "groups": {
            name: {
                place: one if exactly else (_rest(cli, place, one.offset), _told(one.metadata, topics.get(place.topic)))
                for place, one in found.items()
            }
            for name, found in groups.items()
            if found
        },
        "ids": topics if exactly else None,
        "protocols": protocols if exactly else None,
    }


def _store(changelog: str) -> str:
    """Returns the end of a changelog's name, which all copies of it have."""
    return f"-{changelog.removesuffix(CHANGELOG).rpartition('-')[2]}{CHANGELOG}"


def _rows(records: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """Returns the last record of each key."""
    return {record[:2]: record for record in records}


def _rest(cli: ClusterCommands, place: TopicPartition, offset: int) -> list[tuple[Any, ...]]:
    return [record for record in content(cli, place.topic, {place: offset}) if record[0] == place.partition]


def _told(metadata: str, topic_id: str | None) -> Any:
    found = TopicPartitionMetadata.decode(metadata)
    assert found.topic_id in (None, topic_id)
    # How many markers of transactions are before the last record depends on when the application committed.
    point = None if found.point is None else found.point._replace(offset=0)
    return replace(found, topic_id="its own" if found.topic_id else None, point=point)
