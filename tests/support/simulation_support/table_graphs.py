"""Graphs of tables that are drawn at random, and their last rows computed anew from those of their sources.

A graph has tables, counts of streams in windows, and up to eight operators of tables. Whatever caches hold back, when
commits are, and what crashes or deployments come between, each of its tables ends with the rows that follow from the
last rows of its sources (:func:`rows_of`). Every table is written to a topic of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from simulation_support.stateful import EMITS
from streams import (
    Consumed,
    Grouped,
    KTable,
    Materialized,
    Produced,
    SessionWindows,
    StreamsBuilder,
    TableJoined,
    TimeWindows,
)
from streams.testing.simulation.scenario import InputRecord, Outcome, Scenario

__all__ = [
    "GRAPH_SCENARIOS",
    "SHARED_SCENARIOS",
    "Change",
    "Graph",
    "Node",
    "built",
    "draw_graph",
    "inputs_of",
    "rows_of",
]

S, LONG = Serdes.STRING, Serdes.LONG
KEYS, GROUPS, RECORDS = 6, 4, 100
GRACE, LATE = 10_000, 8_000
TUMBLING = TimeWindows.of_size_and_grace(5000, GRACE)
HOPPING = TimeWindows.of_size_and_grace(6000, GRACE).advance_by(3000)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(3000, GRACE)
STREAMS: Mapping[str, Any] = {"tumbling": TUMBLING, "hopping": HOPPING, "sessions": SESSIONS, "counted": None}
"""Sources that are counts of a stream: the windows, or none."""
PAIRS = ("join", "left_join", "outer_join", "foreign_key_join", "foreign_key_left_join")
SINGLES = ("filter", "values", "count", "sum", "again")
WEIGHTED = ("join", "left_join", "outer_join", *PAIRS, *SINGLES, "filter")
OWN_STORE = ("count", "sum", "again", *STREAMS)
"""They have a store in any case."""

READ: Consumed[str, int] = Consumed(key_serde=S, value_serde=LONG)
WRITTEN: Produced[str, int] = Produced(key_serde=S, value_serde=LONG)
Rows = Mapping[str, int]


@dataclass(frozen=True)
class Node:
    """A table of a graph.

    :param op: how it is made; a source is ``table`` or one of :data:`STREAMS`.
    :param left: the number of the table that it is made of.
    :param right: the other one, of a join.
    :param store: ``""`` for none or one of the compiler's choice, else ``cached``, ``plain`` or ``versioned``.
    """

    op: str
    left: int = 0
    right: int = 0
    store: str = ""

    @property
    def is_source(self) -> bool:
        return self.op == "table" or self.op in STREAMS

    @property
    def needs(self) -> tuple[int, ...]:
        if self.is_source:
            return ()
        return (self.left, self.right) if self.op in PAIRS else (self.left,)


Graph = Sequence[Node]


@dataclass(frozen=True)
class Change:
    """What a deployment changes besides.

    :param order: of the numbers of its tables, each behind those that it is made of.
    :param without: tables that are not there any more.
    :param mark: of the names of operators that have no state.
    :param passes: of tables that an operator is added behind.
    """

    order: tuple[int, ...]
    without: frozenset[int] = frozenset()
    mark: str = ""
    passes: frozenset[int] = frozenset()


def draw_graph(chance: Random, *, shared: bool = False, named: bool = False) -> Graph:
    """Draws a graph.

    :param shared: whether tables that are joined may have a source in common.
    :param named: whether each store has a name, as a deployment needs it.
    """
    kinds = ("cached", "plain", "versioned") if named else ("", "", "cached", "plain", "versioned")
    nodes = [Node("table", store=chance.choice(kinds)) for _ in range(chance.randint(1 if shared else 2, 3))]
    if chance.random() < 0.5:
        nodes.append(Node(chance.choice(sorted(STREAMS)), store=chance.choice(("cached", "plain"))))
    sources = [{number} for number in range(len(nodes))]
    for _ in range(chance.randint(2, 7)):
        op, left, right = chance.choice(WEIGHTED), chance.randrange(len(nodes)), chance.randrange(len(nodes))
        if op in PAIRS and not shared and sources[left] & sources[right]:
            continue
        stores = ("cached", "plain") if named and (op in OWN_STORE or op in PAIRS) else ("", "", "cached", "plain")
        node = Node(op, left, right, chance.choice(stores))
        nodes.append(node)
        sources.append({source for needed in node.needs for source in sources[needed]})
    return nodes


def has_topics(node: Node) -> bool:
    """Whether records of a table go through internal topics."""
    return node.op in ("count", "sum") or node.op.startswith("foreign")


def draw_change(chance: Random, graph: Graph) -> Change:
    """Draws a deployment: operators come in another order, some are new, some are gone, some have new names.

    Those that have topics of their own stay: while these have records that were not read, a worker refuses to run
    without them.
    """
    left, order = set(range(len(graph))), list[int]()
    while left:
        order.append(chance.choice(sorted(n for n in left if left.isdisjoint(graph[n].needs))))
        left.remove(order[-1])
    leaves = [n for n, node in enumerate(graph) if not node.is_source and all(n not in other.needs for other in graph)]
    without = frozenset(n for n in leaves if chance.random() < 0.2 and not has_topics(graph[n]))
    passes = frozenset(n for n in range(len(graph)) if chance.random() < 0.3)
    return Change(tuple(order), without, chance.choice(("", "new-")), passes)


# ---------------------------------------------------------------------------- the application


def of_longs(name: str | None = None, **options: Any) -> Materialized[str, int]:
    return Materialized(name=name, key_serde=S, value_serde=LONG, **options)


def refers(value: int) -> str:
    return f"k{value % KEYS}"


def joined(left: int | None, right: int | None) -> int:
    return (0 if left is None else left * 7) + (0 if right is None else right * 3) + 1


def some(key: str, value: int) -> bool:
    return value % 3 != 0


def less(value: int) -> int:
    return value % 50 + 1


def group(key: str, value: int) -> tuple[str, int]:
    return f"k{value % GROUPS}", value


def at(windowed: Any, value: int) -> str:
    return f"{windowed.key}@{windowed.window.start}-{windowed.window.end}"


def built(graph: Graph, settings: Mapping[str, Any], change: Change | None = None) -> Any:
    """The topology of a graph, before a deployment or after one."""
    builder = StreamsBuilder({"application.id": "graph", **settings})
    change = change or Change(tuple(range(len(graph))))
    tables: dict[int, KTable[str, int]] = {}
    for number in change.order:
        if number in change.without:
            continue
        table = _table(builder, graph, number, tables, change.mark)
        if number in change.passes:
            table.filter(some, name=f"added-{number}").to_stream().to("added", WRITTEN)
        table.to_stream(name=f"{change.mark}to-{number}").to(f"out{number}", WRITTEN)
        tables[number] = table
    return builder.build(settings)


def _table(
    builder: StreamsBuilder, graph: Graph, number: int, tables: Mapping[int, KTable[str, int]], mark: str
) -> KTable[str, int]:
    node = graph[number]
    kept = _store(number, node.store)
    if node.op == "table":
        return builder.table(f"in{number}", READ, materialized=kept or of_longs())
    if node.op in STREAMS:
        return _counted(builder, number, node)
    table, name = tables[node.left], f"{mark}n{number}"
    if node.op == "filter":
        return table.filter(some, name=name, materialized=kept)
    if node.op == "values":
        return table.map_values(less, name=name, materialized=kept)
    if node.op == "again":
        return table.to_stream(name=f"{name}-to").to_table(name=name, materialized=kept or of_longs())
    if node.op in ("count", "sum"):
        groups = table.group_by(group, Grouped(name=f"g{number}", key_serde=S, value_serde=LONG))
        own: Any = kept or of_longs()
        if node.op == "count":
            counts: KTable[str, int] = groups.count(name=name, materialized=own)
        else:
            counts = groups.reduce(lambda a, b: a + b, lambda a, b: a - b, name=name, materialized=own)
        return counts.filter(lambda key, value: value != 0, name=f"{name}-there")
    other, method = tables[node.right], getattr(table, node.op)
    if node.op.startswith("foreign"):
        own = kept or of_longs()
        return method(other, refers, joined, joined=TableJoined(name=f"f{number}"), materialized=own)
    return method(other, joined, name=name, materialized=kept)


def _counted(builder: StreamsBuilder, number: int, node: Node) -> KTable[str, int]:
    windows, store = STREAMS[node.op], f"s{number}"
    counts: Any = Materialized(name=store, key_serde=S, caching=node.store == "cached")
    groups: Any = builder.stream(f"in{number}", READ).group_by_key(Grouped(key_serde=S, value_serde=LONG))
    if windows is None:
        return groups.count(materialized=counts)
    told = groups.windowed_by(windows).count(materialized=counts).to_stream(at)
    return told.to_table(name=f"r{number}", materialized=of_longs(f"{store}-rows"))


def _store(number: int, kind: str) -> Materialized[str, int] | None:
    if kind == "versioned":
        supplier = Stores.persistent_versioned_key_value_store(f"s{number}", 10**12)
        lag = {"min.compaction.lag.ms": str(10**13)}
        return Materialized(supplier=supplier, key_serde=S, value_serde=LONG, topic_config=lag)
    if kind:
        return of_longs(f"s{number}", caching=kind == "cached")
    return None


# ---------------------------------------------------------------------------- what is expected


def inputs_of(graph: Graph, chance: Random) -> dict[str, list[InputRecord]]:
    """Draws the records of the sources: those of tables in order of time, those of streams late now and then."""
    sources = [number for number, node in enumerate(graph) if node.is_source]
    found: dict[str, list[InputRecord]] = {f"in{number}": [] for number in sources}
    for turn in range(RECORDS):
        number, time = chance.choice(sources), 1000 * turn
        if graph[number].op != "table":
            time = max(0, time - (chance.randrange(LATE) if chance.random() < 0.3 else 0))
        deleted = graph[number].op == "table" and chance.random() < 0.3
        value = None if deleted else chance.randrange(1, 60).to_bytes(8, "big")
        found[f"in{number}"].append(InputRecord(f"k{chance.randrange(KEYS)}", value, time + number * 1_000_000))
    return found


def rows_of(graph: Graph, inputs: Mapping[str, Sequence[InputRecord]]) -> list[Rows]:
    """The last rows of each table, from scratch."""
    made: list[Rows] = []
    for number, node in enumerate(graph):
        if node.is_source:
            made.append(_source_rows(node, inputs[f"in{number}"]))
        else:
            made.append(_rows(node, made[node.left], made[node.right]))
    return made


def _source_rows(node: Node, records: Sequence[InputRecord]) -> Rows:
    if node.op == "table":
        last = {str(one.key): one.value for one in records}
        return {key: _long(value) for key, value in last.items() if value is not None}
    times: dict[str, list[int]] = defaultdict(list)
    for one in records:
        times[str(one.key)].append(one.timestamp)
    counts: dict[str, int] = defaultdict(int)
    for key, found in times.items():
        for time in sorted(found):
            for name in _windows(node.op, time, found):
                counts[f"{key}{name}"] += 1
    return counts


def _windows(kind: str, time: int, times: Sequence[int]) -> list[str]:
    """The windows that a record is in, as their keys name them."""
    if kind == "counted":
        return [""]
    if kind == "sessions":
        first = last = time
        while near := [t for t in times if first - 3000 <= t <= last + 3000 and not first <= t <= last]:
            first, last = min(first, *near), max(last, *near)
        return [f"@{first}-{last}"]
    size, step = (5000, 5000) if kind == "tumbling" else (6000, 3000)
    return [f"@{start}-{start + size}" for start in range(0, time + 1, step) if start <= time < start + size]


def _rows(node: Node, left: Rows, right: Rows) -> Rows:
    if node.op == "filter":
        return {key: value for key, value in left.items() if some(key, value)}
    if node.op == "values":
        return {key: less(value) for key, value in left.items()}
    if node.op == "again":
        return left
    if node.op in ("count", "sum"):
        groups: dict[str, int] = defaultdict(int)
        for value in left.values():
            groups[group("", value)[0]] += 1 if node.op == "count" else value
        return groups
    if node.op.startswith("foreign"):
        inner = node.op == "foreign_key_join"
        return {
            key: joined(value, right.get(refers(value)))
            for key, value in left.items()
            if not inner or refers(value) in right
        }
    keys = {"join": left.keys() & right.keys(), "left_join": left.keys(), "outer_join": left.keys() | right.keys()}
    return {key: joined(left.get(key), right.get(key)) for key in keys[node.op]}


def _long(value: bytes | str | None) -> int:
    assert isinstance(value, bytes)
    return int.from_bytes(value, "big", signed=True)


def check_rows(graph: Graph, expected: Sequence[Rows], change: Change) -> Callable[[Outcome], None]:
    """A check of the last rows of all tables, as they were written and as the changelogs of their stores have them."""

    def check(outcome: Outcome) -> None:
        for number, node in enumerate(graph):
            if number in change.without:
                continue
            found = _told(outcome, f"out{number}")
            assert found == expected[number], (
                f"table {number}, {node}, was sent as {_unlike(found, expected[number])}; {list(graph)}, {change}"
            )
            log = f"simulated-s{number}-changelog"
            if node.store in ("cached", "plain") and node.op not in STREAMS and log in outcome.topics:
                logged = {key: value for key, value in _told(outcome, log).items() if value != 0}
                assert logged == expected[number], (
                    f"store of table {number}, {node}, has {_unlike(logged, expected[number])}; {list(graph)}, {change}"
                )

    return check


def _told(outcome: Outcome, topic: str) -> Rows:
    return {key.decode(): _long(value) for key, value in outcome.table(topic).items()}


def _unlike(found: Rows, expected: Rows) -> str:
    keys = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
    return ", ".join(f"{key}: {found.get(key)} in place of {expected.get(key)}" for key in keys)


# ---------------------------------------------------------------------------- scenarios


def drawn_graph(chance: Random, *, shared: bool = False) -> Scenario:
    """A graph on workers, with caches and commits of all sizes, which a deployment may change."""
    deploys, partitions = chance.random() < 0.4, chance.choice((1, 2, 2, 3))
    graph = draw_graph(chance, shared=shared, named=deploys)
    inputs = inputs_of(graph, chance)
    settings: dict[str, Any] = {
        **EMITS,
        "default.key.serde": S,
        "default.value.serde": LONG,
        "application.id": "simulated",
        "bootstrap.servers": "simulated:9092",
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": chance.choice((100, 3000, 19_000, 19_000)),
        "producer.transaction.timeout.ms": 20_000,
        "statestore.cache.max.bytes": chance.choice((0, 800, 1500, 1500, 2500, 4000, 10_000_000)),
        "default.dsl.store": chance.choice(("rocksDB", "rocksDB", "in_memory")),
        "topology.optimization": chance.choice(("none", "all")),
    }
    change = draw_change(chance, graph) if deploys else Change(())
    return Scenario(
        topology=lambda: built(graph, settings),
        inputs=inputs,
        checks=[check_rows(graph, rows_of(graph, inputs), change)],
        # An optimized table has its topic for its changelog: what was committed must not be deleted there.
        topic_configs={f"in{n}": {"cleanup.policy": "compact"} for n, node in enumerate(graph) if node.op == "table"},
        topics={**dict.fromkeys(inputs, partitions), **{f"out{n}": 2 for n in range(len(graph))}, "added": 1},
        settings=settings,
        restores=not any(node.op in STREAMS for node in graph) and not change.without,
        feeding=chance.choice(("bit by bit", "before", "before")),
        deployed=(lambda: built(graph, settings, change)) if deploys else None,
    )


def shared_graph(chance: Random) -> Scenario:
    """A graph in which both tables of a join may come from one source."""
    return drawn_graph(chance, shared=True)


GRAPH_SCENARIOS: dict[str, Callable[[Random], Scenario]] = {"table-graphs": drawn_graph}
SHARED_SCENARIOS: dict[str, Callable[[Random], Scenario]] = {"shared-table-graphs": shared_graph}
"""Only on request: Kafka Streams loses deletions there."""
