"""The parts of changelogs that are to be restored, each for one store, and how far each is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from processor_api.task_id import TaskId, TopicPartition
from state.engine.port import OFFSETS, Batch, Engine
from state.formats.offsets import write_offset, write_point
from state.write_buffer.store_kind import Restore
from streams.kafka.producing.zero_timestamps import ZERO_SENT, as_written

log = logging.getLogger("streams.restore")


def _always() -> bool:
    return True


@dataclass
class RestoreProgress:
    """Holds how far the restore of one store is."""

    restored: int = 0
    """Records restored so far."""
    position: int | None = None
    """The next offset to read; ``None`` before the first batch."""
    started_at: float = 0.0
    lost: bool = False
    """Whether the client has stopped reading, because the position is outside of the changelog."""
    failing_since: float | None = None
    """When the client began to report errors, if no record has come since."""
    last_error: str = ""


class RestoredBatch(NamedTuple):
    """The rows of some records of a changelog, to be written to the engine of their store."""

    batch: Batch
    """The rows, with the offset of the last record."""
    last: int
    """That offset."""
    records: int


@dataclass(frozen=True, eq=False)
class RestoreJob:
    """Names the part of a changelog partition that is to be read into a store."""

    task: TaskId
    store: str
    partition: TopicPartition
    engine: Engine
    restore: Restore
    start: int
    """First offset to read; `AT_BEGINNING` for all."""
    end: int
    """Offset to reach."""
    offset_key: bytes
    """The key under which the engine keeps the offset of the last record that the store holds."""
    point_key: bytes = b""
    """The key under which the engine keeps a record that the changelog had, with the epoch of its leader; empty where
    it keeps none."""
    from_source: bool = False
    """Whether a source topic serves as the changelog: records in it without a key are not for the store."""
    is_enough: Callable[[], bool] = _always
    """Whether the store needs none of the records before the start; it is asked at the end."""
    progress: RestoreProgress = field(default_factory=RestoreProgress)

    @property
    def next_offset(self) -> int:
        """The next offset that the store takes."""
        position = self.progress.position
        return max(self.start, 0) if position is None else position

    @property
    def remaining(self) -> int:
        """The number of offsets that are still to be read."""
        return max(0, self.end - self.next_offset)

    def batch_of(self, messages: Sequence[Any]) -> RestoredBatch:
        """Returns the rows of records, which follow those that the store has.

        :param messages: at least one; of a source topic, records at or behind the end are left out.
        """
        kind, last = type(messages[0]), messages[-1].offset()
        if self.from_source:  # records after the end were not processed, those without a key are not for the store
            last = min(last, self.end - 1)
            messages = [message for message in messages if message.offset() <= last and message.key() is not None]
        batch = self.engine.batch()
        stamps: Sequence[int] = [stamp for _, stamp in map(kind.timestamp, messages)]
        headers: Iterable[Any] = map(kind.headers, messages)
        if ZERO_SENT in stamps and not self.from_source:
            stamps, headers = as_written(stamps, headers)
        self.restore(batch, map(kind.key, messages), map(kind.value, messages), stamps, headers)
        handle = self.engine.family(OFFSETS).handle
        batch.put(self.offset_key, write_offset(last), handle)
        # A broker that gives no epochs leaves the earlier record, which the changelog has as well.
        if self.point_key and messages and (epoch := messages[-1].leader_epoch()) is not None:
            batch.put(self.point_key, write_point(messages[-1].offset(), epoch), handle)
        return RestoredBatch(batch, last, len(messages))

    def place(self) -> dict[str, Any]:
        """Returns where this happens, for errors and logs."""
        topic, partition = self.partition
        return {"topic": topic, "partition": partition, "store": self.store, "task": str(self.task)}


def plan_restore(
    stored: int | None,
    beginning: int,
    end: int,
    store: str,
    task: TaskId,
    *,
    has_rows: bool,
    is_committed: bool = False,
) -> tuple[int, bool]:
    """Returns where to start reading a changelog, and whether the store's rows must be removed first.

    Logs an error if the store has rows to remove, and a warning if they are rows of records that are processed again.

    :param stored: offset of the last record that the store holds.
    :param is_committed: whether the end is the committed offset of a source topic, and not the end of the changelog.
    """
    if stored is not None and beginning <= stored + 1 <= end:
        return stored + 1, False
    place = {"store": store, "task": str(task), "offset": stored, "beginning": beginning, "end": end}
    if stored is not None and stored >= end and is_committed:
        log.warning(
            "store is rebuilt from its changelog: it is ahead of the committed offset, and would show rows of later"
            " records",
            extra=place,
        )
    elif stored is not None or has_rows:
        reason = "its offset is outside of the changelog" if stored is not None else "it has rows and no offset"
        log.error("store is rebuilt from its changelog: %s", reason, extra=place)
    return beginning, True
