"""The port of a backfill to the engine that runs its tasks: Spark, or processes of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from state.directory.own_files import write_own
from streams.spark.executor.task_errors import Batches
from streams.spark.sources.arrow_rows import RowSource
from streams.spark.sources.task_rows import InputPart, TaskRows

if TYPE_CHECKING:
    from streams.spark.backfill.history import History
    from streams.spark.executor.prepared_history import Preparation

Attempt = Callable[[int, int, Batches], list[dict[str, Any]]]
"""Runs one attempt of a task, given the number of the task, that of the attempt, and its rows; returns its reports."""


@dataclass(frozen=True)
class InputRows:
    """The rows of one topic, with the columns ``pid``, ``upstream``, ``seq``, ``ts``, ``key``, ``value`` and perhaps
    ``headers``."""

    topic: str
    rows: Any
    """A DataFrame of Spark, or sources of Arrow batches."""
    writers: int
    """The number of tasks that wrote it; 1 for a history, whose partitions are in order."""
    in_order: bool
    """Whether ``seq`` is the order of the rows; otherwise that is their timestamps'."""
    has_headers: bool
    highs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """The largest timestamp in ms of each partition and writer in an earlier run that this one continues with."""
    sources: tuple[RowSource, ...] | str = "the rows are only in a DataFrame"
    """The rows of a DataFrame as sources in order, which tasks read themselves; or why there are none."""


class BackfillEngine(Protocol):
    """Reads histories, brings the rows of each partition to one task in the order of live, and runs the tasks."""

    def begin(self) -> None:
        """Begins a run: makes sure that tasks can run, and forgets that an earlier run was cancelled.

        :raises SparkBridgeError: if they cannot.
        """
        ...

    def history_rows(self, topic: str, history: History, *, by_offset: bool) -> InputRows:
        """Returns the rows of a history."""
        ...

    def prepared(self, rows: InputRows, job: Preparation) -> InputRows:
        """Returns rows with what their history lacks."""
        ...

    def none_of(self, rows: InputRows) -> InputRows:
        """Returns the same without any row."""
        ...

    def behind(self, rows: InputRows, offsets: Mapping[int, int]) -> InputRows:
        """Returns the rows from some offsets on, by partition."""
        ...

    def written_rows(self, topic: str, files: Sequence[str], writers: int) -> InputRows:
        """Returns the rows of a topic in files that an earlier stage wrote (`streams.spark.executor.rows`)."""
        ...

    def first_and_last(self, rows: InputRows) -> tuple[dict[int, int], dict[int, int]]:
        """Returns the first offset of each partition of a history, and the one behind the last.

        :raises OffsetGapError: if a row has no offset.
        :raises PartitionMismatchError: if a row has no partition.
        """
        ...

    def latest_time(self, rows: InputRows) -> int | None:
        """Returns the largest timestamp of a history in ms; ``None`` if it has no rows."""
        ...

    def run(
        self,
        attempt: Attempt,
        what: str,
        tasks: int,
        inputs: Sequence[InputRows] = (),
        *,
        in_one_task: bool = False,
        done: Collection[int] = (),
    ) -> list[dict[str, Any]]:
        """Runs a function in tasks; returns what they report.

        :param what: what is run, for messages.
        :param tasks: the number of tasks, each of which runs, also those without rows.
        :param inputs: the rows, each partition in the task of its number, in the order of live; the column ``q`` has
            the number of the input.
        :param in_one_task: whether all partitions go to one task, in the same order.
        :param done: tasks that are not run.
        :raises StreamsError: what a task raises, or `StageFailed`.
        :raises BackfillCancelled: if it was cancelled meanwhile; no part of it runs then.
        """
        ...

    def cancel(self) -> None:
        """Has :meth:`run`, in another thread, end what it runs, and begin nothing more until :meth:`begin`."""
        ...


def task_rows(parts: Iterable[InputPart], inputs: Sequence[InputRows]) -> TaskRows:
    """Returns what a task reads of some inputs.

    :param parts: the task's own.
    """
    return TaskRows(
        tuple(parts),
        ordered=tuple(one.in_order for one in inputs),
        has_headers=any(one.has_headers for one in inputs),
        highs=tuple(one.highs for one in inputs),
    )


def reading(attempt: Attempt, rows: Sequence[TaskRows]) -> Attempt:
    """Returns a function whose tasks read their own rows, those at their number, instead of the rows they are given."""

    def run(number: int, attempt_number: int, _: Batches) -> list[dict[str, Any]]:
        return attempt(number, attempt_number, rows[number].batches())

    return run


REPORT = ".json"


def noted(attempt: Attempt, attempts: str) -> Attempt:
    """Returns a function that also keeps the reports of each attempt, so a driver that continues after a kill finds
    the tasks that were done.

    :param attempts: the directory in which each attempt makes its own.
    """

    def run(number: int, attempt_number: int, batches: Batches) -> list[dict[str, Any]]:
        reports = attempt(number, attempt_number, batches)
        Path(attempts).mkdir(parents=True, exist_ok=True)
        found = {"number": number, "reports": reports}
        write_own(Path(attempts) / f"p{number}-a{attempt_number}{REPORT}", json.dumps(found))
        return reports

    return run
