"""Sources of a backfill without Spark: tables and datasets of Arrow, ranges of Kafka, files of an earlier stage.

Each source travels to a worker process and yields batches with the columns of a task's rows
(:class:`streams.spark.backfill.engine.InputRows`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from streams.spark.errors import NaiveTimestampError, SparkBridgeError
from streams.spark.executor.prepared_history import Preparation, prepared
from streams.spark.rows.state_files import HEADERS
from streams.spark.sources.ranges import OffsetRange, OffsetRanges
from streams.spark.sources.topic_plan import TopicPlan
from streams.spark.time_units import UNITS

BATCH_ROWS = 100_000
Only = tuple[str, ...] | None
"""The columns of rows that are wanted; ``None`` for all."""


class OffsetSpan(NamedTuple):
    """The partition and the offsets of rows that are in order."""

    partition: int
    first: int
    """No offset is less."""
    last: int
    """No offset is greater."""


class RowSource(Protocol):
    """Yields rows of one topic."""

    @property
    def place(self) -> OffsetSpan | None:
        """The place, if all rows are of one partition and in order of their offsets; ``None`` if they are mixed."""
        ...

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows, with all columns unless only some are wanted."""
        ...


@dataclass(frozen=True)
class KafkaRows:
    """A range of a topic's offsets, as the rows of a history."""

    plan: TopicPlan
    offsets: OffsetRanges

    def sources(self) -> tuple[RowSource, ...]:
        """Returns a source for each partition that has records."""
        return tuple(TopicRange(self.plan, one) for one in self.offsets.ranges if one.start < one.end)


@dataclass(frozen=True)
class Columns:
    """Names the columns of a history that have the parts of records."""

    key: str | None
    value: str | None
    timestamp: str
    partition: str | None
    offset: str | None
    headers: str | None
    encoded: bool
    time_zone: str | None
    time_unit: str | None

    @staticmethod
    def of(history: Any) -> Columns:
        """Returns those of a :class:`streams.spark.History`."""
        names = ("key", "value", "timestamp", "partition", "offset", "headers", "encoded", "time_zone", "time_unit")
        return Columns(*(getattr(history, name) for name in names))

    def names(self, only: Only = None) -> list[str]:
        """Returns the columns of the history that some columns of the rows need."""
        parts = {"pid": self.partition, "seq": self.offset, "ts": self.timestamp, "key": self.key, "value": self.value}
        parts["headers"] = self.headers
        chosen = [column for name, column in parts.items() if column is not None and (only is None or name in only)]
        return list(dict.fromkeys(chosen))

    def rows(self, batch: pa.RecordBatch, only: Only = None) -> pa.RecordBatch:
        """Returns the rows of a batch of the history."""
        count = batch.num_rows
        found: dict[str, pa.Array] = {}

        def wanted(name: str) -> bool:
            return only is None or name in only

        def part(column: str | None, kind: pa.DataType) -> pa.Array:
            return pa.nulls(count, kind) if column is None else batch.column(column).cast(kind)

        if wanted("pid"):
            found["pid"] = part(self.partition, pa.int32())
        if wanted("upstream"):
            found["upstream"] = pa.repeat(pa.scalar(0, pa.int32()), count)
        if wanted("seq"):
            found["seq"] = part(self.offset, pa.int64())
        if wanted("ts"):
            found["ts"] = self._times(batch.column(self.timestamp))
        for name, column in (("key", self.key), ("value", self.value)):
            if wanted(name):
                typed = column is not None and not self.encoded
                found[name] = batch.column(column) if typed else part(column, pa.binary())
        if self.headers is not None and wanted("headers"):
            found["headers"] = batch.column(self.headers).cast(HEADERS)
        return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))

    def _times(self, column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_integer(kind):
            factor, column = UNITS[self.time_unit or "ms"], column.cast(pa.int64())
            if factor > 0:
                return column if factor == 1 else pc.multiply(column, factor)
            whole = pc.divide(column, -factor)  # towards zero
            is_less = pc.and_(pc.less(column, 0), pc.not_equal(pc.multiply(whole, -factor), column))
            return pc.subtract(whole, is_less.cast(pa.int64()))
        if kind.tz is None:
            assert self.time_zone is not None
            try:
                column = pc.assume_timezone(column, self.time_zone, ambiguous="earliest", nonexistent="raise")
            except pa.ArrowInvalid as error:
                raise NaiveTimestampError(
                    f"column {self.timestamp!r} has a time that {self.time_zone} does not have: {error}. Give the"
                    " history timestamps with a zone"
                ) from error
        return pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())


@dataclass(frozen=True)
class HistorySource:
    """A part of a history that is a table or a dataset.

    :param data: a table, or a fragment of a dataset with its schema.
    """

    data: pa.Table | tuple[ds.Fragment, pa.Schema]
    columns: Columns

    @property
    def place(self) -> OffsetSpan | None:
        return None

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        for batch in self._given(only):
            yield self.columns.rows(batch, only)

    def _given(self, only: Only) -> Iterator[pa.RecordBatch]:
        names = self.columns.names(only)
        if isinstance(self.data, pa.Table):
            yield from self.data.select(names).to_batches(BATCH_ROWS)
            return
        fragment, schema = self.data
        yield from fragment.to_batches(
            schema=schema, columns=names, batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        )


@dataclass(frozen=True)
class Prepared:
    """The rows of a source with what their history lacks."""

    source: RowSource
    job: Preparation

    @property
    def place(self) -> OffsetSpan | None:
        return None if self.job.place else self.source.place

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        if only is not None and "pid" in only and self.job.place:
            only = (*only, "key", "value")
        rows = self.source.batches(only)
        yield from rows if only is not None and "key" not in only else prepared(self.job)(rows)


@dataclass(frozen=True)
class Behind:
    """The rows of a source behind some offsets.

    :param offsets: by partition; of a partition that has none all rows are yielded.
    """

    source: RowSource
    offsets: Mapping[int, int]

    @property
    def place(self) -> OffsetSpan | None:
        return self.source.place

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        wanted = None if only is None else tuple(dict.fromkeys((*only, "pid", "seq")))
        for batch in self.source.batches(wanted):
            numbers = batch.column("pid").fill_null(-1).to_numpy(zero_copy_only=False)
            begins = np.array([self.offsets.get(number, -1) for number in range(int(numbers.max(initial=0)) + 1)])
            least = np.where(numbers < 0, -1, begins[numbers])
            yield batch.filter(pc.greater_equal(batch.column("seq").fill_null(0), pa.array(least)))


@dataclass(frozen=True)
class TopicRange:
    """A range of one partition of a topic."""

    plan: TopicPlan
    wanted: OffsetRange

    @property
    def place(self) -> OffsetSpan | None:
        return OffsetSpan(self.wanted.partition, self.wanted.start, self.wanted.end - 1)

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        for batch in self.plan.batches(self.wanted):
            columns = {
                "pid": batch.column("partition"),
                "upstream": pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows),
                "seq": batch.column("offset"),
                "ts": batch.column("timestamp"),
                "key": batch.column("key"),
                "value": batch.column("value"),
                "headers": batch.column("headers").cast(HEADERS),
            }
            chosen = {name: column for name, column in columns.items() if only is None or name in only}
            yield pa.RecordBatch.from_arrays(list(chosen.values()), names=list(chosen))


@dataclass(frozen=True)
class RecordFile:
    """The rows of one topic in a file that a task of an earlier stage wrote."""

    path: str
    topic: str

    @property
    def place(self) -> OffsetSpan | None:
        return None

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                own = batch.filter(pc.equal(batch.column("topic"), self.topic))
                names = {"partition": "pid"}
                yield own.drop_columns(["topic"]).rename_columns([
                    names.get(one, one) for one in own.schema.names if one != "topic"
                ])  # fmt: skip


def sources_of(history: Any) -> tuple[RowSource, ...]:
    """Returns the sources of a history."""
    df, columns = history.df, Columns.of(history)
    if isinstance(df, KafkaRows):
        return df.sources()
    if isinstance(df, pa.Table):
        return (HistorySource(df, columns),)
    return tuple(HistorySource((one, df.schema), columns) for one in df.get_fragments())


# ---------------------------------------------------------------------- what is known of a history without reading it


def is_arrow(df: Any) -> bool:
    """Returns whether the rows of a history are those of a local backfill."""
    return isinstance(df, (pa.Table, ds.Dataset, KafkaRows))


def types_of(df: Any) -> dict[str, str]:
    """Returns the types of columns, by Spark's names."""
    schema = df.plan.arrow_schema if isinstance(df, KafkaRows) else df.schema
    return {one.name: type_name(one.type) for one in schema}


_NAMES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "bool": "boolean",
    "halffloat": "float",
    "large_binary": "binary",
    "large_string": "string",
    "string_view": "string",
    "binary_view": "binary",
    "date32[day]": "date",
}


def type_name(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return type_name(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{one.name}:{type_name(one.type)}' for one in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES.get(str(kind), str(kind))


def source_of(df: Any) -> Mapping[str, Any]:
    """Returns what the records are read from: files with their sizes and times, or a hash of the content."""
    schema = blake2b(str(df.schema.remove_metadata()).encode(), digest_size=8).hexdigest()
    if isinstance(df, pa.Table):
        return {"kind": "frame", "content": _content(df), "plan": schema}
    files = getattr(df, "files", None)
    if files is None:
        raise SparkBridgeError(
            f"a history is a table or a dataset of files, not {type(df).__name__}: give a pyarrow.Table, or"
            " pyarrow.dataset.dataset(path)"
        )
    found = df.filesystem.get_file_info(files)
    states = {f"{_front(df)}{one.path}": [one.size, (one.mtime_ns or 0) // 1_000_000] for one in found}
    return {"kind": "files", "files": states, "plan": schema}


def with_files(df: ds.FileSystemDataset, names: Collection[str]) -> ds.FileSystemDataset:
    """Returns the part of a dataset that is in some of its files."""
    front = _front(df)
    fragments = [one for one in df.get_fragments() if f"{front}{one.path}" in names]
    return ds.FileSystemDataset(fragments, df.schema, df.format, df.filesystem)


def _front(df: Any) -> str:
    return "file://" if df.filesystem.type_name == "local" else ""


def _content(table: pa.Table) -> str:
    hashed = blake2b(digest_size=8)
    for batch in table.combine_chunks().to_batches():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        hashed.update(sink.getvalue())
    hashed.update(json.dumps(table.num_rows).encode())
    return hashed.hexdigest()
