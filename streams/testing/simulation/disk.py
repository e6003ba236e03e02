"""The disks of a simulation: databases in memory that outlive their process, and fail when the schedule says so.

A database belongs to a directory by a small file in it, so that the database is deleted or moved with the directory.
Writes survive the end of the process; a power loss takes back writes since the last flush, from the newest on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from processor_api.errors import DamagedStateError, DiskFullError, RetryableError, StateError
from state.directory.metadata import DATABASE
from state.engine.memory import MemoryEngine
from state.engine.port import OFFSETS, POSITIONS, Batch, Engine, Family, Snapshot
from state.time_ordered.index import FACTS_KEY
from streams.snapshots.objects import ObjectInfo, ObjectStore
from streams.testing.simulation.scheduler import Scheduler, SimulatedProcess

MARKER = "SIMULATED"
CHECKPOINT = "rows.json"
"""The file of a checkpoint."""
AWAY_ONE_IN = 40
"""How often a call of the place of snapshots fails."""
CLOSED = "the engine is closed"
INDEX, BUFFER = ".suppressed-times", ".join-buffer"
"""Families of time-ordered buffers: the first is made from the rows when the store is opened, and the second has a row
that is."""


Opened = tuple[str, SimulatedProcess]
"""The name of a task, and a process in which it is open."""
Contents = dict[tuple[str, str], dict[bytes, bytes]]
"""Rows by the names of task and family."""


class _Image:
    """One database, open or not."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.families: list[str] = []
        self.undo: list[list[tuple[str, bytes, bytes | None]]] = []
        """The earlier values of the rows of each write since the last flush."""
        self.holder: DiskEngine | None = None
        self.damaged = False


class _InMemory(MemoryEngine):
    """An engine in memory that tells whether it is closed.

    :param task: the name of its task, and its process.
    :param scheduler: may let others run while rows are written to files or read from them.
    :param say: called with a text when a snapshot is taken.
    """

    closed = False

    def __init__(self, task: Opened, scheduler: Scheduler, say: Callable[[str], None]) -> None:
        super().__init__()
        self._task = task
        self._scheduler = scheduler
        self._say = say

    def checkpoint(self, directory: Path, families: Collection[str]) -> Callable[[], None]:
        self._scheduler.step("copy database")
        complete = super().checkpoint(directory, families)

        def write() -> None:
            self._scheduler.step("write copy")
            complete()

        return write

    def prepare(self, directory: Path) -> None:
        self._scheduler.step("read copy")
        super().prepare(directory)

    def take_over(self, directory: Path | None) -> None:
        self._scheduler.step("replace database")
        super().take_over(directory)
        if directory is not None:
            self._say(f"{self._task[1]} begins {self._task[0]} in memory with a snapshot")

    def close(self) -> None:
        self.closed = True
        super().close()


class Disk:
    """Holds all databases of a simulation.

    :param check: called with a text when something happens that must never happen.
    :param say: called with a text when a database is put in the place of another.
    """

    def __init__(self, scheduler: Scheduler, check: Callable[[str], None], say: Callable[[str], None]) -> None:
        self._scheduler = scheduler
        self._check = check
        self.say = say
        self._images: dict[str, _Image] = {}
        self._in_memory: list[tuple[Path, SimulatedProcess, _InMemory]] = []
        self.full_until: dict[Path, float] = {}
        """State directories whose disks take no writes before that time."""
        self._objects = SimulatedObjects(scheduler)

    def snapshots(self, place: Path | str) -> ObjectStore:
        """Returns the place of snapshots of all workers (`streams.platform.Platform.snapshots`)."""
        return self._objects

    def open(self, name: str, directory: Path, families: Sequence[str]) -> Engine:
        """Opens the database of a task's directory for the calling process (`streams.platform.OpenEngine`)."""
        scheduler = self._scheduler
        scheduler.step("open database")
        process = scheduler.process()
        image = self._image(directory / DATABASE)
        holder = image.holder
        if holder is not None and holder.process.alive:
            if holder.process is not process:
                self._check(f"{process} opens {directory}, which {holder.process} has open")
            raise RetryableError(f"the store at {directory} is open in another process")
        self.may_write(directory)
        if image.damaged:
            image.damaged = False
            path = str(directory / DATABASE)
            raise DamagedStateError(f"the database at {path} is damaged: a block has a wrong checksum", path=path)
        for family in families:
            image.engine.family(family)
        engine = image.holder = DiskEngine(self, scheduler, process, image, directory, families)
        return cast(Engine, engine)

    def _image(self, path: Path) -> _Image:
        marker = path / MARKER
        if marker.exists():
            return self._images[marker.read_text()]
        path.mkdir(parents=True, exist_ok=True)
        name = f"database-{len(self._images)}"
        marker.write_text(name)
        image = self._images[name] = _Image()
        return image

    def open_memory(self, name: str, directory: Path, families: Sequence[str]) -> Engine:
        """Opens an engine whose rows end when it closes."""
        engine = _InMemory((directory.name, self._scheduler.process()), self._scheduler, self.say)
        self._in_memory.append((directory, self._scheduler.process(), engine))
        return cast(Engine, engine)

    def contents(self, copies: Collection[Opened] = (), *, of_copies: bool = False) -> Contents:
        """Returns the rows of each family that a task which is open asked for, by the names of task and family.

        A database may hold more: what a store wrote that an earlier deployment had in this task.

        :param copies: the standby tasks, which are left out.
        :param of_copies: returns their rows alone.
        """
        found: Contents = {}
        for image in self._images.values():
            holder = image.holder
            if holder is None or not holder.process.alive:
                continue
            if ((holder.directory.name, holder.process) in copies) == of_copies:
                self._copy(found, holder.directory, image.engine, holder.families)
        for directory, process, engine in self._in_memory:
            if process.alive and not engine.closed and ((directory.name, process) in copies) == of_copies:
                self._copy(found, directory, engine, engine.rows())
        return found

    def opens_once(self, copies: Collection[Opened] = ()) -> bool:
        """Checks that no task is open in two processes. A worker that was replaced may have its own open until it
        notices that.

        :param copies: the standby tasks, which may be.
        """
        tasks = self._open_tasks().difference(copies)
        return len(tasks) == len({task for task, _ in tasks})

    def open_tasks(self, copies: Collection[Opened] = ()) -> set[str]:
        """Returns the names of the tasks that are open in some process, and not as a standby only.

        :param copies: the standby tasks.
        """
        return {task for task, _ in self._open_tasks().difference(copies)}

    def _open_tasks(self) -> set[Opened]:
        held = [image.holder for image in self._images.values() if image.holder is not None]
        opened = [(one.directory, one.process) for one in held]
        opened += [(directory, process) for directory, process, engine in self._in_memory if not engine.closed]
        return {
            (directory.name, process)
            for directory, process in opened
            if process.alive and directory.parent.name != "global"
        }

    @staticmethod
    def _copy(
        found: dict[tuple[str, str], dict[bytes, bytes]],
        directory: Path,
        engine: MemoryEngine,
        families: Collection[str],
    ) -> None:
        if directory.parent.name == "global":
            return
        for name, rows in engine.rows().items():
            if name not in families:
                continue
            if name.endswith(BUFFER):
                rows = {key: row for key, row in rows.items() if key != FACTS_KEY}
            if name not in (OFFSETS, POSITIONS) and not name.endswith(INDEX) and rows:
                found[directory.name, name] = rows

    def _below(self, root: Path) -> list[_Image]:
        return [self._images[marker.read_text()] for marker in sorted(root.glob(f"*/*/{DATABASE}/{MARKER}"))]

    def lose_power(self, root: Path) -> int:
        """Takes back a part of what was written below ``root`` since it was last flushed; returns how many writes."""
        lost = 0
        for image in self._below(root):
            count = self._scheduler.draw() % (len(image.undo) + 1)
            for _ in range(count):
                rows = image.undo.pop()
                batch = image.engine.batch()
                for family, key, before in reversed(rows):
                    handle = image.engine.family(family).handle
                    if before is None:
                        batch.delete(key, handle)
                    else:
                        batch.put(key, before, handle)
                image.engine.write(batch)
            lost += count
        return lost

    def damage(self, root: Path) -> int:
        """Damages a database below ``root``, which shows when it is opened next; returns how many there are."""
        images = self._below(root)
        if images:
            images[self._scheduler.draw() % len(images)].damaged = True
        return len(images)

    def has_room(self, directory: Path) -> bool:
        """Whether the disk of a directory takes writes now (`streams.platform.Platform.has_room`)."""
        now = self._scheduler.now
        return not any(now < until and directory.is_relative_to(root) for root, until in self.full_until.items())

    def may_write(self, directory: Path) -> None:
        """Checks that a write succeeds.

        :raises DiskFullError: if the schedule says otherwise."""
        if not self.has_room(directory):
            raise DiskFullError(f"cannot write to the store at {directory}: the disk is full; free some space there")


class FileLocksOfSimulation:
    """Locks on files that end with their process (`state.directory.file_lock.FileLocks`)."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held: dict[Path, SimulatedFileLock] = {}

    def try_acquire(self, path: Path, mode: int = 0o640) -> SimulatedFileLock | None:
        scheduler = self._scheduler
        scheduler.step("lock file")
        held = self._held.get(path)
        if held is not None and held.process.alive:
            return None
        path.touch()
        lock = self._held[path] = SimulatedFileLock(self, path, scheduler.process())
        return lock

    def acquire(self, path: Path, mode: int = 0o640) -> SimulatedFileLock:
        while (lock := self.try_acquire(path, mode)) is None:
            self._scheduler.sleep(0.001)
        return lock

    def holder(self, path: Path) -> str:
        held = self._held.get(path)
        return "nobody" if held is None else f"process {held.process.name}"

    def release(self, lock: SimulatedFileLock) -> None:
        if self._held.get(lock.path) is lock:
            del self._held[lock.path]


class SimulatedFileLock:
    """A lock that is held by a process."""

    def __init__(self, locks: FileLocksOfSimulation, path: Path, process: SimulatedProcess) -> None:
        self.path = path
        self.process = process
        self._locks = locks

    def release(self) -> None:
        """Releases the lock; releasing it again does nothing."""
        self._locks.release(self)

    def __enter__(self) -> SimulatedFileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class DiskEngine:
    """A database that a process has open (`state.engine.port.Engine`)."""

    persistent = True

    def __init__(
        self,
        disk: Disk,
        scheduler: Scheduler,
        process: SimulatedProcess,
        image: _Image,
        directory: Path,
        families: Collection[str],
    ) -> None:
        self.process = process
        self.families = frozenset(families)
        self._disk = disk
        self._scheduler = scheduler
        self._image = image
        self.directory = directory
        self._snapshots: list[Snapshot] = []
        self._closed = False

    def _inner(self) -> MemoryEngine:
        if self._closed or self._image.holder is not self:
            raise StateError(CLOSED)
        return self._image.engine

    @property
    def lock(self) -> AbstractContextManager[Any]:
        return self._image.engine.lock

    def family(self, name: str) -> Family:
        return cast(Family, self._inner().family(name))

    def holds(self, name: str) -> bool:
        return self._inner().holds(name)

    def snapshot(self, families: Collection[str]) -> Snapshot:
        snapshot = cast(Snapshot, self._inner().snapshot(families))
        self._snapshots.append(snapshot)
        return snapshot

    def batch(self) -> Batch:
        return cast(Batch, self._inner().batch())

    def write(self, batch: Any) -> None:
        self._scheduler.step("write database")
        engine = self._inner()
        self._disk.may_write(self.directory)
        self._image.undo.append(_before(engine, batch))
        engine.write(batch)

    def load(self, batch: Any) -> None:
        """Loads a batch, here as safely as :meth:`write`."""
        self.write(batch)

    def flush(self) -> None:
        self._scheduler.step("flush database")
        self._inner()
        self._disk.may_write(self.directory)
        self._image.undo.clear()

    def clear(self, families: Collection[str]) -> None:
        self._scheduler.step("clear database")
        engine = self._inner()
        self._image.undo.append(
            [(name, key, row) for name in families for key, row in engine.family(name).rows.items()]
        )
        engine.clear(families)

    def checkpoint(self, directory: Path, families: Collection[str]) -> Callable[[], None]:
        self._scheduler.step("copy database")
        found = self._inner().rows()
        self._disk.may_write(self.directory)
        directory.mkdir(parents=True)
        rows = {name: {key.hex(): row.hex() for key, row in own.items()} for name, own in found.items()}
        (directory / CHECKPOINT).write_text(json.dumps(rows, sort_keys=True))
        return lambda: None

    def prepare(self, directory: Path) -> None:
        """Does nothing."""

    def take_over(self, directory: Path | None) -> None:
        self._scheduler.step("replace database")
        engine = self._inner()
        self._disk.may_write(self.directory)
        rows = {} if directory is None else json.loads((directory / CHECKPOINT).read_text())
        engine.clear(list(engine.rows()))
        batch = engine.batch()
        for name, own in rows.items():
            for key, row in own.items():
                batch.put(bytes.fromhex(key), bytes.fromhex(row), engine.family(name).handle)
        engine.write(batch)
        self._image.undo.clear()
        if directory is not None:
            shutil.rmtree(directory)
            self._disk.say(f"{self.process} begins {self.directory.name} with a snapshot")

    def close(self) -> None:
        if self._closed:
            return
        self._scheduler.step("close database")
        self._closed = True
        for snapshot in self._snapshots:
            snapshot.close()
        if self._image.holder is self:
            self._image.holder = None


class SimulatedObjects:
    """The objects of a directory that all workers have (`streams.snapshots.objects.ObjectStore`), which is away now and
    then. A writer that dies leaves nothing."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._objects: dict[str, tuple[bytes, float]] = {}

    def describe(self) -> str:
        return "the simulated directory of snapshots"

    def _step(self, call: str) -> None:
        self._scheduler.step(call)
        if self._scheduler.draw() % AWAY_ONE_IN == 0:
            raise OSError("the directory of snapshots is away")

    def list(self, folder: str) -> dict[str, ObjectInfo]:
        self._step("list snapshots")
        place = f"{folder}/"
        own = {name.removeprefix(place): found for name, found in self._objects.items() if name.startswith(place)}
        return {name: ObjectInfo(len(data), at) for name, (data, at) in own.items() if "/" not in name}

    def folders(self, folder: str) -> Sequence[str]:
        self._step("list snapshots")
        place = f"{folder}/"
        own = [name.removeprefix(place) for name in self._objects if name.startswith(place)]
        return sorted({name.partition("/")[0] for name in own if "/" in name})

    def read(self, name: str) -> Iterator[bytes]:
        self._step("read snapshot")
        found = self._objects.get(name)
        if found is None:
            raise FileNotFoundError(name)
        half = len(found[0]) // 2
        yield found[0][:half]
        self._step("read snapshot")
        yield found[0][half:]

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        data = b"".join(chunks)
        self._step("write snapshot")
        self._objects[name] = data, self._scheduler.clock.time_ms() / 1000
        self._step("snapshot written")

    def delete(self, name: str) -> None:
        self._step("delete snapshot")
        self._objects.pop(name, None)

    def remove_parts(self, folder: str, older_than_s: float) -> None:
        self._step("list snapshots")


def _before(engine: MemoryEngine, batch: Any) -> list[tuple[str, bytes, bytes | None]]:
    """Returns the present rows that a batch is about to change."""
    found: list[tuple[str, bytes, bytes | None]] = []
    for rows, key, value, family in batch.operations:
        if value is not None and type(value) is not bytes:  # the end of a range to delete
            found += [(family.name, one, rows[one]) for one in family.index().irange(key, bytes(value), (True, False))]
        else:
            found.append((family.name, key, rows.get(key)))
    return found
