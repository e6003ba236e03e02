"""An input whose end the client does not tell holds up nobody for long."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from integration_support.topics import Topics
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.failing_clients import FailingClients
from streams.app.kafka_streams import KafkaStreams
from streams.kafka.confluent import ConfluentClients
from waiting import wait_until

TEXT = Serdes.STRING


def copying(output: str, *inputs: str) -> Topology:
    topology = Topology()
    for topic in inputs:
        topology.add_source(topic, topic, key_serde=TEXT, value_serde=TEXT)
    return topology.add_sink("sink", output, *inputs, key_serde=TEXT, value_serde=TEXT)


def leave_markers(bootstrap: str, topic: str) -> None:
    """A committed record, and what an aborted transaction leaves behind it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for ends in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, "b", partition=0)
        producer.flush(60)
        ends(60)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_lost_ends_are_asked_for(kafka: str, topics: Topics, tmp_path: Path, guarantee: str) -> None:
    """One input is full, one empty, one ends in the markers of transactions; the events of their ends are all lost."""
    full, empty, marked, output = (topics.create(kind) for kind in ("full", "empty", "marked", "output"))
    topics.send(full, ((None, f"a{number}") for number in range(100)))
    leave_markers(kafka, marked)
    settings = {
        "application.id": output,
        "bootstrap.servers": kafka,
        "state.dir": str(tmp_path),
        "max.task.idle.ms": 0,
        "commit.interval.ms": 100,
        "processing.guarantee": guarantee,
    }
    clients = FailingClients(ConfluentClients(), deaf=True)
    visible = 101  # committed records are read under each guarantee
    with KafkaStreams(copying(output, full, empty, marked), settings, clients) as app, topics.reader(output) as reader:
        reader.until("everything is copied", lambda found: len(found.records) == visible)
        wait_until("everything is committed", lambda: topics.committed(output, full) == {0: 100})
        assert app.failure is None
