"""The directory of one backfill: what was asked for, and the files of each stage with a list of them.

::

    run.json                                    what is run: application, topology, inputs, options, time of its begin
    stage=0/kind=record/p3-a17.parquet          records that sinks wrote (formats: streams/spark/executor/rows.py)
    stage=0/kind=state/p3-a17.parquet           rows of changelogs after the last record
    stage=0/kind=base/p3-a17.parquet            the same of an earlier run, with further names for its files, and what
    stage=0/kind=changes-000/p3-a17.parquet     each run has changed since (streams/spark/rows/state_files.py)
    stage=0/kind=stores/p3-a17/000012.sst       databases with which a later run continues: the rows of stores, and
    stage=0/kind=changelogs/p3-a17/000009.sst   those of changelogs
    stage=0/kind=error/p3-a17.parquet           records that could not be processed
    initial/...                                 the same, with the rows of tables that were given as a beginning
    globals/topic=0/...                         the same, with the records of a topic that fills a global store
    globals/tables/kind=rows-0/p0-a9.parquet    the rows of the filled global stores of an engine
    globals/tables/kind=table-0/p0-a9.sst       the same of one family, where it is large: a table file of RocksDB
    stage=0/_DONE.json                          its tasks with their files; the stage is complete when it is there
    position.json                               where the result stands in its inputs; the run is complete then
    corrections/...                             records that correct a live table (streams/spark/corrections)

A task writes below ``_attempts``, which Spark and readers of Parquet leave out; the driver moves the files of the
attempts that Spark counted when all tasks are done. So a file of an attempt that failed is never read.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from state.directory.errors import FULL, left_there
from state.directory.file_lock import FileLock
from state.directory.own_files import write_own
from streams.spark.errors import RunDirConflict
from streams.spark.position import Position
from streams.spark.sources.ranges import OffsetRanges

VERSION = 3
VERSION_WITHOUT_BASES = 2
"""That of runs without an initial state from a run."""
ATTEMPTS = "_attempts"
DONE = "_DONE.json"
RUN = "run.json"
POSITION = "position.json"
GLOBALS = "globals"
INITIAL = "initial"
CORRECTIONS = "corrections"


def local_path(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a directory that driver and executors reach by the same name.

    :raises RunDirConflict: for the address of an object store.
    """
    text = os.fspath(path)
    scheme = urlsplit(text).scheme
    if scheme and scheme != "file" and "://" in text:
        raise RunDirConflict(
            f"run_dir {text!r} is not a directory of a file system: give a path that the driver and all executors can"
            " write to (a local one with a local master, a mounted one on a cluster)"
        )
    return Path(unquote(urlsplit(text).path) if scheme == "file" else text).absolute()


class RunDirectory:
    """The directory of one backfill; the driver writes it, and one driver at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_path(path)
        self.run_id = uuid4().hex
        self._lock: FileLock | None = None

    # ------------------------------------------------------------------ begin

    def forget(self) -> None:
        """Deletes the run that the directory holds.

        :raises RunDirConflict: if it is in use, or holds something else.
        """
        self._acquire()
        try:
            if self.read_run() is None:
                self._check_empty()
            self.wipe()
        finally:
            self.release()

    def begin(self, wanted: Mapping[str, Any], *, now_ms: int, version: int = VERSION_WITHOUT_BASES) -> int:
        """Takes the directory for a run; returns the time in ms at which the run started, the same each time it
        continues.

        :param wanted: what is run, as data that JSON can hold.
        :param now_ms: the present time in ms, kept as that of a run that begins now.
        :param version: of the format in which the run is written.
        :raises RunDirConflict: if it is in use, holds something else, or another run than that.
        """
        self._acquire()
        try:
            found = self.read_run()
            if found is not None:
                self._check_same(found, wanted)
                if found["version"] < version:
                    self._write(self.path / RUN, _run_text({**found, "version": version}))
            else:
                self._check_empty()
                found = {"version": version, "started_ms": now_ms, **wanted}
                self._write(self.path / RUN, _run_text(found))
            return int(found["started_ms"])
        except BaseException:
            self.release()
            raise

    def _acquire(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise RunDirConflict(f"run_dir {str(self.path)!r} is a file: give a directory")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock.try_acquire(self.path / ".lock")
        except OSError as error:
            raise RunDirConflict(f"run_dir {str(self.path)!r} cannot be written: {error}") from error
        if self._lock is None:
            raise RunDirConflict(f"another process runs a backfill in {str(self.path)!r}: wait until it has ended")

    def release(self) -> None:
        """Gives the directory free for other runs."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _check_empty(self) -> None:
        others = sorted(path.name for path in self.path.iterdir() if path.name not in (".lock", RUN + ".tmp"))
        if others:
            raise RunDirConflict(
                f"run_dir {str(self.path)!r} is not empty and holds no backfill ({', '.join(others[:3])}): give another"
                " directory"
            )

    def _check_same(self, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        wanted = json.loads(json.dumps(wanted))
        if found["version"] < VERSION_WITHOUT_BASES:
            raise RunDirConflict(
                f"run_dir {str(self.path)!r} was written by an earlier version of this library (format"
                f" {found['version']}, this one writes {VERSION}): give another directory, or run(resume=False)"
            )
        if type(found.get("started_ms")) is not int:
            raise RunDirConflict(
                f"{str(self.path / RUN)!r} does not say when its run began: give another directory, or"
                " run(resume=False)"
            )
        different = [name for name in wanted if found.get(name) != wanted[name]]
        if different:
            shown = "; ".join(_differences(found, wanted, different))
            raise RunDirConflict(
                f"run_dir {str(self.path)!r} holds another backfill, with other {' and '.join(different)}: {shown}."
                " Give another directory, or run(resume=False) to delete what is there"
            )

    def check_unchanged(self, run: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Makes sure that parts of what is run are the same as when it began.

        :raises RunDirConflict: if they are not.
        """
        now = json.loads(json.dumps(now))
        if shown := _differences(run, now, [name for name in now if run.get(name) != now[name]]):
            raise RunDirConflict(
                f"a history has changed while the backfill in {str(self.path)!r} ran: {'; '.join(shown)}. Its records"
                " may be of both states: run(resume=False) when it is no longer written"
            )

    # ------------------------------------------------------------------ content

    def read_run(self) -> dict[str, Any] | None:
        """Returns what is run here; ``None`` if there is none.

        :raises RunDirConflict: if it cannot be read, or was written by a newer version of this library.
        """
        found = self._read_json(self.path / RUN)
        if found is not None and (not isinstance(version := found.get("version"), int) or version > VERSION):
            raise RunDirConflict(
                f"run_dir {str(self.path)!r} was written by a newer version of this library (format {version}, this one"
                f" reads up to {VERSION}): use that version, or give another directory"
            )
        return found

    def pins(self) -> dict[str, OffsetRanges]:
        """Returns the offsets of Kafka that the run which was begun here reads, by topic."""
        found = (self.read_run() or {}).get("inputs") or {}
        pinned = {topic: (one.get("source") or {}).get("offsets") for topic, one in found.items()}
        return {topic: OffsetRanges.from_json(json.dumps(one)) for topic, one in pinned.items() if one is not None}

    def position(self) -> Position | None:
        """Returns where the result stands; ``None`` if the run is not complete."""
        found = self._read_json(self.path / POSITION)
        return None if found is None else Position.from_json(json.dumps(found))

    def finish(self, position: Position) -> None:
        """Marks the run as complete, with where its result stands."""
        self._write(self.path / POSITION, position.to_json())
        _sync(self.path)

    def stage_path(self, stage: int) -> Path:
        """Returns the directory of a stage."""
        return self.path / f"stage={stage}"

    def global_path(self, number: int) -> Path:
        """Returns the directory of the records of a global topic, by its place among them."""
        return self.path / GLOBALS / f"topic={number}"

    def global_tables_path(self) -> Path:
        """Returns the directory of the rows of global stores, filled from their topics."""
        return self.path / GLOBALS / "tables"

    def initial_path(self) -> Path:
        """Returns the directory of the rows that stores begin with, if they are given as DataFrames."""
        return self.path / INITIAL

    def corrections_path(self) -> Path:
        """Returns the directory of the records that correct a live table."""
        return self.path / CORRECTIONS

    def attempts_path(self, directory: Path) -> Path:
        """Returns the directory below which the tasks of this run write."""
        return directory / ATTEMPTS / self.run_id

    def done(self, directory: Path) -> dict[str, Any] | None:
        """Returns the list of what a stage wrote; ``None`` if it is not complete.

        :raises RunDirConflict: if one of its files is missing or damaged.
        """
        found = self._read_json(directory / DONE)
        for task in () if found is None else found["tasks"]:
            sizes = task.get("sizes") or [None] * len(task["files"])  # earlier versions have none
            for name, size in zip(task["files"], sizes, strict=True):
                if fault := _fault(directory / name, size):
                    raise RunDirConflict(
                        f"the file {str(directory / name)!r} of a complete stage {fault}: restore it, or delete"
                        f" {str(directory / DONE)!r} to run the stage again"
                    )
        return found

    def finished(self, directory: Path) -> dict[int, list[dict[str, Any]]]:
        """Returns the reports of the tasks that an incomplete part of the run has finished, by the number of the task;
        deletes all its other files."""
        found: dict[int, list[dict[str, Any]]] = {}
        for path in sorted((directory / ATTEMPTS).glob("*/*.json")):
            one = self._read_json(path) or {}
            files = [path.parent / name for task in one["reports"] for name in task["files"]]
            if all(file.is_file() for file in files):
                found[one["number"]] = [{**task, "run": path.parent.name} for task in one["reports"]]
        if not found:
            self.clear(directory)
            return found
        for path in directory.iterdir():
            if path.name != ATTEMPTS:
                shutil.rmtree(path)
        return found

    def clear(self, directory: Path) -> None:
        """Deletes what an incomplete part of the run left."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)

    def once(self, directory: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the list of what a part of the run wrote; has the part made if it is not complete.

        :param make: makes the part, and returns its list for :meth:`complete`.
        """
        found = self.done(directory)
        if found is None:
            self.clear(directory)
            found = self.complete(directory, make())
        return found

    def complete(self, directory: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Moves the files of the attempts that count to their places, and marks the stage as complete.

        :param manifest: has the tasks; the files of each are paths below the directory of the attempts.
        :returns: the same with the places of the files.
        """
        tasks = []
        for given in manifest["tasks"]:
            task = dict(given)
            attempts = directory / ATTEMPTS / task.pop("run", self.run_id)
            files = []
            for name in task["files"]:
                target = _place(name, f"p{task['partition']}-a{task['attempt']}")
                (directory / target).parent.mkdir(parents=True, exist_ok=True)
                (attempts / name).replace(directory / target)
                files.append(target)
            tasks.append({**task, "files": files, "sizes": [(directory / name).stat().st_size for name in files]})
        shutil.rmtree(directory / ATTEMPTS, ignore_errors=True)
        text = json.dumps({**manifest, "tasks": tasks}, indent=1)
        self._write(directory / DONE, text)
        _sync(directory)
        found: dict[str, Any] = json.loads(text)  # as a later run reads it
        return found

    def wipe(self) -> None:
        """Deletes the stages of an earlier run."""
        for name in (POSITION, RUN):
            (self.path / name).unlink(missing_ok=True)
        for path in self.path.iterdir():
            if path.name.startswith("stage=") or path.name in (GLOBALS, INITIAL, CORRECTIONS):
                shutil.rmtree(path)

    def _write(self, path: Path, text: str) -> None:
        write_file(path, text, "run the backfill again: the tasks that are done are kept")

    def _read_json(self, path: Path) -> dict[str, Any] | None:
        try:
            return read_json(path, "Give another directory")
        except NotADirectoryError as error:
            raise RunDirConflict(f"run_dir {str(self.path)!r} is a file: give a directory") from error


def _run_text(run: Mapping[str, Any]) -> str:
    return json.dumps(run, indent=1, sort_keys=True)


def _place(name: str, task: str) -> str:
    """Returns where a file of an attempt goes.

    :param name: the directory of the attempt, and the file in it; or a directory in it, and its file.
    :param task: the name of a task's files.
    """
    _, *folders, file = Path(name).parts
    if folders:
        return f"kind={folders[0]}/{task}/{file}"
    return f"kind={Path(file).stem}/{task}{Path(file).suffix}"


def read_json(path: Path, advice: str) -> dict[str, Any] | None:
    """Returns the content of a file of a run directory; ``None`` if there is no such file.

    :param advice: what to do if it is damaged, as a sentence without its full stop.
    :raises RunDirConflict: if it cannot be read.
    :raises NotADirectoryError: if it is below a file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise
    except (OSError, ValueError) as error:
        raise RunDirConflict(f"{str(path)!r} cannot be read: {error}. {advice}") from error
    if not isinstance(found, dict):
        raise RunDirConflict(f"{str(path)!r} is not the file of a backfill. {advice}")
    return found


def write_file(path: Path, text: str, again: str) -> None:
    """Writes a file of a run directory, so that it is whole or not there after a power loss.

    :param again: what to do when it can be written.
    :raises RunDirConflict: if it cannot be written.
    """
    try:
        write_own(path, text)
    except OSError as error:
        left = left_there(path) if error.errno in FULL else ""
        raise RunDirConflict(
            f"{str(path)!r} cannot be written: {error.strerror or error}{left}. Correct that, and {again}"
        ) from error


def _fault(path: Path, size: int | None) -> str:
    """Returns what is wrong with a file, for the middle of a sentence; empty if nothing is.

    :param size: its size in bytes when it was written; ``None`` if that is not known.
    """
    try:
        found = path.stat().st_size
    except OSError:
        return "is missing"
    return "" if size in (None, found) else f"is damaged ({found} bytes, it had {size})"


def files_of(directory: Path, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the paths of the files that a part of the run wrote."""
    return tuple(str(directory / name) for task in manifest["tasks"] for name in task["files"])


def _differences(
    found: Mapping[str, Any], wanted: Mapping[str, Any], names: Iterable[str], front: str | None = None
) -> list[str]:
    """Returns the values in which two runs differ, each with its place below one of the names."""
    shown = []
    for name in names:
        one, other, place = found.get(name), wanted.get(name), f"{front or ''}{name}"
        if isinstance(one, dict) and isinstance(other, dict):
            inner = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
            shown += _differences(one, other, inner, "" if front is None else f"{place}.")
        else:
            shown.append(f"{place} was {_short(one)}, is {_short(other)}")
    return shown


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _sync(directory: Path) -> None:
    """Makes renames in a directory last through a power loss, where the platform can."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
