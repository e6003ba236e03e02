"""A backfill's tasks without Spark: over Arrow batches, in processes of this machine.

Each source of a history is divided by partitions into files, by tasks that run side by side; then a task for each
partition reads its parts. What is in order already, as a range of Kafka's offsets is, is not divided or sorted. A
partition that must be sorted is in memory as a whole meanwhile, so this is for what fits one machine.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from processor_api.texts import repr_of
from streams.runtime.threads.gc_tuning import relax_collector, restore_collector
from streams.spark.backfill.engine import Attempt, InputRows, task_rows
from streams.spark.backfill.history import History
from streams.spark.backfill.progress import shown_progress
from streams.spark.errors import BackfillCancelled, OffsetGapError, PartitionMismatchError, SparkBridgeError
from streams.spark.executor.prepared_history import Preparation
from streams.spark.executor.stage_task import local_directory
from streams.spark.executor.task_errors import error_of, passed_to_driver
from streams.spark.rows.shipping import dumps, loads
from streams.spark.sources.arrow_rows import Behind, OffsetSpan, Prepared, RecordFile, RowSource, is_arrow, sources_of
from streams.spark.sources.ordered_files import Orders
from streams.spark.sources.task_rows import InputPart, TaskRows

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
class _FilePart:
    """Rows of one partition in a file that was divided from a source."""

    path: str

    @property
    def place(self) -> OffsetSpan | None:
        return None

    def batches(self, only: Any = None) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self.path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


class _Division:
    """The file of one partition while it is written."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._path = path
        self._writer = pa.ipc.new_stream(path, schema)
        self._first = self._last = -1
        self._owners: set[tuple[int | None, int]] = set()
        """The partitions and writers of the rows; no more are noted where there are several."""
        self._rises = True

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows, at least one."""
        self._writer.write_batch(rows)
        seq = rows.column("seq")
        self._rises = self._rises and not seq.null_count
        for name in ("pid", "upstream") if self._rises else ():
            bounds = pc.min_max(rows.column(name)).as_py()
            self._rises = self._rises and bounds["min"] == bounds["max"] and not rows.column(name).null_count
        if not self._rises:
            return
        numbers = seq.to_numpy()
        self._rises = bool(numbers[0] > self._last) and bool((np.diff(numbers) > 0).all())
        self._owners.add((rows.column("pid")[0].as_py(), rows.column("upstream")[0].as_py()))
        self._first = int(numbers[0]) if self._first < 0 else self._first
        self._last = int(numbers[-1])

    def part(self, number: int) -> InputPart:
        """Closes the file; returns it as a part of an input."""
        self.close()
        source = _FilePart(self._path)
        if not self._rises or len(self._owners) != 1:
            return InputPart(number, source, None)
        [(partition, writer)] = self._owners
        assert partition is not None
        return InputPart(number, source, OffsetSpan(partition, self._first, self._last), writer)

    def close(self) -> None:
        self._writer.close()


def divide(source: RowSource, number: int, partitions: int, folder: str, done: Collection[int]) -> dict[int, InputPart]:
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
                if partition in done or not rows.num_rows:
                    continue
                if partition not in opened:
                    path = os.path.join(folder, f"q{number}-{uuid4().hex}-p{partition}.arrow")
                    opened[partition] = _Division(path, rows.schema)
                opened[partition].add(rows)
        return {partition: one.part(number) for partition, one in opened.items()}
    finally:
        for one in opened.values():
            one.close()


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
        self._orders = Orders()
        self._stop: Future[None] = Future()
        """Done once :meth:`cancel` was called."""

    def begin(self) -> None:
        self._stop, self._orders = Future(), Orders()
        if self._processes > 1:
            _executor(self._processes)

    def history_rows(self, topic: str, history: History, *, by_offset: bool) -> InputRows:
        if not is_arrow(history.df):
            raise SparkBridgeError(
                f"the history of topic {topic!r} is a DataFrame of Spark: for engine='local' give"
                " History.parquet(None, path), History.kafka(None, ...), or History of a pyarrow.Table or dataset",
                topic=topic,
            )
        found = self._orders.of(topic, history, by_offset=by_offset)
        sources = sources_of(history) if isinstance(found, str) else found
        return InputRows(topic, sources, 1, by_offset, history.headers is not None)

    def prepared(self, rows: InputRows, job: Preparation) -> InputRows:
        return replace(rows, rows=tuple(Prepared(one, job) for one in rows.rows))

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
    ) -> dict[int, TaskRows]:
        """Returns what each task reads."""
        parts: dict[int, list[InputPart]] = {number: [] for number in range(tasks) if number not in done}
        jobs: list[Any] = []
        for number, one in enumerate(inputs):
            for source in one.rows:
                place = source.place
                if place is not None and not in_one_task and 0 <= place.partition < tasks:
                    if place.partition in parts:
                        parts[place.partition].append(InputPart(number, source, place))
                else:
                    jobs.append((source, number, 1 if in_one_task else tasks, folder, frozenset(done)))
        for found in self._results(divide, jobs, f"the division of the rows of {what}"):
            for partition, part in found.items():
                parts[partition].append(part)
        return {number: task_rows(own, inputs) for number, own in parts.items()}

    def _results(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], what: str) -> Iterator[Any]:
        """Yields what a function returns for each job, as they end."""
        if self._processes == 1 or not jobs:
            yield from self._results_here(function, jobs, what)
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

    def _results_here(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], what: str) -> Iterator[Any]:
        thresholds = relax_collector()
        try:
            for job in jobs:
                if self._stop.done():
                    raise BackfillCancelled.of(what)
                try:
                    yield _marked(function, job)
                except Exception as error:
                    raise error_of(error, f"{what} of the backfill") from error
        finally:
            restore_collector(thresholds)

    def cancel(self) -> None:
        with suppress(InvalidStateError):  # it was called before
            self._stop.set_result(None)


def run_task(attempt: Attempt, number: int, rows: TaskRows) -> list[dict[str, Any]]:
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
