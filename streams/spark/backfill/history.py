"""The history of one topic: a DataFrame, and the columns in which the parts of its records are."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from streams.spark.errors import HistorySchemaError, NaiveTimestampError, SparkBridgeError
from streams.spark.position import file_hash
from streams.spark.sources.arrow_rows import KafkaRows, is_arrow, source_of, types_of, with_files
from streams.spark.sources.history_files import check_files, unreadable
from streams.spark.sources.lake_tables import TableAtVersion, delta_table, iceberg_table
from streams.spark.sources.offsets import ClusterConfig, Place, check_ranges, cluster_settings, pin_offsets
from streams.spark.sources.ranges import OffsetRanges
from streams.spark.sources.topic_plan import plan_of
from streams.spark.time_units import as_ms, check_time_unit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

INTEGERS = ("tinyint", "smallint", "int", "bigint")
BINARY = "binary"
HEADERS = "array<struct<key:string,value:binary>>"


Pinning = Callable[[OffsetRanges | None, Mapping[int, int] | None, Mapping[int, int] | None], "History"]
"""Returns a history of Kafka with the given offsets, or with new ones from a start to an end that may be given."""


@dataclass(frozen=True)
class History:
    """The records of one topic: a DataFrame with a row for each record.

    Rows may be in any order. Timestamps are a ``timestamp`` column, or integers since 1970; offsets and
    partitions are integers; keys and values are ``binary``, as they are in Kafka, or with ``encoded=False`` values
    that the serdes of the topology's source can write.

    :param df: the rows: a DataFrame of Spark, or of a backfill without Spark a ``pyarrow.Table`` or a
        ``pyarrow.dataset.Dataset``.
    :param key: the column of the keys; ``None`` if all keys are null.
    :param partition: the column of the partition numbers, or ``None`` to compute them from the keys, as Kafka's default
        partitioner for Java does (murmur2).
    :param offset: the column of the offsets, or ``None`` if the history has none: then records are processed in the
        order of their timestamps.
    :param headers: the column of the headers, an array of structs of a string ``key`` and a binary ``value``.
    :param encoded: whether keys and values are bytes as in Kafka.
    :param time_zone: the zone of timestamps without one (``timestamp_ntz``), such as ``"Europe/Berlin"``.
    :param time_unit: the unit of timestamps that are integers: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``. Without it they
        are ms, and one that seems to be in another unit is an error.
    :param partitions: the number of partitions that the topic has in Kafka.
    :param check_keys: whether to compare the partition of each record with the one in which Kafka's default partitioner
        for Java puts its key; a record that is in another one is an error.
    :param name: what its user calls this batch of records. Of histories that have neither offsets nor files, only the
        name tells a batch that was processed already from one that comes next.
    """

    df: Any
    key: str | None = "key"
    value: str | None = "value"
    timestamp: str = "timestamp"
    partition: str | None = "partition"
    offset: str | None = "offset"
    headers: str | None = None
    encoded: bool = True
    time_zone: str | None = None
    partitions: int | None = None
    check_keys: bool = False
    time_unit: str | None = None
    name: str | None = None
    _pinning: Pinning | None = field(default=None, repr=False, kw_only=True)
    """Makes the history of Kafka with other ends; ``None`` where ends were given, or there are no such."""
    _only: frozenset[str] | None = field(default=None, repr=False, kw_only=True)
    """The files that are read; ``None`` for all that the DataFrame has."""
    _is_plain: bool = field(default=False, repr=False, kw_only=True)
    """Whether its columns are those of Parquet files, as they are."""
    _table: tuple[str, str] | None = field(default=None, repr=False, kw_only=True)
    """The name and the version of the table in a lake."""
    _kafka: KafkaRows | None = field(default=None, repr=False, kw_only=True)
    """The ranges of a topic that it is; ``None`` for another history."""

    @staticmethod
    def parquet(spark: SparkSession | None, path: str | list[str], **columns: Any) -> History:
        """Returns the history in Parquet files.

        :param spark: the session; ``None`` for a backfill without Spark.
        :param path: a file or directory, or several files.
        :param columns: further arguments of :class:`History`.
        :raises HistoryFileError: if they cannot be read.
        """
        paths = [path] if isinstance(path, str) else list(path)
        if spark is None:
            import pyarrow.dataset as ds

            given = paths[0] if len(paths) == 1 else paths
            try:
                return History(ds.dataset(given, format="parquet", partitioning="hive"), **columns, _is_plain=True)
            except pa.ArrowInvalid as error:  # the first file, which has the schema, is damaged
                raise unreadable(", ".join(paths), error) from error
        from pyspark.errors import PySparkException

        try:
            return History(spark.read.parquet(*paths), **columns, _is_plain=True)
        except PySparkException as error:
            raise unreadable(", ".join(paths), error) from error

    @staticmethod
    def delta(
        spark: SparkSession | None, path: str | os.PathLike[str], *, version: int | None = None, **columns: Any
    ) -> History:
        """Returns the history in a Delta table, as it was at a version.

        The version is part of the position of a result: the same one again is not processed again. What another one
        has more is known where records have offsets. Needs the extra ``delta``.

        :param spark: the session, to which the rows are handed; ``None`` for a backfill without Spark.
        :param path: the directory of the table.
        :param version: the latest by default.
        :param columns: further arguments of :class:`History`.
        :raises SparkBridgeError: if there is no such table or version, or the library is not installed.
        """
        return _of_table(spark, delta_table(path, version), columns)

    @staticmethod
    def iceberg(spark: SparkSession | None, table: Any, *, snapshot: int | None = None, **columns: Any) -> History:
        """Returns the history in an Iceberg table, as it was at a snapshot; the rest is as in :meth:`delta`. Needs the
        extra ``iceberg``.

        :param table: a table of pyiceberg, or its name with that of its catalog first, as ``"lake.shop.orders"``.
        :param snapshot: its id; the current one by default.
        :param columns: further arguments of :class:`History`.
        :raises SparkBridgeError: if there is no such table or snapshot, or the library is not installed.
        """
        return _of_table(spark, iceberg_table(table, snapshot), columns)

    @staticmethod
    def kafka(
        spark: SparkSession | None,
        config: ClusterConfig,
        topic: str,
        *,
        offsets: OffsetRanges | None = None,
        start: Place = "earliest",
        end: Place = "latest",
    ) -> History:
        """Returns the records that Kafka retains of a topic, or a part of them.

        The offsets are pinned here: with ``start`` and ``end`` as times, records of a time range are processed again.
        With neither of them, a backfill pins them to where its ``initial_state`` stands, and to its cut.

        :param spark: the session; ``None`` for a backfill without Spark.
        :param offsets: pinned before (:func:`streams.spark.pin_offsets`), instead of ``start`` and ``end``.
        :param start: ``"earliest"``, an offset, or a time with a zone.
        :param end: ``"latest"``, an offset, or a time with a zone.
        :raises OffsetRangeLost: if pinned records are no longer in the topic.
        :raises UnknownPartitionCount: if the topic does not exist.
        """
        if offsets is not None and (start != "earliest" or end != "latest"):
            raise SparkBridgeError("give offsets, or start and end, not both", topic=topic)
        count = len(pin_offsets(config, topic).ranges)

        def pin(
            given: OffsetRanges | None, begins: Mapping[int, int] | None, ends: Mapping[int, int] | None
        ) -> History:
            if given is None:
                low = start if begins is None else dict(begins)
                given = pin_offsets(config, topic, start=low, end=end if ends is None else dict(ends))
            ranges, rows = _topic_rows(spark, config, topic, given)
            return History(rows, headers="headers", partitions=count, time_unit="ms", _kafka=ranges)

        is_open = offsets is None and start == "earliest" and end == "latest"
        return replace(pin(offsets, None, None), _pinning=pin if is_open else None)

    def without_files(self, known: Collection[str]) -> History:
        """Returns the history without some of its files.

        :param known: hashes of them, as a :class:`streams.spark.position.Batch` has them.
        """
        files = self.source().get("files", {})
        left = frozenset(name for name in files if file_hash(name, files[name]) not in known)
        if len(left) == len(files):
            return self
        if is_arrow(self.df):
            return replace(self, df=with_files(self.df, left))
        from pyspark.sql import functions

        df = self.df.where(functions.col("_metadata.file_path").isin(*sorted(left)))
        return replace(self, df=df, _only=left)

    @property
    def is_open(self) -> bool:
        """Whether it is a history of Kafka whose ends a backfill may choose."""
        return self._pinning is not None

    def pinned_to(
        self,
        offsets: OffsetRanges | None = None,
        *,
        start: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> History:
        """Returns an open history with other offsets: those given, or new ones from a start to an end, by partition."""
        assert self._pinning is not None
        found = self._pinning(offsets, start, end)
        return replace(self, df=found.df, _kafka=found.kafka_rows)

    @property
    def kafka_rows(self) -> KafkaRows | None:
        """The ranges of a topic that are its rows; ``None`` if there are none, or its DataFrame is another one now."""
        return self._kafka if self._kafka is not None and self._kafka.offsets == self.pinned() else None

    def reads_all_of_files(self) -> bool:
        """Returns whether its DataFrame of Spark has all rows of the Parquet files below one path, each row once."""
        shown = _explained(self.df)
        return _SCAN.fullmatch(_analyzed(shown)) is not None and _ONE_PATH in shown

    def unread(self, topic: str) -> str | None:
        """Returns a note about headers that the DataFrame has and that are not read; ``None`` if there are none."""
        if self.headers is None and self.types().get("headers") == HEADERS:
            return (
                f"the history of topic {topic!r} has a column 'headers' that is not read, its records have no headers:"
                " say History(headers='headers') if the topology or its stores need them"
            )
        return None

    def types(self) -> dict[str, str]:
        """Returns the types of the columns, by Spark's names."""
        return types_of(self.df) if is_arrow(self.df) else dict(self.df.dtypes)

    def check(self, topic: str) -> None:
        """Checks that the columns are there and have types that can be read.

        :raises HistorySchemaError: if one is missing or has another type.
        :raises NaiveTimestampError: if timestamps have no zone.
        :raises HistoryFileError: if a file of it is damaged, incomplete, or has other columns.
        :raises SparkBridgeError: if there is no such unit of times.
        """
        check_time_unit(self.time_unit)
        types = self.types()
        for name, column in self._columns().items():
            if column not in types:
                raise HistorySchemaError(
                    f"the history of topic {topic!r} has no column {column!r} for its {name}; it has"
                    f" {', '.join(sorted(types)) or 'none'}. Say History({name}=...) with the name of the column, or"
                    f" None if there is none",
                    topic=topic,
                )
            self._check_type(topic, name, column, types[column])
        if self._is_plain:
            read = {column: types[column] for column in self._columns().values()}
            names = self.source()["files"] if is_arrow(self.df) else self._spark_files()
            check_files(self.df, names, read)

    def _columns(self) -> dict[str, str]:
        named = {name: getattr(self, name) for name in ("key", "value", "timestamp", "partition", "offset", "headers")}
        return {name: column for name, column in named.items() if column is not None}

    def _check_type(self, topic: str, name: str, column: str, kind: str) -> None:
        where = f"column {column!r} of the history of topic {topic!r}"
        if name == "timestamp":
            if kind == "timestamp_ntz" and self.time_zone is None:
                raise NaiveTimestampError(
                    f"{where} has timestamps without a time zone: say History(time_zone='Europe/Berlin') with the zone"
                    " they are in, or 'UTC'",
                    topic=topic,
                )
            wanted: tuple[str, ...] = ("timestamp", "timestamp_ntz", *INTEGERS)
        elif name in ("partition", "offset"):
            wanted = INTEGERS
        elif name == "headers":
            wanted = (HEADERS,)
        else:
            wanted = (BINARY,) if self.encoded else ()
        if wanted and kind not in wanted:
            hint = "; say History(encoded=False) if the topology's serde shall write it" if wanted == (BINARY,) else ""
            raise HistorySchemaError(f"{where} is {kind}, it must be {' or '.join(wanted)}{hint}", topic=topic)

    def time_column(self) -> Column:
        """Returns the timestamps in ms since 1970."""
        from pyspark.sql import functions

        kind, column = dict(self.df.dtypes)[self.timestamp], functions.col(_quoted(self.timestamp))
        if kind in INTEGERS:
            return as_ms(column, self.time_unit)
        if kind == "timestamp_ntz":
            assert self.time_zone is not None
            column = functions.convert_timezone(functions.lit(self.time_zone), functions.lit("UTC"), column)
            micros = functions.timestamp_diff(
                "MICROSECOND", functions.lit("1970-01-01 00:00:00").cast("timestamp_ntz"), column
            )
            return functions.floor(micros / functions.lit(1000)).cast("long")
        return functions.unix_millis(column)

    @property
    def guesses_unit(self) -> bool:
        """Whether timestamps are integers whose unit is not said."""
        return self.time_unit is None and self.types()[self.timestamp] in INTEGERS

    def column(self, name: str, otherwise: str) -> Column:
        """Returns the column of a part of the records, or nulls of a type where the history does not have it."""
        from pyspark.sql import functions

        column = getattr(self, name)
        return functions.lit(None).cast(otherwise) if column is None else functions.col(_quoted(column))

    def description(self) -> dict[str, Any]:
        """Returns data that two histories have in common if they are the same, as far as that can be known without
        reading them: columns, types, and the source (:meth:`source`)."""
        left_out = ("df", "_pinning", "_only", "_is_plain", "_table", "_kafka", "name")
        options = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}
        return {**options, "types": self.types(), "source": self.source()}

    def source(self) -> dict[str, Any]:
        """Returns what the records are read from: the offsets that were pinned; or the files, each with its size in
        bytes and its time in ms; and a hash of the plan that Spark makes."""
        offsets = self.pinned()
        if offsets is not None:
            return {"kind": "kafka", "name": self.name, "offsets": json.loads(offsets.to_json())}
        if self._table is not None:
            table, version = self._table
            return {"kind": "table", "table": table, "snapshot": version, "name": self.name}
        if is_arrow(self.df):
            return {**source_of(self.df), "name": self.name}
        files = _states_of(self.df, self._spark_files())
        found: dict[str, Any] = {"kind": "files", "files": files} if files else {"kind": "frame"}
        return {**found, "name": self.name, "plan": _plan_of(self.df)}

    def _spark_files(self) -> list[str]:
        return sorted(self.df.inputFiles() if self._only is None else self._only)

    def pinned(self) -> OffsetRanges | None:
        """Returns the offsets that a history of Kafka reads; ``None`` for another history."""
        if is_arrow(self.df):
            return self.df.offsets if isinstance(self.df, KafkaRows) else None
        from streams.spark.tables.read import offsets_of

        try:
            return offsets_of(self.df)
        except SparkBridgeError:
            return None


def _of_table(spark: SparkSession | None, found: TableAtVersion, columns: Mapping[str, Any]) -> History:
    rows = found.rows
    if spark is not None:
        rows = spark.createDataFrame(rows if isinstance(rows, pa.Table) else rows.to_table())
    return History(rows, **columns, _table=(found.name, found.version))


def _topic_rows(
    spark: SparkSession | None, config: ClusterConfig, topic: str, offsets: OffsetRanges
) -> tuple[KafkaRows, Any]:
    """Returns the records of some ranges of a topic: as sources of Arrow, and with a session also as a DataFrame."""
    settings, offsets = cluster_settings(config), offsets.of(topic)
    plan = plan_of(settings, topic, offsets, None, None, headers=True, times="ms", max_rows_per_task=None)
    ranges = KafkaRows(plan, offsets)
    if spark is None:
        check_ranges(config, offsets)
        return ranges, ranges
    from streams.spark.tables.read import read_topic

    return ranges, read_topic(spark, config, topic, offsets=offsets, headers=True, times="ms")


def _states_of(df: DataFrame, names: Iterable[str]) -> dict[str, list[Any]]:
    """Returns the size of each file in bytes, and the time of its last change in ms; those of a file system that only
    Spark reaches are asked for by a job."""
    found, others = {}, []
    for name in names:
        parts = urlsplit(name)
        if parts.scheme in ("", "file"):
            stat = os.stat(unquote(parts.path))
            found[name] = [stat.st_size, stat.st_mtime_ns // 1_000_000]
        else:
            others.append(name)
    if others:
        listed = df.sparkSession.read.format("binaryFile").load(others).select("path", "length", "modificationTime")
        for row in listed.collect():
            found[row["path"]] = [row["length"], int(row["modificationTime"].timestamp() * 1000)]
    return found


_NUMBERS = re.compile(r"#\d+L?|@[0-9a-f]+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b")
"""The numbers that Spark gives to columns, scans and functions, each time others."""


_SCAN = re.compile(r"\s*[^\n]*\nRelation \[[^\n]*\] parquet\s*")
"""The analyzed plan of a DataFrame that has all rows of Parquet files; its first line has the columns."""
_ONE_PATH = "InMemoryFileIndex(1 paths)"
"""A part of the physical plan. Of several paths, one may be below another: Spark reads the files below both twice."""


def _explained(df: DataFrame) -> str:
    """Returns the plans of a DataFrame, as Spark shows them."""
    with redirect_stdout(io.StringIO()) as shown:
        df.explain(extended=True)
    return shown.getvalue()


def _analyzed(plans: str) -> str:
    return plans.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]


def _plan_of(df: DataFrame) -> str:
    """Returns a hash of the plan of a DataFrame."""
    return blake2b(_NUMBERS.sub("", _analyzed(_explained(df))).encode(), digest_size=8).hexdigest()


def _quoted(column: str) -> str:
    """Returns a column's name in a form that may have dots in it."""
    return "`" + column.replace("`", "``") + "`"


def order_by_time(history: History, order: str) -> bool:
    """Whether the rows of a history are processed in the order of their timestamps.

    :param order: ``"offset"``, ``"time"``, or ``"auto"``: by offset where the history has offsets.
    """
    return order == "time" or (order != "offset" and history.offset is None)
