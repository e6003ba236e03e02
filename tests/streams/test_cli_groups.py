"""`streams groups` shows how far an application is behind, with what it cannot read yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clone_kit import Killed, KilledClients, offsets_of
from cluster_cli import ClusterCommands, Printed, commands
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from runtime_support.failing_clients import Trapped
from streams.app.kafka_streams import KafkaStreams
from streams.cli.topology_function import load_topology, named_app, settings_in
from streams.config import StreamsConfig
from streams.kafka.offset_metadata import TopicPartitionMetadata
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
    said = "in-0: the last 3 offsets, from offset 2, cannot be read until an open transaction of a producer ends"
    assert printed.lines[-1] == said
    (partition,) = json.loads(cli.run("groups", app, "--json").out)["partitions"]
    assert (partition["end"], partition["lag"], partition["open"]) == (5, 3, 3)
    producer.commit_transaction()
    assert "open transaction" not in cli.run("groups", app).out


def test_markers_behind_the_last_commit_are_no_lag(cli: ClusterCommands) -> None:
    """A stopped application with nothing left to do had a lag of one for each transaction."""
    app = cli.app(APP.format(options=""))
    cli.kafka.create_topics("in", "out")
    running = cli.start(app)
    clients = EmbeddedClients(cli.kafka.broker)
    send(clients.producer({}), b"1")
    wait_until("it has committed", lambda: "total lag: 0" in cli.run("groups", app).out)
    running.close()
    producer = clients.producer({"transactional.id": "other"})
    producer.init_transactions()
    for ending in (producer.abort_transaction, producer.abort_transaction):
        producer.begin_transaction()
        send(producer, b"2")
        ending()
    assert "total lag: 0" in cli.run("groups", app).lines
    (partition,) = json.loads(cli.run("groups", app, "--json").out)["partitions"]
    assert (partition["committed"], partition["end"], partition["lag"]) == (1, 5, 0)
    producer.begin_transaction()
    send(producer, b"3")
    producer.commit_transaction()
    assert "total lag: 2" in cli.run("groups", app).lines, "from the record on, with its marker"


def test_a_lag_that_is_not_known_makes_the_total_a_lower_bound(cli: ClusterCommands) -> None:
    app = cli.app(APP.format(options=", Consumed(offset_reset=AutoOffsetReset.latest())"))
    cli.kafka.create_topics("in", "out")
    send(EmbeddedClients(cli.kafka.broker).producer({}), b"1")
    assert "total lag: at least 0; 1 partition without a committed offset" in cli.run("groups", app).lines


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
    before = offsets_of(cli, "shop")[TopicPartition("in", 0)]
    assert before.metadata
    assert file.read_text() == f"in,0,2,{before.metadata}\n"
    assert cli.kafka.broker.groups.group("shop").streams is None
    assert "2          2    0" in cli.run("groups", app).out
    cli.start(changed)
    again = cli.run("groups", "upgrade-topology", app, "--yes")
    assert again.status == 1


def test_a_classic_group_has_no_topology_to_replace(cli: ClusterCommands) -> None:
    app = cli.app(APP.format(options=""))
    cli.kafka.create_topics("in", "out")
    printed = cli.run("groups", "upgrade-topology", app, "--yes")
    assert "does not use the streams protocol" in printed.out
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
        wait_until("it is shown", lambda: "fills warm-up replicas" in cli.run("groups", first).out)
        members = json.loads(cli.run("groups", first, "--json").out)["members"]
        assert sorted(one["fills_copies"] for one in members) == [False, True]


# ------------------------------------------------------------------ an upgrade that was interrupted


def interrupted(cli: ClusterCommands, of: str = "commit", call: int = 1) -> str:
    """Returns the application of a group whose upgrade was killed, by default after the group was deleted."""
    app = streams_group(cli)
    cli.kafka.create_topics("in", "out", "other")
    send(EmbeddedClients(cli.kafka.broker).producer({}), b"1", b"2")
    running = cli.start(app)
    wait_until("it has committed", lambda: "total lag: 0" in cli.run("groups", app).out)
    running.close()
    clients = KilledClients(cli.kafka.clients, call, of)
    with pytest.raises(Killed):
        upgrade(cli, app, clients=clients)
    clients.end()
    return app


def upgrade(cli: ClusterCommands, app: str, *words: str, **more: Any) -> Printed:
    file = str(cli.folder / "kept.csv")
    return cli.run("groups", "upgrade-topology", app, "--offsets-file", file, *(words or ("--yes",)), **more)


def test_the_offsets_of_a_killed_upgrade_are_on_the_cluster(cli: ClusterCommands) -> None:
    """They were in a file alone, of which the next call knew nothing."""
    app = interrupted(cli)
    assert not offsets_of(cli, "shop")
    (cli.folder / "kept.csv").unlink()
    assert upgrade(cli, app, "--dry-run").lines[-1] == "nothing was changed (--dry-run)"
    assert not offsets_of(cli, "shop")
    done = upgrade(cli, app)
    assert (done.status, done.lines[0]) == (0, "continuing an interrupted upgrade-topology of group 'shop'")
    assert offsets_of(cli, "shop")[TopicPartition("in", 0)].offset == 2
    assert (cli.folder / "kept.csv").exists()
    assert not offsets_of(cli, "shop~upgrade-topology")
    assert "nothing was changed" in upgrade(cli, app).out


@pytest.mark.parametrize("kills", [("commit", 1), ("delete_group", 0)])
def test_offsets_that_workers_have_committed_since_are_not_replaced(
    cli: ClusterCommands, kills: tuple[str, int]
) -> None:
    app = interrupted(cli, *kills)
    send(EmbeddedClients(cli.kafka.broker).producer({}), b"3")
    running = cli.start(app)
    wait_until("it has committed", lambda: "total lag: 0" in cli.run("groups", app).out)
    running.close()
    for words in (("--dry-run",), ("--yes",)):
        refused = upgrade(cli, app, *words)
        assert refused.status == 1
        assert "the committed offset of in-0 is 3, and 2 was saved" in refused.err
    assert offsets_of(cli, "shop")[TopicPartition("in", 0)].offset == 3
    kept = offsets_of(cli, "shop~upgrade-topology")
    assert kept[TopicPartition("in", 0)].offset == 2
    back = cli.run("reset", app, "--offsets-only", "--from-file", str(cli.folder / "kept.csv"), "--yes")
    assert back.status == 0, back.err
    assert offsets_of(cli, "shop")[TopicPartition("in", 0)] == kept[TopicPartition("in", 0)]
    done = upgrade(cli, app)
    assert done.status == 0, done.err
    assert offsets_of(cli, "shop")[TopicPartition("in", 0)] == kept[TopicPartition("in", 0)]


def test_a_file_of_offsets_without_metadata_is_read_as_well(cli: ClusterCommands) -> None:
    app = interrupted(cli)
    file = cli.folder / "mine.csv"
    file.write_text("in, 0, 1\n")
    assert cli.run("reset", app, "--offsets-only", "--from-file", str(file), "--yes").status == 0
    found = offsets_of(cli, "shop")[TopicPartition("in", 0)]
    assert (found.offset, TopicPartitionMetadata.decode(found.metadata).partition_time) == (1, -1)
    file.write_text("in,0,1,text,more\n")
    assert cli.run("reset", app, "--offsets-only", "--from-file", str(file), "--yes").status == 2


class Lost:
    """Clients that lose the brokers when the offsets of a group are committed again."""

    def __init__(self, clients: Any, group: str) -> None:
        self._clients, self._group = clients, group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def consumer(self, config: Any) -> Any:
        def trap(call: str) -> None:
            if config["group.id"] == self._group:
                raise RetryableError("no broker answers")

        return Trapped(self._clients.consumer(config), trap, {"commit"})


def test_an_upgrade_that_loses_the_brokers_says_what_to_do(cli: ClusterCommands) -> None:
    app = interrupted(cli)
    failed = upgrade(cli, app, clients=Lost(cli.kafka.clients, "shop"))
    assert failed.status == 1
    assert "its offsets are not committed again yet (no broker answers): run upgrade-topology again" in failed.err
    assert upgrade(cli, app).status == 0
    assert offsets_of(cli, "shop")[TopicPartition("in", 0)].offset == 2
