"""Every stateful operator of the DSL in a small topology from its inputs to ``out``, with texts as keys and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulation_support.stateful import READ, WRITTEN, S, Sure, add_to, told, union
from simulation_support.table_scenarios import letter, stored, take, versioned
from simulation_support.window_scenarios import aggregated, named
from streams import (
    BufferConfig,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)

__all__ = ["OPERATORS", "Operator"]

KEPT = 100_000
TIME = TimeWindows.of_size_and_grace(10, 7)
HOPS = TIME.advance_by(4)
SLIDING = SlidingWindows.of_time_difference_and_grace(6, 7)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(5, 7)
JOIN = JoinWindows.of_time_difference_and_grace(6, 4)
GROUPED: Grouped[str, str] = Grouped(key_serde=S, value_serde=S)


@dataclass(frozen=True)
class Operator:
    """A topology with one stateful operator.

    :param build: adds it to a builder.
    :param topics: its inputs; no record of one has the time of a record of another.
    :param sure: what of its results is determined by its inputs, if no cache holds any back.
    :param cached: the same with a cache.
    """

    build: Callable[[StreamsBuilder], Any]
    topics: str = "a"
    sure: Sure = "each"
    cached: Sure = "some"
    together: bool = False
    """Whether it brings records of several partitions together."""


def grouped_stream(builder: StreamsBuilder, topic: str = "a") -> Any:
    return builder.stream(topic, READ).group_by_key(GROUPED)


def counted(builder: StreamsBuilder) -> None:
    table = grouped_stream(builder).count(materialized="kept")
    table.to_stream().map_values(str).to("out", WRITTEN)


def reduced(builder: StreamsBuilder) -> None:
    grouped_stream(builder).reduce(
        lambda one, other: union("", one, other), materialized=stored("kept")
    ).to_stream().to("out", WRITTEN)


def aggregate(builder: StreamsBuilder) -> None:
    grouped_stream(builder).aggregate(str, add_to, materialized=stored("kept")).to_stream().to("out", WRITTEN)


def windowed(windows: Any, *, final: bool = False, closed: bool = False) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        store: Materialized[str, str] = Materialized(name="kept", key_serde=S, value_serde=S)
        table = aggregated(builder, windows, store, final=final, topic="a")
        if closed:
            table = table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closed"))
        table.to_stream(named).to("out", WRITTEN)

    return build


def late(buffer: BufferConfig) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        table: Any = builder.table("a", READ, materialized=stored("kept"))
        table.suppress(Suppressed.until_time_limit(8, buffer).with_name("late")).to_stream().to("out", WRITTEN)

    return build


def cogrouped(windows: Any = None) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        both: Any = grouped_stream(builder, "a").cogroup(add_to).cogroup(grouped_stream(builder, "b"), add_to)
        if windows is None:
            both.aggregate(str, materialized=stored("kept")).to_stream().to("out", WRITTEN)
            return
        functions = (str, union) if isinstance(windows, SessionWindows) else (str,)
        table = both.windowed_by(windows).aggregate(*functions, materialized=stored("kept"))
        table.to_stream(named).to("out", WRITTEN)

    return build


def tables_joined(kind: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        left, right = (builder.table(topic, READ, materialized=stored(topic)) for topic in "ab")
        getattr(left, kind)(right, told, materialized=stored("kept")).to_stream().to("out", WRITTEN)

    return build


def foreign_key(kind: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        left, right = (builder.table(topic, READ, materialized=stored(topic)) for topic in "ab")
        join = getattr(left, kind)
        join(right, lambda value: f"k{value[-1]}", told, materialized=stored("kept")).to_stream().to("out", WRITTEN)

    return build


def grouped_table(source: Callable[[str], Materialized[Any, Any]]) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        table: Any = builder.table("a", READ, materialized=source("rows"))
        groups = table.group_by(letter, Grouped(name="letters", key_serde=S, value_serde=S))
        groups.aggregate(str, add_to, take, materialized=stored("kept")).to_stream().to("out", WRITTEN)

    return build


def streams_joined(kind: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        left: Any = builder.stream("a", READ)
        getattr(left, kind)(builder.stream("b", READ), told, windows=JOIN, joined="j").to("out", WRITTEN)

    return build


def self_joined(kind: str) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        stream: Any = builder.stream("a", READ)
        getattr(stream, kind)(stream, told, windows=JOIN, joined="j").to("out", WRITTEN)

    return build


def table_joined(kind: str, grace: int | None = None) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        stream: Any = builder.stream("a", READ)
        source = stored("b") if grace is None else versioned("b", KEPT)
        how: Joined[str, str, str] = Joined(key_serde=S, value_serde=S, name="j", grace=grace)
        getattr(stream, kind)(builder.table("b", READ, materialized=source), told, joined=how).to("out", WRITTEN)

    return build


def versions_changed(builder: StreamsBuilder) -> None:
    """Through operators without stores of their own, to a join that looks up the version of a time."""
    table: Any = builder.table("b", READ, materialized=versioned("b", KEPT))
    changed = table.filter(lambda key, value: not value.endswith("1")).map_values(str.upper)
    stream: Any = builder.stream("a", READ)
    stream.left_join(changed, told, joined="j").to("out", WRITTEN)


JOINS = ("join", "left_join", "outer_join")
OPERATORS: dict[str, Operator] = {
    "count": Operator(counted),
    "reduce": Operator(reduced),
    "aggregate": Operator(aggregate),
    "time windows": Operator(windowed(TIME)),
    "hopping windows": Operator(windowed(HOPS)),
    "sliding windows": Operator(windowed(SLIDING)),
    "sessions": Operator(windowed(SESSIONS)),
    "unlimited windows": Operator(windowed(UnlimitedWindows.of())),
    "final time windows": Operator(windowed(HOPS, final=True), cached="each"),
    "final sliding windows": Operator(windowed(SLIDING, final=True), cached="each"),
    "final sessions": Operator(windowed(SESSIONS, final=True), cached="each"),
    "suppressed windows": Operator(windowed(HOPS, closed=True), cached="each"),
    "suppressed table": Operator(late(BufferConfig.unbounded()), cached="last"),
    "full buffer": Operator(late(BufferConfig.max_records(2)), cached="last"),
    "cogroup": Operator(cogrouped(), "ab"),
    "cogroup in windows": Operator(cogrouped(HOPS), "ab"),
    "cogroup in sliding windows": Operator(cogrouped(SLIDING), "ab"),
    "cogroup in sessions": Operator(cogrouped(SESSIONS), "ab"),
    **{f"tables: {kind}": Operator(tables_joined(kind), "ab", cached="last") for kind in JOINS},
    "foreign keys: join": Operator(foreign_key("foreign_key_join"), "ab", "last", "last", together=True),
    "foreign keys: left join": Operator(foreign_key("foreign_key_left_join"), "ab", "last", "last", together=True),
    "grouped table": Operator(grouped_table(stored), "a", "last", "last", together=True),
    "grouped versions": Operator(grouped_table(lambda name: versioned(name, KEPT)), "a", "last", "last", together=True),
    "streams: join": Operator(streams_joined("join"), "ab", cached="each"),
    "streams: left join": Operator(streams_joined("left_join"), "ab", "pairs", "pairs"),
    "streams: outer join": Operator(streams_joined("outer_join"), "ab", "pairs", "pairs"),
    "one stream: join": Operator(self_joined("join"), cached="each"),
    "one stream: left join": Operator(self_joined("left_join"), "a", "pairs", "pairs"),
    "one stream: outer join": Operator(self_joined("outer_join"), "a", "pairs", "pairs"),
    **{f"stream and table: {kind}": Operator(table_joined(kind), "ab", cached="each") for kind in JOINS[:2]},
    **{f"stream and versions: {kind}": Operator(table_joined(kind, 5), "ab", cached="each") for kind in JOINS[:2]},
    "stream and changed versions": Operator(versions_changed, "ab", cached="each"),
}  # fmt: skip
