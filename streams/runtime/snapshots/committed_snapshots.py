"""Writes snapshots of running tasks (``state.snapshot.interval.ms``): the database as of a commit, a task at a time.

The stream thread makes a checkpoint between a commit and the next record, which links the table files; of stores in
memory it takes a snapshot, which costs nothing until rows change. A thread of its own writes the rows of these to
files, reads the files, and writes what the place of snapshots does not have yet.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zlib import crc32

from processor_api.clock import Clock
from processor_api.errors import StateError, StreamsError
from processor_api.task_id import TaskId
from processor_api.texts import error_text, kind_and_text
from state.directory.own_files import make_own_directory
from state.registry.kinds import families_of
from streams.runtime.processing.environment import SnapshotCounters
from streams.runtime.snapshots.snapshot_places import (
    MADE,
    NO_COPIES,
    SnapshotPart,
    SnapshotPlace,
    parts_of,
    stores_without,
)
from streams.runtime.tasks.task import Task
from streams.snapshots.manifest import StoreState, TaskSnapshot
from streams.snapshots.writing import GivenUp, SnapshotWriting, Written
from streams.threads import Thread

log = logging.getLogger("streams.snapshots")

MODE = 0o750
SLOW_S = 600.0
"""How long writing a snapshot may take without a word."""
CLOSE_S = 5.0
"""How long to wait at the end for the snapshot that is being written."""


@dataclass(frozen=True)
class _BegunSnapshot:
    """Holds a checkpoint that is to be written."""

    writing: SnapshotWriting
    described: TaskSnapshot
    directory: Path
    complete: Callable[[], None]
    """Writes what is not in the directory yet; raises StateError if the engine was closed."""


class CommittedSnapshots:
    """Writes the snapshots of a stream thread's tasks.

    :param place: where they are; ``None`` writes none.
    :param interval_ms: how often one of each task is written; ``None`` writes none.
    :param note_leaders: notes with the stores of tasks what their changelogs have.
    """

    def __init__(
        self,
        place: SnapshotPlace | None,
        interval_ms: int | None,
        clock: Clock,
        note_leaders: Callable[[Collection[Task]], None],
    ) -> None:
        self._note_leaders = note_leaders
        self._place = None if interval_ms is None else place
        self._interval_s = (interval_ms or 0) / 1000
        self._clock = clock
        self._due: dict[TaskId, float] = {}
        self._next_due = 0.0
        self._writings: dict[TaskId, dict[str, SnapshotWriting]] = {}
        self._logged: set[tuple[TaskId, str]] = set()
        """The lines that are logged once: of each task which stores have no snapshots; of an engine, by its name, that
        topics have no ids; of a manifest that it cannot be read."""
        self._thread: Thread | None = None
        self._begun_at = self._next_line = 0.0
        self._stopping = False

    def run(self, running: Collection[Task]) -> None:
        """Begins to write the snapshot of a task for which it is time; to be called between a commit and the next
        record."""
        place = self._place
        if place is None or (self._clock.monotonic() < self._next_due and self._due.keys() == {t.id for t in running}):
            return
        if self._thread is not None and self._thread.is_alive():
            self._log_slow(place)
            return
        self._plan(running)
        now = self._clock.monotonic()
        for task in sorted(running, key=lambda one: self._due[one.id]):  # none is left out where writing takes long
            if self._due[task.id] <= now:
                self._due[task.id] = now + self._interval_s
                if self._begin(task, place):
                    break
        self._next_due = min(self._due.values(), default=now + self._interval_s)

    def _log_slow(self, place: SnapshotPlace) -> None:
        """Logs from time to time that a snapshot is still being written."""
        now = self._clock.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + SLOW_S
        log.warning(
            "a snapshot is still being written; no others are until it is done",
            extra={"since_s": int(now - self._begun_at), "where": place.objects.describe()},
        )

    def _plan(self, running: Collection[Task]) -> None:
        """Spreads the tasks over the interval."""
        now, wanted = self._clock.monotonic(), {task.id for task in running}
        for gone in self._due.keys() - wanted:
            del self._due[gone]
            self._writings.pop(gone, None)
        for task in wanted - self._due.keys():
            self._due[task] = now + self._interval_s * crc32(str(task).encode()) / (1 << 32)

    def _begin(self, task: Task, place: SnapshotPlace) -> bool:
        """Begins the checkpoints of a task, if there is something to copy; returns whether it did."""
        self._log_stores_without(task)
        directory, begin = task.environment.state_dir / MADE, self._clock.monotonic()
        counters, made = task.environment.metrics.snapshots, list[_BegunSnapshot]()
        try:
            self._note_leaders([task])
            for part in parts_of(task):
                stores = self._described(task, part)
                if not stores:
                    continue
                if not made:
                    shutil.rmtree(directory, ignore_errors=True)
                    make_own_directory(directory, MODE)
                own = directory / part.engine_name
                complete = part.engine.checkpoint(own, part.families)
                described = TaskSnapshot(
                    application_id=place.application_id,
                    task=str(task.id),
                    made_ms=self._clock.time_ms(),
                    stores=stores,
                    files=[],
                )
                made.append(_BegunSnapshot(self._writing(task.id, part.engine_name, place), described, own, complete))
        except (OSError, StreamsError) as error:
            _failed(task.id, place, counters, error)
            shutil.rmtree(directory, ignore_errors=True)
            return True
        if not made:
            return False
        self._begun_at, self._next_line = begin, begin + SLOW_S
        self._thread = place.threads.thread(partial(self._write_all, task, place, made, directory, begin), "snapshots")
        self._thread.start()
        return True

    def _writing(self, task: TaskId, engine: str, place: SnapshotPlace) -> SnapshotWriting:
        writings = self._writings.setdefault(task, {})
        if engine not in writings:
            writings[engine] = SnapshotWriting(
                place.objects, place.application_id, str(task), lambda: self._stopping, engine
            )
        return writings[engine]

    def _is_new(self, task: TaskId, what: str = "") -> bool:
        """Whether a line is to be logged, which it is once."""
        is_new = (task, what) not in self._logged
        self._logged.add((task, what))
        return is_new

    def _log_stores_without(self, task: Task) -> None:
        """Logs once which stores of a task are in no snapshot."""
        if not self._is_new(task.id):
            return
        reasons: dict[str, list[str]] = {}
        for store, why in stores_without(task).items():
            reasons.setdefault(why, []).append(store)
        for why, stores in reasons.items():
            _without(task.id, stores, why, logging.INFO if why == NO_COPIES else logging.WARNING)

    def _described(self, task: Task, part: SnapshotPart) -> dict[str, StoreState]:
        """Returns what a snapshot of a part of the task holds now; nothing if there can be none, which is logged
        once."""
        progress = task.stores.progress
        ids = {store: task.topic_ids.get(task.plan.changelogs[store]) for store in part.stores}
        if None in ids.values():
            if self._is_new(task.id, part.engine_name):
                why = "the cluster gives a changelog no id, so that it could be of another topic of the same name"
                _without(task.id, part.stores, why)
            return {}
        now_ms, found = self._clock.time_ms(), {}
        for store in part.stores:
            complete_ms = progress.complete_at(store)
            found[store] = StoreState(
                topic=task.plan.changelogs[store],
                topic_id=str(ids[store]),
                offset=progress.stored_offset(store),
                complete_ms=now_ms if complete_ms is None else complete_ms,
                families=families_of(task.plan.topology.stores[store]),
                point=progress.stored_point(store),
            )
        return found

    def _write_all(
        self, task: Task, place: SnapshotPlace, made: Collection[_BegunSnapshot], directory: Path, begin: float
    ) -> None:
        """Writes the snapshots of a task; one that fails does not keep the others from being written."""
        counters, written = task.environment.metrics.snapshots, list[Written]()
        try:
            for one in made:
                found = self._write(task, place, one, directory)
                if found is not None:
                    written.append(found)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        if len(written) < len(made):
            return
        elapsed_ms = int((self._clock.monotonic() - begin) * 1000)
        size, new_size = sum(one.size for one in written), sum(one.new_size for one in written)
        counters.wrote(min(one.described.made_ms for one in made), size, new_size, elapsed_ms)
        log.info(
            "snapshot of a task written",
            extra={
                "task": str(task.id),
                "snapshot": " ".join(one.name for one in written),
                "bytes": size,
                "new_bytes": new_size,
                "elapsed_ms": elapsed_ms,
            },
        )

    def _write(self, task: Task, place: SnapshotPlace, one: _BegunSnapshot, directory: Path) -> Written | None:
        try:
            one.complete()
            written = one.writing.write(one.described, one.directory)
            if written.left is not None:
                _not_deleted(task.id, place, written.name, written.left)
            for name, why in written.unreadable.items():
                if self._is_new(task.id, name):
                    _unreadable(task.id, place, name, why)
            return written
        except Exception as error:
            if isinstance(error, GivenUp | StateError) or not directory.is_dir():
                log.info("a snapshot is given up: the worker closes, or the task moves", extra={"task": str(task.id)})
            else:
                _failed(task.id, place, task.environment.metrics.snapshots, error)
            return None

    def close(self) -> None:
        """Gives up the snapshot that is being written. A place that does not answer is not waited for: the thread ends
        with the process at the latest, and the next start removes its checkpoint."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join(CLOSE_S)


def _without(task: TaskId, stores: Collection[str], why: str, level: int = logging.WARNING) -> None:
    log.log(
        level,
        "no snapshots of some stores are written, which are restored from their changelogs: %s",
        why,
        extra={"task": str(task), "stores": ", ".join(sorted(stores))},
    )


def _not_deleted(task: TaskId, place: SnapshotPlace, name: str, error: OSError) -> None:
    log.warning(
        "a snapshot is written, and older ones are not deleted, which take more room each time: %s",
        error_text(error),
        extra={"task": str(task), "snapshot": name, "where": place.objects.describe()},
    )


def _unreadable(task: TaskId, place: SnapshotPlace, name: str, why: str) -> None:
    log.warning(
        "the manifest of an older snapshot cannot be read; it and the files that it names are deleted when it is a day"
        " older than the last snapshot: %s",
        why,
        extra={"task": str(task), "snapshot": name, "where": place.objects.describe()},
    )


def _failed(task: TaskId, place: SnapshotPlace, counters: SnapshotCounters, error: Exception) -> None:
    counters.failures += 1
    log.warning(
        "a snapshot is not written; earlier ones stay, and the next one is tried at its time: %s",
        error_text(error) if isinstance(error, OSError) else kind_and_text(error),
        extra={"task": str(task), "where": place.objects.describe(), "failures": counters.failures},
    )
