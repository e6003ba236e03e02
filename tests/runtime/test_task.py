"""A task: its life, the order of its records, and the steps of its commits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dsl import Grouped, Materialized, StreamsBuilder
from processor_api.errors import InternalError, ProcessingError
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.processing.idling import Idling
from streams.runtime.tasks.task import TaskState
from streams.testing.broker import EmbeddedClients

S, L = Serdes.STRING, Serdes.LONG
IN = TopicPartition("in", 0)


def counting(**store: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key(Grouped(key_serde=S, value_serde=S))
    counts: Materialized[str, int] = Materialized(name="n", key_serde=S, value_serde=L, **store)
    groups.count(materialized=counts).to_stream().map_values(str).to("out")
    return builder.build({})


def copying(*topics: str) -> Topology:
    topology = Topology()
    for topic in topics:
        topology.add_source(f"from-{topic}", topic)
    return topology.add_sink("sink", "out", *(f"from-{topic}" for topic in topics))


# -------------------------------------------------------------------------- order


def test_of_several_inputs_the_smallest_timestamp_goes_first(tmp_path: Path) -> None:
    """Each input keeps its own order (semantics 4)."""
    with TaskKit(copying("a", "b"), tmp_path) as kit:
        for topic, times in (("a", (30, 10, 50)), ("b", (20, 40))):
            for time in times:
                kit.add(topic, b"k", f"{topic}{time}".encode(), time)
        assert kit.task.process(100) == 5
        assert [value for _, value, _ in kit.sent("out")] == [b"b20", b"a30", b"a10", b"b40", b"a50"]
        assert kit.environment.cursor.stream_time == 50
        assert kit.task.inputs.positions() == {TopicPartition("a", 0): 3, TopicPartition("b", 0): 2}


def test_a_limit_is_kept_with_several_inputs(tmp_path: Path) -> None:
    with TaskKit(copying("a", "b"), tmp_path) as kit:
        for time in range(3):
            kit.add("a", b"k", b"v", time)
            kit.add("b", b"k", b"v", time)
        assert [kit.task.process(4), kit.task.process(4), kit.task.process(4)] == [4, 2, 0]


@pytest.mark.parametrize(("max_task_idle_ms", "waits"), [(-1, (0, 0)), (0, (1, 0)), (1000, (1, 1))])
def test_an_empty_input_is_waited_for(max_task_idle_ms: int, waits: tuple[int, int], tmp_path: Path) -> None:
    """Until it was read to its end, and then for the time that is configured (semantics 6)."""
    with TaskKit(copying("a", "b"), tmp_path) as kit:
        idling = Idling(max_task_idle_ms, kit.clock, EmbeddedClients(kit.broker).consumer({}))
        empty = kit.task.inputs.queues[TopicPartition("b", 0)]
        kit.add("a", b"k", b"v", 5)
        assert kit.task.process(10, idling) == 1 - waits[0]
        empty.at_end(0)
        if waits == (1, 1):
            assert kit.task.process(10, idling) == 0
            kit.clock.advance(999)
            assert kit.task.process(10, idling) == 0
            kit.clock.advance(1)
        assert kit.task.process(10, idling) == waits[0]


def test_a_pattern_may_get_a_topic_later(tmp_path: Path) -> None:
    """A task without a topic, then with one, then with two."""
    topology = Topology().add_source("source", re.compile("in-.*")).add_sink("sink", "out", "source")
    with TaskKit(topology, tmp_path) as kit:
        assert kit.task.process(10) == 0
        for number, topic in enumerate(("in-1", "in-2")):
            kit.task.read_also(TopicPartition(topic, 0), "source")
            kit.pipe(topic, b"k", topic.encode(), 10 - number)
        kit.add("in-1", b"k", b"late", 5)
        kit.add("in-2", b"k", b"early", 4)
        kit.task.process(10)
        assert [value for _, value, _ in kit.sent("out")] == [b"in-1", b"in-2", b"early", b"late"]


# -------------------------------------------------------------------------- time


def test_stream_time_goes_on_from_the_committed_partition_times(tmp_path: Path) -> None:
    """As the largest of them (semantics 2)."""
    committed = {
        TopicPartition(topic, 0): OffsetAndMetadata(7, TopicPartitionMetadata(time).encode())
        for topic, time in (("a", 70), ("b", 90))
    }
    with TaskKit(copying("a", "b"), tmp_path, start=False) as kit:
        kit.task.start(kit.collector, committed)
        assert kit.environment.cursor.stream_time == 90
        kit.pipe("a", b"k", b"v", 80)
        offset = kit.task.committable()[TopicPartition("a", 0)]
        assert offset.offset == 1
        assert TopicPartitionMetadata.decode(offset.metadata).partition_time == 80
        assert kit.environment.cursor.stream_time == 90


def test_punctuations_run_after_the_record_that_made_them_due(tmp_path: Path) -> None:
    """With one input or several (semantics 90, 91)."""
    for topics in (("a",), ("a", "b")):
        told: list[Any] = []

        class Ticking(Processor[str, str, str, str]):
            def init(self, context: Any) -> None:
                context.schedule(100, PunctuationType.STREAM_TIME, told.append)  # noqa: B023

            def process(self, record: Record[str, str]) -> None:
                told.append(record.value)  # noqa: B023

        topology = Topology()
        for topic in topics:
            topology.add_source(topic, topic)
        topology.add_processor("p", Ticking, *topics)
        with TaskKit(topology, tmp_path / str(len(topics))) as kit:
            for time in (10, 20, 250, 260):
                kit.add(topics[-1], b"k", str(time).encode(), time)
            kit.task.process(10)
            assert told == ["10", 10, "20", "250", 250, "260"]
            assert kit.environment.metrics.punctuations == 2


# -------------------------------------------------------------------------- commit


def test_nothing_is_forwarded_or_stored_before_the_commit(tmp_path: Path) -> None:
    """A cache keeps one change for each key; the commit sends, logs and stores it."""
    with TaskKit(counting(), tmp_path) as kit:
        for key in (b"a", b"a", b"b", b"a"):
            kit.pipe("in", key, b"v", 5)
        assert kit.task.commit_needed
        assert kit.sent("out") == kit.sent("app-n-changelog") == []
        kit.commit()
        assert kit.sent("out") == [(b"b", b"1", 5), (b"a", b"3", 5)]
        assert [key for key, _, _ in kit.sent("app-n-changelog")] == [b"b", b"a"]
        assert not kit.task.commit_needed
        assert kit.task.stores.progress.stored_offset("n") == 1
        assert kit.task.stores.progress.stored_positions() == {"in-0": 4}


def test_a_dropped_record_is_committed_too(tmp_path: Path) -> None:
    """Also when nothing else was read: its offset is passed, and a dead letter may have been sent."""
    config = {
        "deserialization.exception.handler": "LogAndContinueExceptionHandler",
        "errors.dead.letter.queue.topic.name": "dlq",
    }
    for topics in (("a",), ("a", "b")):
        topology = Topology()
        for topic in topics:
            topology.add_source(topic, topic, value_serde=L)
        with TaskKit(topology, tmp_path / str(len(topics)), config) as kit:
            kit.pipe("a", b"k", b"bad")
            assert kit.task.commit_needed
            assert kit.task.committable()[TopicPartition("a", 0)].offset == 1
            assert kit.sent("dlq") == [(b"k", b"bad", 0)]
            assert kit.dropped == 1


def test_inputs_that_did_not_move_are_not_committed(tmp_path: Path) -> None:
    with TaskKit(copying("a", "b"), tmp_path) as kit:
        assert not kit.task.commit_needed
        kit.pipe("a", b"k", b"v")
        assert set(kit.task.committable()) == {TopicPartition("a", 0)}


# -------------------------------------------------------------------------- life


def test_a_rebuilt_task_goes_on_from_its_last_commit(tmp_path: Path) -> None:
    """What was not committed is gone from its stores, its queues and its times; its engines stay open."""
    with TaskKit(counting(), tmp_path) as kit:
        kit.pipe("in", b"a", b"v", 5)
        kit.commit()
        kit.pipe("in", b"a", b"v", 99)
        kit.add("in", b"a", b"waiting", 100)
        engines = kit.task.stores.engines
        kit.task.roll_back()
        assert kit.task.state is TaskState.CREATED
        assert (kit.task.commit_needed, kit.task.inputs.queues, kit.environment.cursor.stream_time) == (False, {}, -1)
        assert (kit.budget.cached, kit.budget.uncommitted) == (0, 0)
        kit.task.start(kit.collector, {})
        assert kit.task.stores.engines is engines
        assert kit.store("n").get("a").value == 1
        kit.pipe("in", b"a", b"v", 6)
        kit.commit()
        assert kit.store("n").get("a") == (2, 6)


def test_a_closed_task_stays_closed(tmp_path: Path) -> None:
    """Closing again does nothing; any other step is a bug and says so."""
    with TaskKit(counting(), tmp_path) as kit:
        store = kit.store("n")
        kit.task.close()
        kit.task.close()
        assert kit.task.state is TaskState.CLOSED
        assert not store.is_open
        with pytest.raises(InternalError, match="a task cannot go from CLOSED to RUNNING") as caught:
            kit.task.become(TaskState.RUNNING)
        assert caught.value.task == "0_0"


def test_a_new_task_on_the_same_directory_finds_what_was_committed(tmp_path: Path) -> None:
    """And not what was not."""
    with TaskKit(counting(), tmp_path) as kit:
        kit.pipe("in", b"a", b"v", 5)
        kit.commit()
        kit.pipe("in", b"a", b"v", 5)
    with TaskKit(counting(), tmp_path) as kit:
        assert kit.store("n").get("a") == (1, 5)


def test_a_failure_in_the_middle_of_a_batch_names_the_very_record(tmp_path: Path) -> None:
    class Failing(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            if record.value == "bad":
                raise ValueError("x")

    topology = Topology().add_source("source", "in").add_processor("p", Failing, "source")
    with TaskKit(topology, tmp_path) as kit:
        for value in (b"good", b"good", b"bad", b"good"):
            kit.add("in", b"k", value)
        with pytest.raises(ProcessingError) as caught:
            kit.task.process(100)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("in", 0, 2)
