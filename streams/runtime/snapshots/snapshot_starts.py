"""Starts tasks without state from the snapshots that live workers have written (``state.snapshot.dir``).

A snapshot is copied next to the task's database by its own threads, while the task waits and others continue. Then it
takes the place of the empty database, or its rows that of the stores in memory, and the task starts as with a state
directory that was put back: every check of old state holds for it. A process that dies meanwhile leaves a copy that the
next start removes, or a whole database.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StateError, StreamsError
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import error_text, kind_and_text
from state.directory.own_files import make_own_directory
from state.engine.repair_hints import without_hint
from state.registry.kinds import families_of
from streams.kafka.offset_metadata import LogPoint
from streams.runtime.snapshots.snapshot_places import MADE, TAKEN, SnapshotPart, SnapshotPlace, parts_of
from streams.runtime.tasks.assembly import ThreadClients
from streams.runtime.tasks.task import Task
from streams.snapshots.manifest import Lacking, TaskSnapshot
from streams.snapshots.reading import SnapshotReading
from streams.threads import Thread

log = logging.getLogger("streams.restore")

STUCK_S = 60.0
"""How long a copy may make no progress."""
PROGRESS_INTERVAL_S = 10.0
TASKS_AT_ONCE = 3
"""Tasks of a thread whose snapshots are copied side by side, each by some threads (`streams.snapshots.reading`)."""
MODE = 0o750

Ends = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Returns where changelogs end."""


class SnapshotDownload(NamedTuple):
    """Says how far the snapshot of a task is copied, for other threads."""

    bytes: int
    """The bytes that are here."""
    size: int
    """All bytes; 0 while the task waits for others, or a snapshot is looked for."""


class _Waiting(NamedTuple):
    """A task of which no snapshot is copied yet."""

    task: Task
    ends: Ends
    is_standby: bool


@dataclass(eq=False)
class _Copying:
    """Holds a snapshot that is being copied for a part of a task."""

    task: Task
    is_standby: bool
    part: SnapshotPart
    directory: Path
    reading: SnapshotReading
    thread: Thread
    began: float
    moves: int = field(default=0, init=False)
    """That of the copy when it was looked at last."""
    moved_at: float = field(init=False)
    """When it was last seen to have gone on."""
    next_line: float = field(init=False)

    def __post_init__(self) -> None:
        self.moved_at, self.next_line = self.began, self.began + PROGRESS_INTERVAL_S


class SnapshotStarts:
    """Takes the snapshots of tasks for one stream thread, active ones and standbys.

    :param place: where snapshots are; ``None`` takes none.
    """

    def __init__(self, place: SnapshotPlace | None, clients: ThreadClients, clock: Clock) -> None:
        self._place = place
        self._consumer = clients.restore_consumer
        self._committed = clients.consumer.committed
        self._admin = clients.admin
        self._clock = clock
        self._looked_at: set[TaskId] = set()
        self._waiting: dict[TaskId, _Waiting] = {}
        self._copying: dict[TaskId, list[_Copying]] = {}
        self._begun = 0

    def go_on(self) -> None:
        """Puts the snapshots that are copied in the places of what is empty, and begins to copy others.

        :raises RetryableError: if no broker answers.
        """
        for copies in list(self._copying.values()):
            for copying in copies.copy():
                self._go_on(copying)
        while self._place is not None and (id_ := self._next()) is not None:
            self._begin(self._waiting[id_], self._place)
            del self._waiting[id_]

    def _next(self) -> TaskId | None:
        """Returns the task whose snapshot is to be copied next, if one may be: active tasks go first, and one place is
        theirs."""
        copied = len(self._copying)
        if copied >= TASKS_AT_ONCE:
            return None
        for id_, waiting in self._waiting.items():
            if not waiting.is_standby:
                return id_
        standbys = sum(copies[0].is_standby for copies in self._copying.values())
        return next(iter(self._waiting), None) if standbys < TASKS_AT_ONCE - 1 else None

    def waits(self, task: TaskId) -> bool:
        """Whether a task waits for its snapshot."""
        return task in self._copying or task in self._waiting

    def downloads(self) -> dict[TaskId, SnapshotDownload]:
        """Returns how far the snapshots are that tasks wait for; any thread may call it."""
        found = dict.fromkeys(self._waiting.copy(), SnapshotDownload(0, 0))
        for id_, copies in self._copying.copy().items():
            progress = [one.reading.progress for one in copies]
            found[id_] = SnapshotDownload(sum(one.bytes for one in progress), sum(one.size for one in progress))
        return found

    def ready(self, created: Collection[Task], ends: Ends | None = None) -> list[Task]:
        """Returns those of some tasks that need not wait for a snapshot; begins to copy those of the others, some at a
        time.

        :param created: tasks whose changelogs can be read to their ends, unless ``ends`` is given.
        :param ends: finds the ends of the changelogs of standby tasks; of active ones they are what can be read.
        :raises RetryableError: if no broker answers.
        """
        for task in created:
            if task.id not in self._looked_at:
                for left in (MADE, TAKEN):  # by a process that died
                    shutil.rmtree(task.environment.state_dir / left, ignore_errors=True)
                if self._place is not None and any(_is_empty(task, part) for part in parts_of(task)):
                    self._waiting[task.id] = _Waiting(task, ends or self._consumer.end_offsets, ends is not None)
                self._looked_at.add(task.id)
        self.go_on()
        return [task for task in created if not self.waits(task.id)]

    def stop(self, task: TaskId) -> None:
        """Gives up the snapshot of a task that is no longer of this thread, or starts again."""
        self._looked_at.discard(task)
        self._waiting.pop(task, None)
        for copying in self._copying.pop(task, []):
            self._end(copying)

    def _begin(self, waiting: _Waiting, place: SnapshotPlace) -> None:
        """Begins to copy the snapshots of the empty parts of a task that lack something."""
        task, found = waiting.task, list[tuple[SnapshotPart, dict[str, Lacking]]]()
        for part in parts_of(task):
            if _is_empty(task, part):
                lacking = self._lacking(task, part, waiting)
                if any(one.beginning < one.end for one in lacking.values()):
                    found.append((part, lacking))
        for part, lacking in found:
            self._copy(waiting, part, lacking, place)

    def _copy(self, waiting: _Waiting, part: SnapshotPart, lacking: dict[str, Lacking], place: SnapshotPlace) -> None:
        task = waiting.task
        lost = partial(self._lost, task.id.partition)
        reading = SnapshotReading(
            place.objects, place.application_id, str(task.id), part.engine_name, place.threads, lost
        )
        self._begun += 1
        parent, now = task.environment.state_dir / TAKEN, self._clock.monotonic()
        directory = parent / f"{part.engine_name}-{self._begun}"  # of its own: one that was given up may still be used
        try:
            make_own_directory(parent, MODE)
        except OSError as error:
            reading.refuse("", error_text(error))
            return
        prepare = None if part.is_durable else part.engine.prepare
        thread = place.threads.thread(
            partial(reading.run, lacking, self._clock.time_ms(), directory, prepare), f"snapshot-copy-{task.id}"
        )
        copying = _Copying(task, waiting.is_standby, part, directory, reading, thread, now)
        self._copying.setdefault(task.id, []).append(copying)
        thread.start()

    def _lost(self, partition: int, snapshot: TaskSnapshot) -> str | None:
        """Returns what changelogs have lost of a snapshot since it was made; any thread may call it."""
        points = {
            (TopicPartition(state.topic, partition), LogPoint(*state.point)): name
            for name, state in snapshot.stores.items()
            if state.point is not None
        }
        for (changelog, point), first in sorted(self._admin.divergences(points.keys()).items() if points else ()):
            return (
                f"changelog {changelog} has lost records of store {points[changelog, point]!r}: its log was truncated"
                f" at offset {first}, and may have grown again"
            )
        return None

    def _go_on(self, copying: _Copying) -> None:
        now, task, progress = self._clock.monotonic(), copying.task, copying.reading.progress
        if progress.moves != copying.moves:
            copying.moves, copying.moved_at = progress.moves, now
        if not copying.thread.is_alive():
            self._remove(copying)
            try:
                self._take_over(copying)
            finally:
                self._end(copying)
        elif now - copying.moved_at >= STUCK_S and not progress.is_complete:
            self._remove(copying)
            copying.reading.refuse("", f"no data arrived for {STUCK_S:g} s")
            self._end(copying)
        elif now >= copying.next_line:
            copying.next_line = now + PROGRESS_INTERVAL_S
            log.info(
                "a snapshot is being copied",
                extra={
                    "task": str(task.id),
                    "snapshot": progress.name,
                    "bytes": progress.bytes,
                    "of_bytes": progress.size,
                    "elapsed_ms": int((now - copying.began) * 1000),
                },
            )

    def _remove(self, copying: _Copying) -> None:
        copies = self._copying[copying.task.id]
        copies.remove(copying)
        if not copies:
            del self._copying[copying.task.id]

    def _take_over(self, copying: _Copying) -> None:
        copied = copying.reading.copied
        if copied is None:
            return
        failure = copying.task.stores.take_over(copying.part.engine, copying.directory)
        if failure is not None:
            why = without_hint(failure.message) if isinstance(failure, StateError) else kind_and_text(failure)
            copying.reading.refuse(copied.name, why)
            return
        progress = copying.task.stores.progress
        for store in copied.snapshot.stores.keys() & set(copying.part.stores):
            # The time that the files have is by the clock of a worker that may have been ahead.
            if (complete_ms := progress.complete_at(store)) is not None and complete_ms > copied.not_after_ms:
                progress.note_complete([store], copied.not_after_ms, is_filled=False)
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
        with suppress(OSError):  # another part of the task is copied there
            copying.directory.parent.rmdir()

    # ------------------------------------------------------------------ what a task lacks

    def _lacking(self, task: Task, part: SnapshotPart, waiting: _Waiting) -> dict[str, Lacking]:
        """Returns what a part of the task has to restore, by store."""
        stores, sources = part.stores, task.plan.source_changelogs
        partitions = {at: store for at, store in task.stores.changelog_partitions().items() if store in stores}
        topics = {at.topic for at in partitions}
        ids = self._admin.topic_ids(topics) if topics else {}
        beginnings, ends = self._consumer.beginning_offsets(partitions), dict(waiting.ends(partitions))
        # A standby that is ahead of the committed offset waits for the group: it processes nothing.
        limited = [] if waiting.is_standby else [at for at, store in partitions.items() if store in sources]
        committed = self._committed(limited) if limited else {}
        for at in limited:
            ends[at] = min(ends[at], committed[at].offset) if at in committed else 0
        kept = self._keeps_deletions(topics)
        return {
            store: Lacking(
                topic=at.topic,
                topic_id=ids.get(at.topic),
                beginning=beginnings[at],
                end=ends[at],
                families=families_of(task.plan.topology.stores[store]),
                keeps_deletions_ms=kept.get(at.topic),
                is_source=at in limited,
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


def _is_empty(task: Task, part: SnapshotPart) -> bool:
    """Whether no store of a part of a task has rows or an offset."""
    progress = task.stores.progress
    return not any(progress.has_rows(store) or progress.stored_offset(store) is not None for store in part.stores)
