"""`streams groups` shows how far an application is behind, with what it cannot read yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_cli import ClusterCommands, commands
from streams.kafka.ports import Producer
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

APP = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in"{options}).to("out")
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


def send(producer: Producer, *values: bytes) -> None:
    for value in values:
        producer.produce("in", value, b"k", 0, None, None, 1)
    producer.flush()


def test_records_of_an_open_transaction_are_lag(cli: ClusterCommands) -> None:
    """The lag was 0 while a transaction that nobody ended kept an application from reading on."""
    app = cli.app(APP.format(options=""))
    cli.kafka.create_topics("in", "out")
    clients = EmbeddedClients(cli.kafka.broker)
    send(clients.producer({}), b"1", b"2")
    cli.start(app)
    wait_until("it has committed", lambda: "total lag: 0" in cli.run("groups", app).out)
    producer = clients.producer({"transactional.id": "other"})
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, b"3", b"4", b"5")
    printed = cli.run("groups", app)
    assert "total lag: 3" in printed.lines
    said = "in-0: the last 3 offsets, from 2 on, cannot be read before an open transaction of a producer ends"
    assert printed.lines[-1] == said
    (partition,) = json.loads(cli.run("groups", app, "--json").out)["partitions"]
    assert (partition["end"], partition["lag"], partition["open"]) == (5, 3, 3)
    producer.commit_transaction()
    assert "open transaction" not in cli.run("groups", app).out


def test_a_lag_that_is_not_known_makes_the_total_a_lower_bound(cli: ClusterCommands) -> None:
    app = cli.app(APP.format(options=", Consumed(offset_reset=AutoOffsetReset.latest())"))
    cli.kafka.create_topics("in", "out")
    send(EmbeddedClients(cli.kafka.broker).producer({}), b"1")
    assert "total lag: at least 0; nothing is committed for 1 partition" in cli.run("groups", app).lines
