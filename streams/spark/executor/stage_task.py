"""One task of a stage, on a Spark executor: runs the topology's own task over the rows of one partition.

The task writes Parquet files of its own; the only row that it gives to Spark lists them. So outputs do not go through
Spark's writer, which costs a third of the time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams.runtime.runner.changelog_capture import ChangelogRow
from streams.runtime.runner.options import RunnerOptions
from streams.runtime.runner.resources import RunnerResources
from streams.runtime.runner.task_runner import TaskRunner
from streams.spark.executor.earlier_task import EarlierTask
from streams.spark.executor.looped_task import LoopedTask
from streams.spark.executor.stage_job import StageJob, TaskTimes
from streams.spark.executor.task_errors import Batches, report_of
from streams.spark.executor.task_input import CheckedRows, TaskInput, rows_of_batches
from streams.spark.executor.task_output import TaskOutput
from streams.spark.rows.state_files import StateFiles

RUN_ROWS = 1000
"""Fewer rows than these are not worth the way of a run."""
JOINED_ROWS = 100_000
JOINED_BYTES = 16 << 20
"""Rows and bytes from which on batches are not joined with more: both bound the memory of a run."""


def local_directory() -> Path:
    """Returns the directory for a task's stores: Spark's own, which it cleans after executors that were killed."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(local or tempfile.gettempdir())


def run_attempt(job: StageJob, number: int, attempt: int, batches: Batches) -> list[dict[str, Any]]:
    """Runs one attempt of a Spark task; returns a report for each task of the topology.

    :param number: the number of the Spark task, which is the partition unless records go round in the stage.
    """
    output = TaskOutput(job, f"p{number}-a{attempt}", number)
    try:
        if job.looped:
            with (
                closing(RunnerResources(job.shipped.load(), job.shipped.config, _options(job, -1, -1))) as shared,
                LoopedTask(job, output, lambda one, partition: _runner(job, one, partition, shared)) as looped,
            ):
                return looped.run(attempt, batches)
        return [_run_one(job, output, number, attempt, batches)]
    finally:
        output.close()


def _run_one(job: StageJob, output: TaskOutput, partition: int, attempt: int, batches: Batches) -> dict[str, Any]:
    rows, counts = TaskInput(job, partition), dict[str, int]()
    runner = _runner(job, job.subtopologies[0], partition)

    def write() -> None:
        outputs = runner.take()
        if outputs:
            output.write(outputs, pa.array(output.partitions_of(outputs, partition)), counts)

    try:
        for batch in joined(batches) if runner.takes_runs else batches:
            if batch.num_rows:
                for _ in processed(runner, rows.inputs(batch)):
                    if runner.wants_commit():
                        runner.commit()
                    write()
        if job.flush_at_end:
            runner.end(write)
        runner.commit()
        write()
        state = output.write_state(runner, _earlier_task(job, runner))
        report = report_of(runner, attempt, state.checksums, {**counts, **state.counts}, rows.begins)
        written = {"latest": output.latest, "files": output.finish()}
        return {**report, **state.based_report(), "rows": rows.rows, "gaps": rows.gaps, **written}
    finally:
        runner.close()


def joined(batches: Batches) -> Batches:
    """Joins batches, for runs: the more records are taken together, the fewer of them are the first of a key."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= JOINED_ROWS or size >= JOINED_BYTES:
            yield from _as_one(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield from _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found


def processed(runner: TaskRunner, inputs: Iterable[CheckedRows], least: int = RUN_ROWS) -> Iterator[None]:
    """Processes the rows of a batch, in runs where the task takes them; yields where a commit may be made.

    :param least: the rows of the shortest run.
    """
    if not runner.takes_runs:
        for rows in inputs:
            runner.feed(*rows.columns())
        runner.run()
        yield
        return
    for rows in inputs:
        for part, run in rows.runs(least):
            if run is not None and runner.take_run(rows.topic, run):
                yield
                continue
            for columns in part.fed():
                runner.feed(*columns)
                runner.run()
                yield


def _earlier_task(job: StageJob, runner: TaskRunner) -> EarlierTask | None:
    return None if job.earlier is None else job.earlier.tasks.get((runner.plan.subtopology, runner.partition))


def _rows_of(files: Iterable[StateFiles], topic: str, partition: int) -> Iterator[ChangelogRow]:
    for one in files:
        yield from rows_of_batches(one.batches(topic, partition))


def _options(job: StageJob, subtopology: int, partition: int) -> RunnerOptions:
    earlier = job.earlier
    state: dict[str, Any] = {}
    times = TaskTimes({}, {}, {})
    task: EarlierTask | None = None
    if earlier is not None:
        task = earlier.tasks.get((subtopology, partition))
        writers = earlier.files.values() if job.looped else [earlier.files.get(partition, ())]
        files = [one for own in writers for one in own]
        for topic, there in earlier.changelogs.get(subtopology, {}).items():
            state[topic] = _rows_of(files, there, partition)
        times = earlier.times.get((subtopology, partition), times)
    return RunnerOptions(
        directory=local_directory(),
        kept_outputs=job.kept_outputs,
        unplaced=frozenset(one.topic for one in job.inputs if one.written_by is None and not one.has_offsets),
        start_ms=0 if job.wall_clock == "event-time" else job.started_ms,
        event_time=job.wall_clock == "event-time",
        filled_globals=None if job.global_tables is None else job.global_tables.opening,
        state=state,
        saved=None if task is None else task.saved,
        tracks_changes=task is not None,
        partition_times=times.partitions,
        processor_times=times.processors,
        punctuations=times.punctuations,
        buffer_bytes=job.commit_bytes,
        store_bytes=job.state_bytes,
        capture_bytes=job.state_bytes,
    )


def _runner(job: StageJob, subtopology: int, partition: int, resources: RunnerResources | None = None) -> TaskRunner:
    topology = job.shipped.load() if resources is None else resources.topology
    options = _options(job, subtopology, partition)
    return TaskRunner(topology, job.shipped.config, job.counts, subtopology, partition, options, resources)
