"""A task that is run over records of history writes what the same task writes in the test driver.

Operators are compared in `tests/golden/test_task_runner.py`; here are the kinds of stores, and what a runner is told.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder, TimeWindows
from processor_api.context import ProcessorContext
from processor_api.errors import ProcessingError, StreamsError, TopologyError
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.kept_in_all_kinds import KINDS, history, kinds
from runtime_support.staged_run import STRINGS_UNCACHED as CONFIG
from runtime_support.staged_run import Piped, StagedRun, Written, compacted
from streams.runtime.runner.options import RunnerOptions
from streams.runtime.runner.resources import RunnerResources
from streams.runtime.runner.task_runner import TaskRunner
from streams.testing import TopologyTestDriver

COUNTS = {"lines": 1, "counts": 1}
S = Serdes.STRING


def counted() -> StreamsBuilder:
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values(str.split)
    table = words.group_by(lambda key, word: word, Grouped(name="words")).count(
        materialized=Materialized(name="counts")
    )
    table.to_stream().to("counts", Produced(value_serde=Serdes.LONG))
    return builder


def feed(runner: TaskRunner, topic: str, *values: bytes | None, first: int = 0, key: bytes | None = None) -> None:
    n = len(values)
    runner.feed(
        topic, [key] * n, list(values), range(100 + first, 100 + first + n), [None] * n, range(first, first + n)
    )


def test_records_of_sinks_are_taken_in_order_and_once() -> None:
    runner = TaskRunner(counted, CONFIG, COUNTS, 0, 0)
    feed(runner, "lines", b"a b", b"a")
    assert runner.run() == 2
    topic = "shop-words-repartition"
    assert runner.take() == [
        (topic, b"a", b"a", 100, None, -1),
        (topic, b"b", b"b", 100, None, -1),
        (topic, b"a", b"a", 101, None, -1),
    ]
    assert runner.take() == []
    assert (runner.topics, runner.positions(), runner.partition_times()) == (("lines",), {"lines": 2}, {"lines": 101})
    assert (runner.stream_time, runner.processed_records, runner.dropped_records) == (101, 2, 0)
    runner.close()


def test_only_outputs_that_are_asked_for_are_kept() -> None:
    for kept, count in ((frozenset({"other"}), 0), (frozenset({"shop-words-repartition"}), 1)):
        runner = TaskRunner(counted, CONFIG, COUNTS, 0, 0, RunnerOptions(kept_outputs=kept))
        feed(runner, "lines", b"a")
        runner.run()
        assert len(runner.take()) == count
        runner.close()


def test_nothing_was_fed() -> None:
    runner = TaskRunner(counted, CONFIG, COUNTS, 1, 0)
    assert runner.run() == 0
    runner.commit()
    assert (runner.take(), runner.positions(), runner.stream_time) == ([], {}, -1)
    assert {topic: list(rows) for topic, rows in runner.changelog().items()} == {"shop-counts-changelog": []}
    runner.close()


def test_a_runner_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its own directory is removed, also when it cannot be opened, and closing it twice is no error."""
    options = RunnerOptions(directory=tmp_path / "new", store_bytes=0, capture_bytes=0)
    runner = TaskRunner(counted, CONFIG, COUNTS, 1, 0, options)
    feed(runner, "shop-words-repartition", b"a", key=b"a")
    runner.run()
    runner.commit()
    assert list((tmp_path / "new").rglob("CURRENT"))
    runner.close()
    runner.close()
    for call in (runner.run, runner.commit, runner.changelog):
        with pytest.raises(StreamsError, match="the runner is closed"):
            call()
    with pytest.raises(TopologyError):
        TaskRunner(counted, CONFIG, COUNTS, 9, 0, options)
    assert list((tmp_path / "new").iterdir()) == []


def test_options_of_databases_are_set_for_stores_only() -> None:
    """The setter was asked about captured changelogs too, under names that no store has."""
    asked: set[str] = set()
    config = {**CONFIG, "rocksdb.config.setter": lambda store, options: asked.add(store)}
    runner = TaskRunner(counted, config, COUNTS, 1, 0, RunnerOptions(store_bytes=0, capture_bytes=0))
    feed(runner, "shop-words-repartition", b"a", key=b"a")
    runner.run()
    runner.commit()
    assert [len(list(rows)) for rows in runner.changelog().values()] == [1]
    assert "counts" in asked
    assert not {one for one in asked if "changelog" in one}
    runner.close()


# ---------------------------------------------------------------------- refused


def test_a_task_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"does not have a subtopology 7 with tasks; it has \[0, 1\]"):
        TaskRunner(counted, CONFIG, COUNTS, 7, 0)
    with pytest.raises(TopologyError, match="subtopology 0 has 1 tasks, so partition 3 does not have a task"):
        TaskRunner(counted, CONFIG, COUNTS, 0, 3)


def test_records_of_a_topic_that_the_task_does_not_read_are_refused() -> None:
    runner = TaskRunner(counted, CONFIG, COUNTS, 0, 0)
    with pytest.raises(TopologyError, match="task 0_0 does not read other-0; it reads lines-0"):
        feed(runner, "other", b"a")
    runner.close()


def test_columns_of_different_lengths_are_refused_and_nothing_is_fed() -> None:
    runner = TaskRunner(counted, CONFIG, COUNTS, 0, 0)
    with pytest.raises(ValueError, match="shorter"):
        runner.feed("lines", [None, None], [b"a"], [1, 2], [None, None], [0, 1])
    assert runner.run() == 0
    runner.close()


def test_rows_of_unknown_topics_are_refused() -> None:
    for options, message in (
        (RunnerOptions(global_rows={"rates": []}), "no global store is filled from topic 'rates'.* are none"),
        (
            RunnerOptions(state={"shop-x-changelog": []}),
            "task 1_0 does not have a store with the changelog 'shop-x-changelog'",
        ),
    ):
        with pytest.raises(TopologyError, match=message):
            TaskRunner(counted, CONFIG, COUNTS, 1, 0, options)


def test_an_error_of_user_code_names_the_record() -> None:
    def failing() -> StreamsBuilder:
        builder = StreamsBuilder()
        builder.stream("lines").map_values(lambda value: str(int(value))).to("counts")
        return builder

    runner = TaskRunner(failing, CONFIG, COUNTS, 0, 0)
    feed(runner, "lines", b"1", b"x", first=7)
    with pytest.raises(ProcessingError, match="ValueError in node") as caught:
        runner.run()
    assert (caught.value.topic, caught.value.offset) == ("lines", 8)
    runner.close()


# ---------------------------------------------------------------------- every kind of store


def by_driver(topology: Any, config: dict[str, Any], records: list[Piped]) -> dict[str, list[Written]]:
    with TopologyTestDriver(topology, config) as driver:
        for record in records:
            driver.pipe_raw(*record)
        produced = driver.take_produced()
    return {topic: [(*one[:3], list(one[3])) for one in found] for topic, found in produced.items()}


def assert_same(run: StagedRun, want: dict[str, list[Written]], logged: Callable[[Any], Any] = list) -> None:
    logs = run.changelogs()
    assert run.produced == {topic: found for topic, found in want.items() if topic not in logs}
    for topic, rows in logs.items():
        expected = compacted(want.get(topic, []), versioned=topic.endswith("-versions-changelog"))
        assert logged(rows) == logged(expected), topic


@pytest.fixture(scope="module", name="driven")
def driven_fixture() -> dict[str, list[Written]]:
    """What the test driver writes; its commit after each record writes the file of the custom store again."""
    return by_driver(kinds(), {**CONFIG, "changelog.updates": "each"}, history(150))


@pytest.mark.parametrize(
    "memory", [{}, {"store_bytes": 0, "capture_bytes": 0}, {"store_bytes": 3000, "capture_bytes": 9000}], ids=str
)
def test_every_kind_of_store_does_what_it_does_in_the_driver(
    memory: dict[str, int], driven: dict[str, list[Written]], tmp_path: Path
) -> None:
    """With commits after batches, and with rows and changelogs in memory, on disk, and moved there."""
    config = {**CONFIG, "changelog.updates": "each"}
    with StagedRun(kinds, config, COUNTS, directory=tmp_path, **memory) as run:
        run.run_stages(history(150), 37)
        run.commit()
        assert_same(run, driven)
        assert len(run.changelogs()) == len(KINDS)


def test_only_the_last_update_before_a_commit_is_logged_as_live(driven: dict[str, list[Written]]) -> None:
    """The rows are the same then, and their order may be another."""
    with StagedRun(kinds, CONFIG, COUNTS) as run:
        run.run_stages(history(150), 37)
        run.commit()
        assert_same(run, driven, lambda rows: sorted(row[:3] for row in rows if row[1] is not None))


def test_a_runner_goes_on_from_the_state_of_another() -> None:
    """Stores, stream times and partition times are those at the end of the first, so late records are dropped alike."""
    config = {**CONFIG, "changelog.updates": "each"}
    records = [record for record in history(400) if record[0] == "lines"]
    want = by_driver(durable, config, records)
    with StagedRun(durable, config, COUNTS) as first:
        first.run_stages(records[:250], 50)
        first.commit()
        (runner,) = first.runners
        state = {topic: list(rows) for topic, rows in runner.changelog().items()}
        times, produced = runner.partition_times(), first.produced
        processors = runner.processor_times()
    how = {"state": state, "partition_times": times, "processor_times": processors}
    with StagedRun(durable, config, COUNTS, **how) as second:
        second.run_stages(records[250:], 50)
        second.commit()
        assert second.runners[0].partition_times() == {"lines": max(record[3] for record in records)}
        for topic, found in second.produced.items():
            produced.setdefault(topic, []).extend(found)
        second.produced = produced
        assert_same(second, want)


def durable() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("lines")
    windows = TimeWindows.of_size_and_grace(100, 50)
    counts = stream.group_by_key().windowed_by(windows).count(materialized=Materialized(name="counts"))
    counts.to_stream().map(lambda key, value: (key.key, str(value))).to("counts")
    return builder


# ---------------------------------------------------------------------- times, global stores, several inputs


def test_the_wall_clock_goes_with_the_records_if_asked() -> None:
    """It begins at the first record; each punctuation by it runs once its time has come."""

    class Ticks(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            context.schedule(100, PunctuationType.WALL_CLOCK_TIME, lambda now: context.forward(Record("t", "t", now)))

        def process(self, record: Record[str, str]) -> None:
            """Only the punctuations matter."""

    def ticking() -> Topology:
        made = Topology().add_source("source", "lines", key_serde=S, value_serde=S)
        return made.add_processor("ticks", Ticks, "source").add_sink("s", "counts", "ticks", key_serde=S, value_serde=S)

    for asked, ticks in ((True, [1_000_350, 1_000_400]), (False, [])):
        runner = TaskRunner(ticking, CONFIG, COUNTS, 0, 0, RunnerOptions(event_time=asked))
        times = [1_000_000, 1_000_050, 1_000_350, 1_000_399, 1_000_100, 1_000_400, 1_000_410]
        runner.feed("lines", [b"k"] * 7, [b"v"] * 7, times, [None] * 7, range(7))
        assert runner.run() == 7
        assert [one[3] for one in runner.take()] == ticks
        runner.close()


def joined() -> StreamsBuilder:
    builder = StreamsBuilder()
    names = builder.global_table("names", materialized="names")
    left = builder.stream("left", Consumed(timestamp_extractor=lambda record, previous: int(record.value)))
    right = builder.stream("right", Consumed(timestamp_extractor=lambda record, previous: int(record.value)))
    named = left.merge(right).join(names, lambda value, name: f"{name} {value}", key_selector=lambda key, value: key)
    named.process(Times).to("out")
    return builder


class Times(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_several_inputs_are_merged_by_the_times_that_extractors_give() -> None:
    """Of equal times the first topic goes first, as live with full buffers."""
    names = [(b"k", b"old", 1, None, 0), (b"k", b"new", 2, None, 1), (b"gone", b"x", 1, None, 0)]
    counts = {"left": 1, "right": 1, "names": 1, "out": 1}
    options = RunnerOptions(global_rows={"names": iter(names)}, store_bytes=0)
    runner = TaskRunner(joined, CONFIG, counts, 1, 0, options)
    for topic, values in (("right", [b"3", b"20", b"21"]), ("left", [b"5", b"20", b"4", b"50"])):
        n = len(values)
        runner.feed(topic, [b"k"] * n, values, [9] * n, [None] * n, range(n))
    assert runner.run() == 7
    assert [(value, time) for _, _, value, time, _, _ in runner.take()] == [
        (b"new %d" % time, time) for time in (3, 5, 20, 4, 20, 21, 50)
    ]
    assert runner.topics == ("left", "right")
    runner.close()


def test_runners_share_global_stores_and_close_only_their_own() -> None:
    counts = {"left": 2, "right": 2, "names": 1, "out": 1}
    options = RunnerOptions(global_rows={"names": [(b"k", b"n", 1, None, 0)]})
    shared = RunnerResources(joined, CONFIG, options)
    runners = [TaskRunner(joined, CONFIG, counts, 1, partition, options, shared) for partition in (0, 1)]
    for runner in runners:
        runner.feed("left", [b"k"], [b"5"], [9], [None], [0])
        runner.run()
        assert [one[2] for one in runner.take()] == [b"n 5"]
        runner.close()
    assert shared.directory.exists()
    shared.close()
    assert not shared.directory.exists()
