"""Topologies with windows, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import (
    BufferConfig,
    EmitStrategy,
    Grouped,
    KTable,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Windowed
from processor_api.topology.topology import Topology
from state.formats.windowed_serdes import WindowedSerdes

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]
CLOSE = EmitStrategy.on_window_close()
COUNTS: dict[str, Any] = {"store": "counts", "values": L}


def text(value: Any) -> str:
    """As Java joins it to a string."""
    return "null" if value is None else str(value)


def joined(one: Any, other: Any) -> str:
    return text(one) + text(other)


def append(key: Any, value: Any, so_far: Any) -> str:
    return joined(so_far, value)


def at(windowed: Windowed[str], value: Any) -> str:
    return f"{windowed.key}@{windowed.window.start}-{windowed.window.end}"


def stored(name: str, values: Any, *, caching: bool = True, **more: Any) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=values, caching=caching, **more)


def to(table: KTable[Any, Any], values: Serde[Any], size: int | None, topic: str = "output") -> None:
    """To a topic with windowed keys; of sessions for a size of 0, of text for no size."""
    if size is None:
        table.to_stream(at).to(topic, Produced(key_serde=S, value_serde=values))
        return
    serde: Serde[Any] = (
        WindowedSerdes.time_windowed_serde_from(S, size) if size else WindowedSerdes.session_windowed_serde_from(S)
    )
    table.to_stream().to(topic, Produced(key_serde=serde, value_serde=values))


def counted(
    windows: Any, *, size: int | None = 10, caching: bool = True, strategy: EmitStrategy | None = None, keep: Any = None
) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("input")
        groups = (stream if keep is None else stream.filter(keep)).group_by_key().windowed_by(windows)
        groups = groups if strategy is None else groups.emit_strategy(strategy)
        to(groups.count(materialized=stored("counts", L, caching=caching)), L, size)
        return builder.build(config)

    return build


def appended(
    windows: Any,
    *,
    size: int | None = None,
    caching: bool = True,
    strategy: EmitStrategy | None = None,
    aggregator: Callable[[Any, Any, Any], Any] = append,
    start: str = "",
    store: Materialized[str, Any] | None = None,
    merger: Callable[[Any, Any, Any], Any] | None = None,
) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        groups = builder.stream("input").group_by_key().windowed_by(windows)
        groups = groups if strategy is None else groups.emit_strategy(strategy)
        functions = (aggregator,) if merger is None else (aggregator, merger)
        found = groups.aggregate(lambda: start, *functions, materialized=store or stored("agg", S, caching=caching))
        to(found, S, size)
        return builder.build(config)

    return build


def reduced(
    windows: Any,
    *,
    size: int | None = None,
    strategy: EmitStrategy | None = None,
    store: Materialized[str, Any] | None = None,
    keep: Any = None,
) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("input")
        groups = (stream if keep is None else stream.filter(keep)).group_by_key().windowed_by(windows)
        groups = groups if strategy is None else groups.emit_strategy(strategy)
        to(groups.reduce(joined, materialized=store or stored("red", S)), S, size)
        return builder.build(config)

    return build


def null_result(key: Any, value: Any, so_far: Any) -> Any:
    return None if value is None or value == "t" else joined(so_far, value)


def time_jump(config: Any) -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(10, 5).advance_by(5)
    groups = builder.stream("input").group_by_key().windowed_by(windows).emit_strategy(CLOSE)
    to(groups.count(materialized=stored("plain", L, caching=False)), L, 10)
    to(groups.count(materialized=stored("cached", L)), L, 10, "output-cached")
    return builder.build(config)


def repartitioned(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by(lambda k, v: v, Grouped(name="by-value"))
    counts = groups.windowed_by(TimeWindows.of_size_and_grace(10, 5)).count(
        name="cnt", materialized=stored("counts", L)
    )
    to(counts, L, 10)
    return builder.build(config)


def hopping_gaps(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    windows = TimeWindows.of_size_and_grace(7, 3)
    to(groups.windowed_by(windows).count(materialized=stored("w7", L, caching=False)), L, 7, "out-7")
    to(groups.windowed_by(windows.advance_by(2)).count(materialized=stored("w2", L, caching=False)), L, 7, "out-2")
    return builder.build(config)


def in_memory(config: Any) -> Topology:
    builder = StreamsBuilder()
    store: Materialized[str, int] = Materialized(
        supplier=Stores.in_memory_window_store("mem", 30, 10), key_serde=S, value_serde=L
    )
    groups = builder.stream("input").group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 20))
    to(groups.count(materialized=store), L, 10)
    return builder.build(config)


def retention(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key().windowed_by(TimeWindows.of_size_and_grace(10_000, 20_000))
    to(groups.count(materialized=stored("counts", L, caching=False, retention=200_000)), L, 10_000)
    return builder.build(config)


def sessions_downstream(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(6, 15))
    counts = groups.count(materialized=stored("counts", L))
    by_count = counts.group_by(lambda w, n: (f"n{n}", w.key), Grouped(name="by-n", key_serde=S, value_serde=S))
    table = by_count.count(materialized=stored("by-n-counts", L))
    table.to_stream().to("output", Produced(key_serde=S, value_serde=L))
    return builder.build(config)


def zero_gap(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    to(groups.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(1)).count(), L, 0)
    return builder.build(config)


def headers_sessions(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(6, 15))
    to(groups.count(materialized=stored("n", L)), L, None)
    return builder.build(config)


def headers_aggregates(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    longs: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
    groups.count(materialized=stored("n", L)).to_stream().to("output", longs)
    windowed = groups.windowed_by(TimeWindows.of_size_and_grace(10, 20)).count(materialized=stored("w", L))
    windowed.to_stream(lambda w, v: f"{w.key}@{w.window.start}").to("output-w", longs)
    return builder.build(config)


# ------------------------------------------------------------------ suppressed


def until_close(
    windows: Any,
    buffer: BufferConfig | None = None,
    *,
    size: int | None = 10,
    keep: Any = None,
    wait: int | None = None,
) -> Build:
    how = Suppressed.until_window_closes(buffer or BufferConfig.unbounded())  # type: ignore[arg-type]
    if wait is not None:
        how = Suppressed.until_time_limit(wait, BufferConfig.unbounded())

    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("input")
        groups = (stream if keep is None else stream.filter(keep)).group_by_key().windowed_by(windows)
        to(groups.count(materialized=stored("counts", L)).suppress(how.with_name("sup")), L, size)
        return builder.build(config)

    return build


def after_operators(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 5))
    counts = groups.count(materialized=stored("counts", L))
    texts = counts.filter(lambda w, n: n > 1).map_values(lambda n: f"n{n}")
    to(texts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("sup")), S, None)
    return builder.build(config)


def hopping_unnamed(config: Any) -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(12).advance_by(4)
    groups = builder.stream("input").group_by_key().windowed_by(windows)
    table = groups.aggregate(str, append, materialized=stored("agg", S))
    to(table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())), S, None)
    return builder.build(config)


# ------------------------------------------------------------------ descriptions and errors


def describe_aggregations(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    minute = TimeWindows.of_size_with_no_grace(60_000)
    groups.windowed_by(minute).count()
    groups.windowed_by(TimeWindows.of_size_and_grace(3_600_000, 600_000).advance_by(300_000)).count()
    groups.windowed_by(SlidingWindows.of_time_difference_and_grace(30_000, 60_000)).count()
    groups.windowed_by(SessionWindows.of_inactivity_gap_and_grace(300_000, 60_000)).count()
    groups.windowed_by(minute).reduce(lambda x, y: y, materialized=stored("w", S, retention=86_400_000))
    return builder.build(config)


def describe_final(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by(lambda k, v: v)
    windows = groups.windowed_by(TimeWindows.of_size_and_grace(60_000, 10_000)).emit_strategy(CLOSE)
    longs: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
    windows.count().to_stream(lambda w, v: w.key).to("o1", longs)
    sessions = groups.windowed_by(SessionWindows.of_inactivity_gap_and_grace(60_000, 10_000)).emit_strategy(CLOSE)
    sessions.reduce(lambda x, y: y, name="r").to_stream(lambda w, v: w.key).to("o2")
    return builder.build(config)


def describe_suppress(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    windows = groups.windowed_by(TimeWindows.of_size_and_grace(60_000, 10_000))
    closing = Suppressed.until_window_closes(BufferConfig.unbounded())
    windows.count().suppress(closing).to_stream().map_values(lambda v: v)
    windows.count().suppress(closing.with_name("sup"))
    late = builder.table("t").suppress(Suppressed.until_time_limit(1000, BufferConfig.max_records(10)))
    late.to_stream().to("output")
    return builder.build(config)


def merged_repartitions(config: Any) -> Topology:
    builder = StreamsBuilder()
    streams = [builder.stream(topic).select_key(lambda k, v: v) for topic in ("a", "c")]
    merged = streams[0].merge(streams[1])
    longs: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
    merged.group_by_key().count().to_stream().to("o1", longs)
    windowed = merged.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(1000)).count()
    windowed.to_stream(lambda w, v: w.key).to("o2", longs)
    return builder.build(config)


def short(windows: Any, milliseconds: int) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        groups = builder.stream("input").group_by_key().windowed_by(windows)
        groups.count(materialized=stored("n", L, retention=milliseconds))
        return builder.build(config)

    return build


def big_advance(config: Any) -> Topology:
    return counted(TimeWindows.of_size_with_no_grace(10).advance_by(11))(config)


GRACE_5, GRACE_7 = TimeWindows.of_size_and_grace(10, 5), TimeWindows.of_size_and_grace(10, 7)
NO_GRACE = TimeWindows.of_size_with_no_grace(10)
SLIDING, SESSIONS = SlidingWindows.of_time_difference_and_grace, SessionWindows.of_inactivity_gap_and_grace
MEMORY_WINDOWS: Materialized[str, Any] = Materialized(
    supplier=Stores.in_memory_window_store("mem", 50, 10), key_serde=S, value_serde=S
)
MEMORY_SESSIONS: Materialized[str, Any] = Materialized(
    supplier=Stores.in_memory_session_store("mem", 40), key_serde=S, value_serde=S
)

CASES: dict[str, Build] = {
    "window-tumbling-count": counted(NO_GRACE),
    "window-tumbling-count-nocache": counted(GRACE_7, size=None, caching=False),
    "window-tumbling-grace-count": counted(GRACE_7),
    "window-tumbling-emit-final": counted(GRACE_5, strategy=CLOSE),
    "window-own-stream-time": counted(NO_GRACE, caching=False, keep=lambda k, v: v != "t"),
    "window-unlimited-count": counted(UnlimitedWindows.of().start_on(20), size=None, caching=False),
    "window-aggregate-null-result": appended(
        TimeWindows.of_size_and_grace(20, 20), size=20, caching=False, aggregator=null_result
    ),
    "window-emit-final-no-throttle": reduced(GRACE_5, size=10, strategy=CLOSE),
    "window-emit-final-time-jump": time_jump,
    "window-groupby-repartition": repartitioned,
    "window-hopping-emit-final": appended(
        TimeWindows.of_size_and_grace(12, 4).advance_by(4), size=12, caching=False, strategy=CLOSE
    ),
    "window-hopping-gaps": hopping_gaps,
    "window-hopping-overlap-aggregate": appended(NO_GRACE.advance_by(3), size=10),
    "window-hopping-reduce": reduced(GRACE_5.advance_by(5), size=10),
    "window-in-memory-retention": in_memory,
    "window-retention": retention,
    "sliding-count": counted(SLIDING(10, 20)),
    "sliding-aggregate": appended(SLIDING(10, 30), caching=False),
    "sliding-aggregate-no-grace": appended(SLIDING(10, 0)),
    "sliding-emit-final": counted(SLIDING(10, 5), size=None, strategy=CLOSE),
    "sliding-emit-final-no-throttle": appended(SLIDING(10, 5), caching=False, strategy=CLOSE),
    "sliding-in-memory": appended(SLIDING(10, 30), store=MEMORY_WINDOWS),
    "sliding-one-difference": counted(SLIDING(1, 10), size=None),
    "sliding-reduce-wide": reduced(SLIDING(50, 100)),
    "sliding-zero-difference": counted(SLIDING(0, 10), size=None),
    "session-count": counted(SESSIONS(6, 15), size=0),
    "session-count-nocache": counted(SESSIONS(6, 15), size=0, caching=False),
    "session-aggregate": appended(
        SESSIONS(8, 0), size=0, caching=False, start="i", merger=lambda k, x, y: f"({text(x)}{text(y)})"
    ),
    "session-emit-final": counted(SESSIONS(6, 5), size=0, strategy=CLOSE),
    "session-emit-final-no-throttle": appended(
        SESSIONS(6, 5), size=0, strategy=CLOSE, merger=lambda k, x, y: joined(x, y)
    ),
    "session-groupby-downstream": sessions_downstream,
    "session-reduce-in-memory": reduced(SESSIONS(8, 20), store=MEMORY_SESSIONS, keep=lambda k, v: v is not None),
    "session-zero-gap": zero_gap,
    "headers-store-session-count": headers_sessions,
    "table-headers-store-aggregates": headers_aggregates,
    "suppress-own-stream-time": until_close(GRACE_5, size=None, keep=lambda k, v: v != "t"),
    "suppress-time-limit-windowed-count": until_close(TimeWindows.of_size_and_grace(10, 20), size=None, wait=8),
    "suppress-window-close-after-ops": after_operators,
    "suppress-window-close-full": until_close(GRACE_5, BufferConfig.max_records(3).shut_down_when_full()),
    "suppress-window-close-hopping-unnamed": hopping_unnamed,
    "suppress-window-close-no-logging": until_close(GRACE_5, BufferConfig.unbounded().with_logging_disabled()),
    "suppress-window-close-session": until_close(SESSIONS(6, 5), size=0),
    "suppress-window-close-tumbling": until_close(GRACE_5),
    "describe-windowed-aggregations": describe_aggregations,
    "describe-windowed-emit-final": describe_final,
    "describe-suppress": describe_suppress,
    "describe-optimize-merge-operator": merged_repartitions,
    "build-advance-too-big": big_advance,
    "build-emit-final-unlimited": counted(UnlimitedWindows.of(), strategy=CLOSE),
    "build-retention-too-short": short(TimeWindows.of_size_and_grace(10, 10), 15),
    "build-sliding-retention-too-short": short(SLIDING(10, 10), 29),
}
