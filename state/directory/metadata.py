"""The metadata of a state directory: format, application, and whether Kafka Streams in Java made it."""

from __future__ import annotations

import errno
import json
import logging
import re
import uuid
from pathlib import Path

from processor_api.errors import StateDirectoryError
from processor_api.task_id import TaskId
from state.directory.errors import directory_error
from state.directory.own_files import read_own, set_aside

log = logging.getLogger("streams.state")

FORMAT_VERSION = 1
"""The version of the directory's layout; frozen: a later layout has a higher one."""
METADATA_FILE = "streams-metadata.json"
DATABASE = "rocksdb"
"""The database below the directory of a task, or of global stores."""

_VERSIONS = re.compile(rb'"format_version"\s*:\s*([0-9]{1,18})\b')
_JAVA_METADATA = "kafka-streams-process-metadata"


class _DamagedMetadata(Exception):
    """The metadata cannot be read; the text says why."""


def owner_of(path: Path) -> str | None:
    """The application that a directory belongs to; ``None`` if it belongs to none, or the file that says it is damaged.

    :raises StateDirectoryError: if it was written by a newer version.
    """
    try:
        return _read(path)[1]
    except (FileNotFoundError, _DamagedMetadata):
        return None


def read_metadata(path: Path, application_id: str) -> uuid.UUID | None:
    """The id in the metadata, after checks; ``None`` if the directory is new, or has lost them, which is logged.

    Metadata that cannot be read are set aside. All that they have is made again: nothing in the directory depends on
    the id, and the directory is named like the application.

    :raises StateDirectoryError: if the directory belongs to another application, or was written by a newer version.
    """
    try:
        process_uuid, owner = _read(path)
    except FileNotFoundError:
        if has_own_tasks(path):
            log.warning(
                "the metadata of the state directory are lost: they are written again", extra={"path": str(path)}
            )
        return None
    except (_DamagedMetadata, PermissionError) as error:
        set_aside(path / METADATA_FILE, str(error))
        return None
    if owner != application_id:
        raise StateDirectoryError(
            f"{path} belongs to the application {owner!r}, not to {application_id!r}: set another state.dir or"
            " application.id"
        )
    return process_uuid


def _read(path: Path) -> tuple[uuid.UUID, str]:
    try:
        data = read_own(path / METADATA_FILE)
    except IsADirectoryError as error:
        raise _DamagedMetadata("it is a directory") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise directory_error(error, path) from error
        raise
    # First, and also in a file that is damaged otherwise: what a newer version has made must not be taken over.
    version = max((int(number) for number in _VERSIONS.findall(data)), default=0)
    if version > FORMAT_VERSION:
        raise StateDirectoryError(
            f"{path} was written by a newer version of this library (format {version}, this version supports"
            f" {FORMAT_VERSION}): upgrade, or set state.dir to another directory"
        )
    try:
        metadata = json.loads(data.decode())
        owner, process_uuid = metadata["application_id"], uuid.UUID(metadata["process_uuid"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _DamagedMetadata(f"{type(error).__name__}: {error}") from error
    if not version or not isinstance(owner, str):
        raise _DamagedMetadata("the version or the application is missing")
    return process_uuid, owner


def task_ids(path: Path, *, whatever: bool = False) -> list[TaskId]:
    """The tasks that have a directory below one.

    :param whatever: also those in whose place is something else, such as a file or a link that leads nowhere.
    """
    found = []
    for entry in path.iterdir():
        try:
            task = TaskId.parse(entry.name)
        except ValueError:
            continue
        if str(task) == entry.name and (whatever or entry.is_dir()):
            found.append(task)
    return found


def refuse_java(path: Path) -> None:
    """Refuses a directory of Kafka Streams in Java; called before anything is made there.

    :raises StateDirectoryError: if there is state of Kafka Streams in Java.
    """
    ours = (path / METADATA_FILE).exists()
    if (path / _JAVA_METADATA).exists() or (path.is_dir() and not ours and _has_java_tasks(path)):
        raise StateDirectoryError(
            f"{path} holds state of Kafka Streams in Java, and this library does not read its files: set state.dir to"
            " another directory, and the state is restored from the changelogs"
        )


def has_own_tasks(path: Path) -> bool:
    """Whether there is state of this library below, also where the file that says so is lost."""
    return any(map(_is_own, _databases(path)))


def _databases(path: Path) -> list[Path]:
    return [path / str(task) / DATABASE for task in task_ids(path)] if path.is_dir() else []


def _is_own(database: Path) -> bool:
    """Returns whether a task's database is ours: one for all stores; Java's has a directory for each store."""
    return any(next(database.glob(pattern), None) for pattern in ("CURRENT", "MANIFEST-*", "*.sst", "*.log"))


def _has_java_tasks(path: Path) -> bool:
    if any((path / str(task) / name).exists() for task in task_ids(path) for name in (".checkpoint", ".lock")):
        return True
    return any(not _is_own(one) and any(map(Path.is_dir, one.glob("*"))) for one in _databases(path))
