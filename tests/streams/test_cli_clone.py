"""`streams state clone` gives the state of an application to another one, which goes on where the first has stopped."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clone_kit import (
    COUNT,
    GUARANTEES,
    WORDS,
    Killed,
    KilledClients,
    app,
    clone,
    cloned,
    content,
    ends,
    expected,
    offsets_of,
    records,
    results,
    run_until_read,
    send,
    stopped,
    unread,
    write_behind,
)
from cluster_cli import ClusterCommands, commands
from integration_support.workers import APPS
from processor_api.clock import SystemClock
from processor_api.errors import BootstrapIncompleteError
from processor_api.task_id import TopicPartition
from runtime_support.zero_clients import ZeroIsNowClients
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.producing.zero_timestamps import as_written
from waiting import wait_until


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_the_clone_counts_on_and_the_first_application_too(cli: ClusterCommands, guarantee: str) -> None:
    file = stopped(cli, guarantee=guarantee)
    done = cloned(cli, file)
    assert "done: start workers with application.id=shop2" in done.out
    send(cli, WORDS)
    for name, runs in (("shop2", app(cli, "shop2", guarantee)), ("shop", file)):
        before = ends(cli, "out")
        run_until_read(cli, runs, name)
        assert results(cli, before) == expected(WORDS, WORDS)


def test_repartition_records_that_were_not_read_are_counted_by_the_clone(cli: ClusterCommands) -> None:
    file = stopped(cli)
    write_behind(cli, "shop", ["w1", "w2", "w2"])
    done = clone(cli, file)
    assert "3 records of repartition topics" in done.out
    before = ends(cli, "out")
    run_until_read(cli, app(cli, "shop2"), "shop2")
    assert results(cli, before) == {word: expected(WORDS)[word] + more for word, more in (("w1", 1), ("w2", 2))}


def test_the_clone_knows_by_which_schemas_its_rows_were_written(cli: ClusterCommands) -> None:
    """So that another version of it is refused, or reads nothing for it."""
    cli.kafka.create_topics("in", "out", partitions=1)
    file = app(cli, "shop")
    send(cli, WORDS)
    run_until_read(cli, file, "shop")
    assert clone(cli, file).status == 0
    noted = {}
    with cli.kafka.broker.lock:
        for name in ("shop", "shop2"):
            offsets = cli.kafka.broker.groups.group(name).offsets
            texts = [one.metadata for place, one in offsets.items() if f"{name}-counts-repartition" in str(place)]
            noted[name] = [(one.schemas, one.form) for one in map(TopicPartitionMetadata.decode, texts)]
    assert noted["shop"] == noted["shop2"]
    ((schemas, form),) = noted["shop2"]
    assert len(schemas) == 1
    assert form == '[["built-in","string"],["built-in","string"]]'


def killed_at(cli: ClusterCommands, file: str, call: int, name: str = "shop2", of: str | None = None) -> bool:
    """Makes a clone in a process that is killed at a call; returns whether it was."""
    clients = KilledClients(cli.kafka.clients, call, of)
    try:
        cloned(cli, file, clients=clients, name=name)
        return False
    except Killed:
        return True
    finally:
        clients.end()


def check_clone(cli: ClusterCommands, name: str) -> None:
    """Compares the state of a clone with that of the application."""
    assert content(cli, f"{name}-counts-changelog") == content(cli, "shop-counts-changelog")
    here, there = offsets_of(cli, name), offsets_of(cli, "shop")
    bases = {place: one.offset for place, one in here.items()}
    starts = {place: one.offset for place, one in there.items()}
    assert content(cli, f"{name}-counts-repartition", bases) == content(cli, "shop-counts-repartition", starts)
    for place, one in there.items():
        if place.topic == "in":
            assert here[place].offset == one.offset
    times = {(place.topic.removeprefix(name), place.partition): time_of(one) for place, one in here.items()}
    assert times == {(place.topic.removeprefix("shop"), place.partition): time_of(one) for place, one in there.items()}


def time_of(one: OffsetAndMetadata) -> tuple[int, Any]:
    metadata = TopicPartitionMetadata.decode(one.metadata)
    return metadata.partition_time, metadata.processors


CHANCES = 3
"""The tests of kills are divided, so that several can run at a time."""


@pytest.mark.parametrize("part", range(CHANCES))
def test_a_clone_that_is_killed_at_any_call_is_gone_on_with(cli: ClusterCommands, part: int) -> None:
    """Each call of a client is the last one of a process, and the next process does what is left."""
    file = stopped(cli, WORDS[:20])
    write_behind(cli, "shop", ["w1", "w2"])
    for call in range(part, 400, CHANCES):
        name = f"clone{call}"
        if not killed_at(cli, file, call, name):
            break
        cloned(cli, file, name=name)
        check_clone(cli, name)
        assert len(records(cli, f"{name}-counts-repartition")) == 2
    assert call > 60


@pytest.mark.parametrize(
    ("of", "call"),
    [("commit_transaction", 0), ("commit_transaction", 1), ("send_offsets", 1), ("commit", 2), ("commit", 3)],
)
def test_an_application_that_runs_between_two_attempts_is_cloned_as_it_is_at_last(
    cli: ClusterCommands, of: str, call: int
) -> None:
    """What the first attempt has copied of the repartition topic was read by the application since."""
    file = stopped(cli, WORDS[:20])
    write_behind(cli, "shop", ["w1", "w2"])
    assert killed_at(cli, file, call, of=of)
    send(cli, WORDS[20:])
    run_until_read(cli, file, "shop")
    write_behind(cli, "shop", ["w3"])
    cloned(cli, file)
    check_clone(cli, "shop2")
    before = ends(cli, "out")
    run_until_read(cli, app(cli, "shop2"), "shop2")
    assert results(cli, before) == {"w3": expected(WORDS)["w3"] + 1}


def test_a_worker_of_an_incomplete_clone_does_not_start(cli: ClusterCommands) -> None:
    file = stopped(cli)
    assert killed_at(cli, file, 0, of="commit_transaction")
    started = cli.start(app(cli, "shop2"), wait=False)
    wait_until("it ends", lambda: started.state == ClientState.ERROR)
    started.close()
    assert isinstance(started.failure, BootstrapIncompleteError)
    assert "streams state clone APP --as shop2" in str(started.failure)
    cloned(cli, file)
    check_clone(cli, "shop2")


def test_a_second_call_finds_a_complete_clone(cli: ClusterCommands) -> None:
    file = stopped(cli)
    assert clone(cli, file).status == 0
    again = clone(cli, file)
    assert again.status == 0
    assert "is already a complete clone of 'shop'" in again.out
    send(cli, WORDS)
    run_until_read(cli, app(cli, "shop2"), "shop2")
    refused = clone(cli, file)
    assert refused.status == 1
    assert "application 'shop2' already has state" in refused.err


def test_a_running_application_is_refused(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("in", "out", partitions=2)
    file = app(cli, "shop")
    send(cli, WORDS)
    application = cli.start(file)
    wait_until("all is committed", lambda: not unread(cli, "shop"))
    topics = set(cli.kafka.broker.topics)
    refused = clone(cli, file)
    assert refused.status == 1
    assert "application 'shop' runs" in refused.err
    assert "--wait" in refused.err
    assert set(cli.kafka.broker.topics) == topics
    application.close()


class StoppingClock(SystemClock):
    """Stops the application when the clone waits for that."""

    def __init__(self, application: KafkaStreams) -> None:
        self._application = application
        self.waits = 0

    def wait(self, seconds: float) -> None:  # type: ignore[override]
        self.waits += 1
        if self.waits == 3:
            self._application.close()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_clone_waits_until_the_application_is_stopped(cli: ClusterCommands, guarantee: str) -> None:
    cli.kafka.create_topics("in", "out", partitions=2)
    file = app(cli, "shop", guarantee)
    send(cli, WORDS)
    application = cli.start(file)
    wait_until("all is committed", lambda: not unread(cli, "shop"))
    clock = StoppingClock(application)
    done = cloned(cli, file, "--wait", clock=clock)
    assert clock.waits >= 3
    assert "waiting until the workers of 'shop' are stopped" in done.err
    check_clone(cli, "shop2")


def test_nothing_is_changed_by_a_dry_run(cli: ClusterCommands) -> None:
    file = stopped(cli)
    topics = set(cli.kafka.broker.topics)
    shown = clone(cli, file, "--dry-run")
    assert shown.status == 0
    assert "shop-counts-changelog    shop2-counts-changelog" in shown.out
    assert set(cli.kafka.broker.topics) == topics
    assert not offsets_of(cli, "shop2")
    assert not offsets_of(cli, "shop2~clone")


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("offsets", "its group has committed offset 3 of in-0"),
        ("records", "has had records"),
        ("same id", "--as must not be the id of the application"),
        ("no offsets", "its group has no committed offset"),
    ],
)
def test_what_cannot_be_cloned_is_refused(cli: ClusterCommands, state: str, text: str) -> None:
    cli.kafka.create_topics("in", "out", partitions=2)
    file = app(cli, "shop")
    if state != "no offsets":
        send(cli, WORDS)
        run_until_read(cli, file, "shop")
    if state == "offsets":
        consumer = cli.kafka.clients.consumer({"group.id": "shop2"})
        consumer.commit({TopicPartition("in", 0): OffsetAndMetadata(3)})
        consumer.close()
    if state == "records":
        cli.kafka.create_topics("shop2-counts-changelog", partitions=2)
        cli.kafka.create_input_topic("shop2-counts-changelog", "string", "string").pipe_input("w0", "1")
    refused = clone(cli, file, name="shop" if state == "same id" else "shop2")
    assert refused.status in (1, 2)
    assert text in refused.err
    assert not any(one.topic == "in" for one in offsets_of(cli, "shop2")) or state == "offsets"


def test_another_topology_than_the_cloned_one_is_refused_by_name(cli: ClusterCommands) -> None:
    """Its store would begin empty behind records that it has never seen."""
    file = stopped(cli)
    assert clone(cli, file).status == 0
    renamed = COUNT.replace('Materialized(name="counts")', 'Materialized(name="totals")').replace(
        "group_by(lambda k, v: v)", 'group_by(lambda k, v: v, Grouped(name="counts"))'
    )
    started = cli.start(app(cli, "shop2", text=renamed), wait=False)
    wait_until("it ends", lambda: started.state == ClientState.ERROR)
    started.close()
    assert "clone of shop" in str(started.failure)
    assert "a store was renamed or removed" in str(started.failure)


def test_a_store_without_a_changelog_is_named(cli: ClusterCommands) -> None:
    text = COUNT.replace('name="counts"', 'name="counts", logging=False')
    file = stopped(cli, text=text)
    done = cloned(cli, file)
    assert "store 'counts' does not have a changelog: it starts empty" in done.out


def write_rows(cli: ClusterCommands, rows: list[tuple[bytes, bytes, int]], partition: int = 0) -> None:
    """Writes rows of the application's changelog."""
    producer = cli.kafka.clients.producer({})
    for key, value, time in rows:
        producer.produce("shop-counts-changelog", value, key, partition, None, None, time, [("by", b"test")])
    producer.flush()
    producer.close()


def test_a_long_changelog_is_gone_on_with_behind_the_last_transaction(cli: ClusterCommands) -> None:
    """Records that the broker has deleted meanwhile are passed over."""
    file = stopped(cli, guarantee="at_least_once")
    rows = [(b"row-%d" % number, b"%d" % number, number + 1) for number in range(12_000)]
    write_rows(cli, rows)
    assert killed_at(cli, file, 1, of="commit_transaction")
    first = len(records(cli, "shop2-counts-changelog"))
    assert 0 < first < 12_000
    begin = ends(cli, "shop-counts-changelog")[TopicPartition("shop-counts-changelog", 0)] - 1_000
    with cli.kafka.broker.lock:
        cli.kafka.broker.topics["shop-counts-changelog"].partitions[0].delete_before(begin)
    cloned(cli, file)
    found = [one for one in content(cli, "shop2-counts-changelog") if one[4] == [("by", b"test")]]
    assert [one[1:4] for one in found[-1_000:]] == rows[-1_000:]
    assert len(records(cli, "shop2-counts-changelog")) < 12_000
    assert len({one[1] for one in found}) == len(found)


def test_the_time_0_of_a_row_is_kept_by_clients_that_cannot_send_it(cli: ClusterCommands) -> None:
    file = stopped(cli, guarantee="at_least_once")
    write_rows(cli, [(b"zero", b"0", 0)])
    cloned(cli, file, clients=ZeroIsNowClients(cli.kafka.broker))
    (row,) = [one for one in content(cli, "shop2-counts-changelog") if one[1] == b"zero"]
    assert as_written([row[3]], [row[4]]) == ([0], [[("by", b"test")]])


UNCOPIED = """
from streams import RepartitionTopic


class Keep(Processor):
    def process(self, record):
        pass


topology = (
    Topology()
    .add_source("in", "in", key_serde="string", value_serde="string")
    .add_repartition_topic(RepartitionTopic(name="own"))
    .add_sink("to-own", "own", "in", key_serde="string", value_serde="string")
    .add_source("own", "own", key_serde="string", value_serde="string")
    .add_processor("keep", Keep, "own")
    .add_state_store(Stores.key_value_store("kept", "string", "string"), "keep")
    .use_source_as_changelog("kept", "own")
)
"""


def test_a_store_that_is_restored_from_a_repartition_topic_is_refused(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("in", "out", partitions=2)
    refused = clone(cli, app(cli, "shop", text=UNCOPIED))
    assert refused.status == 2
    assert "store 'kept' is restored from repartition topic 'shop-own'" in refused.err


WHOLE = """
import os, sys
sys.path.insert(0, {apps!r})
for name in ("orders", "payments", "rates", "regions", "events", "tables"):
    os.environ[name.upper()] = name
import whole_dsl

topology = whole_dsl.topology
"""

BY_TIMES = """
settings["max.task.idle.ms"] = 40
settings["__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"] = 0
"""
"""Settings by which results depend on the times of records only."""


def drawn(chance: random.Random, count: int, begin: int) -> list[tuple[str, str, str | None, int]]:
    """Returns records of four topics with their times, late ones and deletions among them."""
    found: list[tuple[str, str, str | None, int]] = []
    for number in range(begin, begin + count):
        time = 10_000 + number * 4 - chance.choice((0, 0, 0, 12, 60))
        topic = chance.choice(("orders", "orders", "payments", "rates", "regions"))
        region = chance.choice(("north", "south", "west"))
        if topic == "regions":
            found.append((topic, region, chance.choice((f"Region {number}", None)), time))
        else:
            value = f"{number}:{region}" if topic == "orders" else f"{topic}-{number}"
            found.append((topic, f"c{chance.randrange(9)}", value, time))
    return found


def pipe(cli: ClusterCommands, given: list[tuple[str, str, str | None, int]]) -> None:
    topics = {name: cli.kafka.create_input_topic(name, "string", "string") for name in INPUTS}
    for topic, key, value, time in given:
        topics[topic].pipe_input(key, value, timestamp=time)


INPUTS = ("orders", "payments", "rates", "regions")


def processed(cli: ClusterCommands, group: str) -> bool:
    """Returns whether an application has no committed record before it, in inputs and repartition topics."""
    with cli.kafka.broker.lock:
        own = [name for name in cli.kafka.broker.topics if name.startswith(f"{group}-") and name.endswith("-topic")]
        own += [n for n in cli.kafka.broker.topics if n.startswith(f"{group}-") and n.endswith("repartition")]
        offsets = {place: one.offset for place, one in cli.kafka.broker.groups.group(group).offsets.items()}
    return not any(records(cli, name, offsets) for name in (*INPUTS, *own))


def test_a_clone_gives_the_results_of_the_first_application(
    cli: ClusterCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows, sessions, final results, joins of each kind, versions and deduplication, each with state in between."""
    files, chance = whole_apps(cli, monkeypatch, "shop", "shop2"), random.Random(1)
    pipe(cli, drawn(chance, 150, 0))
    run_whole(cli, files["shop"], "shop")
    cloned(cli, files["shop"])
    given = drawn(chance, 150, 150)
    pipe(cli, given)
    found = {name: results_of_whole(cli, file, name) for name, file in files.items()}
    assert found["shop2"] == found["shop"]
    assert len(found["shop"][0]) > 100


def test_a_shadow_that_is_promoted_gives_the_results_of_an_application_that_went_on(
    cli: ClusterCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With state of all kinds, which the shadow has from a clone, and from what it has followed."""
    files, chance = whole_apps(cli, monkeypatch, "shop", "shop2", "green"), random.Random(2)
    pipe(cli, drawn(chance, 100, 0))
    run_whole(cli, files["shop"], "shop")
    for name in ("shop2", "green"):
        assert clone(cli, files["shop"], name=name).status == 0
    pipe(cli, drawn(chance, 100, 100))
    for name in ("shop", "shop2"):
        run_whole(cli, files[name], name)
    done = cli.run("shadow", files["green"], "--against", files["shop"], "--id", "green", "--promote")
    assert done.status == 0, done.err
    pipe(cli, drawn(chance, 100, 200))
    found = {name: results_of_whole(cli, files[name], name) for name in ("shop", "shop2")}
    assert found["shop2"] == found["shop"]
    assert len(found["shop"][0]) > 50


def whole_apps(cli: ClusterCommands, monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, str]:
    """Returns the files of one application under several ids, whose topics it creates."""
    for name in (*INPUTS, "events", "tables"):
        monkeypatch.setenv(name.upper(), name)
        cli.kafka.create_topics(name, partitions=2)
    text = WHOLE.format(apps=str(APPS))
    return {name: app(cli, name, "exactly_once_v2", text, BY_TIMES) for name in names}


def results_of_whole(cli: ClusterCommands, file: str, name: str) -> tuple[list[str], dict[Any, Any]]:
    """Runs an application until it has processed all; returns the events and the last rows of tables that it sent."""
    before = {topic: ends(cli, topic) for topic in ("events", "tables")}
    run_whole(cli, file, name)
    rows = [(one.key(), one.value()) for one in records(cli, "tables", before["tables"])]
    return sorted(map(repr, content(cli, "events", before["events"]))), dict(rows)


def run_whole(cli: ClusterCommands, file: str, name: str) -> None:
    application = cli.start(file)
    wait_until("all is processed", lambda: processed(cli, name))
    application.close()
