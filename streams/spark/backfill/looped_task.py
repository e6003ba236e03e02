"""Subtopologies that feed each other, in one Spark task: their records go round until none is left.

A foreign-key join has two: one sends subscriptions, the other answers. Neither can run to its end before the other
begins, so the tasks of all their partitions run together here, as the test driver runs a whole topology: a record is
processed to the end, answers included, before the next one is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa

from processor_api.record import HeaderList
from streams.runtime.runner.task_runner import TaskRunner
from streams.spark.backfill.stage_job import StageJob
from streams.spark.backfill.task_input import InputColumns, TaskInput
from streams.spark.backfill.task_output import TaskOutput
from streams.spark.backfill.task_report import report_of

__all__ = ["LoopedTask"]

Waiting = tuple[int, bytes | None, bytes | None, HeaderList | None]
"""``(timestamp_ms, key, value, headers)`` of a record that goes round."""


class LoopedTask:
    """Runs the tasks of several subtopologies for all their partitions. A context manager that closes them.

    :param open_runner: makes the task of a subtopology for a partition.
    """

    def __init__(self, job: StageJob, output: TaskOutput, open_runner: Callable[[int, int], TaskRunner]) -> None:
        self._job = job
        self._output = output
        self._runners: dict[tuple[int, int], TaskRunner] = {}
        self._readers: dict[tuple[str, int], TaskRunner] = {}
        self._counts: dict[tuple[int, int], dict[str, int]] = {}
        self._queues: dict[tuple[int, str, int], deque[Waiting]] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._looped = {topic: number for number, topic in enumerate(job.looped)}
        try:
            for number in job.subtopologies:
                self._open(number, open_runner)
        except BaseException:
            self.close()
            raise

    def _open(self, subtopology: int, open_runner: Callable[[int, int], TaskRunner]) -> None:
        first = open_runner(subtopology, 0)
        for partition in range(first.plan.tasks):
            runner = open_runner(subtopology, partition) if partition else first
            self._runners[subtopology, partition] = runner
            self._counts[subtopology, partition] = {}
            for topic in runner.topics:
                self._readers[topic, partition] = runner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the tasks."""
        runners, self._runners = self._runners, {}
        for runner in runners.values():
            runner.close()

    # ------------------------------------------------------------------ run

    def run(self, attempt: int, batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
        """Processes the rows; returns a report for each task."""
        inputs: dict[int, TaskInput] = {}
        for batch in batches:
            for run in _runs(batch):
                partition = run.column("pid")[0].as_py()
                found = inputs.get(-1 if partition is None else partition)
                if found is None:
                    found = inputs[partition] = TaskInput(self._job, partition)
                for columns in found.columns(run):
                    self._process(columns, partition)
            self._commit_if_due()
        self._commit()
        if self._job.flush_at_end:
            self._end()
        reports = []
        for (number, partition), runner in self._runners.items():
            checksums, state = self._output.write_state(runner)
            read = inputs.get(partition)
            first = number == self._job.subtopologies[0]
            report = report_of(runner, attempt, checksums, {**self._counts[number, partition], **state})
            rows, gaps = (read.rows, read.gaps) if first and read is not None else (0, 0)
            reports.append({**report, "rows": rows, "gaps": gaps, "files": []})
        reports[0]["files"] = self._output.finish()
        return reports

    def _process(self, columns: InputColumns, partition: int) -> None:
        runner = self._readers[columns.topic, partition]
        for key, value, ts, headers, offset in zip(*columns[1:], strict=True):
            runner.feed(columns.topic, [key], [value], [ts], [headers], [offset])
            runner.run()
            self._collect(runner)
            self._go_round()

    def _go_round(self) -> None:
        """Processes the records that go round: that with the smallest timestamp first, as a task over all does."""
        while True:
            ready = [(queue[0][0], place) for place, queue in self._queues.items() if queue]
            if not ready:
                return
            _, place = min(ready)
            ts, key, value, headers = self._queues[place].popleft()
            _, topic, partition = place
            offset = self._offsets.get((topic, partition), 0)
            self._offsets[topic, partition] = offset + 1
            runner = self._readers[topic, partition]
            runner.feed(topic, [key], [value], [ts], [headers], [offset])
            runner.run()
            self._collect(runner)

    def _collect(self, runner: TaskRunner) -> None:
        """Writes what a task wrote, and queues what goes round."""
        outputs = runner.take()
        if not outputs:
            return
        partitions = self._output.partitions_of(outputs, runner.partition)
        counts = self._counts[runner.plan.subtopology, runner.partition]
        kept = []
        for row, (topic, key, value, ts, headers, _) in enumerate(outputs):
            number = self._looped.get(topic)
            if number is None:
                kept.append(row)
                continue
            counts[topic] = counts.get(topic, 0) + 1
            place = number, topic, int(partitions[row])
            self._queues.setdefault(place, deque()).append((ts, key, value, headers))
        if kept:
            self._output.write([outputs[row] for row in kept], pa.array(partitions[kept]), counts)

    def _end(self) -> None:
        """Has each task send on what waits, until none has anything left that goes round."""
        for runner in self._runners.values():
            runner.end(partial(self._collect, runner))
            self._go_round()
        self._commit()

    def _commit_if_due(self) -> None:
        if any(runner.wants_commit() for runner in self._runners.values()):
            self._commit()

    def _commit(self) -> None:
        """Commits all tasks, until their caches forward nothing more."""
        busy = True
        while busy:
            for runner in self._runners.values():
                runner.commit()
                self._collect(runner)
            busy = any(self._queues.values())
            self._go_round()


def _runs(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the parts of a batch whose rows are of one input and one partition, in order."""
    if not batch.num_rows:
        return
    ids = batch.column("pid").fill_null(-1).to_numpy(zero_copy_only=False)
    inputs = batch.column("q").to_numpy(zero_copy_only=False)
    changes = np.flatnonzero((np.diff(ids) != 0) | (np.diff(inputs) != 0)) + 1
    bounds = [0, *changes.tolist(), batch.num_rows]
    for start, end in pairwise(bounds):
        yield batch.slice(start, end - start)
