"""Changelogs that lose records, and clients that tell errors, while a store is restored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.testing.broker import EmbeddedClients
from streams.testing.broker.messages import ErrorInfo, PartitionEvent
from waiting import wait_until

S = Serdes.STRING
CHANGELOG = TopicPartition("app-kept-changelog", 0)


class Restoring:
    """A restore consumer that gives a record at a time, and only as many as a test allows."""

    def __init__(self, consumer: Any, clients: RestoringClients) -> None:
        self._consumer = consumer
        self._clients = clients

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, max_messages: int, timeout_s: float) -> Any:
        clients = self._clients
        if clients.told:
            return [clients.told.pop(0)]
        if clients.allowed is not None:
            max_messages = min(1, clients.allowed)
        found = self._consumer.consume(max_messages, timeout_s) if max_messages else []
        if clients.allowed is not None:
            clients.allowed -= sum(message.error() is None for message in found)
        return found

    def poll(self, timeout_s: float) -> Any:
        self._clients.waits.wait(timeout_s)
        return None


class RestoringClients(EmbeddedClients):
    allowed: int | None = None
    """How many records may still be restored."""

    def __init__(self, broker: Any) -> None:
        super().__init__(broker)
        self.told: list[PartitionEvent] = []
        self.waits = threading.Event()

    def consumer(self, config: Any) -> Any:
        made = super().consumer(config)
        return Restoring(made, self) if str(config["client.id"]).endswith("restore-consumer") else made


class Keep(Processor[str, str, str, str]):
    """Keeps what comes; the value "all" forwards every key that is kept."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.kept = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        if record.value == "all":
            with self.kept.all() as rows:
                found = " ".join(key for key, _ in rows)
            self.context.forward(record.with_value(found))
        else:
            self.kept.put(record.key, record.value)
            self.context.forward(record)


def keeping() -> Topology:
    topology = Topology().add_source("source", "in").add_processor("keep", Keep, "source")
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("kept"), S, S)
    return topology.add_state_store(store, "keep").add_sink("sink", "out", "keep")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.clients = RestoringClients(cluster.broker)
    yield cluster
    cluster.close()


def clients(cluster: Cluster) -> Any:
    return cluster.clients


def delete(cluster: Cluster, before: int) -> None:
    cluster.clients.admin({}).delete_records({CHANGELOG: before})


def restoring(cluster: Cluster, after: int, **config: Any) -> KafkaStreams:
    """An application without state that has restored so many of 10 rows, and stands still there."""
    for number in range(10):
        cluster.send("v", key=str(number))
    app = cluster.app(keeping(), {"topic.cleanup.policy": "compact,delete"})
    wait_until("all is kept", lambda: len(cluster.values()) == 10)
    assert app.close(60)
    clients(cluster).allowed = after
    settings = {name.replace("_", "."): value for name, value in config.items()}
    app = cluster.app(keeping(), settings)
    wait_until("some of it is restored", lambda: clients(cluster).allowed == 0 and jobs(app))
    return app


def jobs(app: KafkaStreams) -> Any:
    (thread,) = app._run.threads or ()  # type: ignore[misc]
    return thread._resources and thread._resources.restorer.jobs()


def rows(cluster: Cluster) -> str:
    cluster.send("all")
    wait_until("all is told", lambda: len(cluster.values()) == 11)
    return cluster.values()[-1]


def finish(cluster: Cluster, change: Callable[[], None]) -> str:
    change()
    clients(cluster).allowed = None
    return rows(cluster)


@pytest.mark.parametrize("read", [0, 2])
def test_a_changelog_that_is_cut_is_restored_anew(
    read: int, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the application. What was restored of the part that is gone goes too, as after any restore."""
    app = restoring(cluster, read)
    with caplog.at_level(logging.ERROR, "streams"):
        assert finish(cluster, lambda: delete(cluster, 5)) == "5 6 7 8 9"
    assert app.state is ClientState.RUNNING
    (told,) = [one for one in caplog.records if "deleted from it while" in one.getMessage()]
    assert (told.store, told.beginning, told.end) == ("kept", 5, 10)  # type: ignore[attr-defined]


def test_a_changelog_that_is_emptied_leaves_an_empty_store(cluster: Cluster) -> None:
    restoring(cluster, 3)
    assert finish(cluster, lambda: delete(cluster, 10)) == ""


def test_a_changelog_that_ends_before_its_end_is_restored_anew(cluster: Cluster) -> None:
    """The log lost its tail, or was made anew with less in it; the restore waited for the rest for ever."""
    restoring(cluster, 0)

    def anew() -> None:
        cluster.clients.admin({}).delete_topics([CHANGELOG.topic])
        cluster.broker.create_topic(CHANGELOG.topic, 1)
        producer = cluster.clients.producer({})
        for key in (b"a", b"b"):
            producer.produce(CHANGELOG.topic, b"v", key, 0, None, None, 5, None)
        producer.flush()

    assert finish(cluster, anew) == "a b"


def told(name: str) -> PartitionEvent:
    return PartitionEvent(CHANGELOG.topic, 0, -1, ErrorInfo(name, f"text of {name}"))


def test_errors_that_pass_hold_nobody_up(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """They ended the application."""
    app = restoring(cluster, 2)
    clients(cluster).told += [told("NOT_LEADER_FOR_PARTITION"), told("KAFKA_STORAGE_ERROR")]
    with caplog.at_level(logging.WARNING, "streams"):
        wait_until("they were told", lambda: not clients(cluster).told)
        assert finish(cluster, lambda: None) == "0 1 2 3 4 5 6 7 8 9"
    assert app.state is ClientState.RUNNING
    assert "the changelog cannot be read yet" in [one.message for one in caplog.records]


def failure(cluster: Cluster, app: KafkaStreams) -> Any:
    wait_until("it fails", lambda: app.state is ClientState.ERROR)
    return app.failure


def test_errors_that_do_not_pass_are_one_after_task_timeout_ms(cluster: Cluster) -> None:
    app = restoring(cluster, 2, task_timeout_ms=50)
    clients(cluster).told.append(told("NOT_LEADER_FOR_PARTITION"))
    error = failure(cluster, app)
    assert "store 'kept' is not restored: no record of its changelog arrived for 0.05 s (task.timeout.ms)" in str(error)
    assert "text of NOT_LEADER_FOR_PARTITION" in str(error)
    assert (error.store, error.topic) == ("kept", CHANGELOG.topic)


def test_other_errors_are_told_at_once(cluster: Cluster) -> None:
    app = restoring(cluster, 2)
    clients(cluster).told.append(told("TOPIC_AUTHORIZATION_FAILED"))
    error = failure(cluster, app)
    assert "the changelog of store 'kept' cannot be read: text of TOPIC_AUTHORIZATION_FAILED" in str(error)
