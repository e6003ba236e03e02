"""The records and rows that a task writes: counted, given their partitions, and put into the task's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streams.runtime.runner.captured import Output
from streams.runtime.runner.task_runner import TaskRunner
from streams.spark.executor.murmur2 import partitions_of_keys
from streams.spark.executor.rows import RowWriter, output_rows, state_rows
from streams.spark.executor.shipped_topology import dead_letter_topic
from streams.spark.executor.stage_job import StageJob

STATE_ROWS = 10_000
MASK = (1 << 64) - 1


class TaskOutput:
    """Writes the files of one attempt of a Spark task.

    :param name: the name of the attempt's directory.
    :param upstream: the number of the Spark task.
    """

    def __init__(self, job: StageJob, name: str, upstream: int) -> None:
        self._job = job
        self._name = name
        self._upstream = upstream
        self._writer = RowWriter(Path(job.attempts) / name)
        self._dead_letters = dead_letter_topic(job.shipped.config.application_id)
        self._next = 0
        self._latest: dict[tuple[str, int, int], int] = {}

    def write(
        self,
        outputs: list[Output],
        partitions: pa.Array,
        counts: dict[str, int],
        upstream: Sequence[int] | None = None,
    ) -> None:
        """Writes records of sinks.

        :param partitions: as :meth:`partitions_of` gives them.
        :param counts: counts the records of each topic.
        :param upstream: the number of the task that wrote each record; that of the Spark task unless given.
        """
        for output in outputs:
            topic = output[0]
            counts[topic] = counts.get(topic, 0) + 1
        upstream = [self._upstream] * len(outputs) if upstream is None else upstream
        rows = output_rows(outputs, partitions, self._next, upstream)
        self._next += len(outputs)
        if self._job.read_again:
            self._note_times(rows)
        if self._dead_letters in counts:
            letters = pa.compute.equal(rows.column("topic"), self._dead_letters)
            self._add("error", rows.filter(letters))
            rows = rows.filter(pa.compute.invert(letters))
        self._add("record", rows)

    def _note_times(self, rows: pa.RecordBatch) -> None:
        again = pa.compute.is_in(rows.column("topic"), value_set=pa.array(sorted(self._job.read_again), pa.string()))
        found = pa.table(rows.filter(again)).group_by(["topic", "upstream", "partition"]).aggregate([("ts", "max")])
        for topic, upstream, partition, ts in zip(*(column.to_pylist() for column in found.columns), strict=True):
            place = topic, upstream, partition
            self._latest[place] = max(ts, self._latest.get(place, ts))

    @property
    def latest(self) -> list[tuple[str, int, int, int]]:
        """The largest timestamp in ms of each topic that is read again, by the task that wrote it and the partition, as
        ``(topic, upstream, partition, timestamp)``."""
        return [(*place, ts) for place, ts in self._latest.items()]

    def _add(self, kind: str, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._writer.write(kind, rows)

    def partitions_of(self, outputs: Sequence[Output], writer: int | Sequence[int]) -> np.ndarray:
        """Returns the partition of each record: the one that a partitioner chose, or that of the hash of its key.

        It is -1 where the number of the topic's partitions is not known.

        :param writer: the partition of the task that wrote them, or that of each; it takes the place of a null key's,
            which live spreads over all partitions.
        """
        writers = np.broadcast_to(np.asarray(writer, dtype=np.int32), len(outputs))
        chosen = np.fromiter((one[5] for one in outputs), dtype=np.int32, count=len(outputs))
        topics = {one[0] for one in outputs}
        for topic in topics:
            count = self._job.written_counts.get(topic)
            if count is None:
                continue
            rows = np.flatnonzero(chosen < 0)
            if len(topics) > 1:
                rows = rows[[outputs[row][0] == topic for row in rows.tolist()]]
            if not len(rows):
                continue
            hashed = partitions_of_keys(pa.array([outputs[row][1] for row in rows.tolist()], pa.binary()), count)
            without_key = hashed < 0
            hashed[without_key] = writers[rows][without_key] % count
            chosen[rows] = hashed
        return chosen

    def write_state(self, runner: TaskRunner) -> tuple[dict[str, str], dict[str, int]]:
        """Writes the rows of a task's changelogs, and of stores that have none; returns the checksum and the number of
        the rows of each."""
        checksums: dict[str, str] = {}
        counts: dict[str, int] = {}
        for topic, rows in {**runner.changelog(), **runner.other_rows()}.items():
            total = count = 0
            for chunk in _chunks(rows):
                total = (total + hash_of_rows((row[0], row[1]) for row in chunk)) & MASK
                self._writer.write("state", state_rows(topic, runner.partition, chunk, count))
                count += len(chunk)
            checksums[topic], counts[topic] = f"{total:016x}", count
        return checksums, counts

    def finish(self) -> list[str]:
        """Closes the files; returns their paths below the directory of the attempts."""
        return [f"{self._name}/{kind}.parquet" for kind in self._writer.finish()]

    def close(self) -> None:
        """Closes the files as they are."""
        self._writer.close()


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, STATE_ROWS)):
        yield chunk


def hash_of_rows(rows: Iterable[tuple[bytes, bytes | None]]) -> int:
    """Returns the sum of the 64-bit hashes of keys with their values, modulo 2^64.

    It does not depend on the order of the rows, and the sums of the parts of a table add up to that of the table. A
    null value differs from an empty one.
    """
    total = 0
    for key, value in rows:
        digest = blake2b(len(key).to_bytes(4, "big"), digest_size=8)
        digest.update(key)
        digest.update(b"\0" if value is None else b"\1" + value)
        total += int.from_bytes(digest.digest(), "big")
    return total & MASK
