"""The records and rows that a task writes: counted, given their partitions, and put into the task's files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streams.runtime.runner.captured import Output
from streams.runtime.runner.changelog_capture import Change, ChangelogRow
from streams.runtime.runner.task_runner import TaskRunner, saved_families
from streams.spark.executor.earlier_task import Based, EarlierTask, move_databases
from streams.spark.executor.murmur2 import partitions_of_keys
from streams.spark.executor.rows import RowWriter, changed_rows, output_rows, state_rows
from streams.spark.executor.shipped_topology import dead_letter_topic
from streams.spark.executor.stage_job import StageJob
from streams.spark.rows.state_files import BASE, CHANGES

STATE_ROWS = 10_000
MASK = (1 << 64) - 1


@dataclass(frozen=True)
class WrittenState:
    """Reports the rows of changelogs that a task wrote."""

    checksums: dict[str, str] = field(default_factory=dict)
    """The sum of the hashes of all rows of each."""
    counts: dict[str, int] = field(default_factory=dict)
    """The number of all rows of each."""
    based: dict[str, Based] = field(default_factory=dict)
    """Those whose rows are in a base and its changes."""
    families: list[str] = field(default_factory=list)
    """The families in the saved database of the stores."""

    def based_report(self) -> dict[str, Any]:
        """Returns the part of the task's report that only tasks with a base have."""
        return {"based": self.based, "families": self.families} if self.based else {}


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
        self._others: list[str] = []
        """The names of files that the writer has not written."""
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

    def write_state(self, runner: TaskRunner, earlier: EarlierTask | None = None) -> WrittenState:
        """Writes the rows of a task's changelogs, and of stores that have none.

        If the changes of changelogs are tracked, it writes these, or a new base if they are many; and the databases
        with which a task of a later run continues.

        :param earlier: what an earlier run has of the task.
        """
        state, tracked = WrittenState(), runner.tracked
        for topic, rows in {**runner.changelog(), **runner.other_rows()}.items():
            if topic not in tracked:
                self._write_rows(topic, rows, runner.partition, state)
        if tracked:
            assert earlier is not None
            self._write_tracked(runner, earlier, state)
            with tempfile.TemporaryDirectory(prefix="streams-saved-", dir=runner.directory) as folder:
                state.families.extend(saved_families(runner.plan))
                saved = runner.save(Path(folder) / "databases")
                self._others += move_databases(saved, self._writer.directory, earlier.databases)
        return state

    def _write_tracked(self, runner: TaskRunner, earlier: EarlierTask, state: WrittenState) -> None:
        """Writes the changes of changelogs; if they are many, a new base with these."""
        changed, following = runner.changed(), runner.tracked
        kind = f"{CHANGES}{len(earlier.files.changes):03d}"
        for topic, changes in runner.changes().items():
            self._write_changes(kind, topic, changes, runner.partition, earlier, state)
        if earlier.takes(changed):
            self._others += earlier.link_base(self._writer.directory)
            for topic, count in changed.items():
                before = earlier.based[topic]
                state.based[topic] = Based(before.base, before.changed + count, following[topic])
            return
        more = self._writer.take(kind)
        files = earlier.with_changes(following, more)
        for topic in following:
            for rows in files.batches(topic):
                self._writer.write(BASE, rows)
            state.based[topic] = Based(state.counts[topic], 0, following[topic])
        for path in more:
            path.unlink()

    def _write_rows(self, topic: str, rows: Iterator[ChangelogRow], partition: int, state: WrittenState) -> None:
        total = count = 0
        for chunk in _chunks(rows):
            total = (total + hash_of_rows((row[0], row[1]) for row in chunk)) & MASK
            self._writer.write("state", state_rows(topic, partition, chunk, range(count, count + len(chunk))))
            count += len(chunk)
        state.checksums[topic], state.counts[topic] = f"{total:016x}", count

    def _write_changes(
        self,
        kind: str,
        topic: str,
        changes: Iterator[Change],
        partition: int,
        earlier: EarlierTask,
        state: WrittenState,
    ) -> None:
        total, count = int(earlier.checksums[topic], 16), earlier.counts[topic]
        for chunk in _chunks(changes):
            new = [one.row for one in chunk if one.row is not None]
            former = [one.former for one in chunk if one.former is not None]
            total = (total + hash_of_rows((row[0], row[1]) for row in new)) & MASK
            total = (total - hash_of_rows((row[0], row[1]) for row in former)) & MASK
            count += len(new) - len(former)
            self._writer.write(kind, changed_rows(topic, partition, chunk))
        state.checksums[topic], state.counts[topic] = f"{total:016x}", count

    def finish(self) -> list[str]:
        """Closes the files; returns their paths below the directory of the attempts."""
        own = [f"{kind}.parquet" for kind in self._writer.finish()]
        return [f"{self._name}/{name}" for name in (*own, *self._others)]

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
