"""What a consumer tells in place of a record, and what that ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import StreamsError
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.kafka.client_errors import HEALED, client_event
from streams.kafka.ports import ClientUnusable, Consumer, InstanceFenced
from streams.log import RepeatedLines
from streams.testing.broker import EmbeddedClients

PLACE = TopicPartition("in", 3)


class Told:
    """An error of the client."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def code(self) -> int:
        return -1

    def str(self) -> str:
        return f"text of {self._name}"


def event(name: str, place: TopicPartition = PLACE) -> None:
    client_event(Told(name), place, RepeatedLines(logging.getLogger("streams.thread"), ManualClock()))


@pytest.mark.parametrize("name", sorted(HEALED))
def test_what_passes_is_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    event(name)
    (record,) = caplog.records
    assert (record.levelname, record.error) == ("WARNING", f"text of {name}")  # type: ignore[attr-defined]


def test_what_might_skip_records_is_an_error_with_its_place() -> None:
    for name in ("TOPIC_AUTHORIZATION_FAILED", "_BAD_MSG", "_BAD_COMPRESSION", "GROUP_AUTHORIZATION_FAILED"):
        with pytest.raises(StreamsError, match=f"cannot read in-3: text of {name}") as caught:
            event(name)
        assert caught.value.topic == "in"
    with pytest.raises(StreamsError, match="cannot continue as a member of the group: text of GROUP_"):
        event("GROUP_AUTHORIZATION_FAILED", TopicPartition("", 0))


@pytest.mark.parametrize("name", ["_DESTROY", "_STATE", "FENCED_MEMBER_EPOCH", "of a broker of the future"])
def test_what_may_pass_and_might_skip_records_is_for_a_new_client(name: str) -> None:
    """An error that was in no list ended the worker, such as one of a broker that the client had just let go of."""
    with pytest.raises(ClientUnusable, match=f"cannot read in-3: text of {name} .*; a new client continues"):
        event(name)


def test_members_of_another_protocol_are_named() -> None:
    """An application that moves from Kafka Streams for Java: its members have to be gone."""
    with pytest.raises(StreamsError, match=r"members of another protocol, .* Java: stop them all"):
        event("INCONSISTENT_GROUP_PROTOCOL", TopicPartition("", 0))


# ---------------------------------------------------------------------- in a running application


class Fatal:
    """The message in which librdkafka tells of a fatal error."""

    def error(self) -> Any:
        return Told("_FATAL")

    def topic(self) -> str:
        return "in"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return -1


class Interrupted:
    """A consumer that gives a fatal error among records, when told to."""

    def __init__(self, consumer: Consumer, clients: InterruptedClients) -> None:
        self._consumer = consumer
        self._clients = clients

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, max_messages: int, timeout_s: float) -> Any:
        messages = list(self._consumer.consume(max_messages, timeout_s))
        if self._clients.fatal and messages:
            self._clients.fatal = False
            messages = [Fatal()]
        return messages


class InterruptedClients(EmbeddedClients):
    fatal = False

    def consumer(self, config: Any) -> Any:
        made = super().consumer(config)
        return made if str(config["client.id"]).endswith("restore-consumer") else Interrupted(made, self)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Cluster]:
    topology = Topology().add_source("source", "in", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    topology.add_sink("sink", "out", "source", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    with Cluster(tmp_path, clients=InterruptedClients) as running:
        running.app(topology)
        yield running


def test_a_fatal_event_ends_the_thread_without_a_commit(running: Cluster) -> None:
    """Another process has this one's place in the group: it leaves that to it."""
    running.send("1")
    running.until(lambda: running.committed() == 1)
    assert running.last.state is ClientState.RUNNING
    running.clients.fatal = True
    running.send("2")
    assert isinstance(running.failed(), InstanceFenced)
    assert running.committed() == 1
    assert running.values() == ["1"]
