"""The way of an error and of a task's report from a Spark executor to the driver.

Spark passes the text of an exception on, nothing else; so an error of ours travels as data in that text, and is raised
as it was raised there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from processor_api import errors as common_errors
from processor_api.errors import StreamsError
from processor_api.texts import kind_and_text, repr_of
from state.directory.errors import FULL
from streams.runtime.runner import columns
from streams.runtime.runner.columns import UnsupportedContextError
from streams.runtime.runner.task_runner import TaskRunner
from streams.runtime.threads.gc_tuning import relax_collector
from streams.spark import errors
from streams.spark.errors import StageFailed

MARK = "streams-task-error:"
"""The text before the data of an error."""


@contextmanager
def passed_to_driver() -> Iterator[None]:
    """Raises errors of ours in a form that :func:`error_of` finds on the driver."""
    try:
        yield
    except StreamsError as error:
        raise RuntimeError(MARK + json.dumps(_described(error))) from error
    except OSError as error:  # those of the user's functions are ours by now
        raise RuntimeError(MARK + json.dumps(_described(disk_error("a task of the backfill", error)))) from error


def disk_error(what: str, error: OSError) -> StageFailed:
    """Returns the error to raise instead of one of the operating system.

    :param what: reads or writes files; the subject of the message.
    """
    hint = "free some space there" if error.errno in FULL else "correct that"
    where = f" {repr_of(error.filename)}" if isinstance(error.filename, str) else ""
    return StageFailed(
        f"{what} cannot read or write a file{where}: {error.strerror or error}; {hint}, and run the backfill again: the"
        " tasks that are done are kept"
    )


def _described(error: StreamsError) -> dict[str, Any]:
    place = {name: value for name, value in error.place().items() if isinstance(value, str | int)}
    cause = error.__cause__
    if isinstance(cause, UnsupportedContextError):
        return _described(cause)
    message = error.message if cause is None else f"{error.message} ({kind_and_text(cause)})"
    return {"type": type(error).__name__, "message": message, "place": place, "origin": error.origin()}


def error_of(error: Exception, what: str) -> StreamsError:
    """Returns the error of a task as it was raised there, or one that says which part of a backfill failed.

    :param error: what Spark raises.
    :param what: the part, for the message.
    """
    text = str(error)
    place = text.find(MARK)
    if place >= 0:
        try:
            described, _ = json.JSONDecoder().raw_decode(text[place + len(MARK) :])
        except ValueError:  # cut by Spark
            return StageFailed(f"{what} failed: {text[place + len(MARK) : place + 2_000]}")
        return _class_of(described["type"])(described["message"], **described["place"], **described["origin"])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = next(
        (line for line in reversed(lines) if "Error" in line or "Exception" in line), lines[-1] if lines else ""
    )
    return StageFailed(f"{what} failed: {type(error).__name__}: {shown}")


def _class_of(name: str) -> type[StreamsError]:
    places = (errors, common_errors, columns)
    found: Any = next((vars(one)[name] for one in places if name in vars(one)), None)
    return found if isinstance(found, type) and issubclass(found, StreamsError) else StageFailed


Batches = Iterable[pa.RecordBatch]


def report_of(
    runner: TaskRunner,
    attempt: int,
    checksums: Mapping[str, str],
    counts: Mapping[str, int],
    begins: Mapping[str, int],
) -> dict[str, Any]:
    """Returns what a task did, and what a live task needs to continue where it stopped.

    :param checksums: of the rows of each changelog (`streams.spark.executor.task_output`).
    :param counts: records of sinks by topic, and rows of changelogs.
    :param begins: the offset of the first record of each topic that was read.
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
        "begins": dict(begins),
        "punctuations": runner.punctuations(),
        "dropped": runner.dropped_records,
    }


def reporting(
    attempt: Callable[[int, int, Batches], list[dict[str, Any]]], done: Collection[int] = ()
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Returns the function that Spark's ``mapInArrow`` runs: it gives Spark the number of the task and the reports of
    an attempt, as JSON.

    :param attempt: runs the attempt, given the number of the task, that of the attempt, and the rows.
    :param done: the numbers of tasks that are not run.
    """

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        if number in done:
            return
        relax_collector()
        with passed_to_driver():
            reports = attempt(number, context.taskAttemptId(), batches)
        columns = [pa.array([number], pa.int32()), pa.array([json.dumps(reports)])]
        yield pa.RecordBatch.from_arrays(columns, names=["task", "reports"])

    return run
