"""The files of a backfill that has ended, read without Spark (layout: `streams/spark/runs/run_directory.py`)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.spark.errors import BackfillMismatchError
from streams.spark.position import Position, end_of_run
from streams.spark.rows.state_files import StateFiles, header_lists, state_files, topic_batches


class RunRow(NamedTuple):
    """One row of a changelog, or one record of a sink."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: HeaderList | None


@dataclass(frozen=True)
class FinishedTask:
    """Holds what one task of a stage wrote, and where it stood in the end."""

    directory: Path
    partition: int
    files: Sequence[str]
    """The files that are listed with the task."""
    state_files: Sequence[StateFiles]
    """The files that have its rows of changelogs: tasks that ran together have theirs in the same files."""
    counts: Mapping[str, int]
    partition_times: Mapping[str, int]
    """The largest timestamp of each topic read, in ms."""
    processor_times: Mapping[str, int]
    """The times that operators commit with their offsets, by name."""
    positions: Mapping[str, int]
    """The offset behind the last record processed of each topic read, if the history has offsets."""

    def state(self, changelog: str) -> Iterator[RunRow]:
        """Yields the rows of one of its changelogs in the order in which they were written.

        :raises BackfillMismatchError: if a file cannot be read.
        """
        for one in self.state_files:
            yield from _run_rows(self.directory, one.batches(changelog, self.partition))

    def records(self, topic: str) -> Iterator[RunRow]:
        """Yields the records of a sink's topic in the files that are listed with the task.

        :raises BackfillMismatchError: if a file cannot be read.
        """
        for name in self.files:
            if "kind=record/" in name:
                yield from rows_in(self.directory / name, topic, None)


class FinishedRun:
    """Holds the tasks of a backfill that has ended.

    :param path: its run directory.
    :raises BackfillMismatchError: if the directory holds no backfill, or one that has not ended.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.run = _read_json(self.path / "run.json")
        if self.run is None:
            raise BackfillMismatchError(f"{str(self.path)!r} holds no backfill: give the run_dir of one")
        self.application_id = str(self.run["application_id"])
        found = sorted(self.path.glob("stage=*"), key=lambda one: int(one.name.partition("=")[2]))
        stages = range(int(self.run.get("stages", len(found))))
        self.tasks: list[FinishedTask] = []
        done = []
        for number in stages:
            directory = self.path / f"stage={number}"
            manifest = _read_json(directory / "_DONE.json")
            if manifest is None:
                raise BackfillMismatchError(
                    f"the backfill in {str(self.path)!r} has not ended, stage {number} is missing: run it again, and it"
                    " continues where it stopped"
                )
            done.append(manifest)
            self.tasks += _tasks(directory, manifest["tasks"])
        text = json.dumps([self.run, done], sort_keys=True)
        self.run_id = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        """The identity of what the backfill wrote: the same directory always has the same, another run another."""

    @cached_property
    def position(self) -> Position:
        """The position of the backfill in its inputs.

        :raises BackfillMismatchError: if the file with it cannot be read.
        """
        found = _read_json(self.path / "position.json")
        if found is not None:
            return Position.from_json(json.dumps(found))
        reports = [
            {
                "partition": task.partition,
                "partition_times": task.partition_times,
                "positions": task.positions,
            }
            for task in self.tasks
        ]
        return end_of_run(self.run, reports)

    def tasks_of(self, topic: str) -> dict[int, FinishedTask]:
        """Returns the task of each partition that wrote a changelog."""
        return {task.partition: task for task in self.tasks if topic in task.counts}

    def reader_of(self, place: TopicPartition) -> FinishedTask | None:
        """Returns the task that read an input partition."""
        return next(
            (one for one in self.tasks if one.partition == place.partition and place.topic in one.partition_times), None
        )


def _tasks(directory: Path, found: Sequence[Mapping[str, Any]]) -> Iterator[FinishedTask]:
    together = any(any(one["counts"].values()) and not one["files"] for one in found)
    every = state_files(directory, found)
    for one in found:
        yield FinishedTask(
            directory=directory,
            partition=int(one["partition"]),
            files=tuple(one["files"]),
            state_files=every if together else state_files(directory, [one]),
            counts=one["counts"],
            partition_times=one["partition_times"],
            processor_times=one.get("processor_times", {}),
            positions=one["positions"],
        )


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise BackfillMismatchError(f"{str(path)!r} cannot be read: {error}. Run the backfill again") from error


def rows_in(path: Path, topic: str, partition: int | None) -> Iterator[RunRow]:
    """Yields the rows of a topic in a file, of one partition if it is given.

    :raises BackfillMismatchError: if the file cannot be read.
    """
    return _run_rows(path, topic_batches([str(path)], topic, partition))


def _run_rows(path: Path, batches: Iterable[Any]) -> Iterator[RunRow]:
    """Yields rows that are read from a file, or the files of a directory."""
    import pyarrow as pa

    try:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("partition", "key", "value", "ts"))
            headers = header_lists(batch.column("headers"))
            yield from map(RunRow, *columns, headers)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise BackfillMismatchError(
            f"{str(path)!r} cannot be read: {error}. Restore the file, or run the backfill again"
        ) from error
