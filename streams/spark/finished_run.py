"""The files of a backfill that has ended, read without Spark (layout: `streams/spark/run_directory.py`)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.spark.handover_errors import BackfillMismatchError

__all__ = ["FinishedRun", "FinishedTask", "RunRow"]

BATCH_ROWS = 10_000


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
    counts: Mapping[str, int]
    partition_times: Mapping[str, int]
    """The largest timestamp of each topic read, in ms."""
    processor_times: Mapping[str, int]
    """The times that operators commit with their offsets, by name."""
    positions: Mapping[str, int]
    """The offset behind the last record processed of each topic read, if the history has offsets."""

    def rows(self, topic: str, kind: str) -> Iterator[RunRow]:
        """Yields the rows of one topic in the order in which they were written.

        :param kind: ``state`` for changelogs, ``record`` for what sinks wrote.
        :raises BackfillMismatchError: if a file cannot be read.
        """
        for name in self.files:
            if f"kind={kind}/" in name:
                yield from _read(self.directory / name, topic)


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
                    f"the backfill in {str(self.path)!r} has not ended, stage {number} is missing: run it again, it"
                    " goes on where it stopped"
                )
            done.append(manifest)
            self.tasks += [_task(directory, one) for one in manifest["tasks"]]
        text = json.dumps([self.run, done], sort_keys=True)
        self.run_id = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        """The identity of what the backfill wrote: the same directory always has the same, another run another."""

    def tasks_of(self, topic: str) -> dict[int, FinishedTask]:
        """Returns the task of each partition that wrote a changelog."""
        return {task.partition: task for task in self.tasks if topic in task.counts}

    def reader_of(self, place: TopicPartition) -> FinishedTask | None:
        """Returns the task that read an input partition."""
        return next(
            (one for one in self.tasks if one.partition == place.partition and place.topic in one.partition_times), None
        )


def _task(directory: Path, found: Mapping[str, Any]) -> FinishedTask:
    return FinishedTask(
        directory=directory,
        partition=int(found["partition"]),
        files=tuple(found["files"]),
        counts=found["counts"],
        partition_times=found["partition_times"],
        processor_times=found.get("processor_times", {}),
        positions=found["positions"],
    )


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise BackfillMismatchError(f"{str(path)!r} cannot be read: {error}. Run the backfill again") from error


def _read(path: Path, topic: str) -> Iterator[RunRow]:
    """Yields the rows of a topic in a file; row groups without any are passed over by the file's statistics."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = ["topic", "partition", "key", "value", "ts", "headers"]
    try:
        with pq.ParquetFile(path) as file:
            groups = [
                number for number in range(file.num_row_groups) if _may_have(file.metadata.row_group(number), topic)
            ]
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns):
                own = batch.filter(pc.equal(batch.column("topic"), topic))
                lists = own.column("headers").to_pylist() if own.column("headers").null_count < len(own) else None
                values = [own.column(name).to_pylist() for name in columns[1:5]]
                for number, (partition, key, value, time) in enumerate(zip(*values, strict=True)):
                    given = None if lists is None else lists[number]
                    headers = [(one["key"], one["value"]) for one in given] if given else None
                    yield RunRow(partition, key, value, time, headers)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise BackfillMismatchError(
            f"{str(path)!r} cannot be read: {error}. Restore the file, or run the backfill again"
        ) from error


def _may_have(group: Any, topic: str) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "topic":
            found = column.statistics
            return found is None or not found.has_min_max or found.min <= topic <= found.max
    return True
