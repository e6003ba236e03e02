"""The rows that Spark gives to a task, checked, as columns that a task of the runtime can be fed with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.kafka.topics.readers import reader_of
from streams.runtime.processing.environment import resolve_serde
from streams.runtime.runner.columns import history_records
from streams.runtime.runner.options import HistoryRow
from streams.runtime.tasks.record_runs import RunColumns
from streams.spark.errors import NullTimestampError, OffsetGapError, PartitionMismatchError
from streams.spark.executor.stage_job import StageJob
from streams.spark.rows.state_files import header_lists, topic_batches
from streams.spark.time_units import another_unit_row, refuse_other_unit

FED_ROWS = 10_000
"""Records that a task is fed with at a time: they are objects in memory then."""


class InputColumns(NamedTuple):
    """Some records of one input, in order."""

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[HeaderList | None]
    offsets: Sequence[int]


class CheckedRows(NamedTuple):
    """Rows of one input, in order, checked."""

    topic: str
    rows: pa.RecordBatch
    offsets: np.ndarray

    def slice(self, begin: int, end: int) -> CheckedRows:
        """Returns some of the rows."""
        return CheckedRows(self.topic, self.rows.slice(begin, end - begin), self.offsets[begin:end])

    def columns(self) -> InputColumns:
        """Returns the rows as records."""
        keys, values, times = (self.rows.column(name).to_pylist() for name in ("key", "value", "ts"))
        has_headers = "headers" in self.rows.schema.names
        headers = header_lists(self.rows.column("headers")) if has_headers else [None] * len(keys)
        return InputColumns(self.topic, keys, values, times, headers, self.offsets.tolist())

    def fed(self) -> Iterator[InputColumns]:
        """Yields the rows as records, some at a time."""
        for begin in range(0, self.rows.num_rows, FED_ROWS):
            yield self.slice(begin, min(begin + FED_ROWS, self.rows.num_rows)).columns()

    def runs(self, least: int) -> Iterator[tuple[CheckedRows, RunColumns | None]]:
        """Yields the rows in parts: those that may be a run with its columns, the others without.

        :param least: the rows of the shortest run.
        """
        rows, none = self.rows, np.zeros(self.rows.num_rows, dtype=bool)
        for name in ("key", "value"):
            if rows.column(name).null_count:
                none |= rows.column(name).is_null().to_numpy(zero_copy_only=False)
        if "headers" in rows.schema.names:
            lengths = pc.list_value_length(rows.column("headers")).fill_null(0)
            none |= lengths.to_numpy(zero_copy_only=False) > 0
        apart = np.flatnonzero(none)
        done = 0
        for begin, end in zip([0, *(apart + 1).tolist()], [*apart.tolist(), rows.num_rows], strict=True):
            if end - begin >= least:
                if begin > done:
                    yield self.slice(done, begin), None
                part, done = self.slice(begin, end), end
                yield part, part.run()
        if done < rows.num_rows:
            yield self.slice(done, rows.num_rows), None

    def run(self) -> RunColumns:
        """Returns the rows by their keys; none has headers, or no key or value."""
        keys, times = self.rows.column("key").cast(pa.binary()).dictionary_encode(), self.rows.column("ts").to_numpy()
        places, count = keys.indices.to_numpy(), len(keys.dictionary)
        last, latest = np.empty(count, np.int64), np.empty(count, np.int64)
        last[places] = np.arange(len(places))  # the last of several is kept
        by_time = np.argsort(times, kind="stable")
        latest[places[by_time]] = times[by_time]
        order = np.argsort(last)
        raw, ends = keys.dictionary.take(pa.array(order)).to_pylist(), last[order]
        nothing = [None] * count
        return RunColumns(
            keys=raw,
            counts=np.bincount(places, minlength=count)[order].tolist(),
            timestamps=latest[order].tolist(),
            messages=history_records(raw, nothing, times[ends].tolist(), nothing, self.offsets[ends].tolist()),
            records=len(places),
            earliest_ms=int(times[by_time[0]]),
            latest_ms=int(times[by_time[-1]]),
            values=self.rows.column("value").to_pylist,
        )


class TaskInput:
    """Checks the rows of one partition, and counts what is remarkable about them.

    :param partition: the partition; Spark gives its task also the rows whose partition is too large, and those without.
    """

    def __init__(self, job: StageJob, partition: int) -> None:
        self._job = job
        self._partition = partition
        self._next = [0] * len(job.inputs)
        self.gaps = 0
        """Holes between offsets."""
        self.rows = 0
        self.begins: dict[str, int] = {}
        """The offset of the first record of each topic."""

    def inputs(self, batch: pa.RecordBatch) -> Iterator[CheckedRows]:
        """Yields the rows of each input.

        :raises PartitionMismatchError: if a row has no partition, or one that its topic does not have.
        :raises NullTimestampError: if a row has no timestamp.
        :raises OffsetGapError: if an offset occurs twice.
        """
        self._check(batch)
        self.rows += batch.num_rows
        if len(self._job.inputs) == 1:
            yield CheckedRows(self._job.inputs[0].topic, batch, self._offsets(0, batch.column("seq")))
            return
        numbers = batch.column("q").to_numpy(zero_copy_only=False)
        for number, one in enumerate(self._job.inputs):
            chosen = np.flatnonzero(numbers == number)
            if len(chosen):
                own = batch.take(pa.array(chosen))
                yield CheckedRows(one.topic, own, self._offsets(number, own.column("seq")))

    # ------------------------------------------------------------------ checks

    def _check(self, batch: pa.RecordBatch) -> None:
        partitions = batch.column("pid")
        bounds = pc.min_max(partitions).as_py()
        if partitions.null_count or bounds != {"min": self._partition, "max": self._partition}:
            self._raise_misplaced(batch)
        for number in pc.unique(batch.column("q")).to_pylist():
            if not 0 <= self._partition < self._job.inputs[number].partitions:
                row = pc.index(batch.column("q"), pa.scalar(number, batch.column("q").type)).as_py()
                self._raise_outside(batch, row, self._partition)
        self._check_units(batch)
        if batch.column("ts").null_count:
            row = pc.index(pc.is_null(batch.column("ts")), pa.scalar(True)).as_py()
            raise NullTimestampError(
                "a row of the history has no timestamp: leave such rows out, or give them one",
                **self._place(batch, row),
            )

    def _check_units(self, batch: pa.RecordBatch) -> None:
        for number, one in enumerate(self._job.inputs):
            if one.guesses_unit:
                own = pc.equal(batch.column("q"), pa.scalar(number, batch.column("q").type))
                check_unit(batch.column("ts").filter(own), one.topic)

    def _raise_misplaced(self, batch: pa.RecordBatch) -> None:
        for row, partition in enumerate(batch.column("pid").to_pylist()):
            if partition is None:
                raise PartitionMismatchError(
                    "a row of the history has no partition: records with null keys have no partition that could be"
                    " computed. Give the history a column with the partition numbers, or leave such rows out",
                    **{**self._place(batch, row), "partition": None},
                )
            if partition != self._partition:
                self._raise_outside(batch, row, partition)

    def _raise_outside(self, batch: pa.RecordBatch, row: int, partition: int) -> None:
        count = self._job.inputs[batch.column("q")[row].as_py()].partitions
        raise PartitionMismatchError(
            f"a row of the history is in partition {partition}, and its topic has {count}: give the number of"
            " partitions that the topic has in Kafka, or correct the rows",
            **{**self._place(batch, row), "partition": partition},
        )

    def _place(self, batch: pa.RecordBatch, row: int) -> dict[str, Any]:
        number = batch.column("q")[row].as_py()
        return {
            "topic": self._job.inputs[number].topic,
            "partition": self._partition,
            "offset": batch.column("seq")[row].as_py(),
        }

    def _offsets(self, number: int, column: pa.Array) -> np.ndarray:
        """Returns the offsets of some rows of an input; consecutive numbers where the records have none."""
        first, count = self._next[number], len(column)
        if not self._job.inputs[number].has_offsets:
            self._next[number] += count
            return np.arange(first, first + count)
        if column.null_count:
            self._raise_offset(number, None, "a row of the history has no offset, and its history has a column for it")
        offsets: np.ndarray = column.to_numpy(zero_copy_only=False)
        steps = np.diff(offsets, prepend=first - 1 if first else offsets[0] - 1)
        if steps.min() < 1:
            row = int(np.argmax(steps < 1))
            self._raise_offset(number, int(offsets[row]), "two rows of the history have the same offset")
        self.gaps += int((steps > 1).sum())
        self.begins.setdefault(self._job.inputs[number].topic, int(offsets[0]))
        self._next[number] = int(offsets[-1]) + 1
        return offsets

    def _raise_offset(self, number: int, offset: int | None, what: str) -> None:
        raise OffsetGapError(
            f"{what}. Remove duplicates (dropDuplicates with the columns of partition and offset), or leave the offsets"
            " out with History(offset=None): then the order is that of the timestamps",
            topic=self._job.inputs[number].topic,
            partition=self._partition,
            offset=offset,
        )


def check_unit(times: pa.Array, topic: str) -> None:
    """Refuses integer times of a history that seem to be in another unit than ms.

    :raises TimestampRangeError: with the first that seems so.
    """
    row = another_unit_row(times)
    if row is not None:
        refuse_other_unit(
            times[row].as_py(),
            f"a row of the history of topic {topic!r} has the time",
            topic=topic,
        )


def rows_of_files(files: Sequence[str]) -> Iterator[HistoryRow]:
    """Yields ``(key, value, timestamp_ms, headers, number)`` of the rows of some files, in order."""
    return ((*row, number) for number, row in enumerate(rows_of_batches(topic_batches(files))))


def rows_of_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, Any, int, HeaderList | None]]:
    """Yields ``(key, value, timestamp_ms, headers)`` of rows."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("key", "value", "ts"))
        yield from zip(*columns, header_lists(batch.column("headers")), strict=True)


def source_serdes(topology: Topology, config: StreamsConfig, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """Returns the serdes of keys and values with which a source of the topology, or a global table, reads a topic.

    :raises ConfigError: if there is none.
    :raises TopologyError: if two patterns match the topic.
    """
    what = f"topic {topic!r}"
    source = reader_of(topology, topic)
    given = (None, None) if source is None else (source.key_serde, source.value_serde)
    return (
        resolve_serde(given[0], config.default_key_serde, what, "key"),
        resolve_serde(given[1], config.default_value_serde, what, "value"),
    )
