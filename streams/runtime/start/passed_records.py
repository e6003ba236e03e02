"""Finds the records of a window store's changelog that a restore passes over, because all of their rows have expired.

The timestamp of a record of such a changelog is never earlier than the window that it holds, if an aggregation over
time windows or sliding windows, or a deduplication, writes it. So the first record at or after the time from which on
the store keeps rows has all rows that are kept behind it (docs/decisions/changelogs-and-restore.md, "A restore of a
window store skips expired records").
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from processor_api.errors import RetryableError, StreamsError
from processor_api.processor import Operator
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.nodes import ProcessorNode
from state.registry.kinds import kind_of
from state.row_format.codec import PLAIN
from state.windowed.segments import Retention
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.store_kind import is_persistent
from streams.kafka.ports import Admin
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")

ChangelogRange = tuple[TopicPartition, int, int]
"""A changelog, with the first offset that it has and the one to reach."""


class LaterStart(NamedTuple):
    """The offset at which a restore starts, behind the first one of its changelog."""

    offset: int
    least_time: int
    """The stream time in ms that the store has at the end, unless records that were passed over are needed."""


class _Needed(NamedTuple):
    kept_from: int
    """The time of the first rows that a restore keeps."""
    least: int


class PassedRecords:
    """Finds where the restores of a stream thread's window stores start.

    :param admin: is asked for the offsets of times, and for what the timestamps of changelogs are.
    """

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._needed: set[tuple[TaskId, str]] = set()

    def are_needed(self, task: Task, store: str) -> None:
        """Notes that a store needs all of its changelog: the records behind a later start did not reach its time."""
        self._needed.add((task.id, store))
        log.warning(
            "store is restored from all of its changelog: the records of its retention do not reach the time of its"
            " operator",
            extra={"task": str(task.id), "store": store},
        )

    def later_starts(self, task: Task, changelogs: Mapping[str, ChangelogRange]) -> dict[str, LaterStart]:
        """Returns the starts of those stores that need not read their changelogs from the beginning.

        :param changelogs: those of stores without rows.
        :raises RetryableError: if no broker answers.
        """
        times = {
            store: found
            for store in changelogs
            if (task.id, store) not in self._needed and (found := _times(task, store)) is not None
        }
        asked = {changelogs[store][0]: found.kept_from for store, found in times.items()}
        if not asked:
            return {}
        try:
            settings = self._admin.topic_settings({partition.topic for partition in asked})
            offsets = self._admin.offsets_for_time(asked)
        except RetryableError:
            raise
        except StreamsError as error:
            log.warning(
                "window stores are restored from all of their changelogs: the offsets of times cannot be asked for",
                extra={"task": str(task.id), "stores": ", ".join(sorted(times)), "error": str(error)},
            )
            return {}
        starts: dict[str, LaterStart] = {}
        for store, found in times.items():
            partition, beginning, end = changelogs[store]
            # Without such a record, or with one behind the end, nothing shows that the store's time is reached.
            offset = offsets.get(partition, end)
            is_own = settings.get(partition.topic, {}).get("message.timestamp.type") == "CreateTime"
            if is_own and beginning < offset < end:
                starts[store] = LaterStart(offset, found.least)
                log.info(
                    "store is restored from where its retention begins",
                    extra={
                        "task": str(task.id),
                        "store": store,
                        "changelog": str(partition),
                        "from": offset,
                        "to": end,
                        "passed": offset - beginning,
                    },
                )
        return starts


def _times(task: Task, store: str) -> _Needed | None:
    """Returns the times of a store that keeps rows for a while, by what was committed; ``None`` if they do not tell
    which records it needs."""
    time, builder = task.stores.times.get(store), task.plan.topology.stores[store]
    window_ms = _logged_window_ms(task.plan, store)
    if time is None or window_ms is None:
        return None
    kind = kind_of(builder)
    if kind.changelog_form is not ChangelogForm.WINDOWS or kind.codec.fill is PLAIN.fill:
        return None  # rows without timestamps may have been written back with those of the clock
    retention = Retention.of(builder, persistent=is_persistent(builder, task.stores.progress.engine_of(store)))
    # The restored store ends at this time or later, and keeps whole segments from its retention before that.
    least = min(time.observed, time.needed) - window_ms
    kept_from = (least - retention.at_least_ms) // retention.interval_ms * retention.interval_ms
    return _Needed(kept_from, least) if kept_from > 0 else None


def _logged_window_ms(plan: TaskPlan, store: str) -> int | None:
    """Returns the length of the windows of a store, if all that write it log no row with a timestamp before its own."""
    if store not in plan.changelogs or store in plan.source_changelogs:
        return None
    nodes = [node for node in plan.topology.nodes.values() if store in plan.topology.stores_of(node.name)]
    if not all(isinstance(node, ProcessorNode) and isinstance(node.supplier, Operator) for node in nodes):
        return None
    lengths = [own.window_ms for own in plan.own_times if own.store == store]
    known = [length for length in lengths if length is not None]
    return max(known) if known and len(known) == len(lengths) else None
