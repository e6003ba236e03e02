"""Starts tasks without state from the snapshots that live workers have written (``state.snapshot.dir``).

A snapshot is copied beside the task's database by a thread of its own, while the task waits and others go on. Then it
takes the place of the empty database, and the task starts as with a state directory that was put back: every check of
old state holds for it. A process that dies meanwhile leaves a copy that the next start
removes, or a whole database.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StateError, StreamsError
from processor_api.task_id import TaskId
from processor_api.texts import error_text, kind_and_text
from state.engine.port import Checkpointing, Engine
from state.engine.repair_hints import without_hint
from state.registry.kinds import families_of
from streams.runtime.snapshots.snapshot_places import MADE, TAKEN, SnapshotPlace, covered_stores
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.thread_clients import ThreadClients
from streams.snapshots.manifest import Lacking
from streams.snapshots.reading import SnapshotReading
from streams.threads import Thread

log = logging.getLogger("streams.restore")

STUCK_S = 60.0
"""How long a copy may stand still."""
PROGRESS_INTERVAL_S = 10.0


@dataclass(eq=False)
class _Copying:
    """Holds a snapshot that is being copied for a task."""

    task: Task
    engine: Checkpointing
    directory: Path
    reading: SnapshotReading
    thread: Thread
    began: float
    bytes: int = field(default=0, init=False)
    """The bytes that were copied when it was looked at last."""
    moved_at: float = field(init=False)
    """When it was last seen to have gone on."""
    next_line: float = field(init=False)

    def __post_init__(self) -> None:
        self.moved_at, self.next_line = self.began, self.began + PROGRESS_INTERVAL_S


class SnapshotStarts:
    """Takes the snapshots of tasks for one stream thread.

    :param place: where snapshots are; ``None`` takes none.
    """

    def __init__(self, place: SnapshotPlace | None, clients: ThreadClients, clock: Clock) -> None:
        self._place = place
        self._consumer = clients.restore_consumer
        self._admin = clients.admin
        self._clock = clock
        self._looked_at: set[TaskId] = set()
        self._copying: dict[TaskId, _Copying] = {}

    def go_on(self) -> None:
        """Puts the snapshots that are copied in the places of empty databases."""
        for copying in list(self._copying.values()):
            self._go_on(copying)

    def waits(self, task: TaskId) -> bool:
        """Whether a task waits for its snapshot."""
        return task in self._copying

    def ready(self, created: Collection[Task]) -> list[Task]:
        """Returns those of some tasks that need not wait for a snapshot; begins to copy those of the others.

        :param created: tasks whose changelogs can be read to their ends.
        :raises RetryableError: if no broker answers.
        """
        for task in created:
            if task.id not in self._looked_at:
                for left in (MADE, TAKEN):  # by a process that died
                    shutil.rmtree(task.environment.state_dir / left, ignore_errors=True)
                if self._place is not None:
                    self._begin(task, self._place)
                self._looked_at.add(task.id)
        return [task for task in created if task.id not in self._copying]

    def stop(self, task: TaskId) -> None:
        """Gives up the snapshot of a task that is not of this thread any more, or begins again."""
        self._looked_at.discard(task)
        copying = self._copying.pop(task, None)
        if copying is not None:
            self._end(copying)

    def _begin(self, task: Task, place: SnapshotPlace) -> None:
        for engine in task.stores.engines.values():
            if isinstance(engine, Checkpointing) and _is_empty(task, engine):
                lacking = self._lacking(task, engine)
                if any(one.beginning < one.end for one in lacking.values()):
                    self._copy(task, engine, lacking, place)
                return

    def _copy(self, task: Task, engine: Checkpointing, lacking: dict[str, Lacking], place: SnapshotPlace) -> None:
        reading = SnapshotReading(place.objects, place.application_id, str(task.id))
        directory, now = task.environment.state_dir / TAKEN, self._clock.monotonic()
        thread = place.threads.thread(
            partial(reading.run, lacking, self._clock.time_ms(), directory), f"snapshot-copy-{task.id}"
        )
        self._copying[task.id] = _Copying(task, engine, directory, reading, thread, now)
        thread.start()

    def _go_on(self, copying: _Copying) -> None:
        now, task = self._clock.monotonic(), copying.task
        if copying.reading.bytes != copying.bytes:
            copying.bytes, copying.moved_at = copying.reading.bytes, now
        if not copying.thread.is_alive():
            del self._copying[task.id]
            try:
                self._take_over(copying)
            finally:
                self._end(copying)
        elif now - copying.moved_at >= STUCK_S:
            del self._copying[task.id]
            copying.reading.refuse("", f"nothing of it came for {STUCK_S:g} s")
            self._end(copying)
        elif now >= copying.next_line:
            copying.next_line = now + PROGRESS_INTERVAL_S
            log.info("a snapshot is being copied", extra={"task": str(task.id), "bytes": copying.bytes})

    def _take_over(self, copying: _Copying) -> None:
        copied = copying.reading.copied
        if copied is None:
            return
        failure = copying.task.stores.take_over(copying.engine, copying.directory)
        if failure is not None:
            why = without_hint(failure.message) if isinstance(failure, StateError) else kind_and_text(failure)
            copying.reading.refuse(copied.name, why)
            return
        log.info(
            "snapshot of the task taken",
            extra={
                "task": str(copying.task.id),
                "snapshot": copied.name,
                "stores": ", ".join(sorted(copied.snapshot.stores)),
                "age_ms": self._clock.time_ms() - copied.snapshot.made_ms,
                "bytes": copied.snapshot.size,
                "elapsed_ms": int((self._clock.monotonic() - copying.began) * 1000),
            },
        )

    @staticmethod
    def _end(copying: _Copying) -> None:
        copying.reading.stop()
        shutil.rmtree(copying.directory, ignore_errors=True)

    # ------------------------------------------------------------------ what a task lacks

    def _lacking(self, task: Task, engine: Engine) -> dict[str, Lacking]:
        """Returns what the task has to restore into an engine, by store."""
        stores = covered_stores(task, engine)
        partitions = {at: store for at, store in task.stores.changelog_partitions().items() if store in stores}
        topics = {at.topic for at in partitions}
        ids = self._admin.topic_ids(topics) if topics else {}
        beginnings, ends = self._consumer.beginning_offsets(partitions), self._consumer.end_offsets(partitions)
        kept = self._keeps_deletions(topics)
        return {
            store: Lacking(
                topic=at.topic,
                topic_id=ids.get(at.topic),
                beginning=beginnings[at],
                end=ends[at],
                families=families_of(task.plan.topology.stores[store]),
                keeps_deletions_ms=kept.get(at.topic),
            )
            for at, store in partitions.items()
        }

    def _keeps_deletions(self, topics: Collection[str]) -> dict[str, int]:
        """Returns how long topics keep deletions, of those that are compacted; 0 where that cannot be seen."""
        try:
            settings = self._admin.topic_settings(topics) if topics else {}
        except RetryableError:
            raise
        except StreamsError as error:
            log.warning(
                "no snapshot is taken that is behind its changelog: the settings of changelogs cannot be read",
                extra={"topics": ", ".join(sorted(topics)), "error": error_text(error)},
            )
            settings = {}
        found: dict[str, int] = {}
        for topic in topics:
            values = settings.get(topic)
            if values is None:
                found[topic] = 0
            elif "compact" in values.get("cleanup.policy", ""):
                kept = values.get("delete.retention.ms", "")
                found[topic] = int(kept) if kept.isdecimal() else 0
        return found


def _is_empty(task: Task, engine: Engine) -> bool:
    """Whether no store of a task that is on an engine has rows or an offset there."""
    progress = task.stores.progress
    own = [store for store in task.plan.stores if progress.engine_of(store) is engine]
    return not any(
        progress.has_rows(store) or (store in task.plan.changelogs and progress.stored_offset(store) is not None)
        for store in own
    )
