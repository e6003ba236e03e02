"""Threads that fail, requests to shut down, and topics that come later, on a real Kafka."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from integration_support.topics import Topics
from processor_api.serde import Serdes
from processor_api.task_id import TaskId
from processor_api.user_code.offset_reset import AutoOffsetReset
from runtime_support.running_app import Counting, counting, passing_on
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.app.uncaught import StreamThreadExceptionResponse as Answer
from waiting import wait_until

S = Serdes.STRING
C = ClientState


class Apps:
    """Applications of one id; closed at the end."""

    def __init__(self, kafka: str, name: str, directory: Path) -> None:
        self._kafka, self._name, self._directory = kafka, name, directory
        self.apps: list[KafkaStreams] = []

    def start(self, topology: Any, handler: Any = None, **settings: Any) -> KafkaStreams:
        config = {
            "application.id": self._name,
            "bootstrap.servers": self._kafka,
            "state.dir": str(self._directory / str(len(self.apps))),
            "commit.interval.ms": 100,
            "default.key.serde": S,
            "default.value.serde": S,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        app = KafkaStreams(topology, config)
        if handler is not None:
            app.set_uncaught_exception_handler(handler)
        self.apps.append(app)
        app.start()
        return app

    def close(self) -> None:
        assert [app.close(60) for app in self.apps] == [True] * len(self.apps)


@pytest.fixture
def apps(kafka: str, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Apps]:
    started = Apps(kafka, unique_name("app"), tmp_path)
    yield started
    started.close()


def until_state(app: KafkaStreams, state: ClientState) -> None:
    wait_until(f"it is {state}", lambda: app.state is state or (app.failure and app.state is C.ERROR))
    assert app.state is state, app.failure


def owned(app: KafkaStreams) -> list[TaskId]:
    return sorted(task for tasks in app.tasks().values() for task in tasks)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_replaced_thread_loses_nothing(topics: Topics, apps: Apps, guarantee: str) -> None:
    """It has the tasks back without a wait for the session, and under exactly once nothing counts twice."""
    source, target = topics.create("in", 2), topics.create("out", 2)
    left = [3]

    class Fails(Counting):
        def process(self, record: Any) -> None:
            super().process(record)
            if record.value == "bad" and left[0]:
                left[0] -= 1
                raise ValueError("bad")

    topology = counting(source, supplier=Fails, out=target)
    app = apps.start(
        topology,
        lambda error: Answer.REPLACE_THREAD,
        processing_guarantee=guarantee,
        consumer_session_timeout_ms=200_000,
    )
    topics.send(source, [("a", "x"), ("a", "bad"), ("a", "y"), ("b", "z")], 2)
    with topics.reader(target) as reader:

        def complete(found: Any) -> bool:
            return {"x=1", "bad=1", "y=1", "z=1"} <= {value for values in found.values.values() for value in values}

        reader.until("all is counted", complete)
        if guarantee == "exactly_once_v2":
            values = sorted(value for values in reader.values.values() for value in values)
            assert values == ["bad=1", "x=1", "y=1", "z=1"]
    until_state(app, C.RUNNING)
    assert left == [0]
    assert owned(app) == [TaskId(0, 0), TaskId(0, 1)]


def test_every_process_shuts_down_when_one_asks_for_it(topics: Topics, apps: Apps) -> None:
    """Also one without tasks; who is started afterwards is not concerned."""
    source, target = topics.create("in", 2), topics.create("out", 2)
    failing = [True]

    def look(value: str) -> None:
        if value == "bad" and failing[0]:
            raise ValueError("bad")

    topology = passing_on(look, source, out=target)
    members = [apps.start(topology, lambda error: Answer.SHUTDOWN_APPLICATION) for _ in range(3)]
    for member in members:
        until_state(member, C.RUNNING)
    wait_until("all tasks have an owner", lambda: sum(len(owned(member)) for member in members) == 2)
    wait_until("all listen", lambda: all(_listens(member) for member in members))
    topics.send(source, [("k", "bad")], 2)
    wait_until("all have ended", lambda: all(member.state is C.ERROR for member in members))
    told = [str(member.failure) for member in members]
    assert sum("a member of the application asked all of them to shut down" in one for one in told) >= 1
    assert sum("ValueError in node 'p'" in one for one in told) >= 1
    failing[0] = False
    later = apps.start(topology)
    with topics.reader(target) as reader:
        reader.until("it is processed", lambda found: found.latest == {"k": "bad"})
    until_state(later, C.RUNNING)


def _listens(app: KafkaStreams) -> bool:
    return all(thread._resources.membership._requests._partition for thread in app._run.threads or ())  # type: ignore[union-attr]


def test_threads_come_and_go(topics: Topics, apps: Apps) -> None:
    """Several in one process share the tasks; one that leaves hands over at once."""
    source, target = topics.create("in", 4), topics.create("out", 4)
    topology = counting(source, out=target)
    app = apps.start(topology, num_stream_threads=2, consumer_session_timeout_ms=200_000)
    due: dict[str, str] = {}

    def shares() -> list[int]:
        return sorted(len(tasks) for tasks in app.tasks().values())

    def send_round(number: int) -> None:
        words = [f"word-{i}" for i in range(40)]
        topics.send(source, [(word, word) for word in words], 4)
        due.update({word: f"{word}={number}" for word in words})

    with topics.reader(target) as reader:
        send_round(1)
        reader.until("the first round is counted", lambda found: found.latest == due)
        wait_until("each thread has two tasks", lambda: shares() == [2, 2])
        name = app.add_stream_thread()
        wait_until("three share them", lambda: shares() == [1, 1, 2])
        send_round(2)
        reader.until("the second round is counted", lambda found: found.latest == due)
        assert app.remove_stream_thread(60) == name
        wait_until("two share them", lambda: shares() == [2, 2])
        send_round(3)
        reader.until("the third round is counted", lambda found: found.latest == due)
    until_state(app, C.RUNNING)
    assert app.failure is None


def test_topics_that_come_later_are_read(
    kafka: str, topics: Topics, apps: Apps, unique_name: Callable[[str], str]
) -> None:
    """By the tasks there are, and by new ones, which the group shares out; with the source's reset and extractor."""
    start = unique_name("many")
    target = topics.create("out", 2)
    topics.create_named(f"{start}-1", 1)
    asked: set[str] = set()

    def extractor(record: Any, partition_time: int) -> int:
        asked.add(record.topic)
        return int(record.timestamp)

    topology = passing_on(
        lambda value: None,
        re.compile(re.escape(start) + r"-\d+"),
        out=target,
        offset_reset=AutoOffsetReset.by_duration(timedelta(hours=1)),
        timestamp_extractor=extractor,
    )
    settings = {"metadata_max_age_ms": 1000}
    members = [apps.start(topology, **settings) for _ in range(2)]
    producer = Producer({"bootstrap.servers": kafka})
    hour_ms = 3_600_000
    now = int(time.time() * 1000)

    def send(topic: str, partition: int, value: str, timestamp: int = now) -> None:
        producer.produce(topic, value, value, partition, timestamp=timestamp)
        assert producer.flush(30) == 0

    with topics.reader(target) as reader:
        send(f"{start}-1", 0, "first")
        reader.until("the first topic is read", lambda found: set(found.latest) == {"first"})
        topics.create_named(f"{start}-2", 3)
        send(f"{start}-2", 0, "old", now - 2 * hour_ms)
        for partition in range(3):
            send(f"{start}-2", partition, f"second-{partition}")
        due = {"first", "second-0", "second-1", "second-2"}
        reader.until("the second topic is read", lambda found: set(found.latest) == due)
        wait_until("each has a task", lambda: sorted(len(owned(member)) for member in members) == [1, 2])
        for member in members:
            until_state(member, C.RUNNING)
        send(f"{start}-1", 0, "again")
        reader.until("the first topic is read on", lambda found: set(found.latest) == {*due, "again"})
    assert asked == {f"{start}-1", f"{start}-2"}
