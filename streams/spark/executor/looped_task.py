"""Subtopologies that feed each other, in one Spark task: their records go round until none is left.

A foreign-key join has two: one sends subscriptions, the other answers. Neither can run to its end before the other
begins, so the tasks of all their partitions run together here, as the test driver runs a whole topology: a record that
may go round is processed to the end, answers included, before the next one is read. Records of sources from which
nothing goes round, as those of a stream that shares a table with the join, are processed many at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from processor_api.record import HeaderList
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.runner.captured import Output
from streams.runtime.runner.task_runner import TaskRunner
from streams.spark.executor.loops import topics_that_go_round
from streams.spark.executor.stage_job import StageJob
from streams.spark.executor.task_errors import report_of
from streams.spark.executor.task_input import InputColumns, TaskInput
from streams.spark.executor.task_output import TaskOutput

OUTPUTS = 10_000
"""Records of sinks that wait to be written together."""

Waiting = tuple[int, bytes | None, bytes | None, HeaderList | None]
"""``(timestamp_ms, key, value, headers)`` of a record that goes round."""
Place = tuple[int, str, int]
"""The number of a topic that goes round, its name, and a partition."""


class _Rows:
    """The rows of one input and partition in a batch, in order, of which some were processed."""

    __slots__ = ("columns", "done", "runner", "seen")

    def __init__(self, columns: InputColumns, runner: TaskRunner) -> None:
        self.columns = columns
        self.runner = runner
        self.done = self.seen = 0
        """Rows that were fed, and rows up to the present one in the order of the batch."""

    def feed(self) -> None:
        """Feeds the task with the rows that were seen and not fed."""
        low, high = self.done, self.seen
        topic, keys, values, times, headers, offsets = self.columns
        self.runner.feed(topic, keys[low:high], values[low:high], times[low:high], headers[low:high], offsets[low:high])
        self.done = high


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
        self._queues: dict[Place, deque[Waiting]] = {}
        self._ready: list[tuple[int, Place]] = []
        """A heap of the queues that are not empty, by the timestamps of their first records."""
        self._offsets: dict[tuple[str, int], int] = {}
        self._looped = {topic: number for number, topic in enumerate(job.looped)}
        self._seen: dict[TaskRunner, list[_Rows]] = {}
        """Rows of each task that wait, since nothing of them goes round, until something else comes to the task."""
        self._kept: list[tuple[Output, int]] = []
        """Records of sinks that wait to be written, each with the partition of the task that wrote it."""
        plans: list[TaskPlan] = []
        try:
            for number in job.subtopologies:
                plans.append(self._open(number, open_runner))
        except BaseException:
            self.close()
            raise
        self._going_round = topics_that_go_round(plans, frozenset(job.looped))

    def _open(self, subtopology: int, open_runner: Callable[[int, int], TaskRunner]) -> TaskPlan:
        first = open_runner(subtopology, 0)
        for partition in range(first.plan.tasks):
            runner = open_runner(subtopology, partition) if partition else first
            self._runners[subtopology, partition] = runner
            self._counts[subtopology, partition] = {}
            for topic in runner.topics:
                self._readers[topic, partition] = runner
        return first.plan

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
            if batch.num_rows:
                self._process(batch, inputs)
            self._commit_if_due()
        self._commit()
        if self._job.flush_at_end:
            self._end()
        self._write()
        reports = []
        for (number, partition), runner in self._runners.items():
            state = self._output.write_state(runner)
            read = inputs.get(partition)
            first = number == self._job.subtopologies[0]
            begins = {} if read is None else read.begins
            counts = {**self._counts[number, partition], **state.counts}
            report = report_of(runner, attempt, state.checksums, counts, begins)
            rows, gaps = (read.rows, read.gaps) if first and read is not None else (0, 0)
            reports.append({**report, "rows": rows, "gaps": gaps, "files": []})
        reports[0] |= {"latest": self._output.latest, "files": self._output.finish()}
        return reports

    def _process(self, batch: pa.RecordBatch, inputs: dict[int, TaskInput]) -> None:
        """Processes the rows of a batch, each task's in their order.

        A row that may go round is processed at once. Others wait until one comes to their task that may, or a record
        that went round, or until the batch is over.
        """
        partitions, numbers = batch.column("pid").fill_null(-1), batch.column("q")
        rows: dict[tuple[int, int], _Rows] = {}
        topics = {one.topic: number for number, one in enumerate(self._job.inputs)}
        for partition in pc.unique(partitions).to_pylist():
            found = inputs.get(partition)
            if found is None:
                found = inputs[partition] = TaskInput(self._job, partition)
            own = batch.filter(pc.equal(partitions, partition))
            for checked in found.inputs(own):
                reader = self._readers[checked.topic, partition]
                rows[topics[checked.topic], partition] = _Rows(checked.columns(), reader)
        going_round = {number for topic, number in topics.items() if topic in self._going_round}
        alone = np.isin(numbers.to_numpy(zero_copy_only=False), list(going_round)).tolist()
        for number, partition, is_alone in zip(numbers.to_pylist(), partitions.to_pylist(), alone, strict=True):
            one = rows[number, partition]
            if is_alone:
                self._run_seen(one.runner)
            if one.seen == one.done:
                self._seen.setdefault(one.runner, []).append(one)
            one.seen += 1
            if is_alone:
                self._run_seen(one.runner)
                self._go_round()
        for runner in list(self._seen):
            self._run_seen(runner)
        self._go_round()

    def _run_seen(self, runner: TaskRunner) -> None:
        """Has a task process the rows of it that were seen, in the order of their timestamps."""
        seen = self._seen.pop(runner, None)
        if seen is not None:
            for one in seen:
                one.feed()
            runner.run()
            self._collect(runner)

    def _go_round(self) -> None:
        """Processes the records that go round: that with the smallest timestamp first, as a task over all does."""
        while self._ready:
            _, place = heappop(self._ready)
            queue = self._queues[place]
            ts, key, value, headers = queue.popleft()
            if queue:
                heappush(self._ready, (queue[0][0], place))
            _, topic, partition = place
            offset = self._offsets.get((topic, partition), 0)
            self._offsets[topic, partition] = offset + 1
            runner = self._readers[topic, partition]
            self._run_seen(runner)
            runner.feed(topic, [key], [value], [ts], [headers], [offset])
            runner.run()
            self._collect(runner)

    def _collect(self, runner: TaskRunner) -> None:
        """Keeps what a task wrote to be written, and queues what goes round."""
        outputs = runner.take()
        if not outputs:
            return
        counts, partition = self._counts[runner.plan.subtopology, runner.partition], runner.partition
        round_: list[Output] = []
        for output in outputs:
            topic = output[0]
            counts[topic] = counts.get(topic, 0) + 1
            if topic in self._looped:
                round_.append(output)
            else:
                self._kept.append((output, partition))
        if round_:
            self._queue(round_, partition)
        if len(self._kept) >= OUTPUTS:
            self._write()

    def _queue(self, outputs: Sequence[Output], writer: int) -> None:
        partitions = self._output.partitions_of(outputs, [writer] * len(outputs)).tolist()
        for (topic, key, value, ts, headers, _), partition in zip(outputs, partitions, strict=True):
            place = self._looped[topic], topic, partition
            queue = self._queues.setdefault(place, deque())
            if not queue:
                heappush(self._ready, (ts, place))
            queue.append((ts, key, value, headers))

    def _write(self) -> None:
        """Writes the records of sinks that wait."""
        if self._kept:
            outputs, writers = map(list, zip(*self._kept, strict=True))
            self._kept.clear()
            self._output.write(outputs, pa.array(self._output.partitions_of(outputs, writers)), {}, writers)

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
            busy = bool(self._ready)
            self._go_round()
