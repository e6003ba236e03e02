"""Topologies that aggregate several streams into one table, beside the Java text of the recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Grouped, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from processor_api.serde import Serdes
from processor_api.stores.windowed import Windowed
from processor_api.topology.topology import Topology

S = Serdes.STRING
Build = Callable[[Any], Topology]


def kv(name: str, *, caching: bool = True) -> Materialized[str, str]:
    return Materialized(name=name, key_serde=S, value_serde=S, caching=caching)


def marked(mark: str, null: str = "null") -> Callable[[Any, Any, Any], str]:
    return lambda key, value, so_far: f"{so_far}{mark}{null if value is None else value}"


def one(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("left").group_by_key().cogroup(marked(""))
    groups.aggregate(lambda: "-", materialized=kv("agg")).to_stream().to("output")
    return builder.build(config)


def two(config: Any) -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic).group_by_key() for topic in ("left", "right"))
    both = left.cogroup(marked("l")).cogroup(right, marked("r"))
    both.aggregate(str, materialized=kv("agg", caching=False)).to_stream().to("output")
    return builder.build(config)


def three(config: Any) -> Topology:
    def last(mark: str) -> Callable[[Any, Any, Any], str]:
        return lambda key, value, so_far: so_far + mark + value[-1]

    builder = StreamsBuilder()
    first = builder.stream("one").group_by(lambda k, v: k, Grouped(name="one"))
    second = builder.stream("two").group_by_key()
    third = builder.stream("three").group_by(lambda k, v: k, Grouped(name="three"))
    all_three = first.cogroup(last("1")).cogroup(second, last("2")).cogroup(third, last("3"))
    all_three.aggregate(str, name="cg", materialized=kv("agg")).to_stream().to("output")
    return builder.build(config)


def unnamed(config: Any) -> Topology:
    builder = StreamsBuilder()
    first, second = (builder.stream(topic).group_by(lambda k, v: v) for topic in ("one", "two"))
    first.cogroup(marked("")).cogroup(second, marked("")).aggregate(str, materialized=kv("agg"))
    return builder.build(config)


def windowed(windows: Any, null: str, *, with_end: bool = True) -> Build:
    def at(key: Windowed[str], value: Any) -> str:
        end = f"-{key.window.end}" if with_end else ""
        return f"{key.key}@{key.window.start}{end}"

    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        right = builder.stream("right").group_by_key()
        left = builder.stream("left").group_by_key().cogroup(marked("l", null))
        both: Any = left.cogroup(right, marked("r", null)).windowed_by(windows)
        mergers = ((lambda k, x, y: x + y),) if isinstance(windows, SessionWindows) else ()
        both.aggregate(str, *mergers, materialized=kv("agg")).to_stream(at).to("output")
        return builder.build(config)

    return build


def describe(config: Any) -> Topology:
    def value_alone(key: Any, value: Any, so_far: Any) -> Any:
        return value

    builder = StreamsBuilder()
    x, y = (builder.stream(topic).group_by_key() for topic in ("x", "y"))
    both = x.cogroup(value_alone).cogroup(y, value_alone)
    both.aggregate(str, materialized=Materialized(key_serde=S, value_serde=S))
    both.aggregate(str, name="cg")
    both.aggregate(str, materialized=kv("m"))
    xr = builder.stream("x2").group_by(lambda k, v: v, Grouped(name="xr"))
    yr = builder.stream("y2").group_by(lambda k, v: v, Grouped(name="yr"))
    xr.cogroup(value_alone).cogroup(yr, value_alone).aggregate(str)
    both.windowed_by(TimeWindows.of_size_with_no_grace(1000)).aggregate(str)
    return builder.build(config)


CASES: dict[str, Build] = {
    "cogroup-one": one,
    "cogroup-two": two,
    "cogroup-three-repartition": three,
    "cogroup-two-unnamed-repartitions": unnamed,
    "cogroup-time-windows": windowed(TimeWindows.of_size_and_grace(10, 5).advance_by(5), "0", with_end=False),
    "cogroup-sliding-windows": windowed(SlidingWindows.of_time_difference_and_grace(10, 10), "null"),
    "cogroup-session-windows": windowed(SessionWindows.of_inactivity_gap_and_grace(6, 10), "0"),
    "describe-cogroup": describe,
}
