"""A task that is run over records of history writes what the same task writes in the test driver."""

from __future__ import annotations

import pytest

from dsl import Grouped, Materialized, Produced, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from streams.runtime.runner.task_runner import RunnerOptions, TaskRunner

CONFIG = {
    "application.id": "shop",
    "bootstrap.servers": "unused:9092",
    "default.key.serde": "string",
    "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
}
COUNTS = {"lines": 1, "counts": 1}


def counted() -> StreamsBuilder:
    builder = StreamsBuilder()
    words = builder.stream("lines").flat_map_values(str.split)
    table = words.group_by(lambda key, word: word, Grouped(name="words")).count(
        materialized=Materialized(name="counts")
    )
    table.to_stream().to("counts", Produced(value_serde=Serdes.LONG))
    return builder


def feed(runner: TaskRunner, topic: str, *values: bytes) -> None:
    n = len(values)
    runner.feed(topic, [None] * n, list(values), range(100, 100 + n), [None] * n, range(n))


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
    runner.close()


def test_a_task_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"no subtopology 7 with tasks; it has \[0, 1\]"):
        TaskRunner(counted, CONFIG, COUNTS, 7, 0)
    with pytest.raises(TopologyError, match="subtopology 0 has 1 tasks, there is none of partition 3"):
        TaskRunner(counted, CONFIG, COUNTS, 0, 3)


def test_records_of_a_topic_that_the_task_does_not_read_are_refused() -> None:
    runner = TaskRunner(counted, CONFIG, COUNTS, 0, 0, RunnerOptions(kept_outputs=frozenset()))
    with pytest.raises(TopologyError, match="task 0_0 does not read other-0; it reads lines-0"):
        feed(runner, "other", b"a")
    runner.close()
