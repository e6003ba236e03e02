"""A live shadow runs beside production, follows its committed offsets, and is promoted to take its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clone_kit import (
    COUNT,
    WORDS,
    Killed,
    KilledClients,
    app,
    clone,
    content,
    ends,
    expected,
    offsets_of,
    records,
    results,
    run_until_read,
    send,
    unread,
    write_behind,
)
from cluster_cli import ClusterCommands, Printed, commands
from processor_api.errors import BootstrapIncompleteError, ConfigError
from processor_api.topology.topology import Topology
from streams.app.states import ClientState
from streams.config import StreamsConfig
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.topics.application import readable_topics
from waiting import wait_until

NEW = COUNT.replace("group_by(lambda k, v: v)", "filter(lambda k, v: v != 'w6').group_by(lambda k, v: v)")
"""A version that leaves out one word."""
FOLLOWS = "settings['shadow.of'] = 'shop'\n"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


class Versions:
    """The files of the version in production, of the shadow, and of the new version in production."""

    def __init__(
        self, cli: ClusterCommands, guarantee: str = "exactly_once_v2", new: str = NEW, after: str = ""
    ) -> None:
        self.old = app(cli, "shop", guarantee)
        self.shadow = app(cli, "green", guarantee, new, FOLLOWS + after)
        self.new = app(cli, "shop", guarantee, new, after)


def begun(cli: ClusterCommands, guarantee: str = "exactly_once_v2", new: str = NEW, after: str = "") -> Versions:
    """Returns the versions, after production has counted the words, and has been cloned for its shadow."""
    cli.kafka.create_topics("in", "out", partitions=2)
    versions = Versions(cli, guarantee, new, after)
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    done = clone(cli, versions.old, name="green")
    assert done.status == 0, done.err
    return versions


def shadow(cli: ClusterCommands, versions: Versions, *words: str, **more: object) -> Printed:
    return cli.run("shadow", versions.shadow, "--against", versions.old, "--id", "green", *words, **more)


def read(cli: ClusterCommands, group: str) -> int:
    """Returns how many records of the input an application has committed, where there are no markers in it."""
    return sum(one.offset for place, one in offsets_of(cli, group).items() if place.topic == "in")


def follow(cli: ClusterCommands, versions: Versions) -> None:
    """Runs the shadow until it has read what production has committed."""
    green = cli.start(versions.shadow)
    wait_until("the shadow has followed", lambda: read(cli, "green") == read(cli, "shop"))
    wait_until("it has read its repartition topic", lambda: not unread(cli, "green", ("counts-repartition",)))
    green.close()


# ------------------------------------------------------------------ a shadow that runs


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.slow), "exactly_once_v2"])
def test_a_shadow_is_never_ahead_and_writes_to_topics_of_its_own(cli: ClusterCommands, guarantee: str) -> None:
    versions = begun(cli, guarantee)
    before = ends(cli, "out")
    green = cli.start(versions.shadow)
    send(cli, WORDS)  # while production is stopped
    old = cli.start(versions.old)

    def has_followed() -> bool:
        mine = read(cli, "green")
        assert mine <= read(cli, "shop")
        return mine == 80 and not unread(cli, "green", ("counts-repartition",))

    wait_until("the shadow has followed", has_followed)
    old.close()
    green.close()
    assert results(cli, before) == expected(WORDS, WORDS)
    assert len(records(cli, "out", before)) == 40
    assert shadowed(cli) == {word: count for word, count in expected(WORDS, WORDS).items() if word != "w6"}
    places = {one.key(): one.partition() for one in records(cli, "out")}
    assert all(one.partition() == places[one.key()] for one in records(cli, "green-out-shadow"))


def test_results_go_nowhere_if_told(cli: ClusterCommands) -> None:
    versions = begun(cli, after="settings['shadow.sinks'] = 'nowhere'\n")
    before = ends(cli, "out")
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    follow(cli, versions)
    assert len(records(cli, "out", before)) == 40
    assert "green-out-shadow" not in cli.kafka.broker.topics


def test_a_shadow_of_an_application_without_offsets_reads_nothing(
    cli: ClusterCommands, caplog: pytest.LogCaptureFixture
) -> None:
    cli.kafka.create_topics("in", "out", partitions=2)
    send(cli, WORDS)
    green = cli.start(app(cli, "green", text=NEW, after="settings['shadow.of'] = 'shpo'\n"))
    wait_until("it says so", lambda: "the application that is followed has committed nothing" in caplog.text)
    green.close()
    assert read(cli, "green") == 0


def test_no_pattern_of_a_shadow_matches_its_shadow_topics() -> None:
    topology = Topology().add_source("all", re.compile(".*"))
    counts = {"green-out-shadow": 1, "out": 1}
    assert readable_topics(topology, {"application.id": "green", "shadow.of": "shop"}, counts).keys() == {"out"}
    assert readable_topics(topology, {"application.id": "green", "shadow.of": None}, counts).keys() == counts.keys()


# ------------------------------------------------------------------ the comparison


def shadowed(cli: ClusterCommands) -> dict[str, int]:
    """Returns the last counts in the shadow topic."""
    return {one.key().decode(): int.from_bytes(one.value()) for one in records(cli, "green-out-shadow")}


def test_tables_are_compared_at_equal_offsets(cli: ClusterCommands) -> None:
    versions = begun(cli)
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    behind = shadow(cli, versions, "--for", "0s")
    assert behind.status == 1
    assert "'green' lags 40 records (in-0, in-1) behind 'shop'" in behind.err
    follow(cli, versions)
    found = shadow(cli, versions, "--for", "0s")
    assert found.status == 1, found.err
    assert "green is at the committed offsets of shop" in found.out
    assert "table counts: 1 of 7 rows differ" in found.out
    assert re.search(r'^"w6" +10 +5$', found.out, re.MULTILINE)
    assert "green-out-shadow" in found.out


def test_a_program_gets_the_differences_of_a_live_shadow_as_json(cli: ClusterCommands) -> None:
    versions = begun(cli)
    send(cli, [("k", "w6"), ("k", "w1")])
    run_until_read(cli, versions.old, "shop")
    follow(cli, versions)
    told = json.loads(shadow(cli, versions, "--json").out)
    assert told["differ"] is True
    assert told["shadow_topics"].keys() == {"green-out-shadow"}
    assert [one["differences"] for one in told["compared"]] == [[{"key": "w6", "values": [6, 5]}]]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--promote",), "give its id by --id"),
        (("--id", "shop"), "--id must be the id of the shadow"),
        (("--id", "green", "-c", "shadow.of=other"), "is the shadow of 'other' (shadow.of), not of 'shop'"),
        (("--id", "red"), "the group of application 'red' has no committed offset"),
        (("--id", "green", "--most-records", "3"), "exceed --most-records 3"),
    ],
)
def test_what_cannot_be_done_is_said(cli: ClusterCommands, words: tuple[str, ...], text: str) -> None:
    versions = begun(cli)
    refused = cli.run("shadow", app(cli, "green", text=NEW), "--against", versions.old, *words)
    assert refused.status in (1, 2)
    assert text in refused.err


def test_an_application_is_no_shadow_of_itself() -> None:
    with pytest.raises(ConfigError, match=r"shadow\.of is 'shop', the application itself"):
        StreamsConfig(application_id="shop", bootstrap_servers="localhost:9092", shadow_of="shop")


def test_shadow_topics_are_deleted(cli: ClusterCommands) -> None:
    versions = begun(cli)
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    follow(cli, versions)
    done = shadow(cli, versions, "--delete-topics")
    assert done.lines == ["deleted green-out-shadow"]
    assert "green-out-shadow" not in cli.kafka.broker.topics
    assert "has no shadow topics" in shadow(cli, versions, "--delete-topics").out


# ------------------------------------------------------------------ the promotion


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.slow), "exactly_once_v2"])
def test_the_new_version_goes_on_where_production_has_stopped(cli: ClusterCommands, guarantee: str) -> None:
    """The shadow lags when it is promoted, and the worker has the state directory of production."""
    versions = begun(cli, guarantee)
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    before = ends(cli, "out")
    done = shadow(cli, versions, "--promote")
    assert done.status == 0, done.err
    assert "'green' lags 40 records (in-0, in-1) behind 'shop'" in done.out
    assert "done: start workers of the new version with application.id=shop" in done.out
    send(cli, WORDS)
    run_until_read(cli, versions.new, "shop")
    assert results(cli, before) == {w: n for w, n in expected(WORDS, WORDS, WORDS).items() if w != "w6"}
    assert len(records(cli, "out", before)) == sum(w != "w6" for _, w in WORDS)


def promote(cli: ClusterCommands, versions: Versions, *words: str, **more: object) -> Printed:
    return shadow(cli, versions, "--promote", *words, **more)


def test_what_production_has_not_finished_is_finished_by_its_own_version(cli: ClusterCommands) -> None:
    """Records of its repartition topic have no results yet, and those of the shadow's went to the shadow topic."""
    versions = begun(cli)
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    follow(cli, versions)
    write_behind(cli, "shop", ["w1", "w2", "w2"])
    write_behind(cli, "green", ["w1", "w2", "w2"])
    before = ends(cli, "out")
    shown = promote(cli, versions, "--dry-run")
    assert "'shop' has 3 records (shop-counts-repartition" in shown.out
    assert shown.lines[-1] == "nothing was changed (--dry-run)"
    done = promote(cli, versions)
    assert done.status == 0, done.err
    assert "running shop.py as shop" in done.err
    assert "running green.py as green" in done.err
    new = {word: expected(WORDS, WORDS)[word] + more for word, more in (("w1", 1), ("w2", 2))}
    assert results(cli, before) == new
    assert len(records(cli, "out", before)) == 3
    assert {word: shadowed(cli)[word] for word in new} == new
    before = ends(cli, "out")
    send(cli, [("k", "w1")])
    run_until_read(cli, versions.new, "shop")
    assert results(cli, before) == {"w1": new["w1"] + 1}


def test_a_shadow_that_has_run_without_its_setting_is_refused(cli: ClusterCommands) -> None:
    """Its state holds records whose results production would leave out."""
    versions = begun(cli)
    send(cli, WORDS)
    run_until_read(cli, app(cli, "green", text=NEW), "green")
    before = offsets_of(cli, "shop"), set(cli.kafka.broker.topics)
    refused = promote(cli, versions)
    assert refused.status == 1
    assert "'green' has read 40 records (in-0, in-1) that 'shop' has not" in refused.err
    assert (offsets_of(cli, "shop"), set(cli.kafka.broker.topics)) == before


@pytest.mark.parametrize("runs", ["shop", "green"])
def test_nothing_is_promoted_while_one_of_both_runs(cli: ClusterCommands, runs: str) -> None:
    versions = begun(cli)
    running = cli.start(versions.old if runs == "shop" else versions.shadow)
    refused = promote(cli, versions)
    running.close()
    assert refused.status == 1
    assert f"application '{runs}' runs, its group has 1 member" in refused.err


def test_a_shadow_is_promoted_again_when_it_has_followed_the_new_version(cli: ClusterCommands) -> None:
    """What the first promotion has noted of its copy says nothing about topics that workers have written to since."""
    versions = begun(cli)
    assert killed_at(cli, versions, 1, of="delete_group")
    assert offsets_of(cli, "shop~clone")
    send(cli, WORDS)
    run_until_read(cli, versions.new, "shop")
    follow(cli, versions)
    versions.old = versions.new
    done = promote(cli, versions)
    assert done.status == 0, done.err
    check(cli, "shop", "green")
    again = promote(cli, versions)
    assert "'green' is already promoted to 'shop'" in again.out


def test_inputs_of_one_version_are_said_or_left_as_they_are(cli: ClusterCommands) -> None:
    """An input that only the new version reads has had its results in shadow topics; the offsets of one that only the
    old version reads stay, without a note."""
    both = {"old": COUNT.replace('stream("in")', 'stream(["in", "old"])')}
    both["new"] = COUNT.replace('stream("in")', 'stream(["in", "new"])')
    cli.kafka.create_topics("in", "old", "new", "out", partitions=2)
    versions = Versions.__new__(Versions)
    versions.old, versions.shadow = (
        app(cli, "shop", text=both["old"]),
        app(cli, "green", text=both["new"], after=FOLLOWS),
    )
    for name in ("in", "old", "new"):
        cli.kafka.create_input_topic(name, "string", "string").pipe_key_values(WORDS)
    run_until_read(cli, versions.old, "shop")
    assert clone(cli, versions.old, name="green").status == 0
    green = cli.start(versions.shadow)
    wait_until("it has read the new input", lambda: sum(len(records(cli, n)) for n in ["green-out-shadow"]) == 40)
    green.close()
    done = promote(cli, versions)
    assert done.status == 0, done.err
    assert "read by 'green' alone, with results in shadow topics only: new" in done.out
    offsets = offsets_of(cli, "shop")
    notes = {place: TopicPartitionMetadata.decode(one.metadata) for place, one in offsets.items()}
    assert not any(one.handover for one in notes.values())
    assert sum(offsets[place].offset for place in offsets if place.topic == "old") == 40
    assert sum(offsets[place].offset for place in offsets if place.topic == "new") == 40


# ------------------------------------------------------------------ kills


@pytest.mark.parametrize(
    ("of", "call"),
    [
        ("delete_topics", 0),
        *(pytest.param(of, 0, marks=pytest.mark.slow) for of in ("create_topics", "commit_transaction")),
    ],
)
def test_no_worker_starts_while_a_promotion_is_incomplete(cli: ClusterCommands, of: str, call: int) -> None:
    versions = begun(cli)
    assert killed_at(cli, versions, 0, of=of)
    for file in (versions.old, versions.new):
        started = cli.start(file, wait=False)
        wait_until("it ends", lambda: started.state == ClientState.ERROR)  # noqa: B023
        started.close()
        assert isinstance(started.failure, BootstrapIncompleteError)
        assert "streams shadow NEW --against APP --id green --promote" in str(started.failure)
    done = promote(cli, versions)
    assert done.status == 0, done.err
    check(cli, "shop", "green")


def test_a_worker_that_runs_between_two_calls_is_finished_first(cli: ClusterCommands) -> None:
    """It had begun before the note was committed, and has left repartition records: these are not deleted."""
    versions = begun(cli)
    assert killed_at(cli, versions, 0, of="delete_topics")
    write_behind(cli, "shop", ["w1"])
    before = ends(cli, "out")
    done = promote(cli, versions)
    assert done.status == 0, done.err
    assert results(cli, before) == {"w1": expected(WORDS)["w1"] + 1}
    check(cli, "shop", "green")


def test_records_that_were_deleted_before_the_shadow_has_read_them_are_missed(cli: ClusterCommands) -> None:
    versions = begun(cli)
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    with cli.kafka.broker.lock:
        end = cli.kafka.broker.topics["in"].partitions[0].end_offset
        cli.kafka.broker.topics["in"].partitions[0].delete_before(end - 1)
    refused = promote(cli, versions)
    assert refused.status == 1
    assert "records of in-0 were deleted before 'green' read them" in refused.err


def killed_at(cli: ClusterCommands, versions: Versions, call: int, *words: str, of: str | None = None) -> bool:
    """Promotes in a process that is killed at a call; returns whether it was."""
    clients = KilledClients(cli.kafka.clients, call, of)
    try:
        done = promote(cli, versions, *words, clients=clients)
        assert done.status == 0, done.err
        return False
    except Killed:
        return True
    finally:
        clients.end()


def check(cli: ClusterCommands, name: str, shadow_of_it: str) -> None:
    """Compares the state of an application with that of the shadow that was promoted to it."""
    assert content(cli, f"{name}-counts-changelog") == content(cli, f"{shadow_of_it}-counts-changelog")
    here, there = offsets_of(cli, name), offsets_of(cli, shadow_of_it)
    for place, one in there.items():
        if place.topic == "in":
            assert here[place].offset == one.offset
    notes = [TopicPartitionMetadata.decode(one.metadata) for one in here.values()]
    assert not any(one.handover for one in notes)
    assert any(one.handed_over == f"promotion of {shadow_of_it}" for one in notes)
    assert not offsets_of(cli, f"{name}-clone")
    assert not records(cli, f"{name}-counts-repartition")


PARTS = 8
"""The tests of kills are divided, so that several can run at a time."""


@pytest.mark.parametrize("part", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(1, PARTS))])
def test_a_promotion_that_is_killed_at_any_call_is_gone_on_with(cli: ClusterCommands, part: int) -> None:
    """Each call of a client is the last one of a process, and the next process does what is left."""
    versions = begun(cli)
    send(cli, WORDS)
    run_until_read(cli, versions.old, "shop")
    follow(cli, versions)
    new = app(cli, "green", text=NEW)
    for call in range(part, 800, PARTS):
        names = f"p{call}", f"s{call}"
        for file, former, name in ((versions.old, "shop", names[0]), (new, "green", names[1])):
            assert clone(cli, file, "--application-id", former, name=name).status == 0
        both = Versions.__new__(Versions)
        both.old, both.shadow = versions.old, new
        options = "--application-id", names[0], "--id", names[1]
        if not killed_at(cli, both, call, *options):
            break
        done = promote(cli, both, *options)
        assert done.status == 0, (call, done.err)
        check(cli, *names)
    assert call > 60
