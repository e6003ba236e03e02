"""Histories whose partitions are in order where they are: ranges of Kafka, and Parquet files of which each row group
has rows of one partition, as connectors and exports of topics write them.

The statistics of the row groups say which partition and offsets each has. Whether the offsets also rise from row to row
is checked when the rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from streams.spark.sources.arrow_rows import Columns, HistorySource, KafkaRows, OffsetSpan, Only, RowSource, types_of
from streams.spark.sources.task_rows import follow

SORTED_BYTES = 64 << 20
"""The bytes of a row group up to which its rows may be in any order: a task sorts them in memory."""
SAME_TYPES = frozenset({
    "binary", "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "timestamp",
    "array<struct<key:string,value:binary>>",
})  # fmt: skip
"""The types whose values Spark and Arrow read from Parquet alike."""


_OF_KAFKA = Columns("key", "value", "timestamp", "partition", "offset", "headers", True, None, "ms")


class NotInOrder(Exception):
    """The rows of a history have to be brought into order; the text says why."""


class RowGroup(NamedTuple):
    """A row group of a file, with its first and last offset."""

    number: int
    first: int
    last: int


@dataclass(frozen=True)
class OrderedFile:
    """The rows of one partition in a file: row groups whose offsets follow each other."""

    fragment: ds.ParquetFileFragment
    schema: pa.Schema
    columns: Columns
    partition: int
    groups: tuple[RowGroup, ...]

    @property
    def place(self) -> OffsetSpan:
        return OffsetSpan(self.partition, self.groups[0].first, self.groups[-1].last)

    def batches(self, only: Only = None) -> Iterator[pa.RecordBatch]:
        for group in self.groups:
            rows = self.fragment.subset(row_group_ids=[group.number])
            source = HistorySource((rows, self.schema), self.columns)
            if only is not None or _rises(rows, self.schema, self.columns):
                yield from source.batches(only)
            else:
                found = pa.Table.from_batches(list(source.batches()))
                yield from found.take(pa.array(np.argsort(_numbers(found, "seq"), kind="stable"))).to_batches()


def _numbers(rows: Any, name: str) -> Any:
    return rows.column(name).cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy()


def _rises(rows: ds.Fragment, schema: pa.Schema, columns: Columns) -> bool:
    """Returns whether the offsets rise from row to row."""
    assert columns.offset is not None
    found = rows.to_table(schema=schema, columns=[columns.offset], batch_readahead=2, fragment_readahead=1)
    return bool((np.diff(_numbers(found, columns.offset)) > 0).all())


class Orders:
    """Keeps what is known of the order of histories during a run."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, tuple[RowSource, ...] | str]] = {}

    def of(self, topic: str, history: Any, *, by_offset: bool) -> tuple[RowSource, ...] | str:
        """Returns sources of a history, each of one partition and in the order of its offsets; or why there are none.

        :param history: a :class:`streams.spark.History`.
        :param by_offset: whether that order is wanted.
        """
        if not by_offset:
            return "they are processed by their timestamps"
        known = self._known.get(topic)
        if known is None or known[0] is not history:
            try:
                known = history, _ordered_sources(history)
            except NotInOrder as error:
                known = history, str(error)
            self._known[topic] = known
        return known[1]


def _ordered_sources(history: Any) -> tuple[RowSource, ...]:
    if history.partition is None or history.offset is None:
        raise NotInOrder(f"the history has no {'offsets' if history.offset is None else 'partitions'}")
    columns = Columns.of(history)
    if history.kafka_rows is not None and columns == _OF_KAFKA:
        ranges: KafkaRows = history.kafka_rows
        return ranges.sources()
    if isinstance(history.df, ds.FileSystemDataset):
        return ordered_files(history.df, columns)
    if isinstance(history.df, (pa.Table, ds.Dataset, KafkaRows)):
        raise NotInOrder("the history is not read from files")
    return ordered_files(_dataset_of(history, columns), columns)


def _dataset_of(history: Any, columns: Columns) -> ds.FileSystemDataset:
    """Returns the files that a DataFrame of Spark reads, as a dataset of Arrow with the same values."""
    if not history.reads_all_of_files():
        raise NotInOrder("the DataFrame is not just the Parquet files below one path")
    found = [urlsplit(name) for name in history.df.inputFiles()]
    if not found or any(one.scheme != "file" or one.netloc for one in found):
        raise NotInOrder("the files are not on a mounted file system")
    try:
        rows = ds.dataset([unquote(one.path) for one in found], format="parquet", partitioning="hive")
    except (OSError, ValueError) as error:  # Arrow's errors are such
        raise NotInOrder(f"Arrow cannot read the files: {error}") from error
    types, there = history.types(), types_of(rows)
    for name in columns.names():
        if types[name] not in SAME_TYPES or there.get(name) != types[name]:
            raise NotInOrder(f"Arrow reads column {name!r} as {there.get(name)}, and Spark as {types[name]}")
    return rows


def ordered_files(rows: ds.FileSystemDataset, columns: Columns) -> tuple[RowSource, ...]:
    """Returns a source for each file and partition of a dataset.

    :raises NotInOrder: if row groups have several partitions, or offsets of which some are between those of others.
    """
    if not isinstance(rows.format, ds.ParquetFileFormat):
        raise NotInOrder("the files are not Parquet files")
    found: list[OrderedFile] = []
    for fragment in rows.get_fragments():
        try:
            found += _files_of(fragment, rows.schema, columns)
        except (OSError, pa.ArrowException) as error:
            raise NotInOrder(f"Arrow cannot read {fragment.path!r}: {error}") from error
    found.sort(key=lambda one: one.place)
    for partition in {one.partition for one in found}:
        if not follow([one.place for one in found if one.partition == partition]):
            raise NotInOrder(f"offsets of partition {partition} in one file are between those in another")
    return tuple(found)


def _files_of(fragment: ds.ParquetFileFragment, schema: pa.Schema, columns: Columns) -> Iterator[OrderedFile]:
    keys, own = ds.get_partition_keys(fragment.partition_expression), fragment.physical_schema
    for name in columns.names():
        in_file = name in own.names
        if in_file == (name in keys) or (in_file and own.field(name).type != schema.field(name).type):
            raise NotInOrder(f"{fragment.path!r} does not have column {name!r} as the other files do")
    groups: dict[int, list[RowGroup]] = {}
    for number in range(fragment.metadata.num_row_groups):
        found = fragment.metadata.row_group(number)
        if found.num_rows:
            partition, group = _group_of(fragment, number, keys, columns)
            groups.setdefault(partition, []).append(group)
            if found.total_byte_size > SORTED_BYTES:
                rows = fragment.subset(row_group_ids=[number])
                if not _rises(rows, schema, columns):
                    raise NotInOrder(f"row group {number} of {fragment.path!r} is not in the order of its offsets")
    for partition, several in groups.items():
        several.sort(key=lambda one: one.first)
        if not follow([OffsetSpan(partition, one.first, one.last) for one in several]):
            raise NotInOrder(f"row groups of {fragment.path!r} have offsets between those of others")
        yield OrderedFile(fragment, schema, columns, partition, tuple(several))


def _group_of(
    fragment: ds.ParquetFileFragment, number: int, keys: dict[str | None, Any], columns: Columns
) -> tuple[int, RowGroup]:
    """Returns the partition of a row group, and its offsets."""
    (partition, other), (first, last) = (
        (keys[name], keys[name]) if name in keys else _bounds(fragment, number, name)
        for name in (columns.partition, columns.offset)
    )
    if partition != other:
        raise NotInOrder(f"row group {number} of {fragment.path!r} has rows of several partitions")
    if not all(type(one) is int for one in (partition, first, last)):
        raise NotInOrder(f"{fragment.path!r} does not say which partition and offsets it has")
    return partition, RowGroup(number, first, last)


def _bounds(fragment: ds.ParquetFileFragment, number: int, name: str | None) -> tuple[Any, Any]:
    group = fragment.metadata.row_group(number)
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema == name:
            known = column.statistics
            if known is None or not known.has_min_max or not known.has_null_count or known.null_count:
                break
            return known.min, known.max
    raise NotInOrder(f"{fragment.path!r} does not say which values column {name!r} has, or has nulls in it")
