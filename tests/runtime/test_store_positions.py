"""Up to where a task's stores have its inputs: at the end of a batch, after a commit, and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Counting, counting
from runtime_support.task_kit import TaskKit
from streams.kafka.ports import OffsetAndMetadata

IN = TopicPartition("in", 0)


class Kit(TaskKit):
    @property
    def uncommitted(self) -> dict[TopicPartition, int]:
        return self.task.stores.positions.uncommitted("counts", self.task.inputs.queues)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return self.task.stores.positions.committed("counts")


def topology(supplier: Any = Counting, *, memory: bool = False, logging: bool = True) -> Any:
    store = (Stores.in_memory_key_value_store if memory else Stores.persistent_key_value_store)("counts")
    made = counting(store=store, supplier=supplier)
    return made if logging else _unlogged(store)


def _unlogged(store: Any) -> Any:
    builder = Stores.key_value_store_builder(store, Serdes.STRING, Serdes.LONG).with_logging_disabled()
    made = Topology().add_source("source", "in").add_processor("p", Counting, "source").add_sink("sink", "out", "p")
    return made.add_state_store(builder, "p")


def test_records_count_when_their_batch_is_processed_and_committed(tmp_path: Path) -> None:
    with Kit(topology(), tmp_path) as kit:
        assert (kit.uncommitted, kit.committed) == ({}, {})
        for value in (b"a", b"b", b"c"):
            kit.add("in", b"k", value)
        assert kit.uncommitted == {}
        kit.task.process(2)
        assert (kit.uncommitted, kit.committed) == ({IN: 2}, {})
        kit.commit()
        kit.task.process(1)
        assert (kit.uncommitted, kit.committed) == ({IN: 3}, {IN: 2})


def test_a_batch_counts_as_a_whole(tmp_path: Path) -> None:
    """In the middle of it nothing of it is promised."""
    seen = []

    class Looks(Counting):
        def process(self, record: Any) -> None:
            super().process(record)
            seen.append(kit.uncommitted)

    with Kit(topology(Looks), tmp_path) as kit:
        for value in (b"a", b"b", b"c"):
            kit.add("in", b"k", value)
        kit.task.process(100)
        assert seen == [{}, {}, {}]
        assert kit.uncommitted == {IN: 3}


def test_what_was_aborted_does_not_count(tmp_path: Path) -> None:
    with Kit(topology(), tmp_path) as kit:
        kit.pipe("in", b"k", b"a")
        kit.commit()
        kit.pipe("in", b"k", b"b")
        assert (kit.uncommitted, kit.committed) == ({IN: 2}, {IN: 1})
        kit.task.roll_back()
        assert (kit.uncommitted, kit.committed) == ({}, {})
        kit.task.start(kit.collector, {IN: OffsetAndMetadata(1)})
        assert (kit.uncommitted, kit.committed) == ({IN: 1}, {IN: 1})


def restart(directory: Path, committed: int, ends: dict[str, int], **store: Any) -> Kit:
    kit = Kit(topology(**store), directory, start=False)
    kit.task.start(kit.collector, {IN: OffsetAndMetadata(committed)}, ends)
    return kit


def test_a_restart_goes_on_where_the_engine_is(tmp_path: Path) -> None:
    """It may be further than the committed offsets: then records are processed again, which changes nothing."""
    with Kit(topology(), tmp_path) as kit:
        for value in (b"a", b"b", b"c"):
            kit.pipe("in", b"k", value)
        kit.commit()
    with restart(tmp_path, 1, {"counts": 3}) as kit:
        assert (kit.uncommitted, kit.committed) == ({IN: 3}, {IN: 3})
        kit.add("in", b"k", b"a")
        kit.task.process(1)
        kit.commit()
        assert (kit.uncommitted, kit.committed) == ({IN: 3}, {IN: 3})


@pytest.mark.parametrize(
    ("store", "ends", "seen"),
    [
        ({"memory": True}, {"counts": 2}, {IN: 4}),
        ({"memory": True, "logging": False}, {}, {}),
        ({}, {"counts": 0}, {}),
    ],
    ids=["in memory, restored", "in memory, not logged", "new"],
)
def test_a_store_without_rows_promises_nothing(
    store: dict[str, Any], ends: dict[str, int], seen: Any, tmp_path: Path
) -> None:
    """Records before its time are not in it, though the task has processed them."""
    with restart(tmp_path, 4, ends, **store) as kit:
        assert (kit.uncommitted, kit.committed) == (seen, seen)
