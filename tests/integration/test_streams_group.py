"""Applications in a group of the streams protocol (KIP-1071), on a real Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from integration_support.counting import PARTITIONS, Counting
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from tools.kafka.broker import Broker
from tools.kafka.jars import version
from waiting import wait_until

OwnBroker = Callable[[Mapping[str, str]], tuple[Topics, Workers]]
SHORT_SESSIONS = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
}
LONG_SESSIONS = {"group.streams.max.session.timeout.ms": "600000", "group.streams.session.timeout.ms": "600000"}
GUARANTEES = ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)]

TAKES_STATIC = tuple(map(int, version().split("."))) >= (4, 4)
needs_static_members = pytest.mark.skipif(not TAKES_STATIC, reason="static members of streams groups need Kafka 4.4")


def streams_group(topics: Topics, workers: Workers, guarantee: str = "exactly_once_v2") -> Counting:
    return Counting(topics, workers, guarantee, group_protocol="streams")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_two_workers_share_the_tasks_and_one_takes_over(topics: Topics, workers: Workers, guarantee: str) -> None:
    """Each word is counted once a round, while a second worker joins and the first one leaves."""
    counting = streams_group(topics, workers, guarantee)
    counting.send()
    first = counting.start().wait_running()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        second = counting.start().wait_running()
        second.wait_for("task runs")
        counting.send()
        counting.read_round(reader)
        first.stop()
        counting.send()
        counting.read_round(reader)
        second.stop()
        counting.check(reader)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_the_tasks_of_a_killed_worker_go_to_the_other(on_own_broker: OwnBroker, guarantee: str) -> None:
    """They come with the end of its session."""
    topics, workers = on_own_broker(SHORT_SESSIONS)
    streams_group(topics, workers, guarantee).check_killed_worker()


@pytest.mark.slow
def test_no_task_moves_while_the_coordinator_is_away(
    start_broker: Callable[..., Broker], tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """The member goes on at its epoch when the broker has come back within the session."""
    broker = start_broker()
    topics, workers = Topics(broker.bootstrap, unique_name), Workers(tmp_path, broker.bootstrap, unique_name("app"))
    try:
        counting = streams_group(topics, workers, "at_least_once")
        counting.send()
        worker = counting.start().wait_running()
        with topics.reader(counting.output) as reader:
            counting.read_round_or_more(reader)
            assigned = len(worker.events("assignment"))
            broker.kill()
            broker.start()
            counting.send()
            counting.read_round_or_more(reader)
            assert len(worker.events("assignment")) == assigned
            worker.stop()
    finally:
        workers.close()


@pytest.mark.slow
def test_from_classic_to_streams_and_back(topics: Topics, workers: Workers, tmp_path: Path) -> None:
    """Offsets and state stay. In between the group loses its topology, as it has to before another one."""
    from streams.cli.main import main

    classic = Counting(topics, workers)
    classic.send()
    worker = classic.start().wait_running()
    with topics.reader(classic.output) as reader:
        classic.read_round(reader)
        classic._settings["group.protocol"] = "streams"
        waiting = classic.start()
        waiting.wait_for("waiting to join the group")
        worker.stop()
        classic.send()
        classic.read_round(reader)
        waiting.stop()
        name = ["--application-id", workers.application, "--bootstrap-servers", topics.bootstrap]
        words = ["groups", "upgrade-topology", *name, "--yes", "--offsets-file", str(tmp_path / "kept.csv")]
        assert main(words) == 0
        again = classic.start().wait_running()
        classic.send()
        classic.read_round(reader)
        again.stop()
        classic._settings["group.protocol"] = "classic"
        worker = classic.start().wait_running()
        classic.send()
        classic.read_round(reader)
        worker.stop()
        classic.check(reader)


@pytest.mark.slow
def test_what_the_brokers_refuse_ends_a_worker_with_what_to_do(topics: Topics, workers: Workers) -> None:
    """A worker of the group goes on meanwhile."""
    counting = streams_group(topics, workers)
    counting.send()
    running = counting.start().wait_running()
    own, other = counting.input, topics.create("other", 4)
    for settings, read, says in [
        ({}, other, "streams groups upgrade-topology"),
        ({"group.protocol": "classic"}, own, "INCONSISTENT_GROUP_PROTOCOL"),
    ]:
        before, counting.input = dict(counting._settings), read
        counting._settings |= settings
        refused = counting.start()
        assert refused.wait() != 0
        assert says in refused.text
        counting._settings, counting.input = before, own
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
    running.stop()


@pytest.mark.slow
def test_a_static_member_gets_its_tasks_back_after_a_restart(on_own_broker: OwnBroker, tmp_path: Path) -> None:
    """Within its session, and no other member notices. Brokers before 4.4 refuse it, which ends the worker."""
    topics, workers = on_own_broker(LONG_SESSIONS)
    counting = streams_group(topics, workers)
    counting.send()

    def start(name: str) -> Worker:
        counting._settings["group.instance.id"] = name
        return counting.start(state_dir=tmp_path / name)

    first = start("one")
    if not TAKES_STATIC:
        assert first.wait() != 0
        assert "need Kafka 4.4 or later" in first.text
        return
    first.wait_running()
    second = start("two").wait_running()
    second.wait_for("task runs")
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        known = len(first.events("assignment"))
        second.stop()
        again = start("two").wait_running()
        again.wait_for("task runs")
        counting.send()
        counting.read_round(reader)
        assert len(first.events("assignment")) == known
        first.stop()
        again.stop()
        counting.check(reader)


@pytest.mark.slow
@needs_static_members
def test_a_killed_static_member_takes_its_own_place(on_own_broker: OwnBroker, tmp_path: Path) -> None:
    """At once, though the group has its instance id for a session; the other member keeps its tasks meanwhile."""
    topics, workers = on_own_broker(LONG_SESSIONS)
    counting = streams_group(topics, workers)
    counting.send()
    first, second = counting.start_two(tmp_path)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        known = len(first.events("assignment"))
        second.kill()
        again = counting.start(state_dir=tmp_path / "two")
        again.wait_for("takes the place of its former member in the group")
        counting.send()
        counting.read_round(reader)
        assert len(first.events("assignment")) == known
        first.stop()
        again.stop()
        counting.check(reader)


@pytest.mark.slow
@needs_static_members
def test_a_second_process_with_the_same_instance_id_ends_the_first(on_own_broker: OwnBroker, tmp_path: Path) -> None:
    """The newer one has the place, and the older one says what to do."""
    topics, workers = on_own_broker(LONG_SESSIONS)
    counting = streams_group(topics, workers)
    counting._settings["group.instance.id"] = "one"
    counting.check_second_process(tmp_path)


@pytest.mark.slow
def test_a_topic_that_the_brokers_cannot_make_is_named(topics: Topics, workers: Workers) -> None:
    counting = Counting(topics, workers, group_protocol="streams", replication_factor=3)
    counting.send()
    worker = counting.start()
    said = worker.wait_for("the group gives no tasks yet")["status"]
    assert said.startswith("MISSING_INTERNAL_TOPICS")
    assert "Creation failed" in said
    assert "replication.factor" in said.partition(" To do: ")[2]
    worker.stop()


@pytest.mark.slow
def test_topics_that_match_a_pattern_give_tasks(topics: Topics, workers: Workers) -> None:
    """While two workers run: the brokers refuse patterns, and count the partitions of a control topic that grows. Each
    record is copied once, also by the worker that is left."""
    stem = topics.create("read", 1)
    env = {"PATTERN": f"{stem}.*", "OUTPUT": topics.create("copies", 1)}
    settings = {
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
        "group.protocol": "streams",
        "metadata.max.age.ms": 500,
    }

    def start() -> Worker:
        return workers.start("copy_values:matching", settings=settings | {"state.dir": workers.state_dir}, env=env)

    topics.send(stem, [("k", "a-0")], 1)
    first = start().wait_running()
    with topics.reader(env["OUTPUT"]) as reader:
        reader.until("the first is copied", lambda found: found.values == {"k": ["a-0"]})
        second = start()
        topics.create_named(f"{stem}-wide", 4)
        topics.send(f"{stem}-wide", [(f"{number}", "b") for number in range(40)], 4)
        copied = {"k": ["a-0"], **{str(number): ["b"] for number in range(40)}}
        reader.until("those of the new topic are copied", lambda found: found.values == copied)
        second.wait_for("task runs")
        assert topics.partitions(f"{workers.application}-0-tasks") == 4
        first.stop()
        topics.send(f"{stem}-wide", [(f"{number}", "c") for number in range(40)], 4)
        more = {"k": ["a-0"], **{str(number): ["b", "c"] for number in range(40)}}
        reader.until("one worker copies all", lambda found: found.values == more)
        second.stop()
        again = start().wait_running()  # the topology of the group is the same, whatever topics there are
        again.stop()


@pytest.mark.slow
def test_a_pattern_with_a_store_waits_for_the_first_topic(topics: Topics, workers: Workers) -> None:
    """The changelog is as wide as that, and narrower topics are counted with it."""
    stem = workers.application
    env = {"PATTERN": f"{stem}-read.*", "OUTPUT": topics.create("counts", 1)}
    settings = {"group.protocol": "streams", "metadata.max.age.ms": 500, "commit.interval.ms": 100}
    worker = workers.start("copy_values:counted", settings=settings | {"state.dir": workers.state_dir}, env=env)
    said = worker.wait_for("the group gives no tasks yet")["status"]
    assert f"{stem}-0-tasks" in said
    assert "is created automatically when a topic matches" in said
    topics.create_named(f"{stem}-read", 3)
    topics.send(f"{stem}-read", [("a", "x"), ("b", "x"), ("c", "x")], 3)
    with topics.reader(env["OUTPUT"]) as reader:
        reader.until("all are counted", lambda found: found.latest == dict.fromkeys("abc", "1"))
        assert topics.partitions(f"{stem}-counts-changelog") == 3
        topics.create_named(f"{stem}-read-more", 1)
        topics.send(f"{stem}-read-more", [("a", "x")], 1)
        reader.until("one more is counted", lambda found: found.latest["a"] == "2")
    worker.stop()


@pytest.mark.slow
def test_the_copies_that_the_brokers_place_take_over(
    start_broker: Callable[..., Broker], tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """The group gives the tasks of a killed worker to the one with their copies, which go on."""
    broker = start_broker(SHORT_SESSIONS)
    topics, workers = Topics(broker.bootstrap, unique_name), Workers(tmp_path, broker.bootstrap, unique_name("app"))
    entry = ConfigEntry("streams.num.standby.replicas", "1", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, workers.application, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.incremental_alter_configs([group]).values():
        future.result(30)
    try:
        counting = streams_group(topics, workers)
        counting.send()
        first, second = (counting.start(state_dir=tmp_path / name).wait_running() for name in ("one", "two"))
        stateful = {f"1_{number}" for number in range(PARTITIONS)}
        wait_until("copies", lambda: stateful <= copied_by(first) | copied_by(second), deadline_s=60)
        with topics.reader(counting.output) as reader:
            counting.read_round(reader)
            first.kill()
            counting.send()
            counting.read_round(reader)
            second.stop()
            counting.check(reader)
        assert second.events("standby task becomes active")
    finally:
        workers.close()


def copied_by(worker: Worker) -> set[str]:
    """Returns the tasks of which it has begun to keep copies."""
    return {event["task"] for event in worker.events("standby task follows its changelogs")}
