"""`streams shadow` runs two versions on the state and the records of production, and says in what they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_cli import ClusterCommands, Printed, commands
from integration_support.workers import APPS
from processor_api.clock import SystemClock
from runtime_support.kept_cluster import SETTINGS, drawn
from waiting import wait_until

COUNT = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
counts = builder.stream("in").group_by(lambda k, v: v).count(materialized=Materialized(name="counts"))
counts.to_stream().to("out", Produced(value_serde="long"))
"""
LARGE = COUNT.replace("counts.to_stream()", "counts.to_stream().filter(lambda k, v: v > 3)")
TWICE = COUNT.replace('stream("in")', 'stream("in").flat_map_values(lambda v: [v] * 2 if v == "b" else [v])')


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


class Arrivals(SystemClock):
    """Sends records while the command gathers them."""

    def __init__(self, cli: ClusterCommands, *words: str) -> None:
        self._cli, self._words = cli, words

    def wait(self, seconds: float) -> None:  # type: ignore[override]
        send(self._cli, *self._words)


def send(cli: ClusterCommands, *words: str) -> None:
    cli.kafka.create_input_topic("in", "string", "string").pipe_key_values([("k", word) for word in words])


@pytest.fixture
def counted(cli: ClusterCommands) -> str:
    """An application that has counted five words, and runs."""
    cli.kafka.create_topics("in", "out", partitions=2)
    app = cli.app(COUNT, "shop", after="settings['processing.guarantee'] = 'exactly_once_v2'")
    send(cli, "a", "a", "a", "b", "c")
    cli.start(app)
    cli.kafka.read_records("out", 5, "string", "long")
    wait_until("all is committed", lambda: len(cli.kafka.broker.groups.group("shop").offsets) >= 2)
    return app


def shadow(cli: ClusterCommands, new: str, old: str, *words: str, arrivals: tuple[str, ...] = ()) -> Printed:
    return cli.run("shadow", new, "--against", old, *words, clock=Arrivals(cli, *arrivals))


def content(cli: ClusterCommands) -> dict[str, Any]:
    """Returns what a shadow must not change: topics, their ends, and the offsets of groups."""
    with cli.kafka.broker.lock:
        topics = {t.name: [p.end_offset for p in t.partitions] for t in cli.kafka.broker.topics.values()}
        groups = {name: dict(cli.kafka.broker.groups.group(name).offsets) for name in ("shop", "new")}
    return {"topics": topics, "groups": groups}


def test_the_same_results_differ_in_nothing(cli: ClusterCommands, counted: str) -> None:
    """A version with another operator, on records that come while it is run, from the state on the cluster."""
    new = cli.app(COUNT.replace('stream("in")', 'stream("in").filter(lambda k, v: True)'), "new")
    found = shadow(cli, new, counted, arrivals=("a", "d"))
    assert found.status == 0, found.err
    assert "table counts: 0 of 4 rows differ" in found.out
    assert "topic out: 0 of 2 keys differ" in found.out
    assert found.lines[-1] == "no differences"


def test_rows_and_results_that_differ_are_printed(cli: ClusterCommands, counted: str) -> None:
    new = cli.app(TWICE, "new")
    found = shadow(cli, new, counted, arrivals=("a", "b", "b"))
    assert found.status == 1, found.err
    assert "table counts: 1 of 3 rows differ" in found.out
    assert '"b"  3' in found.out
    assert "topic out: 1 of 2 keys differ" in found.out
    assert found.lines[-1] == "there are differences"


def test_a_program_gets_the_differences_as_json(cli: ClusterCommands, counted: str) -> None:
    found = shadow(cli, cli.app(LARGE, "new"), counted, "--json", arrivals=("a", "b"))
    assert found.status == 1, found.err
    told = json.loads(found.out)
    by_name = {one["name"]: one for one in told["compared"]}
    assert told["differ"] is True
    assert by_name["counts"]["differences"] == []
    assert by_name["out"]["differences"] == [{"key": "b", "values": [[2], None]}]


def test_nothing_is_written_to_the_cluster(cli: ClusterCommands, counted: str) -> None:
    for application in cli.kafka.applications:
        application.close()
    send(cli, "x")
    before = content(cli)
    assert shadow(cli, cli.app(TWICE, "new"), counted, "--for", "0s").status == 0
    assert content(cli) == before


def test_a_renamed_store_is_said(cli: ClusterCommands, counted: str) -> None:
    new = cli.app(COUNT.replace('name="counts"', 'name="totals"'), "new")
    found = shadow(cli, new, counted, arrivals=("a",))
    assert found.status == 1
    assert "layout: store counts is gone" in found.out
    assert "table totals: only in new.py" in found.out
    assert "topic out: 1 of 1 key differ" in found.out


def test_a_version_that_fails_is_said(cli: ClusterCommands, counted: str) -> None:
    new = cli.app(COUNT.replace("lambda k, v: v)", "lambda k, v: v.missing)"), "new")
    found = shadow(cli, new, counted, arrivals=("a",))
    assert found.status == 1
    assert "new.py fails on these records" in found.err
    assert "has no attribute 'missing'" in found.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--most-records", "3"), "exceed --most-records 3"),
        (("--for", "soon"), "--for"),
        (("--application-id", "other"), "has no committed offset"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    cli: ClusterCommands, counted: str, words: tuple[str, ...], text: str
) -> None:
    found = shadow(cli, cli.app(TWICE, "new"), counted, *words)
    assert found.status in (1, 2)
    assert text in found.err


WHOLE = """
import os, sys
sys.path.insert(0, {apps!r})
for name in ("orders", "payments", "rates", "regions", "events", "tables"):
    os.environ[name.upper()] = name
import whole_dsl

topology = whole_dsl.topology
"""


def test_all_operators_begin_with_the_state_of_production(
    cli: ClusterCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions that are the same differ in nothing, and their tables are those of the application afterwards."""
    inputs = ("orders", "payments", "rates", "regions")
    for name in (*inputs, "events", "tables"):
        monkeypatch.setenv(name.upper(), name)
        cli.kafka.create_topics(name, partitions=2)
    text, settings = WHOLE.format(apps=str(APPS)), f"settings.update({SETTINGS!r})"
    old, new = (cli.app(text, name, after=settings) for name in ("shop", "new"))
    pipe(cli, 0)
    application = cli.start(old)
    wait_until("tables are written", lambda: ends(cli, "tables") > 100)
    application.close()
    pipe(cli, 1)
    found = shadow(cli, new, old, "--for", "0s")
    assert found.status == 0, (found.out, found.err)
    assert found.lines[-1] == "no differences"
    assert "table sessions: 0 of" in found.out
    assert "table latest: 0 of 11 rows differ" in found.out
    assert "keys differ, by the last result of each" in found.out


def pipe(cli: ClusterCommands, half: int) -> None:
    for topic, key, value, time in drawn(half):
        cli.kafka.create_input_topic(topic, "string", "string").pipe_input(key, value, timestamp=time)


def ends(cli: ClusterCommands, topic: str) -> int:
    with cli.kafka.broker.lock:
        return sum(one.end_offset for one in cli.kafka.broker.topics[topic].partitions)


ENRICHED = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
names = builder.global_table("names", materialized="names-store")
joined = builder.stream("in").join(names, lambda value, name: f"{value}={name}", key_selector=lambda key, value: value)
joined.to("joined")
builder.stream("joined").group_by_key().count(materialized=Materialized(name="counts")).to_stream().to(
    "out", Produced(value_serde="long")
)
"""
PREFIXED = {
    "processing.guarantee": "exactly_once_v2",  # so that a result that can be read says that its record was committed
    "consumer.session.timeout.ms": 6000,
    "topic.retention.ms": 60_000,
    "http.listen": "127.0.0.1:0",
    "num.standby.replicas": 1,
    "security.protocol": "PLAINTEXT",
}


def test_topics_that_are_written_and_read_are_written_by_the_versions_alone(cli: ClusterCommands) -> None:
    """What the application writes there while records are gathered would be counted a second time. Global stores are
    filled, and settings that are of workers on a cluster are left out."""
    cli.kafka.create_topics("in", "names", "joined", "out", partitions=2)
    names = cli.kafka.create_input_topic("names", "string", "string")
    names.pipe_key_values([("a", "Ann"), ("b", "Bob")])
    negative = ENRICHED.replace(".to_stream()", ".to_stream().map_values(lambda count: -count)")
    texts = {"shop": ENRICHED, "new": negative}
    app, new = (cli.app(text, name, after=f"settings.update({PREFIXED!r})") for name, text in texts.items())
    send(cli, "a", "b")
    application = cli.start(app)
    cli.kafka.read_records("out", 2, "string", "long")

    class Processed(Arrivals):
        def wait(self, seconds: float) -> None:  # type: ignore[override]
            send(cli, "a")
            cli.kafka.read_records("out", 1, "string", "long")

    found = cli.run("shadow", new, "--against", app, "--json", clock=Processed(cli))
    application.close()
    assert found.status == 1, found.err
    (topic,) = [one for one in json.loads(found.out)["compared"] if one["name"] == "out"]
    assert topic["differences"] == [{"key": "k", "values": [[3], [-3]]}]
