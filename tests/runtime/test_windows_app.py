"""Windowed aggregations go on where they were when their task starts again, with its state and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsl import (
    BufferConfig,
    EmitStrategy,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from processor_api.serde import Serdes
from processor_api.stores.windowed import Windowed
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from streams.kafka.offset_metadata import TopicPartitionMetadata, time_mark

S = Serdes.STRING
WINDOWS = TimeWindows.of_size_and_grace(10, 5)


def said(windowed: Windowed[str], count: int | None) -> str:
    return f"{windowed.key}@{windowed.window.start}-{windowed.window.end}={count}"


def counting(windows: Any, *, final: bool) -> Topology:
    """Counts, and writes each result as text."""
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key().windowed_by(windows)
    groups = groups.emit_strategy(EmitStrategy.on_window_close()) if final else groups
    counts = groups.count(name="counts", materialized="kept").to_stream()
    texts = counts.map(lambda windowed, count: (windowed.key, said(windowed, count)))
    texts.to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("keeps_state", [True, False], ids=["state kept", "state lost"])
@pytest.mark.parametrize(
    ("windows", "results"),
    [
        (WINDOWS, ["k@0-10=2", "k@20-30=1", "k@40-50=1"]),
        (SlidingWindows.of_time_difference_and_grace(10, 5), ["k@0-10=2", "k@12-22=1", "k@4-14=1", "k@32-42=1"]),
        (SessionWindows.of_inactivity_gap_and_grace(5, 5), ["k@3-4=2", "k@22-22=1", "k@42-42=1"]),
    ],
    ids=["time", "sliding", "session"],
)
def test_final_results_are_sent_once(
    windows: Any, results: list[str], keeps_state: bool, guarantee: str, tmp_path: Path
) -> None:
    """What closed before the restart is not sent again, though its rows are still in the store."""
    interval = {"__emit.interval.ms.kstreams.windowed.aggregation__": 0}
    with Cluster(tmp_path, one_state=keeps_state) as cluster:
        app = cluster.app(counting(windows, final=True), interval, processing_guarantee=guarantee)
        for time in (3, 4, 22, 42):
            cluster.send(str(time), timestamp=time)
        cluster.until(lambda: cluster.committed() == 4)
        before = cluster.values()
        assert 0 < len(before) < len(results), "the last window closes after the restart"
        assert app.close(60)
        restores = Restores()
        cluster.app(counting(windows, final=True), interval, restores=restores, processing_guarantee=guarantee)
        cluster.send("99", timestamp=99)
        cluster.until(lambda: cluster.committed() == 5)
        assert bool(restores.ended) != keeps_state or not sum(count for *_, count in restores.ended)
        assert sorted(cluster.values()) == sorted(results)


@pytest.mark.parametrize("keeps_state", [True, False], ids=["state kept", "state lost"])
def test_stream_time_goes_on_where_it_was(keeps_state: bool, tmp_path: Path) -> None:
    """A record that is late for what came before the restart is dropped after it."""
    topology = counting(WINDOWS, final=False)
    with Cluster(tmp_path, one_state=keeps_state) as cluster:
        app = cluster.start(topology)
        cluster.send("a", timestamp=58)
        cluster.until_out("k@50-60=1")
        cluster.until(lambda: cluster.committed() == 1)
        assert app.close(60)
        (offset,) = cluster.broker.groups.group("app").offsets.values()
        assert TopicPartitionMetadata.decode(offset.metadata).processors == {time_mark("kept/stream-time"): 58}
        cluster.start(topology)
        cluster.send("late", timestamp=38)  # the window from 30 to 40 closed at 45
        cluster.send("in time", timestamp=44)  # that from 40 to 50 closes at 55, and is late too
        cluster.send("now", timestamp=51)
        cluster.until_out("k@50-60=1", "k@50-60=2")


def counting_apart(*prefixes: str) -> Topology:
    """Counts the values of each prefix in a store of its own; nodes have generated names."""
    builder = StreamsBuilder()
    records = builder.stream("in")
    for prefix in prefixes:
        part = records.filter(lambda key, value, prefix=prefix: value.startswith(prefix))
        counts = part.group_by_key().windowed_by(WINDOWS).count(materialized=f"{prefix}-counts").to_stream()
        texts = counts.map(lambda windowed, count, prefix=prefix: (windowed.key, f"{prefix}={count}"))
        texts.to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


@pytest.mark.parametrize("then", [("fast", "slow"), ("other", "fast", "slow"), ("slow",)], ids="-".join)
def test_a_store_keeps_its_time_when_operators_are_moved_added_or_removed(
    then: tuple[str, ...], tmp_path: Path
) -> None:
    """Times went by generated names of nodes: the operator that got the name of another one dropped its records as
    late, and names that no operator had any more were committed for ever."""
    with Cluster(tmp_path) as cluster:
        app = cluster.start(counting_apart("slow", "fast"))
        cluster.send("slow", timestamp=100)
        cluster.send("fast", timestamp=9_000)
        cluster.until_out("slow=1", "fast=1")
        cluster.until(lambda: cluster.committed() == 2)
        assert app.close(60)
        cluster.start(counting_apart(*then))
        for time in (111, 122, 133):
            cluster.send("slow", timestamp=time)
        cluster.until_out(*["slow=1", "fast=1", *["slow=1"] * 3])
        cluster.send("slow", timestamp=101)  # its window closed at 115
        cluster.send("slow", timestamp=144)
        cluster.until_out(*["slow=1", "fast=1", *["slow=1"] * 4])
        cluster.until(lambda: cluster.committed() == 7)
        (offset,) = cluster.broker.groups.group("app").offsets.values()
        times = TopicPartitionMetadata.decode(offset.metadata).processors
        kept = {"slow": 144, "fast": 9_000}
        assert times == {time_mark(f"{one}-counts/stream-time"): kept[one] for one in then if one in kept}


def cogrouping(*topics: str) -> Topology:
    builder = StreamsBuilder()
    first, *others = (builder.stream(topic).group_by_key() for topic in topics)
    cogrouped = first.cogroup(lambda key, value, so_far: so_far + 1)
    for grouped in others:
        cogrouped = cogrouped.cogroup(grouped, lambda key, value, so_far: so_far + 1)
    stored: Any = Materialized(name="n", value_serde=Serdes.LONG)
    counts: Any = cogrouped.windowed_by(WINDOWS).aggregate(lambda: 0, materialized=stored)
    texts = counts.to_stream().map(lambda windowed, count: (windowed.key, f"{windowed.window.start}={count}"))
    texts.to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def test_a_cogrouped_stream_that_is_added_gets_the_time_of_no_other(tmp_path: Path) -> None:
    with Cluster(tmp_path, topics={"in": 1, "in2": 1, "in3": 1, "out": 1}) as cluster:
        app = cluster.start(cogrouping("in", "in2"))
        cluster.send("a", timestamp=9_000)
        cluster.send("b", timestamp=200, topic="in2")
        cluster.until_out("9000=1", "200=1")
        cluster.until(lambda: cluster.committed() == cluster.committed("in2") == 1)
        assert app.close(60)
        cluster.start(cogrouping("in3", "in", "in2"))
        cluster.send("c", timestamp=210, topic="in3")
        cluster.until_out("9000=1", "200=1", "210=1")


def test_a_count_without_windows_commits_no_times(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count().to_stream().map_values(str).to("out", Produced(value_serde=S))
    with Cluster(tmp_path) as cluster:
        cluster.start(builder.build())
        cluster.send("a", timestamp=58)
        cluster.until_out("1")
        cluster.until(lambda: cluster.committed() == 1)
        (offset,) = cluster.broker.groups.group("app").offsets.values()
        assert TopicPartitionMetadata.decode(offset.metadata).processors == {}


@pytest.mark.parametrize("keeps_state", [True, False], ids=["state kept", "state lost"])
def test_a_suppression_goes_on_from_its_stream_time(keeps_state: bool, tmp_path: Path) -> None:
    """A change that has waited long enough by what came before the restart is sent on at once."""
    builder = StreamsBuilder()
    late = builder.table("in").suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded()).with_name("late"))
    late.to_stream().to("out")
    with Cluster(tmp_path, one_state=keeps_state) as cluster:
        app = cluster.start(builder.build())
        cluster.send("first", key="a", timestamp=100)
        cluster.until(lambda: cluster.committed() == 1)
        assert app.close(60)
        cluster.start(builder.build())
        cluster.send("second", key="b", timestamp=90)
        cluster.until_out("second")
