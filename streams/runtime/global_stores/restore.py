"""Fills the global stores up to where their topics end at the start, before any task runs (semantics 93).

A store whose processor stores records unchanged takes their bytes as they are; any other store is filled by its
processor (KAFKA-7663). The same reader follows the topics from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError
from processor_api.stores.builder import GlobalStore
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import LogPoint
from streams.kafka.ports import AT_BEGINNING
from streams.restore.reports import RestoreLog, StateRestoreListener
from streams.runtime.global_stores.task import GlobalTask
from streams.runtime.global_stores.topic_reader import TopicReader

log = logging.getLogger("streams.restore")

Divergences = Callable[[Collection[tuple[TopicPartition, LogPoint]]], Mapping[tuple[TopicPartition, LogPoint], int]]
"""Returns those of several records that are no longer in their logs, each with the first offset that differs."""


@dataclass
class _PartitionRestore:
    """Holds how far one partition was read."""

    spec: GlobalStore
    start: int
    end: int
    position: int
    restored: int = 0
    started_at: float = 0.0
    done: bool = False


class GlobalRestore:
    """Fills all global stores. The owner consumes the records and passes them on; nothing here waits for any.

    :param timeout_ms: how long the cluster may fail to answer (``task.timeout.ms``).
    :param topic_ids: of the topics, where the cluster knows them.
    :param divergences: asks which records are no longer in their logs.
    """

    def __init__(
        self,
        task: GlobalTask,
        reader: TopicReader,
        clock: Clock,
        listeners: Collection[StateRestoreListener],
        timeout_ms: int,
        topic_ids: Mapping[str, str],
        divergences: Divergences,
    ) -> None:
        self._task = task
        self._topic_ids = topic_ids
        self._divergences = divergences
        self._reader = reader
        self._clock = clock
        self._listeners = listeners
        self._timeout_s = timeout_ms / 1000
        self._parts: dict[TopicPartition, _PartitionRestore] = {}
        self._last_record_at = clock.monotonic()
        self._log = RestoreLog("global stores")

    @property
    def done(self) -> bool:
        """Whether all stores are filled."""
        return all(part.done for part in self._parts.values())

    # ------------------------------------------------------------------ where to start

    def start(self, partitions: Collection[TopicPartition]) -> None:
        """Finds what each store lacks and starts to read it."""
        beginnings, ends = self._reader.beginning_offsets(partitions), self._reader.end_offsets(partitions)
        now = self._clock.monotonic()
        starts: dict[TopicPartition, int] = {}
        for topic, spec in self._task.specs.items():
            own = [partition for partition in partitions if partition.topic == topic]
            stored = self._kept_offsets(spec, own, beginnings, ends)
            for partition in own:
                start = stored.get(partition, beginnings[partition] - 1) + 1
                starts[partition] = start if partition in stored else AT_BEGINNING
                self._parts[partition] = _PartitionRestore(spec, start, ends[partition], start, started_at=now)
        self._reader.assign(starts)
        self._last_record_at = now
        self._log.begin([max(0, part.end - part.start) for part in self._parts.values()], now)
        for partition, part in self._parts.items():
            if part.start < part.end:
                self._report_start(partition, part)
            else:
                part.done = True

    def _kept_offsets(
        self,
        spec: GlobalStore,
        partitions: Collection[TopicPartition],
        beginnings: dict[TopicPartition, int],
        ends: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Returns the offsets up to which a store is filled; empties it if one of them is outside of the topic, or
        means another record in it."""
        stores = self._task.stores
        self._bind_topic(spec)
        found = {partition: stores.stored_offset(spec, partition) for partition in partitions}
        stored = {partition: offset for partition, offset in found.items() if offset is not None}
        lost = [name for name, offset in stored.items() if not beginnings[name] <= offset + 1 <= ends[name]]
        for partition in lost:
            self.log_rebuild(spec, partition, stored[partition])
        points = [] if lost else [(one, point) for one in stored if (point := stores.stored_point(spec, one))]
        for (partition, point), first in (self._divergences(points) if points else {}).items():
            lost.append(partition)
            log.error(
                "global store is rebuilt from its topic: its log was truncated and now has other records",
                extra={"store": spec.name, "partition": str(partition), "offset": point.offset, "differs_from": first},
            )
        if not stored and stores.has_rows(spec):
            log.error("global store is rebuilt from its topic: it has rows and no offset", extra={"store": spec.name})
        if lost or not stored:
            stores.wipe(spec)
            return {}
        return stored

    def _bind_topic(self, spec: GlobalStore) -> None:
        """Empties a store whose topic was deleted and made again."""
        now = self._topic_ids.get(spec.topic)
        former = None if now is None else self._task.stores.bind_topic(spec, now)
        if former is not None:
            log.error(
                "global store is rebuilt from its topic: the topic was deleted and made again",
                extra={"store": spec.name, "topic": spec.topic, "former_id": former, "id": now},
            )

    @staticmethod
    def log_rebuild(spec: GlobalStore, partition: TopicPartition, offset: int | None) -> None:
        """Logs that a store is emptied, because its offset is outside of its topic."""
        log.error(
            "global store is rebuilt from its topic: its offset is outside of the topic",
            extra={"store": spec.name, "partition": str(partition), "offset": offset},
        )

    def restart(self, lost: TopicPartition) -> None:
        """Starts again, after the records of a partition were deleted while they were being read."""
        part = self._parts[lost]
        self.log_rebuild(part.spec, lost, part.position - 1)
        self._task.stores.wipe(part.spec)
        partitions = list(self._parts)
        self._reader.unassign(partitions)
        self._parts.clear()
        self.start(partitions)

    # ------------------------------------------------------------------ reading

    def take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        """Writes a run of records of one partition to its store."""
        part = self._parts[partition]
        position = messages[-1].offset() + 1
        if part.spec.reprocess or self._task.stores.stores[part.spec.name].participants:
            keyed = [message for message in messages if message.key() is not None]
            if keyed:
                self._task.process(partition, keyed)
            self._task.move(partition, position)
            count = len(keyed)
        else:
            self._task.note_read(partition, messages[-1])
            count = self._task.stores.load(part.spec, messages)
        self._task.drop_unkeyed(part.spec, len(messages) - count)
        part.restored += count
        part.position = position
        self._last_record_at = self._clock.monotonic()
        for listener in self._listeners:
            listener.on_batch_restored(partition, part.spec.name, position - 1, count)
        self._check_end(partition, part)

    def at_end(self, partition: TopicPartition, offset: int) -> None:
        """Records that the end of a partition was reached, past control records."""
        part = self._parts[partition]
        part.position = max(part.position, offset)
        self._check_end(partition, part)

    def check_idle(self) -> None:
        """Ends partitions that are at their end without an event; to be called when a poll returned nothing.

        :raises RetryableError: if no record came for ``task.timeout.ms``.
        """
        for partition, part in self._parts.items():
            position = None if part.done else self._reader.position(partition)
            if position is not None:
                part.position = max(part.position, position)
                self._check_end(partition, part)
        if self._clock.monotonic() > self._last_record_at + self._timeout_s and not self.done:
            waiting = next(partition for partition, part in self._parts.items() if not part.done)
            raise RetryableError(
                f"the global stores are not filled: no record arrived for {self._timeout_s:g} s (task.timeout.ms)",
                topic=waiting.topic,
                partition=waiting.partition,
                store=self._parts[waiting].spec.name,
            )

    def finish(self) -> None:
        """Brings what was loaded to disk, with its offsets; to be called when all is read."""
        for partition, part in self._parts.items():
            if part.restored or part.position > part.start:
                self._task.move(partition, part.position)
        self._task.stores.flush()
        self._task.apply()

    # ------------------------------------------------------------------ reports

    def _report_start(self, partition: TopicPartition, part: _PartitionRestore) -> None:
        for listener in self._listeners:
            listener.on_restore_start(partition, part.spec.name, part.start, part.end)
        log.debug(
            "restoring",
            extra={"store": part.spec.name, "changelog": str(partition), "from": part.start, "to": part.end},
        )

    def _check_end(self, partition: TopicPartition, part: _PartitionRestore) -> None:
        if part.done or part.position < part.end:
            return
        part.done = True
        self._log.restored(part.restored)
        elapsed_ms = int((self._clock.monotonic() - part.started_at) * 1000)
        log.debug(
            "restored",
            extra={
                "store": part.spec.name,
                "changelog": str(partition),
                "records": part.restored,
                "elapsed_ms": elapsed_ms,
            },
        )
        for listener in self._listeners:
            listener.on_restore_end(partition, part.spec.name, part.restored)
        if self.done:
            self._log.end(self._clock.monotonic())
