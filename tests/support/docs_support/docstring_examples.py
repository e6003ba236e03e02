"""Runs the examples of docstrings: the blocks behind `::`.

A block that imports what it needs is a script of its own. The others are short, and begin where a topology is being
written: they have all public names, `timedelta`, `datetime`, a `builder`, and the streams and tables of `STREAMS`,
`TABLES` and `GLOBALS`, each of a topic of its own name. Keys and values are JSON. What else they have is in
`FOR_TESTS` and `FOR_APPLICATIONS`.

A comment with an arrow says which records go in and which come out, and is checked::

    hot = readings.filter(lambda sensor, degrees: degrees > 30)
    # ("roof", 40), ("cellar", 12) -> ("roof", 40)

A record is `(key, value)`, with `@ time` in ms where time matters; `orders("ann", "tea")` is one of the topic `orders`,
or, behind the arrow, one of the stream of that name. Without a name it goes into the only topic that is read, and comes
out of what the last line makes. A windowed key is `("ann", (0, 60_000))`. `print("...")` is a printed line.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import streams
import streams.testing
from processor_api.topology.nodes import SourceNode
from streams import KStream, KTable, Processor, StreamsBuilder, Topology, TopologyTestDriver
from streams.testing import EmbeddedKafka

EXAMPLE = re.compile(r"(?:^|.*[^:])::\n\n((?:    .*\n|\n)+)", re.MULTILINE)
JSON = {"default.key.serde": "json", "default.value.serde": "json"}
TEXT = {"default.key.serde": "string", "default.value.serde": "string"}

STREAMS = {
    "lines": "a person's name and what it says",
    "orders": "a customer and an item",
    "returns": "a customer and an item",
    "payments": "a customer and an amount in cents",
    "refunds": "a customer and an amount in cents",
    "clicks": "a user and a page",
    "readings": "a sensor and degrees",
}
TABLES = {
    "customers": "a customer and a city",
    "balances": "a customer and an amount in cents",
    "stock": "an item and how many there are",
    "baskets": "a number, and an object with `of`, a customer, and `item`",
}
GLOBALS = {"catalogue": "an item and its price in cents"}


class Shout(Processor[Any, Any, Any, Any]):
    """Forwards texts in capitals."""

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(record.value.upper()))


@dataclass(frozen=True)
class Shown:
    """A record of a comment, or of a run. Where a comment gives no name, or no time, any will do."""

    name: str | None
    record: Any
    time: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shown):
            return NotImplemented
        times = self.time is None or other.time is None or self.time == other.time
        return (self.name, self.record) == (other.name, other.record) and times


def examples(text: str) -> list[str]:
    """Returns the examples of a docstring."""
    return [textwrap.dedent(found).strip() + "\n" for found in EXAMPLE.findall(text + "\n")]


def run(example: str, name: str) -> None:
    """Runs an example, and builds and runs its topology; checks the records that it shows.

    :raises AssertionError: if it shows others than come out.
    """
    if re.search(r"^(from|import) ", example, re.MULTILINE):
        exec(compile(example, name, "exec", dont_inherit=True), {"__name__": "example"})
        return
    tree = ast.parse(example)
    with contextlib.ExitStack() as opened:
        opened.enter_context(contextlib.chdir(opened.enter_context(tempfile.TemporaryDirectory())))
        space = prelude(example, used(tree), opened)
        printed = io.StringIO()
        given = (space["builder"], space.get("topology"))
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, name, "exec", dont_inherit=True), space)
            shown = records_shown(example)
            made = space.get("topology")
            if made is not None and made is not given[1]:
                Driven(made, TEXT, space).check(shown, printed)
            elif shown is not None or has_sources(space["builder"]):
                Driven(space["builder"], JSON, space, last_value(tree, space)).check(shown, printed)


def used(tree: ast.Module) -> set[str]:
    """Returns the names that an example takes and does not make itself."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - (made - {"topology"})


def prelude(example: str, names: set[str], opened: contextlib.ExitStack) -> dict[str, Any]:
    """Returns what an example that takes these names begins with."""
    space: dict[str, Any] = {name: getattr(streams, name) for name in streams.__all__}
    space |= {name: getattr(streams.testing, name) for name in streams.testing.__all__}
    builder = StreamsBuilder()
    space |= {"__name__": "example", "builder": builder, "Shout": Shout}
    space |= {"UTC": UTC, "datetime": datetime, "re": re, "timedelta": timedelta}
    space |= {name: builder.stream(name) for name in STREAMS if name in names}
    space |= {name: builder.table(name) for name in TABLES if name in names}
    space |= {name: builder.global_table(name) for name in GLOBALS if name in names}
    if "topology" in names:
        space["topology"] = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
    if names & FOR_TESTS:
        space |= driver_parts(opened)
    if names & FOR_APPLICATIONS:
        space |= application_parts(opened, example)
    return space


def has_sources(builder: StreamsBuilder) -> bool:
    return any(isinstance(node, SourceNode) for node in builder.build(JSON).nodes.values())


def last_value(tree: ast.Module, space: dict[str, Any]) -> Any:
    """Returns the stream or table that the last statement makes, or `None`."""
    last = tree.body[-1]
    targets = last.targets if isinstance(last, ast.Assign) else ()
    return next((space[target.id] for target in targets if isinstance(target, ast.Name)), None)


# ---------------------------------------------------------------------- records

FOR_TESTS = {"driver", "inputs", "outputs"}
"""A driver of a topology that writes lines in capitals to `loud` and counts them by name, its input and its output."""
FOR_APPLICATIONS = {"app", "kafka"}
"""An application that does the same, on a broker in memory, and this broker."""
STARTS = re.compile(r"with app\b|app\.(start|set_\w+|clean_up)\(")
"""Calls before the start; in other examples the application is running, and has counted a line of `ann`."""


def records_shown(example: str) -> tuple[list[Shown], list[Shown]] | None:
    """Returns the records on both sides of an arrow, or `None` if there is no arrow."""
    joined = example.replace("\n#   ", " ")
    found = re.search(r"^# (.*->.*)", joined, re.MULTILINE)
    arrows = len(re.findall(r"#.*->", joined))
    assert arrows == (found is not None), "one comment has an arrow, on a line of its own: else it is not checked"
    if found is None:
        return None
    before, _, after = found.group(1).partition("->")
    return list(parsed(before)), list(parsed(after))


def parsed(side: str) -> Iterator[Shown]:
    """Reads records that are separated by commas."""
    body = ast.parse(f"[{side.strip()}]", mode="eval").body
    assert isinstance(body, ast.List)
    for each in body.elts:
        time = None
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.MatMult):
            time, each = ast.literal_eval(each.right), each.left
        if isinstance(each, ast.Call):
            assert isinstance(each.func, ast.Name)
            values = tuple(ast.literal_eval(one) for one in each.args)
            yield Shown(each.func.id, values if len(values) > 1 else values[0], time)
        else:
            yield Shown(None, ast.literal_eval(each), time)


class Driven:
    """A topology with what it reads and what it makes, to be run with the records of a comment."""

    def __init__(self, topology: Any, settings: dict[str, Any], space: dict[str, Any], last: Any = None) -> None:
        self.topology = topology
        self.settings = settings
        self.space = space
        self.last = last
        self.made: list[Shown] = []

    def check(self, shown: tuple[list[Shown], list[Shown]] | None, printed: io.StringIO) -> None:
        """Runs it.

        :raises AssertionError: if other records come out than the comment says.
        """
        before, after = shown or ([], [])
        names = {one.name for one in after}
        for name in names - {None}:
            self.collect(self.space.get(str(name)), name)
        if None in names or not names:
            self.collect(self.last, None)
        with TopologyTestDriver(self.topology, self.settings) as driver:
            for one in before:
                driver.create_input_topic(one.name or self.only_source()).pipe_input(*one.record, one.time or 0)
            for topic in sorted(driver.produced_topic_names() & names):
                self.made += [
                    Shown(topic, (record.key, record.value), record.timestamp)
                    for record in driver.create_output_topic(topic).read_records()
                ]
        if "print" in names:
            self.made += [Shown("print", line) for line in printed.getvalue().splitlines()]
        if shown is not None:  # each stream is in its order
            assert sorted(self.made, key=lambda one: str(one.name)) == sorted(after, key=lambda one: str(one.name))

    def collect(self, stream: Any, name: str | None) -> None:
        """Collects what a stream or table has, with keys and values as they are."""
        made = self.made

        class Collector(Processor[Any, Any, Any, Any]):
            def process(self, record: Any) -> None:
                made.append(Shown(name, (record.key, record.value), record.timestamp))

        if isinstance(stream, KTable):
            stream = stream.to_stream()
        if isinstance(stream, KStream):
            stream.process(Collector)

    def only_source(self) -> str:
        """Returns the one topic of the user's that is read."""
        topology = self.topology if isinstance(self.topology, Topology) else self.topology.build(self.settings)
        sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
        topics = {topic for node in sources for topic in node.topics if topic not in topology.repartition_topics}
        assert len(topics) == 1, f"say which topic a record is for: {sorted(topics)}"
        return topics.pop()


# ---------------------------------------------------------------------- drivers and applications


def counting() -> StreamsBuilder:
    """Writes lines in capitals, and counts them by name."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    lines = builder.stream("lines")
    lines.map_values(str.upper).to("loud")
    lines.group_by_key().count(materialized="counts")
    return builder


def driver_parts(opened: contextlib.ExitStack) -> dict[str, Any]:
    """Returns a driver with its input and its output."""
    driver = opened.enter_context(TopologyTestDriver(counting()))
    return {
        "driver": driver,
        "inputs": driver.create_input_topic("lines"),
        "outputs": driver.create_output_topic("loud"),
    }


def application_parts(opened: contextlib.ExitStack, example: str) -> dict[str, Any]:
    """Returns an application that has counted a line of `ann`, or one that the example starts itself."""
    kafka = opened.enter_context(EmbeddedKafka())
    kafka.create_topics("lines", "loud")
    kafka.create_input_topic("lines").pipe_input("ann", "hello")
    settings = {"application.id": "shout", "bootstrap.servers": "localhost:9092", "commit.interval.ms": 20}
    if STARTS.search(example):
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        app = streams.KafkaStreams(counting(), {**settings, "state.dir": folder}, clients=kafka.clients)
        opened.callback(app.close)
    else:
        app = kafka.start(counting(), settings)
        kafka.read_records("shout-counts-changelog", 1, key_serde="bytes", value_serde="bytes")
    return {"app": app, "kafka": kafka}
