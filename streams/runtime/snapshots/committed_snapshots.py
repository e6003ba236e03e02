"""Writes snapshots of running tasks (``state.snapshot.interval.ms``): the database as of a commit, a task at a time.

The stream thread makes a checkpoint between a commit and the next record, which links the table files. A thread of its
own reads these files and writes what the place of snapshots does not have yet.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path
from zlib import crc32

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.task_id import TaskId
from processor_api.texts import error_text, kind_and_text
from state.engine.port import Checkpointing, Engine
from state.registry.kinds import families_of
from streams.runtime.processing.environment import SnapshotCounters
from streams.runtime.snapshots.snapshot_places import MADE, SnapshotPlace, covered_stores
from streams.runtime.tasks.task import Task
from streams.snapshots.manifest import StoreState, TaskSnapshot
from streams.snapshots.writing import GivenUp, SnapshotWriting
from streams.threads import Thread

log = logging.getLogger("streams.snapshots")

CLOSE_S = 5.0
"""How long to wait at the end for the snapshot that is being written."""


class CommittedSnapshots:
    """Writes the snapshots of a stream thread's tasks.

    :param place: where they are; ``None`` writes none.
    :param interval_ms: how often one of each task is written; ``None`` writes none.
    """

    def __init__(self, place: SnapshotPlace | None, interval_ms: int | None, clock: Clock) -> None:
        self._place = None if interval_ms is None else place
        self._interval_s = (interval_ms or 0) / 1000
        self._clock = clock
        self._due: dict[TaskId, float] = {}
        self._next_due = 0.0
        self._writings: dict[TaskId, SnapshotWriting] = {}
        self._without: set[TaskId] = set()
        """Tasks of which it was logged that they have no snapshots."""
        self._thread: Thread | None = None
        self._stopping = False

    def run(self, running: Collection[Task]) -> None:
        """Begins to write the snapshot of a task for which it is time; to be called between a commit and the next
        record."""
        place = self._place
        if place is None or (self._clock.monotonic() < self._next_due and self._due.keys() == {t.id for t in running}):
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._plan(running)
        now = self._clock.monotonic()
        for task in running:
            if self._due[task.id] <= now:
                self._due[task.id] = now + self._interval_s
                if self._begin(task, place):
                    break
        self._next_due = min(self._due.values(), default=now + self._interval_s)

    def _plan(self, running: Collection[Task]) -> None:
        """Spreads the tasks over the interval."""
        now, wanted = self._clock.monotonic(), {task.id for task in running}
        for gone in self._due.keys() - wanted:
            del self._due[gone]
            self._writings.pop(gone, None)
        for task in wanted - self._due.keys():
            self._due[task] = now + self._interval_s * crc32(str(task).encode()) / (1 << 32)

    def _begin(self, task: Task, place: SnapshotPlace) -> bool:
        """Makes a checkpoint of a task, if there is something to copy; returns whether it did."""
        found = [one for one in task.stores.engines.values() if isinstance(one, Checkpointing)]
        if not found:
            return False
        engine = found[0]
        stores = self._described(task, engine)
        if not stores:
            return False
        counters = task.environment.metrics.snapshots
        directory, begin = task.environment.state_dir / MADE, self._clock.monotonic()
        try:
            shutil.rmtree(directory, ignore_errors=True)
            engine.checkpoint(directory)
        except (OSError, StreamsError) as error:
            _failed(task.id, place, counters, error)
            shutil.rmtree(directory, ignore_errors=True)
            return True
        made = TaskSnapshot(
            application_id=place.application_id,
            task=str(task.id),
            made_ms=self._clock.time_ms(),
            stores=stores,
            files=[],
        )
        writing = self._writings.get(task.id)
        if writing is None:
            writing = self._writings[task.id] = SnapshotWriting(
                place.objects, place.application_id, str(task.id), lambda: self._stopping
            )
        write = partial(self._write, task, place, writing, made, directory, begin)
        self._thread = place.threads.thread(write, "snapshots")
        self._thread.start()
        return True

    def _described(self, task: Task, engine: Engine) -> dict[str, StoreState]:
        """Returns what a snapshot of the task holds now; nothing if there can be none, which is logged once."""
        covered, progress = covered_stores(task, engine), task.stores.progress
        ids = {store: task.topic_ids.get(task.plan.changelogs[store]) for store in covered}
        why = "" if covered else "a store on disk has no changelog, and could not catch up from a snapshot"
        if None in ids.values():
            why = "the cluster gives a changelog no id, so that a snapshot could be of another topic of the same name"
        if why:
            if task.id not in self._without:
                self._without.add(task.id)
                log.warning("no snapshots of a task are written: %s", why, extra={"task": str(task.id)})
            return {}
        now_ms, found = self._clock.time_ms(), {}
        for store in covered:
            complete_ms = progress.complete_at(store)
            found[store] = StoreState(
                topic=task.plan.changelogs[store],
                topic_id=str(ids[store]),
                offset=progress.stored_offset(store),
                complete_ms=now_ms if complete_ms is None else complete_ms,
                families=families_of(task.plan.topology.stores[store]),
            )
        return found

    def _write(
        self,
        task: Task,
        place: SnapshotPlace,
        writing: SnapshotWriting,
        made: TaskSnapshot,
        directory: Path,
        begin: float,
    ) -> None:
        counters = task.environment.metrics.snapshots
        try:
            written = writing.write(made, directory)
        except Exception as error:
            if isinstance(error, GivenUp) or not directory.is_dir():
                log.info("a snapshot is given up: the worker closes, or the task moves", extra={"task": str(task.id)})
            else:
                _failed(task.id, place, counters, error)
            return
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        elapsed_ms = int((self._clock.monotonic() - begin) * 1000)
        counters.wrote(made.made_ms, written.size, written.new_size, elapsed_ms)
        log.info(
            "snapshot of a task written",
            extra={
                "task": str(task.id),
                "snapshot": written.name,
                "bytes": written.size,
                "new_bytes": written.new_size,
                "elapsed_ms": elapsed_ms,
            },
        )

    def close(self) -> None:
        """Gives up the snapshot that is being written. A place that does not answer is not waited for: the thread ends
        with the process at the latest, and the next start removes its checkpoint."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join(CLOSE_S)


def _failed(task: TaskId, place: SnapshotPlace, counters: SnapshotCounters, error: Exception) -> None:
    counters.failures += 1
    log.warning(
        "a snapshot is not written; earlier ones stay, and the next one is tried at its time: %s",
        error_text(error) if isinstance(error, OSError) else kind_and_text(error),
        extra={"task": str(task), "where": place.objects.describe(), "failures": counters.failures},
    )
