"""Names that other users of a cluster choose, and what records hold, move no terminal, in no command."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_cli import ClusterCommands, Printed, commands
from processor_api.clock import SystemClock
from streams import Processor, Serdes, Stores, Topology, ValueTimestampHeaders
from streams.cli.main import main
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

EVIL = "\x1b]0;owned\x07\x1b[2J\r\nforged line\x9b31m\u202e"
SERVERS = ("--bootstrap-servers", "localhost:9092")
APP = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").group_by_key().count(materialized="counts").to_stream().map_values(str).to("out")
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


def harmless(printed: Printed) -> Printed:
    """The output of a command, once it is known that no terminal would obey it."""
    for text in (printed.out, printed.err):
        assert [char for char in text if not char.isprintable() and char != "\n"] == []
        assert [line for line in text.splitlines() if line.startswith("forged")] == []
    return printed


class Listening:
    """Notes that the group has given something to the consumer."""

    assigned = False

    def on_assigned(self, partitions: object) -> None:
        self.assigned = True

    def on_revoked(self, partitions: object) -> None: ...

    def on_lost(self, partitions: object) -> None: ...


@contextlib.contextmanager
def member(cli: ClusterCommands, group: str) -> Iterator[None]:
    """A consumer in a group, which anyone who may use the cluster may be."""
    settings = {"group.id": group, "client.id": f"me{EVIL}", "auto.offset.reset": "earliest"}
    consumer = EmbeddedClients(cli.kafka.broker).consumer(settings)
    listening = Listening()
    consumer.subscribe(["in"], listening)

    def assigned() -> bool:
        consumer.poll(0.05)
        return listening.assigned

    wait_until("it is a member", assigned)
    yield
    consumer.close()


def test_groups_and_their_members(cli: ClusterCommands) -> None:
    app = cli.app(APP)
    cli.kafka.create_topics("in", "out")
    with member(cli, f"shop{EVIL}"), member(cli, "shop"):
        assert r"shop\x1b]0;owned" in harmless(cli.run("groups", *SERVERS)).out
        assert r"me\x1b]0;owned" in harmless(cli.run("groups", app)).out
        listed = json.loads(harmless(cli.run("groups", "--json", *SERVERS)).out)
        assert f"shop{EVIL}" in [one["name"] for one in listed["groups"]]
        shown = json.loads(harmless(cli.run("groups", app, "--json")).out)
        assert [one["client_id"] for one in shown["members"]] == [f"me{EVIL}"]


@pytest.mark.parametrize("words", [(), ("--format", "json"), ("--format", "text")])
def test_records(cli: ClusterCommands, words: tuple[str, ...]) -> None:
    app = cli.app(APP)
    cli.kafka.create_topics("in", "out")
    cli.kafka.produce("in", EVIL.encode(), EVIL.encode(), 1000, [(EVIL, EVIL.encode())])
    cli.kafka.produce("in", b"\xff", EVIL.encode(), 1000)
    assert "forged" in harmless(cli.run("consume", app, "in", *words)).out
    assert harmless(cli.run("try", app, stdin=json.dumps({"key": EVIL, "value": EVIL, "headers": {EVIL: EVIL}}))).out


class Keep(Processor[str, str, str, str]):
    def process(self, record: object) -> None:
        row = ValueTimestampHeaders(record.value, record.timestamp, list(record.raw_headers or []))  # type: ignore[attr-defined]
        self.context.get_state_store("kept").put(record.key, row)  # type: ignore[attr-defined]


def test_rows_of_stores(cli: ClusterCommands, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Header names were shown raw."""
    text = Serdes.STRING
    kept = Stores.timestamped_key_value_store_with_headers_builder(
        Stores.persistent_key_value_store("kept"), text, text
    )
    topology = Topology().add_source("s", "in", key_serde=text, value_serde=text).add_processor("p", Keep, "s")
    cli.kafka.create_topics("in")
    settings = {"application.id": "keep", "state.dir": str(tmp_path / "rows"), "commit.interval.ms": 50}
    app = cli.kafka.start(topology.add_state_store(kept, "p"), settings)
    cli.kafka.produce("in", EVIL.encode(), EVIL.encode(), 1000, [(EVIL, b"x")])

    def dumped(*words: str) -> Printed:
        serdes = ("--key-serde", "string", "--value-serde", "string")
        status = main(["state", "dump", "kept", "--state-dir", str(tmp_path / "rows"), *serdes, *words])
        return Printed(status, *capsys.readouterr())

    wait_until("it is committed", lambda: "owned" in dumped().out)
    app.close(30)
    for words in ((), ("--format", "json")):
        assert harmless(dumped(*words)).out.count("forged") == 3


def test_dead_letters_whose_headers_anyone_may_write(cli: ClusterCommands) -> None:
    app = cli.app(APP)
    cli.kafka.create_topics("in", "out", "dead")
    names = ("exception", "message", "stacktrace", "topic", "node")
    headers = [(f"__streams.errors.{name}", f"{name}{EVIL}".encode()) for name in names]
    headers += [("__streams.errors.partition", b"0"), (f"own{EVIL}", EVIL.encode())]
    cli.kafka.produce("dead", EVIL.encode(), EVIL.encode(), SystemClock().time_ms(), headers)
    queue = ("--queue", "dead")
    assert r"exception\x1b]0;owned" in harmless(cli.run("dlq", "list", app, *queue)).out
    assert r"stacktrace\x1b]0;owned" in harmless(cli.run("dlq", "show", app, "0:0", *queue)).out
    shown = json.loads(harmless(cli.run("dlq", "show", app, "0:0", "--json", *queue)).out)
    assert shown["node"] == f"node{EVIL}"
    assert (
        json.loads(harmless(cli.run("dlq", "list", app, "--json", *queue)).out)["causes"][0]["topic"] == f"topic{EVIL}"
    )
    found = harmless(cli.run("dlq", "replay", app, *queue))
    assert (found.status, found.lines[0]) == (1, "0 dead letters sent")
