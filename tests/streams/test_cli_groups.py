"""`streams groups` shows how far an application is behind, with what it cannot read yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_cli import ClusterCommands, commands
from streams.app.kafka_streams import KafkaStreams
from streams.cli.topology_function import load_topology, named_app, settings_in
from streams.config import StreamsConfig
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


STREAMS_GROUP = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("{topic}").to("out")
"""


def streams_group(cli: ClusterCommands, topic: str = "in") -> str:
    return cli.app(STREAMS_GROUP.format(topic=topic), after="settings['group.protocol'] = 'streams'")


def test_a_group_of_the_streams_protocol_is_shown(cli: ClusterCommands) -> None:
    app = streams_group(cli)
    cli.kafka.create_topics("in", "out")
    cli.start(app)
    wait_until("its tasks are shown", lambda: " 0_0" in cli.run("groups", app).out)
    assert cli.run("groups", app).lines[0] == "group shop (protocol streams) is stable; 1 member"
    assert json.loads(cli.run("groups", app, "--json").out)["protocol"] == "streams"
    assert "streams" in cli.run("groups", "--bootstrap-servers", "localhost:9092").out


def test_a_group_gets_another_topology_and_keeps_its_offsets(cli: ClusterCommands) -> None:
    app, changed = streams_group(cli), streams_group(cli, "other")
    cli.kafka.create_topics("in", "out", "other")
    send(EmbeddedClients(cli.kafka.broker).producer({}), b"1", b"2")
    running = cli.start(app)
    wait_until("it has committed", lambda: "total lag: 0" in cli.run("groups", app).out)
    file = cli.folder / "kept.csv"
    words = ("groups", "upgrade-topology", changed, "--offsets-file", str(file))
    refused = cli.run(*words, "--yes")
    assert refused.status == 1
    assert "stop its workers first; nothing was changed" in refused.err
    running.close()
    assert cli.run(*words, "--dry-run").lines[-1] == "nothing was changed (--dry-run)"
    assert cli.kafka.broker.groups.group("shop").streams is not None
    assert cli.run(*words).status == 2
    assert cli.run(*words, stdin="n\n", terminal=True).lines[-1].endswith("[y/N] nothing was changed")
    done = cli.run(*words, "--yes")
    assert done.status == 0, done.err
    assert file.read_text() == "in,0,2\n"
    assert cli.kafka.broker.groups.group("shop").streams is None
    assert "2          2    0" in cli.run("groups", app).out
    cli.start(changed)
    again = cli.run("groups", "upgrade-topology", app, "--yes")
    assert again.status == 1


def test_a_classic_group_has_no_topology_to_replace(cli: ClusterCommands) -> None:
    app = cli.app(APP.format(options=""))
    cli.kafka.create_topics("in", "out")
    printed = cli.run("groups", "upgrade-topology", app, "--yes")
    assert "is none of the streams protocol" in printed.out
    assert cli.run("groups", app, "more").status == 2


COUNTING = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").group_by_key().count(materialized="counts").to_stream().to("out")
"""


def counting(cli: ClusterCommands, directory: str, *settings: str) -> str:
    changes = [f"settings['state.dir'] = {str(cli.folder / directory)!r}", "settings['acceptable.recovery.lag'] = 5"]
    return cli.app(COUNTING, after="\n".join([*changes, *settings]))


def test_standby_copies_are_shown_with_what_they_lack(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("in", "out", partitions=4)
    apps = [counting(cli, f"state-{number}", "settings['num.standby.replicas'] = 1") for number in range(2)]
    for app in apps:
        cli.start(app)
    wait_until("copies are there", lambda: cli.run("groups", apps[0]).out.count("0_") == 8)
    heads = [line.split() for line in cli.run("groups", apps[0]).lines if line.startswith("PROCESS")]
    assert heads == [["PROCESS", "THREAD", "HOST", "TASKS", "COPIES"]]
    members = json.loads(cli.run("groups", apps[0], "--json").out)["members"]
    shown = [({*one["tasks"]}, {copy["task"] for copy in one["copies"]}, one["fills_copies"]) for one in members]
    (own, copied, _), (other, others, _) = shown
    assert (own, copied) == (others, other)
    assert not any(fills for _, _, fills in shown)


def test_a_member_that_fills_copies_is_shown(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("in", "out", partitions=2)
    first = counting(cli, "first")
    cli.start(first)
    producer = EmbeddedClients(cli.kafka.broker).producer({})
    for number in range(20):
        producer.produce("in", b"v", b"%d" % number, number % 2, None, None, 1)
    producer.flush()
    wait_until("all is committed", lambda: "total lag: 0" in cli.run("groups", first).out)
    settings = StreamsConfig.of(settings_in(named_app(counting(cli, "second"))))
    second = KafkaStreams(load_topology(first, lambda: settings), settings, clients=cli.kafka.clients)
    second.pause()  # which keeps copies from being filled
    with second:
        wait_until("it is shown", lambda: "fills copies" in cli.run("groups", first).out)
        members = json.loads(cli.run("groups", first, "--json").out)["members"]
        assert sorted(one["fills_copies"] for one in members) == [False, True]
