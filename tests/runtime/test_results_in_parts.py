"""Results that one record makes due go out in parts: a task may commit in between, and goes on where it was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams import BufferConfig, Produced, StreamsBuilder, Suppressed, TimeWindows
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.task import TaskState

WINDOW = 60_000
PART_ROWS = 1000
COUNT = 2 * PART_ROWS + 500
STORES = {"statestore.cache.max.bytes": 0}


def topology(buffer: Any = None) -> Topology:
    """Final counts of windows, which wait in a buffer."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    counts = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(WINDOW)).count()
    finals = counts.suppress(Suppressed.until_window_closes(buffer or BufferConfig.unbounded()))
    finals.to_stream().map(lambda window, count: (window.key, str(count))).to("out", Produced(key_serde="string"))
    return builder.build()


class Kit(TaskKit):
    """A task in a thread in which something else is due whenever the clock is looked at."""

    def __init__(self, directory: Path, made: Topology | None = None, **options: Any) -> None:
        self.asked = True
        self.pace = Pace(ManualClock(), None, 300.0, lambda: self.asked)
        super().__init__(made or topology(), directory, STORES, pace=self.pace, **options)

    def turn(self) -> None:
        self.pace.begin_turn(math.inf)
        self.task.process(10_000)

    def fill(self, count: int = COUNT) -> None:
        """So many windows wait for their end."""
        self.asked = False
        for number in range(count):
            self.add("in", b"key-%d" % number, b"v", 1)
        self.turn()
        self.commit()
        self.asked = True

    @property
    def keys(self) -> list[bytes | None]:
        return [key for key, _, _ in self.sent("out")]


def test_a_record_that_makes_many_results_due_sends_a_part_at_a_time(tmp_path: Path) -> None:
    """All were sent in the call for that one record: longer than a transaction may be open."""
    with Kit(tmp_path) as kit:
        kit.fill()
        kit.add("in", b"last", b"v", 10 * WINDOW)
        kit.add("in", b"behind", b"v", 10 * WINDOW)
        seen = []
        while kit.task.has_records():
            kit.turn()
            kit.commit()
            seen.append((len(kit.keys), kit.task.inputs.positions()[next(iter(kit.task.inputs.queues))] - COUNT))
        assert seen[-1] == (COUNT, 2)
        assert seen[0] == (2 * PART_ROWS, 1)  # committed with the record, before the one behind it
        assert kit.keys == sorted(kit.keys)
        assert len(set(kit.keys)) == COUNT


def test_what_is_left_is_sent_by_the_next_life_before_its_first_record(tmp_path: Path) -> None:
    """A worker was killed between two parts, after a commit; what it sent after that is not committed."""
    with Kit(tmp_path) as kit:
        kit.fill()
        kit.add("in", b"last", b"v", 10 * WINDOW)
        kit.turn()
        kit.commit()
        sent, offsets = kit.keys, kit.task.inputs.known_offsets
        kit.turn()
        assert len(kit.keys) > len(sent)
    with Kit(tmp_path, start=False) as again:
        again.task.become(TaskState.RESTORING)
        again.task.start(again.collector, offsets)
        assert again.task.has_records()
        while again.task.has_records():
            again.turn()
            again.commit()
        assert len(sent) + len(again.keys) == COUNT
        assert len({*sent, *again.keys}) == COUNT
        assert again.task.at_end is False  # it has not read its input to the end


def test_in_a_thread_with_time_all_parts_are_sent_in_one_turn(tmp_path: Path) -> None:
    with Kit(tmp_path) as kit:
        kit.fill()
        kit.asked = False
        kit.add("in", b"last", b"v", 10 * WINDOW)
        kit.turn()
        kit.commit()
        assert (len(kit.keys), kit.task.has_records()) == (COUNT, False)


def test_a_task_without_a_thread_sends_all_at_once(tmp_path: Path) -> None:
    """As in a test driver."""
    with TaskKit(topology(), tmp_path, STORES) as kit:
        for number in range(COUNT):
            kit.pipe("in", b"key-%d" % number, b"v", 1)
        kit.pipe("in", b"last", b"v", 10 * WINDOW)
        assert len(kit.sent("out")) == 0 or not kit.task.has_records()
        kit.commit()
        assert len(kit.sent("out")) == COUNT


def test_what_is_due_does_not_count_as_too_much(tmp_path: Path) -> None:
    """A buffer that has no room for the due results and the new ones is not full: the due ones leave."""
    buffer: Any = BufferConfig.max_records(COUNT).shut_down_when_full()
    with Kit(tmp_path, topology(buffer)) as kit:
        kit.fill()
        for number in range(10):
            kit.add("in", b"new-%d" % number, b"v", 10 * WINDOW)
        while kit.task.has_records():
            kit.turn()
            kit.commit()
        assert len(kit.keys) == COUNT


@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_a_drain_leaves_what_is_due_to_the_next_turn(tmp_path: Path, cache: int) -> None:
    """A cache above forwards the change that makes results due in a commit."""
    with Kit(tmp_path) as kit:
        kit.fill()
    with TaskKit(
        topology(), tmp_path / "cached", {"statestore.cache.max.bytes": cache}, pace=Pace(ManualClock(), None, 300.0)
    ) as kit:
        for number in range(COUNT):
            kit.pipe("in", b"key-%d" % number, b"v", 1)
        kit.commit()
        kit.pipe("in", b"last", b"v", 10 * WINDOW)
        kit.commit()
        while kit.task.has_records():
            kit.task.process(10)
            kit.commit()
        assert len(kit.sent("out")) == COUNT
