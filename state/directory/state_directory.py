"""The state directory of an application: who may use it, and which task's state is where.

``<state.dir>/<application.id>/`` holds

* ``streams-metadata.json``: format, application and the id that names its clients across restarts;
* ``slots/<n>.lock``: held by the n-th process that runs, as long as it lives;
* ``locks/supervisor.lock``: held by the supervisor of ``--workers``, once one of its workers has run;
* ``locks/<task>.lock``: held by the process that has the task open;
* ``locks/<task>.wanted``: touched by who waits for that lock to run the task; who only keeps a copy releases it then;
* ``<subtopology>_<partition>/``: the state of a task;
* ``global/<slot>/``: the global stores of a process.

None of them is reached through a symbolic link; directories have the mode 750 and these files 640, with
``allow.os.group.write.access`` 770 and 660.

Locks end with the process, also when it is killed (:mod:`state.directory.file_lock`); lock files are never deleted. A
directory is taken away by renaming it first, so that a crash never leaves half of a task's state under its name.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from processor_api.errors import StateDirectoryError
from processor_api.task_id import TaskId
from state.directory.errors import explained
from state.directory.file_lock import FileLock, FileLocks, HeldLock, taken_by
from state.directory.metadata import (
    DATABASE,
    FORMAT_VERSION,
    METADATA_FILE,
    read_metadata,
    refuse_java,
    task_ids,
)
from state.directory.no_home import refuse_no_home
from state.directory.own_files import make_own_directory, open_own, refuse_link, write_own

log = logging.getLogger("streams.state")

_MOST_SLOTS = 1024
_REMOVING = "removing-"
_OF_NO_TASK = {METADATA_FILE, "locks", "slots"}


@dataclass(frozen=True)
class ProcessIdentity:
    """The names of a process for its clients: the id of its state directory, and its slot there."""

    process_uuid: uuid.UUID
    slot: int

    def __str__(self) -> str:
        return f"{self.process_uuid}-{self.slot}"


class _Held:
    """Something that a lock protects; a context manager that releases it."""

    def __init__(self, lock: HeldLock) -> None:
        self._lock = lock

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Slot(_Held):
    """The place of a process among those that share the directory."""

    def __init__(self, number: int, lock: HeldLock, *, is_new: bool) -> None:
        super().__init__(lock)
        self.number = number
        self.is_new = is_new
        """Whether no process had it before."""


class TaskLock(_Held):
    """The right to open the stores of a task, whose directory exists."""

    def __init__(self, task: TaskId, path: Path, lock: HeldLock) -> None:
        super().__init__(lock)
        self.task = task
        self.path = path


class StateDirectory:
    """The directory of one application, opened; get it by :meth:`open`. May be used by any thread."""

    def __init__(
        self, path: Path, process_uuid: uuid.UUID, mode: int, locks: FileLocks = FileLock, *, is_new: bool = False
    ) -> None:
        self._locks = locks
        self.path = path
        self.process_uuid = process_uuid
        self.is_new = is_new
        """Whether :meth:`open` has made it."""
        self._mode = mode

    @classmethod
    def open(
        cls, root: Path, application_id: str, *, group_write: bool = False, locks: FileLocks = FileLock
    ) -> StateDirectory:
        """Opens the directory of an application below ``root`` (``state.dir``), making it if it is missing.

        :param group_write: lets the group write (``allow.os.group.write.access``); otherwise it may only read.
        :param locks: makes the locks that keep processes apart.
        :raises StateDirectoryError: if it cannot be written, has a symbolic link instead of something of ours, or
            belongs to another application, to Kafka Streams in Java, or to a newer version of this library.
        """
        refuse_no_home(root)
        path = root / application_id
        mode = 0o770 if group_write else 0o750
        with explained(path):
            while True:
                root.mkdir(parents=True, exist_ok=True)
                refuse_java(path)
                is_new = not path.exists()
                for directory in (path, path / "slots", path / "locks"):
                    make_own_directory(directory, mode)
                with locks.acquire(path / "locks" / "directory.lock", mode & 0o666):
                    if not (path / "slots").is_dir():  # another process has discarded it meanwhile
                        continue
                    process_uuid = read_metadata(path, application_id)
                    if process_uuid is None:
                        process_uuid = _write_metadata(path, application_id, mode)
                    for leftover in path.glob(_REMOVING + "*"):
                        shutil.rmtree(leftover, ignore_errors=True)
                return cls(path, process_uuid, mode, locks, is_new=is_new)

    def discard_new(self) -> None:
        """Deletes the directory after a start that failed, if :meth:`open` has made it and nothing else came into it.

        A process that opens it at the same time makes it again, or keeps an identity of its own that nothing else has.
        """
        if not self.is_new:
            return
        held: list[HeldLock] = []
        try:
            with explained(self.path), self._locks.acquire(self.path / "locks" / "directory.lock", self._mode & 0o666):
                names = {entry.name for entry in self.path.iterdir()}
                slots = sorted((self.path / "slots").iterdir())
                held = [lock for slot in slots if (lock := self._try_lock(slot)) is not None]
                if names <= _OF_NO_TASK and len(held) == len(slots):
                    # No application id has a tilde, so this is never the directory of another application.
                    aside = self.path.with_name(f"{_REMOVING}{self.path.name}~{uuid.uuid4().hex}")
                    self.path.rename(aside)
                    shutil.rmtree(aside, ignore_errors=True)
        finally:
            for lock in held:
                lock.release()

    def claim_slot(self) -> Slot:
        """The lowest slot that no living process holds, for this process.

        :raises StateDirectoryError: if more than a thousand are taken.
        """
        with explained(self.path):
            for number in range(_MOST_SLOTS):
                if (slot := self._try_slot(number)) is not None:
                    return slot
        raise StateDirectoryError(
            f"{_MOST_SLOTS} processes already share {self.path}, which is the limit: give the others another state.dir"
        ).may_pass()

    def try_slot(self, number: int) -> Slot | None:
        """A slot by its number; ``None`` while a living process holds it.

        :raises StateDirectoryError: if the directory cannot be written.
        """
        with explained(self.path):
            return self._try_slot(number)

    def _try_slot(self, number: int) -> Slot | None:
        path = self._slot_lock(number)
        is_new = not path.exists()
        lock = self._try_lock(path)
        return None if lock is None else Slot(number, lock, is_new=is_new)

    @classmethod
    def former_slot(
        cls, root: Path, application_id: str, *, group_write: bool = False, locks: FileLocks = FileLock
    ) -> tuple[ProcessIdentity, Slot] | None:
        """Returns the lowest slot that no living process holds and a process had before, with the identity of that.

        Makes nothing: there is none (``None``) where no process of the application has run. The next process claims
        the slot once it is released.

        :raises StateDirectoryError: as for :meth:`open`.
        """
        for number in range(_MOST_SLOTS):
            if not (root / application_id / "slots" / f"{number}.lock").is_file():
                return None
            if (held := cls.former(root, application_id, number, group_write=group_write, locks=locks)) is not None:
                return held
        return None

    @classmethod
    def former(
        cls, root: Path, application_id: str, number: int, *, group_write: bool = False, locks: FileLocks = FileLock
    ) -> tuple[ProcessIdentity, Slot] | None:
        """Returns a slot that a process had before, with the identity of that; ``None`` while a living process holds
        it (:meth:`slot_taken_by`), and where none had it. Makes nothing.

        :raises StateDirectoryError: as for :meth:`open`.
        """
        path = root / application_id
        if not (path / METADATA_FILE).is_file() or not (path / "slots" / f"{number}.lock").is_file():
            return None
        with explained(path):
            process_uuid = read_metadata(path, application_id)
            if process_uuid is None:
                return None
            found = cls(path, process_uuid, 0o770 if group_write else 0o750, locks)
        slot = found.try_slot(number)
        return None if slot is None else (found.identity(slot), slot)

    @staticmethod
    def slot_taken_by(root: Path, application_id: str, number: int) -> int | None:
        """Returns the process of this host that has taken a slot last, whether it lives or not."""
        return taken_by(root / application_id / "slots" / f"{number}.lock")

    @staticmethod
    def try_supervise(root: Path, application_id: str, *, group_write: bool = False) -> HeldLock | str | None:
        """Returns the lock of the one who starts the workers of a directory, or in words who has it; ``None`` where
        there is no directory.

        :raises StateDirectoryError: if the directory cannot be written.
        """
        folder = root / application_id / "locks"
        if not folder.is_dir():
            return None
        path = folder / "supervisor.lock"
        with explained(folder):
            return FileLock.try_acquire(path, 0o660 if group_write else 0o640) or FileLock.holder(path)

    def identity(self, slot: Slot) -> ProcessIdentity:
        return ProcessIdentity(self.process_uuid, slot.number)

    def try_lock_task(self, task: TaskId) -> TaskLock | None:
        """The right to open a task, with its directory made if it is missing; ``None`` while someone else has it.

        :raises StateDirectoryError: if the directory cannot be written.
        """
        path = self.task_directory(task)
        with explained(path):
            lock = self._try_lock(self._task_lock(task))
        if lock is None:
            return None
        task_lock = TaskLock(task, path, lock)
        try:
            self.make_task_directory(task_lock)
        except BaseException:
            lock.release()
            raise
        return task_lock

    def want_task(self, task: TaskId) -> None:
        """Asks for a task whose lock could not be had. A process that runs the task continues; a process with a standby
        replica releases it.

        :raises StateDirectoryError: if the directory cannot be written.
        """
        path = self._task_request(task)
        with explained(path):
            os.close(open_own(path, os.O_WRONLY | os.O_CREAT, self._mode & 0o666))
            os.utime(path)

    def wanted_mark(self, task: TaskId) -> int:
        """Returns a number that is another one after each call of :meth:`want_task` by anyone."""
        try:
            return os.stat(self._task_request(task)).st_mtime_ns
        except OSError:
            return 0

    def holder_of_task(self, task: TaskId) -> str:
        """Returns in words who has a task open whose lock could not be had."""
        return self._locks.holder(self._task_lock(task))

    def make_task_directory(self, lock: TaskLock) -> None:
        """Makes the directory of a task again after :meth:`remove_task`.

        :raises StateDirectoryError: if it cannot be written.
        """
        with explained(lock.path):
            make_own_directory(lock.path, self._mode)
            refuse_link(lock.path / DATABASE)

    def task_directory(self, task: TaskId) -> Path:
        return self.path / str(task)

    def global_directory(self, slot: Slot) -> Path:
        """Returns the directory of this process's global stores; makes it if it is missing.

        :raises StateDirectoryError: if it cannot be written.
        """
        path = self.path / "global" / str(slot.number)
        with explained(path):
            make_own_directory(path.parent, self._mode)
            make_own_directory(path, self._mode)
            refuse_link(path / DATABASE)
        return path

    def tasks(self) -> list[TaskId]:
        """The tasks that have a directory here, sorted; open or not."""
        with explained(self.path):
            return sorted(task_ids(self.path))

    def remove_task(self, lock: TaskLock) -> None:
        """Deletes the state of a task, which must be closed; its lock stays held, its directory is gone.

        :raises StateDirectoryError: if it cannot be deleted.
        """
        with explained(lock.path):
            self._remove(lock.path)

    def remove_database(self, held: TaskLock | Slot) -> None:
        """Deletes the database of a task, or of the global stores of a process, which must be closed; what else is in
        its directory stays.

        :raises StateDirectoryError: if it cannot be deleted.
        """
        path = held.path if isinstance(held, TaskLock) else self.path / "global" / str(held.number)
        with explained(path):
            self._remove(path / DATABASE)

    def remove_global(self, slot: Slot) -> None:
        """Deletes the global stores of a process that does not run.

        :raises StateDirectoryError: if they cannot be deleted.
        """
        with explained(self.path):
            self._remove(self.path / "global" / str(slot.number))

    def remove_obsolete(self, older_than_ms: int, now_ms: int) -> list[TaskId]:
        """Deletes the state of tasks that no process has open and that were not written for a time.

        :param older_than_ms: ``state.cleanup.delay.ms``, or ``state.cleanup.dir.max.age.ms`` at start.
        :param now_ms: the wall-clock time.
        :returns: the tasks whose state was deleted.
        """
        removed = []
        for task in self.tasks():
            if now_ms - _last_written_ms(self.task_directory(task)) <= older_than_ms:
                continue
            lock = self.try_lock_task(task)
            if lock is None:
                continue
            with lock:  # another process may have opened and written it before the lock was taken
                if now_ms - _last_written_ms(lock.path) > older_than_ms:
                    self.remove_task(lock)
                    removed.append(task)
        return removed

    def clean_up(self, own_slot: Slot | None = None) -> None:
        """Deletes the state of every task and all global stores; keeps metadata and locks (semantics 118).

        :param own_slot: the slot this process holds, if any.
        :raises StateDirectoryError: if a task is open, or another process runs; nothing is deleted then.
        """
        held: list[_Held | HeldLock] = []
        try:
            global_directories = self._lock_all(held, own_slot)
            with explained(self.path):
                for path in (*map(self.task_directory, self.tasks()), *global_directories):
                    self._remove(path)
        finally:
            for lock in held:
                lock.release()

    def _lock_all(self, held: list[_Held | HeldLock], own_slot: Slot | None) -> list[Path]:
        for task in self.tasks():
            lock = self.try_lock_task(task)
            if lock is None:
                raise StateDirectoryError(
                    f"task {task} in {self.path} is open, by {self.holder_of_task(task)}: stop every process of the"
                    " application before cleaning up",
                    task=str(task),
                ).may_pass()
            held.append(lock)
        with explained(self.path):
            directories = list((self.path / "global").glob("*"))
            for directory in directories:
                if own_slot is None or directory.name != str(own_slot.number):
                    path = self.path / "slots" / f"{directory.name}.lock"
                    slot_lock = self._try_lock(path)
                    if slot_lock is None:
                        raise StateDirectoryError(
                            f"slot {directory.name} of {self.path} is in use, by {self._locks.holder(path)}: stop every"
                            " process of the application before cleaning up"
                        ).may_pass()
                    held.append(slot_lock)
        return directories

    def _remove(self, path: Path) -> None:
        aside = self.path / f"{_REMOVING}{path.parent.name}-{path.name}-{uuid.uuid4().hex}"
        try:
            path.rename(aside)
        except FileNotFoundError:
            return
        shutil.rmtree(aside)

    def _try_lock(self, path: Path) -> HeldLock | None:
        return self._locks.try_acquire(path, self._mode & 0o666)

    def _task_lock(self, task: TaskId) -> Path:
        return self.path / "locks" / f"{task}.lock"

    def _task_request(self, task: TaskId) -> Path:
        return self.path / "locks" / f"{task}.wanted"

    def _slot_lock(self, number: int) -> Path:
        return self.path / "slots" / f"{number}.lock"


def _last_written_ms(path: Path) -> int:
    """The newest change below a directory; stores write deep in it, which leaves its own time as it was."""
    newest = 0
    for folder, _, files in os.walk(path):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            try:
                newest = max(newest, os.stat(name).st_mtime_ns)
            except FileNotFoundError:
                continue
    return newest // 1_000_000


def _write_metadata(path: Path, application_id: str, mode: int) -> uuid.UUID:
    process_uuid = uuid.uuid4()
    metadata = {
        "format_version": FORMAT_VERSION,
        "application_id": application_id,
        "process_uuid": str(process_uuid),
    }
    write_own(path / METADATA_FILE, json.dumps(metadata, indent=2) + "\n", mode & 0o666)
    return process_uuid
