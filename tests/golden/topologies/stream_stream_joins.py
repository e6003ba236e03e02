"""Topologies that join two streams, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import (
    Consumed,
    Grouped,
    JoinWindows,
    KStream,
    Produced,
    Repartitioned,
    StreamJoined,
    StreamsBuilder,
)
from processor_api.processor import FixedKeyProcessor
from processor_api.record import FixedKeyRecord
from processor_api.serde import Serdes
from processor_api.stores.defaults import BuiltInDslStoreSuppliers
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]
STRINGS: StreamJoined[str, str, str] = StreamJoined(key_serde=S, value_serde=S, other_value_serde=S)
NAMED: StreamJoined[str, str, str] = StreamJoined(
    name="j", store_name="s", key_serde=S, value_serde=S, other_value_serde=S
)
W = JoinWindows.of_time_difference_and_grace(100, 50)


def no_grace(difference: int = 10) -> JoinWindows:
    return JoinWindows.of_time_difference_with_no_grace(difference)


def with_grace(difference: int, grace: int) -> JoinWindows:
    return JoinWindows.of_time_difference_and_grace(difference, grace)


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def plus(left: Any, right: Any) -> str:
    """Java's ``left + "+" + right``."""
    return f"{text(left)}+{text(right)}"


def plus_with_key(key: Any, left: Any, right: Any) -> str:
    return f"{text(key)}:{plus(left, right)}"


def null_if_even(left: str, right: str) -> str | None:
    return None if int(left[1:]) % 2 == 0 else left + right


def first(left: Any, right: Any) -> Any:
    return left


def same_key(key: Any, value: Any) -> Any:
    return key


def value_of(key: Any, value: Any) -> Any:
    return value


def pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def upper(value: str | None) -> str | None:
    return None if value is None else value.upper()


def inner(windows: JoinWindows, how: StreamJoined[Any, Any, Any] | None = None, joiner: Any = plus) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        left: KStream[str, str] = builder.stream("left")
        right = builder.stream("right")
        left.join(right, joiner, windows=windows, joined=how).to("output")
        return builder.build(config)

    return build


def kept_left(windows: JoinWindows, how: StreamJoined[Any, Any, Any] | None = None) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        left: KStream[str, str] = builder.stream("left")
        left.left_join(builder.stream("right"), plus, windows=windows, joined=how).to("output")
        return builder.build(config)

    return build


def kept_left_with_key(config: Any) -> Topology:
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    how: StreamJoined[str, str, str] = StreamJoined(store_name="s", key_serde=S, value_serde=S, other_value_serde=S)
    right = builder.stream("right")
    left.left_join_with_key(right, plus_with_key, windows=with_grace(10, 15), joined=how).to("output")
    return builder.build(config)


def outer(windows: JoinWindows, how: StreamJoined[Any, Any, Any] | None = None) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        left: KStream[str, str] = builder.stream("left")
        left.outer_join(builder.stream("right"), plus, windows=windows, joined=how).to("output")
        return builder.build(config)

    return build


def keychange(*, both: bool) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        left = builder.stream("left").select_key(same_key)
        right = builder.stream("right").select_key(same_key)
        if both:
            left.outer_join(right, plus, windows=no_grace(), joined=NAMED).to("output")
        else:
            left.left_join(right, plus, windows=no_grace(), joined=NAMED).to("output")
        return builder.build(config)

    return build


def three_way(config: Any) -> Topology:
    builder = StreamsBuilder()
    both = builder.stream("left").join(builder.stream("right"), plus, windows=no_grace())
    both.left_join(builder.stream("third"), plus, windows=with_grace(10, 5)).to("output")
    return builder.build(config)


def self_join(windows: JoinWindows, mapper: Any = None) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        stream: KStream[str, str] = builder.stream("left")
        if mapper is not None:
            stream = stream.map_values(mapper)
        stream.join(stream, plus, windows=windows).to("output")
        return builder.build(config)

    return build


def describe_self(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input")
    stream.join(stream, first, windows=W).to("output")
    return builder.build(config)


def describe_self_optimized(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input")
    how: StreamJoined[str, str, str] = StreamJoined(
        name="j", store_name="st", key_serde=S, value_serde=S, other_value_serde=S
    )
    stream.join(stream, first, windows=W).to("o1")
    stream.join(stream, first, windows=W, joined=how).to("o2")
    stream.left_join(stream, first, windows=W).to("o3")
    return builder.build(config)


def describe_self_repartition(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input").select_key(value_of)
    stream.join(stream, first, windows=W).to("output")
    return builder.build(config)


def describe_repartition(config: Any) -> Topology:
    builder = StreamsBuilder()
    left = builder.stream("left").map(pair)
    both = left.left_join(builder.stream("right").select_key(value_of), first, windows=W)
    both.join(builder.stream("third"), first, windows=W).to("output")
    return builder.build(config)


def describe(config: Any) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    left.join(right, first, windows=W).to("o1")
    left.left_join(right, first, windows=W).to("o2")
    left.outer_join(right, first, windows=W).to("o3")
    return builder.build(config)


def named(name: str, store_name: str | None = None) -> StreamJoined[Any, Any, Any]:
    return StreamJoined(name=name, store_name=store_name, key_serde=S, value_serde=S, other_value_serde=S)


def describe_named(config: Any) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    left.join(right, first, windows=W, joined=named("ij")).to("o1")
    left.left_join(right, first, windows=W, joined=named("lj")).to("o2")
    left.outer_join(right, first, windows=W, joined=named("oj", "os")).to("o3")
    keyed = left.select_key(value_of)
    keyed.join(right.select_key(value_of), first, windows=W, joined=named("rj")).to("o4")
    return builder.build(config)


def describe_repartition_operator(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input")
    stream.repartition().group_by_key().count()
    wide = stream.repartition(Repartitioned(name="r", number_of_partitions=4))
    wide.group_by_key().count()
    other = stream.select_key(value_of).repartition(Repartitioned(number_of_partitions=4))
    other.join(wide, first, windows=W).to("output")
    return builder.build(config)


class PassValue(FixedKeyProcessor[Any, Any, Any]):
    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record)


def many_repartitions(config: Any) -> Topology:
    builder = StreamsBuilder()
    longs: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
    stream = builder.stream("input").map(pair)
    stream.group_by_key().count().to_stream().to("o1", longs)
    stream.map_values(lambda v: v).group_by_key().count().to_stream().to("o2", longs)
    stream.group_by_key(Grouped.as_("g")).reduce(lambda x, y: y).to_stream().to("o3")
    stream.join(builder.stream("right"), first, windows=W).to("o4")
    stream.process_values(PassValue).group_by_key().count().to_stream().to("o5", longs)
    return builder.build(config)


def window_without_time(config: Any) -> Topology:
    builder = StreamsBuilder()
    right = builder.stream("right")
    builder.stream("input").join(right, plus, windows=no_grace(5).before(-6)).to("output")
    return builder.build(config)


READ: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
WRITTEN: Produced[str, str] = Produced(key_serde=S, value_serde=S)


def bar(left: Any, right: Any) -> str:
    """The joiner of the recordings of internal topics."""
    return f"{text(left)}|{text(right)}"


def of_internal_topics(kind: str) -> Build:
    """The recordings of names, settings and records of internal topics."""

    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        left, right = builder.stream("left", READ), builder.stream("right", READ)
        over, how = with_grace(60, 40), named("join", "join")
        if kind == "outer":
            left.outer_join(right, bar, windows=over, joined=how).to("output", WRITTEN)
        else:
            left.join(right, bar, windows=over, joined=how).to("output", WRITTEN)
        return builder.build(config)

    return build


def repartitioned(name: str | None) -> Build:
    """The recordings of names of repartition topics."""

    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        left = builder.stream("left", READ).select_key(value_of)
        right = builder.stream("right", READ).select_key(value_of)
        over = no_grace(1000)
        if name is None:
            left.join(right, bar, windows=over, joined=STRINGS).to("output", WRITTEN)
        else:
            left.left_join(right, bar, windows=over, joined=named(name)).to("output", WRITTEN)
        return builder.build(config)

    return build


IN_MEMORY: StreamJoined[str, str, str] = StreamJoined(
    store_type=BuiltInDslStoreSuppliers.IN_MEMORY, key_serde=S, value_serde=S, other_value_serde=S, logging=False
)

CASES: dict[str, Build] = {
    "build-join-window-negative": window_without_time,
    "describe-none-many-repartitions": many_repartitions,
    "describe-optimize-many-repartitions": many_repartitions,
    "describe-repartition-operator": describe_repartition_operator,
    "describe-self-join": describe_self,
    "describe-self-join-optimized": describe_self_optimized,
    "describe-self-join-repartition-optimized": describe_self_repartition,
    "describe-stream-stream-join-repartition": describe_repartition,
    "describe-stream-stream-joins": describe,
    "describe-stream-stream-joins-named": describe_named,
    "join_repartition": repartitioned(None),
    "join_repartition_named": repartitioned("j"),
    "outer_join": of_internal_topics("outer"),
    "self-join-optimized": self_join(with_grace(10, 10)),
    "self-join-optimized-asymmetric": self_join(no_grace().before(2).after(9), upper),
    "self-join-plain": self_join(with_grace(10, 10)),
    "stream-stream-deprecated-of": outer(with_grace(10, 20).emitting_early()),
    "stream-stream-in-memory": outer(with_grace(10, 5), IN_MEMORY),
    "stream-stream-inner": inner(no_grace()),
    "stream-stream-inner-asymmetric": inner(with_grace(10, 5).before(3).after(12)),
    "stream-stream-inner-grace": inner(with_grace(10, 15), NAMED),
    "stream-stream-joiner-null": inner(no_grace(), joiner=null_if_even),
    "stream-stream-keychange-left": keychange(both=False),
    "stream-stream-keychange-outer": keychange(both=True),
    "stream-stream-left": kept_left(no_grace()),
    "stream-stream-left-grace": kept_left_with_key,
    "stream-stream-left-negative-before": kept_left(no_grace().before(-2)),
    "stream-stream-left-no-throttle": kept_left(no_grace()),
    "stream-stream-outer": outer(no_grace()),
    "stream-stream-outer-asymmetric": outer(with_grace(0, 5).before(0).after(12)),
    "stream-stream-outer-grace": outer(with_grace(10, 15), NAMED),
    "stream-stream-outer-no-throttle": outer(with_grace(10, 15), NAMED),
    "stream-stream-retention-big": inner(with_grace(20_000, 40_000)),
    "stream-stream-three-way": three_way,
    "stream-stream-zero-window": inner(with_grace(0, 10)),
    "stream_join": of_internal_topics("inner"),
}
