"""The report of one task, as data that JSON can hold; the list of a stage's tasks is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streams.runtime.runner.task_runner import TaskRunner


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
