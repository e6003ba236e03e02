"""Answers of foreign-key joins that come when their left row has changed: one task, whose topics are read by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from dsl import KTable, StreamsBuilder
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit

ASKED, ANSWERED = "app-j-subscription-registration-topic", "app-j-subscription-response-topic"


def joined(change: Callable[[str], str] | None = None) -> Topology:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", materialized="l")
    left = left if change is None else left.map_values(change)
    right: KTable[str, str] = builder.table("right", materialized="r")

    def refers(value: str) -> str | None:
        return None if value[0] == "-" else value[0]

    left.foreign_key_join(right, refers, lambda one, other: f"{one}+{other}", joined="j").to_stream().to("out")
    return builder.build()


class Late(TaskKit):
    """Messages of the join wait in their topics until they are delivered."""

    def __init__(self, topology: Topology, directory: Path) -> None:
        super().__init__(topology, directory, {"default.dsl.store": "in_memory", "statestore.cache.max.bytes": 0})
        self.delivered = dict.fromkeys((ASKED, ANSWERED), 0)
        for topic in self.delivered:
            self.broker.create_topic(topic)

    def put(self, topic: str, key: str, value: str | None) -> None:
        self.pipe(topic, key.encode(), None if value is None else value.encode())

    def deliver(self, topic: str) -> int:
        """Processes what waits in a topic of the join; returns how many messages."""
        self.collector.flush()
        partition = TopicPartition(topic, 0)
        log = self.broker.log(partition)
        records = log.read(self.delivered[topic], 100, False)[0]
        self.delivered[topic] = log.end_offset
        self.task.add(partition, records)
        self.task.process(max(1, len(records)))
        return len(records)

    def out(self) -> list[bytes | None]:
        self.collector.flush()
        return [value for _, value, _ in self.sent("out")]


def with_a_result(topology: Topology, directory: Path) -> Late:
    kit = Late(topology, directory)
    kit.put("right", "x", "R")
    kit.put("left", "a", "x1")
    assert kit.deliver(ASKED) == kit.deliver(ANSWERED) == 1
    return kit


@pytest.mark.parametrize("now", ["x2", "y1", "-", None])
def test_a_result_is_deleted_though_its_row_changes_meanwhile(now: str | None, tmp_path: Path) -> None:
    """Semantics 66: the answer that deletes it is for an older value, and a newer one of the same foreign key is not
    answered without a right row. The result stayed."""
    with with_a_result(joined(), tmp_path) as kit:
        assert kit.out() == [b"x1+R"]
        kit.put("right", "x", None)
        if now != "x2":  # a row without a foreign key is between: what follows it is not answered either
            kit.put("left", "a", "-")
        kit.put("left", "a", now)
        for _ in range(3):
            kit.deliver(ASKED)
            kit.deliver(ANSWERED)
        assert kit.out()[-1] is None
        assert kit.deliver(ASKED) == kit.deliver(ANSWERED) == 0


def test_a_newer_result_stays_when_the_older_is_deleted_late(tmp_path: Path) -> None:
    with with_a_result(joined(), tmp_path) as kit:
        kit.put("right", "y", "S")
        kit.put("right", "x", None)
        kit.put("left", "a", "y1")
        for _ in range(3):
            kit.deliver(ASKED)
            kit.deliver(ANSWERED)
        assert kit.out()[-1] == b"y1+S"


def test_rows_that_are_never_twice_the_same_are_not_asked_for_without_end(tmp_path: Path) -> None:
    """Semantics 67: no answer is ever taken for such a row."""
    numbers = itertools.count()
    with Late(joined(lambda value: f"{value}{next(numbers)}"), tmp_path) as kit:
        kit.put("left", "a", "x")
        kit.deliver(ASKED)
        kit.put("right", "x", "R")
        kit.put("right", "x", None)
        for _ in range(3):
            kit.deliver(ASKED)
            kit.deliver(ANSWERED)
        assert kit.deliver(ASKED) == kit.deliver(ANSWERED) == 0
