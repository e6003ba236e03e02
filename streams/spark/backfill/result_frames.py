"""Frames of the rows in a run's files: of Spark, or without a session tables of Arrow with the same columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from processor_api.user_code.given_serdes import SerdeLike, optional_serde
from streams.spark.rows.changelog_rows import arrow_table_of_rows, table_of_rows
from streams.spark.rows.columns import TIME_TYPE, Column, column_of
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.state_files import COLUMNS, StateFiles, read_rows, state_rows_of
from streams.spark.rows.table_layout import TableLayout
from streams.spark.rows.values import pairs_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANY = -1
"""The partition of a record whose topic has an unknown number of partitions: it is null in a frame."""
OUTPUT = ("partition", "upstream", "seq", "key", "value", "timestamp", "headers")
STATE = ("partition", "seq", "key", "value", "ts", "headers")
LETTERS = ("upstream", "key", "value", "timestamp", "headers")


class Frames(Protocol):
    """Reads files of a run directory (`streams.spark.executor.rows`)."""

    def rows(self, files: Sequence[str], columns: Sequence[str], topic: str | None = None) -> Any:
        """Returns columns of the rows of some files, of one topic if it is given."""
        ...

    def state(self, tasks: Sequence[StateFiles], topic: str) -> Any:
        """Returns the rows of a changelog, with the columns `STATE`."""
        ...

    def decoded(self, rows: Any, topic: str, columns: Sequence[Column]) -> Any:
        """Returns the rows of an output with the values that their bytes stand for; other columns stay as they are.

        :param columns: those of :func:`columns_of_output`.
        :raises SerdeNotPicklable: if a serde cannot be sent to the executors.
        :raises DeserializationError: with the topic and the partition, if a serde cannot read a record.
        """
        ...

    def table(self, rows: Any, layout: TableLayout, *, expired: bool) -> Any:
        """Returns the table of the store whose changelog has some rows."""
        ...

    def renamed(self, rows: Any, name: str, new: str) -> Any:
        """Returns the same rows with another name of a column."""
        ...

    def arrow(self, rows: Any) -> pa.Table:
        """Returns rows as a table of Arrow, in the memory of this process."""
        ...


def frames_of(spark: SparkSession | None) -> Frames:
    """Returns what reads the files of a run, by a session if there is one."""
    return ArrowFrames() if spark is None else SparkFrames(spark)


class SparkFrames:
    """Reads files as DataFrames of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def rows(self, files: Sequence[str], columns: Sequence[str], topic: str | None = None) -> DataFrame:
        from pyspark.sql import functions

        rows = read_rows(self._spark, files)
        if topic is not None:
            rows = rows.where(functions.col("topic") == topic)
        made = {
            "timestamp": functions.timestamp_millis(functions.col("ts")).alias("timestamp"),
            "partition": functions.nullif(functions.col("partition"), functions.lit(ANY)).alias("partition"),
        }
        return rows.select(*(made.get(name, functions.col(name)) for name in columns))

    def state(self, tasks: Sequence[StateFiles], topic: str) -> DataFrame:
        return state_rows_of(self._spark, tasks, topic).select(*STATE)

    def decoded(self, rows: DataFrame, topic: str, columns: Sequence[Column]) -> DataFrame:
        types = {**dict(rows.dtypes), **{one.name: one.spark_type for one in columns}}
        schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
        return rows.mapInArrow(_reading(topic, packed(columns)), schema)

    def table(self, rows: DataFrame, layout: TableLayout, *, expired: bool) -> DataFrame:
        return table_of_rows(rows, layout, all_versions=True, expired=expired)

    def renamed(self, rows: DataFrame, name: str, new: str) -> DataFrame:
        return rows.withColumnRenamed(name, new)

    def arrow(self, rows: DataFrame) -> pa.Table:
        return rows.toArrow()


class ArrowFrames:
    """Reads files as tables of Arrow."""

    def rows(self, files: Sequence[str], columns: Sequence[str], topic: str | None = None) -> pa.Table:
        rows = pa.concat_tables([COLUMNS.empty_table(), *(_table(path, topic) for path in files)])
        time = rows.column("ts").cast(pa.timestamp("ms", "UTC")).cast(TIME_TYPE)
        places = rows.column("partition")
        places = pc.if_else(pc.equal(places, ANY), pa.scalar(None, places.type), places)
        rows = rows.set_column(rows.schema.get_field_index("partition"), "partition", places)
        return rows.append_column("timestamp", time).select(list(columns))

    def state(self, tasks: Sequence[StateFiles], topic: str) -> pa.Table:
        batches = [batch for one in tasks for batch in one.batches(topic)]
        return pa.Table.from_batches(batches, COLUMNS).select(list(STATE))

    def decoded(self, rows: pa.Table, topic: str, columns: Sequence[Column]) -> pa.Table:
        batches = [_read(batch, topic, columns) for batch in rows.to_batches()]
        if batches:
            return pa.Table.from_batches(batches)
        kinds = {one.name: one.arrow_type for one in columns}
        return pa.schema([(one.name, kinds.get(one.name, one.type)) for one in rows.schema]).empty_table()

    def table(self, rows: pa.Table, layout: TableLayout, *, expired: bool) -> pa.Table:
        return arrow_table_of_rows(rows, layout, all_versions=True, expired=expired)

    def renamed(self, rows: pa.Table, name: str, new: str) -> pa.Table:
        return rows.rename_columns({name: new})

    def arrow(self, rows: pa.Table) -> pa.Table:
        return rows


def _table(path: str, topic: str | None) -> pa.Table:
    rows = pq.read_table(path, partitioning=None, schema=COLUMNS)
    return rows if topic is None else rows.filter(pc.equal(rows.column("topic"), topic))


def columns_of_output(
    topic: str, key: SerdeLike[Any] | None, value: SerdeLike[Any] | None, *, structs: bool = False
) -> tuple[Column, ...]:
    """Returns the columns that serdes make of keys and values; ``None`` leaves bytes.

    :raises SparkBridgeError: if objects cannot be structs.
    """
    found = {
        name: optional_serde(given, name, "output", topic=topic) for name, given in (("key", key), ("value", value))
    }
    return tuple(
        column_of(name, None if serde is None else serde.bind(topic, is_key=name == "key"), structs=structs)
        for name, serde in found.items()
    )


def _reading(topic: str, text: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the function that runs in Spark's tasks."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns: tuple[Column, ...] = unpacked(text)
        for batch in batches:
            yield _read(batch, topic, columns)

    return run


def _read(batch: pa.RecordBatch, topic: str, columns: Iterable[Column]) -> pa.RecordBatch:
    def place(row: int) -> Mapping[str, Any]:
        return {"topic": topic, "partition": batch.column("partition")[row].as_py()}

    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    for one in columns:
        headers = pairs_of(batch.column("headers")) if one.takes_headers else None
        found[one.name] = one.array(batch.column(one.name).to_pylist(), place, headers)
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
