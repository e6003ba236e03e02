"""Applications with joins of streams, for the simulation's own seeds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from simulation_support.stateful import (
    FAR,
    READ,
    WRITTEN,
    Sure,
    drawn,
    each_once,
    ends,
    in_parts,
    scenario,
    text,
    told,
)
from streams import JoinWindows, StreamJoined, StreamsBuilder
from streams.testing.simulation.scenario import InputRecord, Outcome, Scenario

__all__ = ["JOIN_SCENARIOS", "check_of_pairs"]

EMIT = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"
WIDE, NEAR = 1_000_000, 2_000
KEYS = 8


def no_end(key: str, value: str) -> bool:
    return "end" not in value


def outer_joined(chance: Random) -> Scenario:
    """Two joins of two streams, whose records come in no order between the topics: in a window so wide that every pair
    of a key matches, and in a narrow one, from which no record may be missing."""
    inputs: dict[str, list[InputRecord]] = {"a": [], "b": []}
    for number in range(120):
        topic = chance.choice("ab")
        inputs[topic].append(InputRecord(f"k{chance.randrange(KEYS)}", f"{topic}{number}", 300 * number))
    for topic, records in inputs.items():  # brings out what waits, whichever topic is read first
        for turn in range(2):
            records += [InputRecord(f"k{key}", f"{topic}-end{turn}-{key}", FAR + turn * FAR) for key in range(KEYS)]

    def topology() -> Any:
        builder = StreamsBuilder()
        left, right = builder.stream("a", READ), builder.stream("b", READ)
        wide = JoinWindows.of_time_difference_with_no_grace(WIDE)
        near = JoinWindows.of_time_difference_with_no_grace(NEAR)
        named: StreamJoined[str, str, str] = StreamJoined(name="wide", store_name="wide")
        left.filter(no_end).join(right.filter(no_end), told, windows=wide, joined=named).to("pairs", WRITTEN)
        left.outer_join(right, told, windows=near, joined="near").to("out", WRITTEN)
        return builder.build()

    def check(outcome: Outcome) -> None:
        by_key: dict[tuple[str, Any], list[InputRecord]] = defaultdict(list)
        for topic, records in inputs.items():
            for one in records:
                by_key[topic, one.key].append(one)
        matching = [
            (told(str(one.value), str(other.value)), abs(one.timestamp - other.timestamp))
            for (topic, key), ones in by_key.items()
            if topic == "a"
            for one in ones
            for other in by_key["b", key]
        ]
        found = Counter(text(record.value) for record in outcome.records("pairs"))
        kept = Counter(pair for pair, apart in matching if "end" not in pair)
        assert (found == kept) if outcome.exactly_once else not kept - found, f"{kept - found}, {found - kept}"
        results = Counter(text(record.value) for record in outcome.records("out"))
        assert not outcome.exactly_once or set(results.values()) <= {1}, results
        allowed = {pair for pair, apart in matching if apart <= NEAR}
        assert {pair for pair in results if "None" not in pair} <= allowed
        seen = {value for result in results for value in result.split("|")}
        missing = {one.value for records in inputs.values() for one in records if one.timestamp < FAR} - seen
        assert not missing, missing

    return Scenario(
        topology=topology,
        inputs=inputs,
        checks=[check],
        topics={"a": 2, "b": 2, "pairs": 2, "out": 2},
        settings={EMIT: 0, "windowstore.changelog.additional.retention.ms": 10**13},  # their times are long ago
    )


def table_joined(chance: Random) -> Scenario:
    """A stream and a table: each record of the stream comes out once, with a row that its key has had before or has, or
    with none."""
    rows = [InputRecord(f"k{chance.randrange(KEYS)}", f"row{n}", 100 * n) for n in range(40)]
    stream = [InputRecord(f"k{chance.randrange(KEYS)}", f"v{n}", 100 * n) for n in range(80)]

    def topology() -> Any:
        builder = StreamsBuilder()
        changed = builder.stream("a", READ).select_key(lambda key, value: key)
        changed.left_join(builder.table("b", READ), told, joined="j").to("out", WRITTEN)
        return builder.build()

    def check(outcome: Outcome) -> None:
        had: dict[str, set[str]] = defaultdict(lambda: {"None"})
        for one in rows:
            had[str(one.key)].add(str(one.value))
        found: Counter[str] = Counter()
        for record in outcome.records("out"):
            value, row = text(record.value).split("|")
            found[value] += 1
            assert row in had[text(record.key)], record
        wanted = Counter(str(one.value) for one in stream)
        assert (found == wanted) if outcome.exactly_once else not wanted - found, f"{wanted - found}, {found - wanted}"

    return Scenario(
        topology=topology,
        inputs={"a": stream, "b": rows},
        checks=[check],
        topics={"a": 3, "b": 2, "out": 2},
    )


def streams_joined(chance: Random) -> Scenario:
    """Two streams in the order of time of both, in a join of each kind: each pair of the window, and each record that
    is alone once, also among those that are late."""
    kind = chance.choice(("join", "left_join", "outer_join"))
    grace = chance.choice((0, 5000, 100_000))
    windows = JoinWindows.of_time_difference_and_grace(4000, grace).before(chance.choice((0, 2000, 4000)))

    def build(builder: StreamsBuilder) -> None:
        left: Any = builder.stream("a", READ)
        getattr(left, kind)(builder.stream("b", READ), told, windows=windows, joined="j").to("out", WRITTEN)

    inputs = {
        topic: [*drawn(chance, topic, 50, number=n, late_ms=20_000), *ends(topic, number=n)]
        for n, topic in enumerate("ab")
    }
    sure: Sure = "each" if kind == "join" else "pairs"
    return scenario(chance, build, inputs, sure=sure, cached=sure, restores=False)


def all_in_time(chance: Random) -> Scenario:
    """Two streams in any order, in windows that are kept for long: each pair of the window, however late one of it
    is. A record that is late by more than the window comes alone too, at once."""
    kind = chance.choice(("join", "left_join", "outer_join"))
    near = chance.choice((2000, 6000))
    windows = JoinWindows.of_time_difference_and_grace(near, 10 * FAR)
    inputs = {topic: drawn(chance, topic, 50, number=n) for n, topic in enumerate("ab")}

    def build(builder: StreamsBuilder) -> None:
        left: Any = builder.stream("a", READ)
        getattr(left, kind)(builder.stream("b", READ), told, windows=windows, joined="j").to("out", WRITTEN)

    return scenario(chance, build, inputs, check=check_of_pairs(inputs, near), feeding="bit by bit")


def check_of_pairs(inputs: dict[str, list[InputRecord]], near: int) -> Callable[[Outcome], None]:
    """A check that each pair of a window comes out once, and no record alone more often than it came in."""

    def check(outcome: Outcome) -> None:
        found = Counter(text(record.value) for record in outcome.records("out"))
        wanted = Counter(
            told(str(one.value), str(other.value))
            for one in inputs["a"]
            for other in inputs["b"]
            if one.key == other.key and abs(one.timestamp - other.timestamp) <= near
        )
        alone = Counter({pair: times for pair, times in found.items() if "None" in pair})
        each_once(outcome, found - alone, wanted)
        came = Counter(told(str(one.value), None) for one in inputs["a"])
        came += Counter(told(None, str(one.value)) for one in inputs["b"])
        assert not outcome.exactly_once or alone <= came, f"alone too often: {alone - came}"

    return check


def self_joined(chance: Random) -> Scenario:
    """A stream joined with itself, in one store or in two."""
    grace = chance.choice((0, 5000, 100_000))
    windows = JoinWindows.of_time_difference_and_grace(4000, grace).before(chance.choice((0, 4000)))
    kind = chance.choice(("join", "left_join", "outer_join"))

    def build(builder: StreamsBuilder) -> None:
        stream: Any = builder.stream("in", READ)
        getattr(stream, kind)(stream, told, windows=windows, joined="j").to("out", WRITTEN)

    inputs = {"in": [*drawn(chance, "v", 60, late_ms=20_000), *ends("v")]}
    optimization = {"topology.optimization": chance.choice(("none", "all"))}
    sure: Sure = "each" if kind == "join" else "pairs"
    return scenario(chance, build, inputs, sure=sure, cached=sure, restores=False, settings=optimization)


JOIN_SCENARIOS: dict[str, Callable[[Random], Scenario]] = {
    "outer-joined": outer_joined,
    "table-joined": table_joined,
    "streams-joined": streams_joined,
    "all-in-time": all_in_time,
    "self-joined": self_joined,
    "outer-joined-in-parts": in_parts(outer_joined),
    "streams-joined-in-parts": in_parts(streams_joined),
}
