"""Whether the rows of a task on disk are those of the changelog records that its offsets say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from state.engine.memory import MemoryEngine
from state.registry.kinds import families_of
from state_support.all_kinds import topology
from state_support.store_kit import LogRecord, load

__all__ = ["check_stores"]


def check_stores(stores: Any, changelogs: Mapping[str, Sequence[LogRecord]]) -> dict[str, int]:
    """Compares each store with one made from its changelog alone; returns the offsets.

    :param stores: the opened :class:`~streams.runtime.tasks.task_stores.TaskStores` of the task of all kinds.
    """
    offsets = {}
    for name, builder in topology().stores.items():
        offset = stores.progress.stored_offset(name)
        assert offset is not None or not stores.progress.has_rows(name), name
        offsets[name] = -1 if offset is None else offset
        records = changelogs.get(name, ())[: offsets[name] + 1]
        assert len(records) == offsets[name] + 1, "the offset is of a record that was never logged"
        expected: Any = MemoryEngine()
        load(builder, expected, records)
        for family in families_of(builder):
            found = list(stores.progress.engine_of(name).family(family).range())
            assert found == list(expected.family(family).range()), family
    return offsets
