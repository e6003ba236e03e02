"""Applications with tables, for the simulation's own seeds: joins, foreign keys, groupings, versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from simulation_support.stateful import (
    FAR,
    READ,
    WRITTEN,
    Results,
    add_to,
    check_results,
    drawn,
    ends,
    in_parts,
    of_partition,
    rows,
    scenario,
    text,
    told,
)
from streams import Grouped, Joined, KTable, Materialized, StreamsBuilder
from streams.testing.simulation.scenario import InputRecord, Outcome, Scenario

__all__ = ["TABLE_SCENARIOS", "last_rows", "refers", "rows_joined", "rows_referring"]

S = Serdes.STRING
HISTORY = 10 * FAR

Rows = tuple[list[InputRecord], list[InputRecord]]
"""The records of a left and of a right table."""


def stored(name: str) -> Materialized[Any, Any]:
    return Materialized(name=name, key_serde=S, value_serde=S)


def versioned(name: str, history_ms: int = HISTORY) -> Materialized[Any, Any]:
    supplier = Stores.persistent_versioned_key_value_store(name, history_ms)
    lag = {"min.compaction.lag.ms": str(10**13)}  # the records' times are long ago
    return Materialized(supplier=supplier, key_serde=S, value_serde=S, topic_config=lag)


def last_rows(wanted: dict[str, str], every: set[str]) -> Callable[[Outcome], None]:
    """A check that the output, as a table, ends with these rows.

    :param every: the keys that it may have had.
    """
    expected: Results = {key: [(wanted.get(key), 0)] for key in every}

    def check(outcome: Outcome) -> None:
        found = {text(key): text(value) for key, value in outcome.table("out").items()}
        if outcome.exactly_once:
            assert found == wanted, f"{sorted(found.items() ^ wanted.items())}"
        else:
            check_results(outcome, expected, "last")

    return check


def tables_joined(chance: Random) -> Scenario:
    """Two tables, in a join of each kind, whose result has a store or has none."""
    kind = chance.choice(("join", "left_join", "outer_join"))
    result = chance.choice((None, stored("result")))

    def build(builder: StreamsBuilder) -> None:
        left, right = (builder.table(topic, READ, materialized=stored(topic)) for topic in "ab")
        joined = getattr(left, kind)(right, told, materialized=result)
        joined.to_stream().to("out", WRITTEN)

    inputs = {topic: drawn(chance, topic, 50, number=n, deletes=0.2) for n, topic in enumerate("ab")}
    if chance.random() < 0.5:
        return scenario(chance, build, inputs, cached="last")
    wanted = rows_joined(kind, inputs)
    check = last_rows(wanted, {str(one.key) for records in inputs.values() for one in records})
    return scenario(chance, build, inputs, check=check, feeding="bit by bit")


def joins_grouped(chance: Random) -> Scenario:
    """Rows of a join of two tables, in groups of equal ones, from which each is taken out when either side changes."""
    kind = chance.choice(("join", "left_join", "outer_join"))
    result = chance.choice((None, stored("result")))

    def build(builder: StreamsBuilder) -> None:
        left, right = (builder.table(topic, READ, materialized=stored(topic)) for topic in "ab")
        joined = getattr(left, kind)(right, told, materialized=result)
        groups = joined.group_by(lambda key, value: (value, key), Grouped(name="g", key_serde=S, value_serde=S))
        groups.aggregate(str, add_to, take, materialized=stored("groups")).to_stream().to("out", WRITTEN)

    inputs = {
        topic: [
            one if one.value is None else one._replace(value=f"{topic}{chance.randrange(3)}")
            for one in drawn(chance, topic, 50, number=n, deletes=0.3)
        ]
        for n, topic in enumerate("ab")
    }
    wanted: dict[str, str] = defaultdict(str)
    for key, value in rows_joined(kind, inputs).items():
        wanted[value] = add_to("", key, wanted[value])
    return scenario(chance, build, inputs, check=check_of_groups(wanted), feeding="bit by bit")


def rows_joined(kind: str, inputs: dict[str, list[InputRecord]]) -> dict[str, str]:
    left, right = rows(inputs["a"]), rows(inputs["b"])
    keys = {"join": left.keys() & right.keys(), "left_join": left.keys(), "outer_join": left.keys() | right.keys()}
    return {key: told(left.get(key), right.get(key)) for key in sorted(keys[kind])}


def refers(value: str) -> str | None:
    return None if value.startswith("-") else value.partition(".")[0]


def foreign_keys(chance: Random) -> Scenario:
    """Rows of one table refer to rows of another one, which has partitions of its own."""
    names = ("k0", "k1", "k2", "k3", "-")

    def inputs() -> Rows:
        left_rows = [
            one if one.value is None else one._replace(value=f"{chance.choice(names)}.{chance.randrange(4)}")
            for one in drawn(chance, "a", 50, deletes=0.15)
        ]
        return left_rows, drawn(chance, "b", 40, number=1, deletes=0.2)

    return referring(chance, inputs)


def many_references(chance: Random) -> Scenario:
    """Many rows refer to the same few, so that workers are killed between the answers to one change."""

    def inputs() -> Rows:
        left_rows = [
            InputRecord(key := f"k{n % 20}", f"k{chance.randrange(2)}.{n}", n, of_partition(key))
            for n in range(chance.choice((20, 25)))
        ]
        right_rows = drawn(chance, "b", 25, number=1, deletes=0.2)
        names = [2] * (len(right_rows) - 12) + [chance.randrange(2) for _ in range(12)]  # when most have subscribed
        return left_rows, [one._replace(key=f"k{name}") for name, one in zip(names, right_rows, strict=True)]

    return referring(chance, inputs)


def referring(chance: Random, inputs_of: Callable[[], Rows]) -> Scenario:
    """A foreign-key join, checked by its last rows."""
    outer = chance.random() < 0.5
    result = chance.choice((None, stored("result")))

    def build(builder: StreamsBuilder) -> None:
        left: KTable[str, str] = builder.table("a", READ, materialized=stored("a"))
        right: KTable[str, str] = builder.table("b", READ, materialized=stored("b"))
        join = left.foreign_key_left_join if outer else left.foreign_key_join
        join(right, refers, told, materialized=result).to_stream().to("out", WRITTEN)

    left_rows, right_rows = inputs_of()
    wanted = rows_referring(rows(left_rows), rows(right_rows), outer=outer)
    inputs = {"a": left_rows, "b": [one._replace(partition=-1) for one in right_rows]}
    check = last_rows(wanted, {str(one.key) for one in left_rows})
    return scenario(chance, build, inputs, check=check, feeding="bit by bit")


def rows_referring(left: dict[str, str], right: dict[str, str], *, outer: bool) -> dict[str, str]:
    return {
        key: told(value, right.get(refers(value) or ""))
        for key, value in left.items()
        if outer or (refers(value) or "") in right
    }


def letter(key: str, value: str) -> tuple[str, str]:
    return value[-1], key


def take(key: str, value: str, so_far: str) -> str | None:
    """A subtractor for sets of words; a set without any is deleted."""
    return " ".join(sorted({*so_far.split()} - {value})) or None


def grouped(
    chance: Random, source: Materialized[Any, Any], table_of: Callable[[list[InputRecord]], dict[str, str]]
) -> Scenario:
    """Which keys have rows that end with a digit."""

    def build(builder: StreamsBuilder) -> None:
        table: Any = builder.table("in", READ, materialized=source)
        groups = table.group_by(letter, Grouped(name="letters", key_serde=S, value_serde=S))
        groups.aggregate(str, add_to, take, materialized=stored("groups")).to_stream().to("out", WRITTEN)

    records = drawn(chance, "v", deletes=0.2, late_ms=20_000)
    wanted: dict[str, str] = defaultdict(str)
    for key, value in table_of(records).items():
        wanted[value[-1]] = add_to("", key, wanted[value[-1]])
    return scenario(chance, build, {"in": records}, check=check_of_groups(wanted))


def check_of_groups(wanted: dict[str, str]) -> Callable[[Outcome], None]:
    """A check of the keys in each group. Under at-least-once a worker that was replaced may still put some into one."""

    def check(outcome: Outcome) -> None:
        if outcome.exactly_once:
            found = {text(key): text(value) for key, value in outcome.table("out").items()}
            assert found == wanted, f"{sorted(found.items() ^ wanted.items())}"
        missing = wanted.keys() - {text(record.key) for record in outcome.records("out")}
        assert not missing, f"nothing came out for {sorted(missing)}"

    return check


def grouped_table(chance: Random) -> Scenario:
    return grouped(chance, stored("rows"), rows)


def grouped_versions(chance: Random) -> Scenario:
    """Over a versioned table: late updates do not count."""

    def latest(records: list[InputRecord]) -> dict[str, str]:
        return rows(sorted(records, key=lambda one: one.timestamp))  # of one time, the last to come

    return grouped(chance, versioned("rows"), latest)


def table_joins(chance: Random) -> Scenario:
    """A stream and a table: each record meets the row of the moment, in the order of time of both."""
    kind = chance.choice(("join", "left_join"))

    def build(builder: StreamsBuilder) -> None:
        stream: Any = builder.stream("a", READ)
        table: Any = builder.table("b", READ, materialized=stored("b"))
        getattr(stream, kind)(table.map_values(str.upper), told, joined="j").to("out", WRITTEN)

    return scenario(chance, build, streamed(chance))


def streamed(chance: Random) -> dict[str, list[InputRecord]]:
    return {"a": drawn(chance, "a", 60, late_ms=15_000), "b": drawn(chance, "b", 50, number=1, deletes=0.2)}


def versions_joined(chance: Random) -> Scenario:
    """A stream and a versioned table, with operators in between: each record meets the version of its time, and with
    grace it waits for late ones."""
    kind = chance.choice(("join", "left_join"))
    grace = chance.choice((None, 0, 6000))
    history = chance.choice((20_000, HISTORY))

    def build(builder: StreamsBuilder) -> None:
        stream: Any = builder.stream("a", READ)
        table: Any = builder.table("b", READ, materialized=versioned("b", history))
        if grace is None:
            table = table.filter(lambda key, value: not value.endswith("7")).map_values(str.upper)
        how: Joined[str, str, str] = Joined(key_serde=S, value_serde=S, name="j", grace=grace)
        getattr(stream, kind)(table, told, joined=how).to("out", WRITTEN)

    inputs = streamed(chance)
    inputs["a"] += ends("a")
    return scenario(chance, build, inputs, restores=history == HISTORY)


def global_joined(chance: Random) -> Scenario:
    """A stream and a global table, which is full before the first record is processed."""
    kind = chance.choice(("join", "left_join"))
    names = drawn(chance, "b", 40, number=1, deletes=0.2)
    stream = drawn(chance, "a", 60)
    table = rows(names)

    def build(builder: StreamsBuilder) -> None:
        known: Any = builder.global_table("b", READ, materialized=stored("b"))
        stream_of: Any = builder.stream("a", READ)
        joined = getattr(stream_of, kind)(known, told, key_selector=lambda key, value: f"k{value[-1]}")
        joined.to("out", WRITTEN)

    wanted: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for one in stream:
        row = table.get(f"k{str(one.value)[-1]}")
        if row is not None or kind == "left_join":
            wanted[str(one.key)].append((told(str(one.value), row), one.timestamp))
    return scenario(
        chance,
        build,
        {"a": stream, "b": names},
        check=lambda outcome: check_results(outcome, wanted, "each"),
        unread=frozenset({"b"}),
    )


TABLE_SCENARIOS: dict[str, Callable[[Random], Scenario]] = {
    "tables-joined": tables_joined,
    "joins-grouped": joins_grouped,
    "foreign-keys": foreign_keys,
    "grouped-table": grouped_table,
    "grouped-versions": grouped_versions,
    "stream-table": table_joins,
    "versions-joined": versions_joined,
    "versions-joined-in-parts": in_parts(versions_joined),
    "foreign-keys-in-parts": in_parts(many_references),
    "global-joined": global_joined,
}
