"""The topologies that the harness measures, the same as those of its other runners.

Values are JSON objects, and each application parses them, also where it only counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from processor_api.serde import Serdes
from streams import (
    Consumed,
    Joined,
    JoinWindows,
    KGroupedStream,
    KStream,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)
from streams.serdes import json_serde

__all__ = ["WORKLOADS", "Inputs"]

S, LONG = Serdes.STRING, Serdes.LONG
JSON = json_serde()
SECOND = 1000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE


@dataclass(frozen=True)
class Inputs:
    """The topics of one run, and whether its stores have caches."""

    source: str
    second: str
    target: str
    caching: bool = True


def stream(builder: StreamsBuilder, topic: str) -> KStream[str, Any]:
    return builder.stream(topic, Consumed(key_serde=S, value_serde=JSON))


def grouped(builder: StreamsBuilder, topic: str) -> KGroupedStream[str, Any]:
    return stream(builder, topic).group_by_key()


def counts(name: str, run: Inputs, retention: int | None = None) -> Materialized[str, int]:
    return Materialized(name=name, key_serde=S, value_serde=LONG, caching=run.caching, retention=retention)


def filtered(run: Inputs) -> StreamsBuilder:
    """Keeps half of the records and adds a field."""

    def add_total(value: Any) -> Any:
        value["total"] = value["amount"] * 2
        return value

    builder = StreamsBuilder()
    kept = stream(builder, run.source).filter(lambda key, value: value["amount"] >= 50.0)
    kept.map_values(add_total).to(run.target, Produced(key_serde=S, value_serde=JSON))
    return builder


def counted(run: Inputs) -> StreamsBuilder:
    """Counts by key in a persistent store with a changelog."""
    builder = StreamsBuilder()
    table = grouped(builder, run.source).count(materialized=counts("counts", run))
    table.to_stream().to(run.target, Produced(key_serde=S, value_serde=LONG))
    return builder


def windowed(windows: TimeWindows | SlidingWindows) -> Callable[[Inputs], StreamsBuilder]:
    """Counts by key and window; the store keeps a day."""

    def build(run: Inputs) -> StreamsBuilder:
        builder = StreamsBuilder()
        table = grouped(builder, run.source).windowed_by(windows).count(materialized=counts("windows", run, DAY))
        named = table.to_stream(lambda windowed, count: f"{windowed.key}@{windowed.window.start}")
        named.to(run.target, Produced(key_serde=S, value_serde=LONG))
        return builder

    return build


def sessions(run: Inputs) -> StreamsBuilder:
    """Counts by key and session with a gap of five seconds; the store keeps a day."""
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_with_no_grace(5 * SECOND)
    table = grouped(builder, run.source).windowed_by(windows).count(materialized=counts("sessions", run, DAY))
    named = table.to_stream(lambda windowed, count: f"{windowed.key}@{windowed.window.start}")
    named.to(run.target, Produced(key_serde=S, value_serde=LONG))
    return builder


def stream_table(run: Inputs) -> StreamsBuilder:
    """Adds a field of the table's row to each record."""

    def named(value: Any, row: Any) -> Any:
        value["name"] = row["name"]
        return value

    builder = StreamsBuilder()
    rows = builder.table(
        run.second,
        Consumed(key_serde=S, value_serde=JSON),
        materialized=Materialized(name="rows", key_serde=S, value_serde=JSON, caching=run.caching),
    )
    joined = stream(builder, run.source).join(rows, named, joined=Joined(key_serde=S, value_serde=JSON))
    joined.to(run.target, Produced(key_serde=S, value_serde=JSON))
    return builder


def stream_stream(run: Inputs) -> StreamsBuilder:
    """Joins two streams whose records lie at most ten seconds apart."""

    def matched(left: Any, right: Any) -> Any:
        left["right_id"] = right["id"]
        return left

    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_with_no_grace(10 * SECOND)
    options = StreamJoined[str, Any, Any](key_serde=S, value_serde=JSON, other_value_serde=JSON)
    both = stream(builder, run.source).join(stream(builder, run.second), matched, windows=windows, joined=options)
    both.to(run.target, Produced(key_serde=S, value_serde=JSON))
    return builder


def foreign_key(run: Inputs) -> StreamsBuilder:
    """Adds a field of the group's row to each row that names the group."""

    def named(fact: Any, group: Any) -> Any:
        return {**fact, "name": group["name"]}

    def rows(name: str) -> Materialized[str, Any]:
        return Materialized(name=name, key_serde=S, value_serde=JSON, caching=run.caching)

    builder = StreamsBuilder()
    consumed = Consumed[str, Any](key_serde=S, value_serde=JSON)
    facts = builder.table(run.source, consumed, materialized=rows("facts"))
    groups = builder.table(run.second, consumed, materialized=rows("groups"))
    joined = facts.foreign_key_join(
        groups, lambda fact: fact["group"], named, materialized=Materialized(key_serde=S, value_serde=JSON)
    )
    joined.to_stream().to(run.target, Produced(key_serde=S, value_serde=JSON))
    return builder


HOPPING = TimeWindows.of_size_with_no_grace(MINUTE).advance_by(10 * SECOND)

WORKLOADS: dict[str, Callable[[Inputs], StreamsBuilder]] = {
    "W1": filtered,
    "W2": counted,
    "W3": windowed(TimeWindows.of_size_with_no_grace(MINUTE)),
    "W4": stream_table,
    "W5": stream_stream,
    "W6": sessions,
    "W7": foreign_key,
    "W8": windowed(HOPPING),
    "sliding": windowed(SlidingWindows.of_time_difference_with_no_grace(10 * SECOND)),
}
