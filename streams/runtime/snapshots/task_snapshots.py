"""Takes snapshots of stores instead of the beginnings of their changelogs (``state.snapshot.dir``).

A snapshot is copied beside the task's database, a little at each turn of the thread, and compared with its manifest.
Then the database takes its files over, and after that the store's changelog offset is written: a worker that dies in
between finds rows without an offset, removes them, and replays the changelog. So does one whose snapshot does not fit,
and the log says why.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import StateError
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import plain_str
from state.directory.own_files import make_own_directory
from state.engine.port import OFFSETS, Ingesting
from state.engine.repair_hints import without_hint
from state.formats.offsets import write_offset
from state.registry.kinds import families_of
from streams.restore.jobs import RestoreJob
from streams.runtime.tasks.task import Task
from streams.snapshots.store_files import SnapshotCopy, SnapshotError, StoreSnapshot, snapshot_path

log = logging.getLogger("streams.restore")

DIRECTORY = "snapshot"
"""The directory of copies, in that of the task."""
STEP_S = 0.1
"""How long to copy at a time."""
MODE = 0o750


class Rest(NamedTuple):
    """The part of a changelog that a store still lacks after its snapshot."""

    task: Task
    store: str
    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class _Taking:
    """Holds a snapshot that is being copied for a store."""

    task: Task
    job: RestoreJob
    """The restore that the snapshot shortens."""
    found: StoreSnapshot
    copy: SnapshotCopy
    directory: Path
    began: float


class TaskSnapshots:
    """Takes the snapshots of a stream thread's tasks.

    :param root: where snapshots are; ``None`` takes none.
    """

    def __init__(self, root: Path | None, application_id: str, clock: Clock) -> None:
        self._root = root
        self._application_id = application_id
        self._clock = clock
        self._taking: list[_Taking] = []
        self._begun = 0

    def begin(self, task: Task, job: RestoreJob) -> bool:
        """Begins to take the snapshot of a store, which must have no rows; returns whether there is one that fits.

        :param job: the restore of the store from the beginning of its changelog.
        """
        root, engine = self._root, job.engine
        if root is None or job.from_source or not isinstance(engine, Ingesting):
            return False
        source = snapshot_path(root, self._application_id, job.partition)
        try:
            found = StoreSnapshot.read(source)
            if found is None:
                return False
            families = families_of(task.plan.topology.stores[job.store])
            topic_id = task.topic_ids.get(job.partition.topic)
            ends = job.start, job.end
            why = found.obstacle(job.store, job.partition, families, topic_id, ends, self._clock.time_ms())
            if why is not None:
                raise SnapshotError(why)
            directory = task.environment.state_dir / DIRECTORY / str(self._begun)
            make_own_directory(directory.parent, MODE)
            shutil.rmtree(directory, ignore_errors=True)
            make_own_directory(directory, MODE)
        except (SnapshotError, OSError) as error:
            _refused(job, source, error)
            return False
        self._begun += 1
        copy = SnapshotCopy(source, directory, found.files)
        self._taking.append(_Taking(task, job, found, copy, directory, self._clock.monotonic()))
        return True

    def remove_leftovers(self, task: Task) -> None:
        """Removes copies that a process which died has left in the directory of a task that was just opened."""
        shutil.rmtree(task.environment.state_dir / DIRECTORY, ignore_errors=True)

    def jobs(self) -> list[RestoreJob]:
        """Lists the restores that wait for their snapshots; any thread may call it."""
        return [one.job for one in self._taking]

    def pending(self, task: TaskId) -> bool:
        """Whether a snapshot of a task is being taken."""
        return any(one.task.id == task for one in self._taking)

    def step(self) -> list[Rest]:
        """Continues for a short time; returns what must be replayed after the finished snapshots.

        After a snapshot that cannot be taken, that is all of the changelog.
        """
        until = self._clock.monotonic() + STEP_S
        done: list[Rest] = []
        while self._taking and self._clock.monotonic() < until:
            taking = self._taking[0]
            try:
                if not taking.copy.step():
                    continue
                self._ingest(taking)
                start = taking.found.offset + 1
            except (SnapshotError, StateError, OSError) as error:
                _refused(taking.job, taking.directory, error)
                taking.task.stores.progress.wipe(taking.job.store)
                start = taking.job.start
            self._end(taking)
            job = taking.job
            if start < job.end:
                done.append(Rest(taking.task, job.store, job.partition, start, job.end))
        return done

    def _ingest(self, taking: _Taking) -> None:
        job, engine = taking.job, taking.job.engine
        assert isinstance(engine, Ingesting)
        engine.ingest(taking.copy.copied)
        taking.task.stores.progress.note_complete([job.store], taking.found.made_ms, is_filled=False)
        batch = job.engine.batch()
        batch.put(job.offset_key, write_offset(taking.found.offset), job.engine.family(OFFSETS).handle)
        job.engine.write(batch)
        log.info(
            "snapshot taken",
            extra={
                **_place(job),
                "records": taking.found.rows,
                "offset": taking.found.offset,
                "bytes": taking.copy.bytes,
                "elapsed_ms": int((self._clock.monotonic() - taking.began) * 1000),
            },
        )

    def _end(self, taking: _Taking) -> None:
        self._taking.remove(taking)
        taking.copy.close()
        shutil.rmtree(taking.directory, ignore_errors=True)
        if not self.pending(taking.task.id):
            self.remove_leftovers(taking.task)

    def stop(self, task: TaskId) -> None:
        """Gives up the snapshots of a task that is no longer of this thread."""
        for taking in [one for one in self._taking if one.task.id == task]:
            self._end(taking)


def _refused(job: RestoreJob, where: Path, error: Exception) -> None:
    why = without_hint(error.message) if isinstance(error, StateError) else plain_str(error)
    log.warning(
        "the snapshot is not taken, the changelog is replayed: %s", why, extra={**_place(job), "path": str(where)}
    )


def _place(job: RestoreJob) -> dict[str, Any]:
    return {"task": str(job.task), "store": job.store, "changelog": str(job.partition)}
