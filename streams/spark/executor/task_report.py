"""The reports of tasks, as data that JSON can hold, and their way to the driver, which lists them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from streams.runtime.runner.task_runner import TaskRunner
from streams.spark.executor.task_errors import passed_to_driver

Batches = Iterable[pa.RecordBatch]


def report_of(
    runner: TaskRunner, attempt: int, checksums: Mapping[str, str], counts: Mapping[str, int]
) -> dict[str, Any]:
    """Returns what a task did, and what a live task needs to go on where it stopped.

    :param checksums: of the rows of each changelog (`streams.spark.executor.task_output`).
    :param counts: records of sinks by topic, and rows of changelogs.
    """
    return {
        "partition": runner.partition,
        "subtopology": runner.plan.subtopology,
        "attempt": attempt,
        "counts": dict(counts),
        "checksums": dict(checksums),
        "stream_time": runner.stream_time,
        "partition_times": runner.partition_times(),
        "processor_times": runner.processor_times(),
        "positions": runner.positions(),
        "dropped": runner.dropped_records,
    }


def reporting(
    attempt: Callable[[int, int, Batches], Iterable[Mapping[str, Any]]],
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Returns the function that Spark's ``mapInArrow`` runs: it gives Spark the reports of an attempt, as rows of JSON.

    :param attempt: runs the attempt, given the number of the Spark task, that of the attempt, and the rows.
    """

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with passed_to_driver():
            reports = attempt(context.partitionId(), context.taskAttemptId(), batches)
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(one) for one in reports])], names=["report"])

    return run
