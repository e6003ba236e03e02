"""A task that is killed behind the write of its stores, and before its offsets are committed, reads records again.

Its windows are those of the offsets then, also where a record among these let them expire (semantics 181).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from processor_api.record import NO_TIMESTAMP
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams import EmitStrategy, Produced, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from streams.kafka.offset_metadata import MOST_TIMES, TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.plan.task_plan import plan_all
from streams.runtime.start.task_restores import store_times
from streams.runtime.tasks.task import TaskState
from streams.runtime.tasks.task_stores import StoreTime

MINUTE = 60_000
DAY = 86_400_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
WINDOWS: dict[str, Any] = {
    "time": TimeWindows.of_size_with_no_grace(MINUTE),
    "sliding": SlidingWindows.of_time_difference_with_no_grace(MINUTE),
    "session": SessionWindows.of_inactivity_gap_with_no_grace(MINUTE),
}
Starts = Mapping[TopicPartition, OffsetAndMetadata]


def counted(kind: str, *, final: bool = False) -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    windows: Any = builder.stream("in").group_by_key().windowed_by(WINDOWS[kind])
    windows = windows.emit_strategy(EmitStrategy.on_window_close()) if final else windows
    counts = windows.count(materialized="counts").to_stream(lambda key, count: f"{key.key} {key.window.start}")
    counts.to("out", Produced(key_serde="string", value_serde="long"))
    return builder.build()


def found(kit: TaskKit, start: int) -> list[int]:
    """The counts of a window, in the order in which they were sent."""
    return [int.from_bytes(value or b"") for key, value, _ in kit.sent("out") if key == f"a {start}".encode()]


def begun(kit: TaskKit, starts: Starts, records: list[tuple[bytes, int]]) -> None:
    """Begins at offsets, with the records behind them."""
    kit.task.become(TaskState.RESTORING)
    kit.task.stores.times = store_times(kit.task.plan, starts)
    kit.task.start(kit.collector, starts)
    for key, time in records:
        kit.pipe("in", key, b"v", time)


@pytest.mark.parametrize("cache", [0, 1 << 20])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_window_that_has_expired_meanwhile_is_counted_on(kind: str, cache: int, tmp_path: Path) -> None:
    """It was deleted with the write of the stores, or hidden, and counted from 1: the output had a count too low."""
    settings = {"statestore.cache.max.bytes": cache}
    start = MINUTE if kind != "sliding" else 0
    with TaskKit(counted(kind), tmp_path, settings, start=False) as kit:
        begun(kit, {}, [(b"a", MINUTE)] * 3)
        kit.commit()
        starts = kit.task.inputs.known_offsets
        for key, time in ((b"a", MINUTE), (b"far", DAY)):
            kit.pipe("in", key, b"v", time)
        kit.commit()
        assert max(found(kit, start)) == 4
    with TaskKit(counted(kind), tmp_path, settings, start=False) as kit:
        begun(kit, starts, [(b"a", MINUTE)])
        kit.commit()
        assert min(found(kit, start)) >= 4
        kit.pipe("in", b"far", b"v", DAY)
        for day in (2, 3):  # what has expired is deleted behind the commit
            kit.pipe("in", b"far", b"v", day * DAY)
            kit.commit()
        [engine] = kit.task.stores.engines.values()
        rows = [
            key for name in ("counts.wt", "counts.s") if engine.holds(name) for key, _ in engine.family(name).range()
        ]
        assert not [row for row in rows if b"a" in row[8:]]


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_final_result_is_that_of_all_records(kind: str, tmp_path: Path) -> None:
    """The window had left the store when its last record came again: the result had that record alone."""
    settings = {"statestore.cache.max.bytes": 0, "__emit.interval.ms.kstreams.windowed.aggregation__": 0}
    start = MINUTE if kind != "sliding" else 0
    with TaskKit(counted(kind, final=True), tmp_path, settings, start=False) as kit:
        begun(kit, {}, [(b"a", MINUTE)] * 3)
        kit.commit()
        starts = kit.task.inputs.known_offsets
        for key, time in ((b"a", MINUTE), (b"far", DAY)):
            kit.pipe("in", key, b"v", time)
        kit.commit()
    with TaskKit(counted(kind, final=True), tmp_path, settings, start=False) as kit:
        begun(kit, starts, [(b"a", MINUTE), (b"far", DAY)])
        assert [count >= 4 for count in found(kit, start)] == [True]


def test_times_that_are_not_committed_were_none_or_are_not_known() -> None:
    """Offsets that Java or a tool has committed have no stream time of an operator; nor may those of a large task."""
    plan = plan_all(counted("time", final=True), {"application.id": "app"}, {})
    place = TopicPartition("in", 0)

    def times(metadata: TopicPartitionMetadata) -> Mapping[str, StoreTime]:
        return store_times(plan, {place: OffsetAndMetadata(5, metadata.encode())})

    assert times(TopicPartitionMetadata(7, topic_id=TOPIC_ID)) == {"counts": StoreTime(NO_TIMESTAMP, NO_TIMESTAMP)}
    assert times(TopicPartitionMetadata(7)) == {}
    assert times(TopicPartitionMetadata(7, {"counts": 3})) == {}
    assert times(TopicPartitionMetadata(7, {"counts/stream-time": 9})) == {"counts": StoreTime(9, NO_TIMESTAMP)}
    known = {"counts": 3, "counts/stream-time": 9}
    assert times(TopicPartitionMetadata(7, known)) == {"counts": StoreTime(9, 3)}
    many = {f"other-{number}/stream-time": 1 for number in range(MOST_TIMES)}
    assert times(TopicPartitionMetadata(7, many, TOPIC_ID)) == {}
