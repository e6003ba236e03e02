"""Sources by pattern: topics that are created while the application runs, or between two runs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dsl import StreamsBuilder
from processor_api.clock import SystemClock
from processor_api.errors import TopologyError
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.nodes import RepartitionTopic
from processor_api.topology.topology import Topology
from processor_api.user_code.offset_reset import AutoOffsetReset
from runtime_support.running_app import Cluster, counting, passing_on
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from waiting import wait_until

C = ClientState
PATTERN = re.compile(r"in-.*")
SOON = {"metadata.max.age.ms": 50}


@pytest.fixture(params=["classic", "streams"])
def soon(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings with which new topics are found soon, in a group of each protocol."""
    return {**SOON, "group.protocol": request.param}


def owned(*apps: KafkaStreams) -> list[TaskId]:
    return sorted(task for app in apps for tasks in app.tasks().values() for task in tasks)


def inputs(app: KafkaStreams) -> set[str]:
    """The partitions that the tasks of an application read."""
    threads = app.metadata_for_local_threads()
    return {str(name) for thread in threads for task in thread.active_tasks for name in task.topic_partitions}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_new_topic_is_read_by_the_tasks_there_are(
    guarantee: str, make_cluster: Callable[..., Cluster], soon: dict[str, Any]
) -> None:
    """Beside what they read before, with one store."""
    cluster = make_cluster()
    cluster.broker.create_topic("in-1", 2)
    app = cluster.app(counting(PATTERN), {**soon, "processing.guarantee": guarantee})
    cluster.send("a", topic="in-1")
    cluster.until_out("a=1")
    assert inputs(app) == {"in-1-0", "in-1-1"}
    cluster.broker.create_topic("in-2", 1)
    cluster.broker.create_topic("other", 1)
    cluster.send("a", topic="in-2")
    cluster.send("x", topic="other")
    cluster.until_out("a=1", "a=2")
    assert inputs(app) == {"in-1-0", "in-1-1", "in-2-0"}
    cluster.until_state(app, C.RUNNING)
    assert app.close(60)
    again = cluster.app(counting(PATTERN), {**soon, "processing.guarantee": guarantee})
    cluster.send("a", topic="in-2")
    cluster.until_out("a=1", "a=2", "a=3")
    assert again.failure is None


def test_a_topic_with_more_partitions_gives_new_tasks(
    make_cluster: Callable[..., Cluster], soon: dict[str, Any]
) -> None:
    """The control topic grows, and the group shares the tasks out among its members."""
    cluster = make_cluster()
    cluster.broker.create_topic("in-1", 1)
    apps = [cluster.app(passing_on(lambda value: None, PATTERN), soon) for _ in range(2)]
    cluster.send("a", topic="in-1")
    cluster.until_out("a")
    assert owned(*apps) == [TaskId(0, 0)]
    cluster.broker.create_topic("in-2", 4)
    for partition in range(4):
        cluster.send(f"b{partition}", topic="in-2", partition=partition)
    cluster.until_out("a", "b0", "b1", "b2", "b3")
    wait_until("each has two", lambda: sorted(len(owned(app)) for app in apps) == [2, 2])
    assert owned(*apps) == [TaskId(0, partition) for partition in range(4)]
    for app in apps:
        cluster.until_state(app, C.RUNNING)
    assert inputs(apps[0]) | inputs(apps[1]) == {"in-1-0", "in-2-0", "in-2-1", "in-2-2", "in-2-3"}
    cluster.send("c", topic="in-1")
    cluster.until_out("a", "b0", "b1", "b2", "b3", "c")


def _group_status(app: KafkaStreams) -> str:
    return " ".join(thread.group_status or "" for thread in app.status().threads)


def test_a_pattern_may_match_nothing_at_first(cluster: Cluster, soon: dict[str, Any]) -> None:
    """The application runs without a task; stores and their changelogs come with the first topic. Brokers that place
    tasks say until then what is lacking: they would make a changelog of one partition."""
    app = cluster.app(counting(PATTERN), soon)
    if soon["group.protocol"] == "classic":
        cluster.until_state(app, C.RUNNING)
    else:
        wait_until("the group says it", lambda: "Source topics app-0-tasks are missing" in _group_status(app))
        assert "is created automatically when a topic matches" in _group_status(app)
    assert inputs(app) == set()
    assert "app-counts-changelog" not in cluster.broker.topics
    cluster.broker.create_topic("in-1", 3)
    for partition in range(3):
        cluster.send("a", topic="in-1", partition=partition)
    cluster.until_out("a=1", "a=1", "a=1")
    assert len(cluster.broker.topics["app-counts-changelog"].partitions) == 3


def test_a_topic_that_came_between_two_runs_is_read(make_cluster: Callable[..., Cluster], soon: dict[str, Any]) -> None:
    """Also if it has more partitions than there were tasks, when no store depends on their number."""
    cluster = make_cluster()
    cluster.broker.create_topic("in-1", 1)
    topology = passing_on(lambda value: None, PATTERN)
    cluster.app(topology, soon).close()
    app = cluster.app(topology, soon)
    cluster.send("a", topic="in-1")
    cluster.until_out("a")
    app.close()
    cluster.broker.create_topic("in-2", 3)
    cluster.send("b", topic="in-2", partition=2)
    again = cluster.app(topology, soon)
    cluster.until_out("a", "b")
    assert len(owned(again)) == 3
    again.close()
    cluster.broker.delete_topic("in-2")
    fewer = cluster.app(topology, soon)
    cluster.send("c", topic="in-1")
    cluster.until_out("a", "b", "c")
    cluster.until_state(fewer, C.RUNNING)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_topic_that_is_gone_when_its_task_moves_does_not_keep_the_others_from_being_read(
    guarantee: str, make_cluster: Callable[..., Cluster]
) -> None:
    """The task is opened without it; when it is made again, it is read from its start."""
    cluster = make_cluster()
    for topic in ("in-1", "in-2"):
        cluster.broker.create_topic(topic, 1)
    app = cluster.app(counting(PATTERN), {**SOON, "processing.guarantee": guarantee})
    cluster.send("a", topic="in-1")
    cluster.until_out("a=1")
    cluster.send("a", topic="in-2")
    cluster.until_out("a=1", "a=2")
    app.remove_stream_thread(10)
    cluster.broker.delete_topic("in-2")
    app.add_stream_thread()
    cluster.send("a", topic="in-1")
    cluster.until_out("a=1", "a=2", "a=3")
    cluster.until_state(app, C.RUNNING)
    assert app.failure is None
    cluster.broker.create_topic("in-2", 1)
    cluster.send("a", topic="in-2")
    cluster.until_out("a=1", "a=2", "a=3", "a=4")
    cluster.send("a", topic="in-2")
    cluster.until_out("a=1", "a=2", "a=3", "a=4", "a=5")
    assert inputs(app) == {"in-1-0", "in-2-0"}
    assert app.failure is None


def test_a_topic_too_wide_for_a_changelog_is_told_of_and_left(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, soon: dict[str, Any]
) -> None:
    """Once, by name; the application goes on, also with further topics that fit."""
    cluster.broker.create_topic("in-1", 1)
    app = cluster.app(counting(PATTERN), soon)
    cluster.until_state(app, C.RUNNING)
    with caplog.at_level(logging.ERROR):
        cluster.broker.create_topic("in-2", 2)
        cluster.broker.create_topic("in-3", 1)
        cluster.send("a", topic="in-3")
        cluster.until_out("a=1")
        cluster.broker.create_topic("in-4", 1)
        cluster.send("a", topic="in-4")
        cluster.until_out("a=1", "a=2")
    (told,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "the new topic 'in-2' matches a pattern of the topology but cannot be read" in told
    assert "'app-counts-changelog' has 1, but needs 2" in told
    assert app.state is C.RUNNING
    assert inputs(app) == {"in-1-0", "in-3-0", "in-4-0"}


def test_a_topic_of_two_patterns_is_told_of_and_left(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, soon: dict[str, Any]
) -> None:
    """Semantics 152: with both lines, and the application goes on. One that starts with such a topic ends."""

    def topology() -> Topology:
        builder = StreamsBuilder(key_serde="string", value_serde="string")
        builder.stream(PATTERN).to("out")
        builder.stream(re.compile(".*-2")).map_values(lambda value: value + "!").to("out")
        return builder.build()

    cluster.broker.create_topic("in-1", 1)
    cluster.broker.create_topic("x-2", 1)
    app = cluster.app(topology(), soon)
    cluster.until_state(app, C.RUNNING)
    with caplog.at_level(logging.ERROR):
        cluster.broker.create_topic("in-2", 1)
        cluster.broker.create_topic("in-3", 1)
        for topic in ("in-2", "in-1", "x-2", "in-3"):
            cluster.send(topic, topic=topic)
        cluster.until_out("in-1", "in-3", "x-2!")
    (told,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "the new topic 'in-2' matches a pattern of the topology but cannot be read: topic 'in-2' matches" in told
    assert len(set(re.findall(r"test_new_topics\.py:(\d+)", told))) == 2
    assert app.state is C.RUNNING
    assert app.close(60)
    with pytest.raises(TopologyError, match="topic 'in-2' matches the patterns of two sources"):
        cluster.app(topology(), soon)


def test_a_pattern_does_not_mean_internal_topics(cluster: Cluster, soon: dict[str, Any]) -> None:
    """Was that an application with the pattern ``.*`` read its own changelog; topics of the brokers are not read."""
    cluster.broker.create_topic("__offsets", 1)
    topology = Topology().add_source("source", re.compile(".*")).add_repartition_topic(RepartitionTopic(name="again"))
    topology.add_sink("to-again", "again", "source")
    topology.add_source("from-again", "again")
    app = cluster.app(topology, soon)
    cluster.until_state(app, C.RUNNING)
    read = {name.rpartition("-")[0] for name in inputs(app)}
    assert read == {"in", "out", "app-again"}
    cluster.broker.create_topic("new", 1)
    wait_until("the new one is read", lambda: "new-0" in inputs(app))


# ------------------------------------------------------------------ where a new topic is read from, and its times


@pytest.mark.parametrize(
    ("reset", "values"),
    [
        (AutoOffsetReset.earliest(), ["old", "young", "later"]),
        (AutoOffsetReset.latest(), ["later"]),
        (AutoOffsetReset.by_duration(timedelta(hours=1)), ["young", "later"]),
        (None, ["old", "young", "later"]),
    ],
    ids=["earliest", "latest", "by-duration", "default"],
)
@pytest.mark.parametrize("kind", ["pattern", "topic"])
def test_a_source_says_where_a_partition_without_an_offset_starts(
    reset: AutoOffsetReset | None, values: list[str], kind: str, cluster: Cluster
) -> None:
    """By name or by pattern (KIP-1106); a restart goes on from the committed offset."""
    topic = PATTERN if kind == "pattern" else "in-1"
    cluster.broker.create_topic("in-1", 1)
    now = SystemClock().time_ms()
    cluster.send("old", topic="in-1", timestamp=now - 2 * 3_600_000)
    cluster.send("young", topic="in-1", timestamp=now - 60_000)
    app = cluster.app(passing_on(lambda value: None, topic, offset_reset=reset))
    cluster.until_state(app, C.RUNNING)
    cluster.send("later", topic="in-1", timestamp=now)
    cluster.until_out(*values)
    assert app.close(60)
    again = cluster.app(passing_on(lambda value: None, topic, offset_reset=AutoOffsetReset.none()))
    cluster.send("after", topic="in-1", timestamp=now)
    cluster.until_out(*values, "after")
    assert again.failure is None


@pytest.mark.parametrize("kind", ["pattern", "topic"])
def test_no_offset_and_no_reset_is_an_error_that_names_the_partition(kind: str, cluster: Cluster) -> None:
    cluster.broker.create_topic("in-1", 1)
    topic = PATTERN if kind == "pattern" else "in-1"
    app = cluster.app(passing_on(lambda value: None, topic, offset_reset=AutoOffsetReset.none()))
    cluster.until_state(app, C.ERROR)
    assert "no committed offset for in-1-0, and the offset reset policy is 'none'" in str(app.failure)


def test_a_new_topic_has_the_sources_reset_and_extractor(cluster: Cluster) -> None:
    """A pattern's source says both for topics that it does not know yet."""
    asked: list[tuple[str, int]] = []

    def extractor(record: Any, partition_time: int) -> int:
        asked.append((record.topic, partition_time))
        return int(record.value.partition("@")[2])

    reset = AutoOffsetReset.by_duration(timedelta(hours=1))
    topology = passing_on(lambda value: None, PATTERN, offset_reset=reset, timestamp_extractor=extractor)
    cluster.broker.create_topic("in-1", 1)
    app = cluster.app(topology, SOON)
    cluster.until_state(app, C.RUNNING)
    now = SystemClock().time_ms()
    cluster.broker.create_topic("in-2", 1)
    cluster.send("old@1", topic="in-2", timestamp=now - 2 * 3_600_000)
    cluster.send("young@70", "younger@80", topic="in-2", timestamp=now)
    cluster.until_out("young@70", "younger@80")
    assert asked == [("in-2", -1), ("in-2", 70)]
    assert [record.timestamp()[1] for record in cluster.broker.records("out")] == [70, 80]
    assert app.close(60)
    committed = cluster.broker.groups.group("app").offsets[TopicPartition("in-2", 0)]
    assert committed.offset == 3
    again = cluster.app(topology, SOON)
    cluster.send("next@90", topic="in-2", timestamp=now)
    cluster.until_out("young@70", "younger@80", "next@90")
    assert asked[2:] == [("in-2", 80)]
    assert again.failure is None


def test_stores_on_disk_keep_what_new_topics_brought(cluster: Cluster, soon: dict[str, Any]) -> None:
    """The place of each input is in the engine with the rows."""
    store = Stores.persistent_key_value_store("counts")
    cluster.broker.create_topic("in-1", 1)
    state = {"state.dir": str(cluster.directory / "shared"), **soon}
    app = cluster.app(counting(PATTERN, store=store), state)
    cluster.until_state(app, C.RUNNING)
    cluster.broker.create_topic("in-2", 1)
    cluster.send("a", "b", topic="in-2")
    cluster.until_out("a=1", "b=1")
    assert app.close(60)
    again = cluster.app(counting(PATTERN, store=store), state)
    cluster.send("a", topic="in-1")
    cluster.send("b", topic="in-2")
    cluster.until_out("a=1", "b=1", "a=2", "b=2")
    assert again.failure is None
