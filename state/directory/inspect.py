"""Lists the applications, tasks and databases of a state directory without changing it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from processor_api.errors import StateDirectoryError
from processor_api.task_id import TaskId
from state.directory.metadata import DATABASE, METADATA_FILE, has_own_tasks, owner_of, refuse_java, task_ids


@dataclass(frozen=True)
class StoredTask:
    """The state of a task, or of the global stores of a process."""

    application_id: str
    path: Path
    task: TaskId | None
    """``None`` for global stores."""

    @property
    def name(self) -> str:
        """``<subtopology>_<partition>``, or ``global/<slot>``."""
        return f"global/{self.path.name}" if self.task is None else str(self.task)

    @property
    def application_path(self) -> Path:
        return self.path.parent if self.task is not None else self.path.parent.parent

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    @property
    def is_there(self) -> bool:
        """Whether it has a database, or something else is in the place of its directory or its database."""
        return os.path.lexists(self.database) if self.path.is_dir() else os.path.lexists(self.path)


def applications_in(root: Path) -> dict[str, Path]:
    """Returns the applications that have state below a directory (``state.dir``), with their directories.

    The directory of one application may be named too.

    :raises StateDirectoryError: there is no such directory, it is of Kafka Streams in Java, or cannot be read.
    """
    if not root.is_dir():
        what = "is not a directory" if root.exists() else "does not exist"
        raise StateDirectoryError(f"the state directory {root} {what}: give the state.dir of the worker")
    try:
        refuse_java(root)
        owner = owner_of(root)
        if owner is not None:
            return {owner: root}
        if has_own_tasks(root):
            return {root.name: root}
        return {path.name: path for path in sorted(root.iterdir()) if _is_application(path)}
    except OSError as error:
        raise StateDirectoryError(f"the state directory {root} cannot be read: {error.strerror or error}") from error


def _is_application(path: Path) -> bool:
    """Returns whether an application's state is here.

    A folder with tasks is one, also where the file with the metadata is lost: the next start writes another.
    """
    return (path / METADATA_FILE).exists() or has_own_tasks(path)


def tasks_of(root: Path, application_id: str | None, names: Collection[str] = ()) -> list[StoredTask]:
    """Returns the tasks and global stores that an application has on disk.

    :param application_id: may be left out where there is only one.
    :param names: only these, by their :attr:`StoredTask.name`.
    :raises StateDirectoryError: there is no such application or task there; the error names those there are.
    """
    found = applications_in(root)
    if application_id is None:
        if len(found) != 1:
            raise StateDirectoryError(f"{_there(root, found)}: choose one by its application.id")
        application_id = next(iter(found))
    if application_id not in found:
        refuse_java(root / application_id)
        raise StateDirectoryError(f"no state of application {application_id!r} exists; {_there(root, found)}")
    path = found[application_id]
    if (owner := owner_of(path)) not in (application_id, None):
        raise StateDirectoryError(f"{path} belongs to the application {owner!r}, not to {application_id!r}")
    tasks = [StoredTask(application_id, path / str(task), task) for task in sorted(task_ids(path, whatever=True))]
    slots = sorted((path / "global").glob("*")) if (path / "global").is_dir() else []
    tasks += [StoredTask(application_id, slot, None) for slot in slots]
    tasks = [task for task in tasks if task.is_there]
    unknown = sorted(set(names) - {task.name for task in tasks})
    if unknown:
        there = ", ".join(task.name for task in tasks) or "none"
        raise StateDirectoryError(f"{path} does not have state of task {unknown[0]}; it has state of: {there}")
    return [task for task in tasks if not names or task.name in names]


def _there(root: Path, found: Collection[str]) -> str:
    return f"{root} has state of: {', '.join(found)}" if found else f"{root} does not have state of an application"
