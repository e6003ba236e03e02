"""A backfill's tasks without Spark: over Arrow batches, in processes of this machine.

Each source of a history is divided by partitions into files, by tasks that run side by side; then a task for each
partition reads its parts. What is in order already, as a range of Kafka's offsets is, is not divided or sorted. A
partition that has to be sorted is in memory as a whole meanwhile, so this is for what fits one machine.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from processor_api.texts import repr_of
from streams.runtime.threads.gc_tuning import relax_collector
from streams.spark.backfill.engine import Attempt, InputRows
from streams.spark.backfill.history import History
from streams.spark.backfill.progress import shown_progress
from streams.spark.errors import BackfillCancelled, OffsetGapError, PartitionMismatchError, SparkBridgeError
from streams.spark.executor.prepared_history import Preparation
from streams.spark.executor.rows import HEADERS
from streams.spark.executor.stage_task import local_directory
from streams.spark.executor.task_errors import error_of, passed_to_driver
from streams.spark.rows.shipping import dumps, loads
from streams.spark.sources.arrow_rows import Behind, RecordFile, RowSource, is_arrow, sources_of, with_preparation

BATCH_ROWS = 10_000
"""Rows that a task gets at a time."""
NO_TIME = -(1 << 63)
ORDER = ("high", "q", "pid", "upstream", "seq")
_NAME = re.compile(r"local(?:\[(\d+|\*)\])?")


def processes_of(engine: str) -> int | None:
    """Returns how many processes an engine's name asks for; ``None`` if it is not that of a local one.

    :param engine: ``"local"`` for one process a core, or ``"local[N]"``.
    :raises SparkBridgeError: if it asks for none.
    """
    found = _NAME.fullmatch(engine)
    if found is None:
        return None
    count = len(os.sched_getaffinity(0)) if found[1] in (None, "*") else int(found[1])
    if count < 1:
        raise SparkBridgeError(f"engine={repr_of(engine)}: it must have one process or more")
    return count


@dataclass(frozen=True)
class _InputPart:
    """Rows of one partition and one input, in a file or at their source."""

    input: int
    source: RowSource
    in_order: bool
    """Whether ``seq`` grows from row to row."""
    first: int = -1
    last: int = -1
    """The first and the last ``seq``, of rows in order."""


@dataclass(frozen=True)
class _TaskRows:
    """Describes the rows that a task reads.

    :param ordered: for each input, whether ``seq`` is the order of its rows.
    :param has_headers: whether any input has headers.
    """

    parts: tuple[_InputPart, ...] = ()
    ordered: tuple[bool, ...] = ()
    has_headers: bool = False
    highs: tuple[Mapping[tuple[int, int], int], ...] = ()
    """The largest timestamps that :class:`InputRows` has, for each input."""
    is_single: bool = False
    """Whether the rows are of one input that one task wrote, so that ``seq`` alone is their order."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the order of live."""
        if not self.parts:
            return
        parts = sorted(self.parts, key=lambda one: one.first)
        follow = all(one.last < other.first for one, other in pairwise(parts))
        if self.is_single and all(one.in_order for one in parts) and (follow or len(parts) == 1):
            for part in parts:
                for batch in part.source.batches():
                    yield from _cut(self._shaped(batch, part.input))
            return
        table = pa.Table.from_batches([
            self._shaped(batch, part.input) for part in parts for batch in part.source.batches()
        ])  # fmt: skip
        for batch in self._sorted(table).to_batches(BATCH_ROWS):
            yield from _cut(batch)

    def _shaped(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """Returns a batch with the columns that all inputs have together."""
        count, names = batch.num_rows, ["pid", "upstream", "seq", "ts", "key", "value"]
        arrays = [batch.column(name) for name in names]
        if self.has_headers:
            own = batch.column("headers") if "headers" in batch.schema.names else pa.nulls(count, HEADERS)
            names, arrays = [*names, "headers"], [*arrays, own.cast(HEADERS)]
        return pa.RecordBatch.from_arrays([*arrays, pa.array([number] * count, pa.int32())], names=[*names, "q"])

    def _sorted(self, table: pa.Table) -> pa.Table:
        if self.is_single and all(self.ordered):
            return table.sort_by([("pid", "ascending"), ("seq", "ascending")])
        table = table.sort_by([(name, "ascending") for name in ("q", "pid", "upstream", "seq")])
        table = table.append_column("high", pa.array(self._highs(table)))
        order = [(name, "ascending") for name in ORDER]
        if not all(self.ordered):
            order += [("key", "ascending"), ("value", "ascending")]
            if self.has_headers:
                texts = pa.array([repr(one) for one in table.column("headers").to_pylist()])
                table, order = table.append_column("text", texts), [*order, ("text", "ascending")]
        return table.sort_by(order).select([name for name in table.column_names if name not in ("high", "text")])

    def _highs(self, table: pa.Table) -> np.ndarray:
        """Returns the largest timestamp so far of each row's input; where rows are in the order of time, their own."""
        times = table.column("ts").fill_null(NO_TIME).to_numpy()
        groups = [table.column(name).fill_null(-1).to_numpy() for name in ("q", "pid", "upstream")]
        highs = times.copy()
        begins = np.flatnonzero(np.logical_or.reduce([np.diff(one, prepend=one[:1] - 1) != 0 for one in groups]))
        for begin, end in zip(begins, [*begins[1:], len(times)], strict=True):
            number, partition, writer = (int(one[begin]) for one in groups)
            if self.ordered[number]:
                np.maximum.accumulate(times[begin:end], out=highs[begin:end])
                before = self.highs[number].get((partition, writer), NO_TIME)
                np.maximum(highs[begin:end], before, out=highs[begin:end])
        return cast(np.ndarray, highs)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for begin in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(begin, BATCH_ROWS)


@dataclass(frozen=True)
class _FilePart:
    """Rows of one partition in a file that was divided from a source."""

    path: str

    @property
    def partition(self) -> int | None:
        return None

    def batches(self, only: Any = None) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self.path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


@dataclass
class _Division:
    """The file of one partition while it is written."""

    path: str
    writer: Any
    first: int = -1
    last: int = -1
    in_order: bool = True
    rows: int = field(default=0)

    def add(self, rows: pa.RecordBatch) -> None:
        seq = rows.column("seq")
        if seq.null_count or not rows.num_rows:
            self.in_order = self.in_order and not seq.null_count
        else:
            numbers = seq.to_numpy()
            self.in_order = self.in_order and bool(numbers[0] > self.last) and bool((np.diff(numbers) > 0).all())
            self.first = int(numbers[0]) if self.rows == 0 else self.first
            self.last = int(numbers[-1])
        self.rows += rows.num_rows
        self.writer.write_batch(rows)


def divide(
    source: RowSource, number: int, partitions: int, folder: str, done: Collection[int]
) -> dict[int, _InputPart]:
    """Divides the rows of a source into files, one for each partition.

    :param number: of the input.
    :param partitions: the number of tasks; 1 brings all rows to one. Rows whose partition is none of them go where
        their task refuses them.
    :param done: tasks that need no rows.
    """
    opened: dict[int, _Division] = {}
    try:
        for batch in source.batches():
            for partition, rows in _by_partition(batch, partitions):
                if partition in done:
                    continue
                if partition not in opened:
                    path = os.path.join(folder, f"q{number}-{uuid4().hex}-p{partition}.arrow")
                    opened[partition] = _Division(path, pa.ipc.new_stream(path, rows.schema))
                opened[partition].add(rows)
    finally:
        for one in opened.values():
            one.writer.close()
    return {
        partition: _InputPart(number, _FilePart(one.path), one.in_order, one.first, one.last)
        for partition, one in opened.items()
    }


def _by_partition(batch: pa.RecordBatch, partitions: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if partitions == 1 or not batch.num_rows:
        yield 0, batch
        return
    places = batch.column("pid").fill_null(0).to_numpy() % partitions
    if (places == places[0]).all():
        yield int(places[0]), batch
        return
    order = np.argsort(places, kind="stable")
    rows, ordered = batch.take(pa.array(order)), places[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(ordered)], strict=True):
        yield int(ordered[begin]), rows.slice(begin, end - begin)


class LocalEngine:
    """Runs tasks in processes of this machine (:class:`streams.spark.backfill.engine.BackfillEngine`).

    :param processes: how many run at a time; one is this process.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._stop: Future[None] = Future()
        """Done once :meth:`cancel` was called."""

    def begin(self) -> None:
        self._stop = Future()
        if self._processes > 1:
            _executor(self._processes)

    def history_rows(self, topic: str, history: History, *, by_offset: bool) -> InputRows:
        if not is_arrow(history.df):
            raise SparkBridgeError(
                f"the history of topic {topic!r} is a DataFrame of Spark: for engine='local' give"
                " History.parquet(None, path), History.kafka(None, ...), or History of a pyarrow.Table or dataset",
                topic=topic,
            )
        return InputRows(topic, sources_of(history), 1, by_offset, history.headers is not None)

    def prepared(self, rows: InputRows, job: Preparation) -> InputRows:
        return replace(rows, rows=tuple(with_preparation(one, job) for one in rows.rows))

    def none_of(self, rows: InputRows) -> InputRows:
        return replace(rows, rows=())

    def behind(self, rows: InputRows, offsets: Mapping[int, int]) -> InputRows:
        return replace(rows, rows=tuple(Behind(one, offsets) for one in rows.rows))

    def written_rows(self, topic: str, files: Sequence[str], writers: int) -> InputRows:
        return InputRows(topic, tuple(RecordFile(path, topic) for path in files), writers, True, True)

    def first_and_last(self, rows: InputRows) -> tuple[dict[int, int], dict[int, int]]:
        begins: dict[int, int] = {}
        ends: dict[int, int] = {}
        for batch in _batches(rows, ("pid", "seq")):
            if batch.column("pid").null_count:
                raise PartitionMismatchError(
                    f"a row of the history of topic {rows.topic!r} has no partition", topic=rows.topic
                )
            if batch.column("seq").null_count:
                raise OffsetGapError(f"a row of the history of topic {rows.topic!r} has no offset", topic=rows.topic)
            for number in pc.unique(batch.column("pid")).to_pylist():
                own = batch.column("seq").filter(pc.equal(batch.column("pid"), number))
                bounds = pc.min_max(own).as_py()
                begins[number] = min(begins.get(number, bounds["min"]), bounds["min"])
                ends[number] = max(ends.get(number, 0), bounds["max"] + 1)
        return begins, ends

    def latest_time(self, rows: InputRows) -> int | None:
        times = (pc.max(batch.column("ts")).as_py() for batch in _batches(rows, ("ts",)))
        return max((time for time in times if time is not None), default=None)

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
        folder = tempfile.mkdtemp(prefix="streams-rows-", dir=local_directory())
        finished = 0
        try:
            with shown_progress(what, tasks, lambda: finished + len(done)):
                divided = self._divided(inputs, tasks, folder, what, in_one_task=in_one_task, done=done)
                found: list[dict[str, Any]] = []
                jobs = [(attempt, number, rows) for number, rows in divided.items()]
                for reports in self._results(run_task, jobs, what):
                    found += reports
                    finished += 1
                return found
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _divided(
        self,
        inputs: Sequence[InputRows],
        tasks: int,
        folder: str,
        what: str,
        *,
        in_one_task: bool,
        done: Collection[int],
    ) -> dict[int, _TaskRows]:
        """Returns what each task reads."""
        parts: dict[int, list[_InputPart]] = {number: [] for number in range(tasks) if number not in done}
        jobs: list[Any] = []
        for number, one in enumerate(inputs):
            for source in one.rows:
                place = source.partition
                if place is not None and not in_one_task and 0 <= place < tasks:
                    if place in parts:
                        parts[place].append(_InputPart(number, source, in_order=True))
                else:
                    jobs.append((source, number, 1 if in_one_task else tasks, folder, frozenset(done)))
        for found in self._results(divide, jobs, f"the division of the rows of {what}"):
            for partition, part in found.items():
                parts[partition].append(part)
        is_single = len(inputs) == 1 and inputs[0].writers == 1 and inputs[0].in_order and not in_one_task
        ordered, headers = tuple(one.in_order for one in inputs), any(one.has_headers for one in inputs)
        highs = tuple(one.highs for one in inputs)
        return {number: _TaskRows(tuple(own), ordered, headers, highs, is_single) for number, own in parts.items()}

    def _results(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], what: str) -> Iterator[Any]:
        """Yields what a function returns for each job, as they end."""
        if self._processes == 1 or not jobs:
            for job in jobs:
                if self._stop.done():
                    raise BackfillCancelled.of(what)
                try:
                    yield _marked(function, job)
                except Exception as error:
                    raise error_of(error, f"{what} of the backfill") from error
            return
        executor = _executor(self._processes)
        waiting: list[Future[Any]] = [executor.submit(_run_job, dumps((function, job))) for job in jobs]
        try:
            for future in as_completed([self._stop, *waiting]):
                if future is self._stop:
                    raise BackfillCancelled.of(what)
                yield future.result()
                waiting.remove(future)
                if not waiting:
                    return
        except (KeyboardInterrupt, GeneratorExit, BackfillCancelled):
            _end(executor)
            raise
        except Exception as error:
            for future in waiting:
                future.cancel()
            _end(executor)
            raise error_of(error, f"{what} of the backfill") from error

    def cancel(self) -> None:
        with suppress(InvalidStateError):  # it was called before
            self._stop.set_result(None)


def _cancelled(what: str) -> BackfillCancelled:
    return BackfillCancelled(f"{what} of the backfill was cancelled: run it again to go on")


def run_task(attempt: Attempt, number: int, rows: _TaskRows) -> list[dict[str, Any]]:
    """Runs one attempt of a task."""
    return attempt(number, uuid4().int & 0xFFFFFFFF, rows.batches())


def _marked(function: Callable[..., Any], job: tuple[Any, ...]) -> Any:
    with passed_to_driver():
        return function(*job)


def _run_job(pickled: bytes) -> Any:
    """Runs in a worker process."""
    relax_collector()
    function, job = loads(pickled)
    return _marked(function, job)


def _executor(processes: int) -> Any:
    """Returns the worker processes; those of an earlier backfill are used again.

    They do not import the program that the user runs, so it needs no guard for that.

    :raises SparkBridgeError: if the library that starts them is not installed.
    """
    try:
        from loky import get_reusable_executor
    except ImportError as error:
        raise SparkBridgeError(
            "engine='local' with more than one process needs loky: pip install 'streams-for-kafka[local]', or say"
            " engine='local[1]'"
        ) from error
    return get_reusable_executor(max_workers=processes)


def _end(executor: Any) -> None:
    """Ends the worker processes with what they do."""
    with suppress(Exception):
        executor.shutdown(wait=True, kill_workers=True)


def _batches(rows: InputRows, only: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    for source in rows.rows:
        for batch in source.batches(only):
            if batch.num_rows:
                yield batch
