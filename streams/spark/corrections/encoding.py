"""Rows of a difference, or rows as a topic has them, as records of a sink: the sink's own code makes their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from processor_api.clock import SystemClock
from processor_api.errors import DeserializationError, SerializationError, StreamsError
from processor_api.handlers import ProducerRecord
from processor_api.record import DropReason, HeaderList, Headers
from processor_api.serde import CurrentHeaders
from processor_api.stores.windowed import Window, Windowed
from processor_api.texts import kind_and_text, repr_of
from processor_api.topology.nodes import SinkNode
from state.engine.port import Engine
from state.formats.keys import ends_of
from state.write_buffer.changelog_form import ChangelogForm
from streams.config import StreamsConfig
from streams.kafka.ports import NotDelivered
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.runner.captured import CapturingProducer
from streams.runtime.runner.changelog_capture import ChangelogCapture
from streams.spark.corrections.sinks import with_serdes
from streams.spark.errors import NaiveTimestampError, SparkBridgeError, TimestampRangeError
from streams.spark.executor.murmur2 import partitions_of_keys
from streams.spark.executor.rows import output_rows
from streams.spark.executor.task_errors import error_of, passed_to_driver
from streams.spark.handover.finished_run import RunRow
from streams.spark.rows.columns import BINARY, Column, column_of
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.state_files import SPARK_COLUMNS
from streams.spark.rows.table_layout import TableLayout
from streams.spark.rows.values import pairs_of, python_values, writer_of, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOW_MS = -1
"""The timestamp of a record whose row has none: it becomes the time at which publishing began."""
SIDES = ("difference", "backfill", "live")


@dataclass(frozen=True)
class CorrectionEncoder:
    """Makes records of a sink from rows; it is sent to the executors."""

    sink: SinkNode
    """The sink; its serdes are bound to the topic."""
    topic: str
    partitions: int
    key: Column
    """The way to read the column ``key``: as the store has keys, or the topic. So is ``value`` for values."""
    value: Column
    window_end: Callable[[int], int] | None = None
    """The end of the window with a start, of a table of windows that have no column of it."""

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the records of rows, with the columns of the files of a run.

        :raises SerializationError: if a row cannot be written by the serdes of the sink.
        :raises DeserializationError: if a column of bytes cannot be read by those of the table.
        """
        producer = CapturingProducer(ChangelogCapture((), (), _no_engine), {self.topic: self.partitions})
        assert self.sink.key_serde is not None
        assert self.sink.value_serde is not None
        collector = RecordCollector(producer, SystemClock())
        send = collector.sink(
            self.sink, self.topic, self.sink.key_serde, self.sink.value_serde, _Refusing(self.sink.name, self.topic)
        )
        done = 0
        for batch in batches:
            nothing: list[Any] = [None] * len(batch)
            named = dict(zip(batch.schema.names, batch.columns, strict=True))
            headers = pairs_of(named["headers"]) if "headers" in named else [Headers() for _ in nothing]
            times = named["timestamp"].to_pylist() if "timestamp" in named else nothing
            keys, values = (self._values(one, named[one.name], headers) for one in (self.key, self.value))
            if "window_start" in named:
                keys = self._windowed(keys, named)
            for key, value, time, own in zip(keys, values, times, headers, strict=True):
                self._check(key, time)
                send(key, value, NOW_MS if time is None else time, own or None)
            found = producer.outputs[:]
            producer.outputs.clear()
            if found:
                yield output_rows(found, self._places(found), done, [0] * len(found))
                done += len(found)

    def _check(self, key: Any, time: int | None) -> None:
        if key is None:
            raise SerializationError("a row has no key, so it corrects nothing: leave it out", topic=self.topic)
        if time is not None and time < 0:
            raise TimestampRangeError(
                f"the row with the key {repr_of(key, 200)} has the time {time} ms, which is before 1970: give it"
                " another time",
                topic=self.topic,
            )

    def _values(self, part: Column, column: pa.Array, headers: Sequence[Headers]) -> list[Any]:
        """Returns the objects of a column: of bytes, or of what they were shown as."""
        serde, current = part.reader, CurrentHeaders()
        read, write = current.handed_to(serde).deserialize, writer_of(part.name, serde, current)
        is_raw = pa.types.is_binary(column.type) and part.kind != BINARY
        found: list[Any] = []
        given: list[Any] = column.to_pylist() if is_raw else python_values(column)
        for one, own in zip(given, headers, strict=True):
            current.now = Headers(own)
            data = one if is_raw else written(write, [one], part.name, serde, self.topic)[0]
            try:
                found.append(None if data is None else read(data))
            except Exception as error:
                raise DeserializationError(
                    f"the {part.name} {repr_of(one, 200)} cannot be read by the serde {serde.name!r}:"
                    f" {kind_and_text(error)}",
                    topic=self.topic,
                ) from error
        return found

    def _windowed(self, keys: Sequence[Any], named: Mapping[str, pa.Array]) -> list[Windowed[Any]]:
        starts, ends = named["window_start"].to_pylist(), named["window_end"].to_pylist()
        if self.window_end is not None:  # The column is null where a window has no end.
            ends = list(map(self.window_end, starts))
        return [Windowed(key, Window(start, end)) for key, start, end in zip(keys, starts, ends, strict=True)]

    def _places(self, found: Sequence[Any]) -> pa.Array:
        """Returns the partition of each record: that which a partitioner chose, or else by the key."""
        given = np.array([one[5] for one in found], np.int32)
        by_key = partitions_of_keys(pa.array([one[1] for one in found], pa.binary()), self.partitions)
        return pa.array(np.where(given < 0, by_key, given).astype(np.int32))


def _no_engine(name: str, families: list[str]) -> Engine:
    raise AssertionError(f"no changelog is captured, and {name} with {families} was asked for")


class _Refusing:
    """Refuses whatever a sink cannot write. Implements `streams.kafka.producing.record_collector.SinkErrors`."""

    task = None
    wants_refused = False

    def __init__(self, node: str, topic: str) -> None:
        self._node, self._topic = node, topic

    def fail(self, error: Exception, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> NoReturn:
        """Raises an error of the partitioner."""
        raise SparkBridgeError(
            f"the partitioner of sink {self._node!r} failed for the key {repr_of(key, 200)}: {kind_and_text(error)}",
            topic=self._topic,
        ) from error

    def unserializable(self, error: Exception, part: str, record: ProducerRecord) -> NoReturn:
        """Raises the error of a key or value that the serde of the sink does not write."""
        given = record.key if part == "key" else record.value
        raise SerializationError(
            f"the {part} {repr_of(given, 200)} cannot be written by the serdes of sink {self._node!r}:"
            f" {kind_and_text(error)}",
            topic=self._topic,
        ) from error

    def undelivered(self, failure: StreamsError, record: ProducerRecord) -> tuple[StreamsError | None, tuple[()]]:
        """Returns the error: nothing is sent here."""
        return failure, ()

    def unwritable(self, failure: NotDelivered, record: ProducerRecord) -> NoReturn:
        """Raises the error: the topic was found before."""
        raise failure

    def drop(self, reason: DropReason) -> NoReturn:
        """Raises an error: no correction may be lost."""
        raise SparkBridgeError(
            f"a row is not a record of sink {self._node!r}: {reason.text}. Leave such rows out", topic=self._topic
        )


# ---------------------------------------------------------------------- rows of Spark or Arrow


def is_difference(rows: DataFrame | pa.Table) -> bool:
    """Whether rows are those of a difference, not keys and values of a topic."""
    return set(SIDES) <= set(rows.column_names if isinstance(rows, pa.Table) else rows.columns)


def rows_of_difference(df: DataFrame, layout: TableLayout) -> DataFrame:
    """Returns the rows of a difference as keys, windows, the corrected values, and times in ms.

    A key that only the live table has gets a null value, and the time of its live row.

    :raises SparkBridgeError: if a column is missing, or the rows have several versions of a key.
    """
    from pyspark.sql.functions import coalesce, col, unix_millis

    versions = layout.form is ChangelogForm.VERSIONS
    if layout.form is ChangelogForm.LISTS or layout.duplicates or (versions and "valid_from" in df.columns):
        what = "all versions of its keys" if versions else "several values for a key"
        raise SparkBridgeError(
            f"the rows of store {layout.store!r} have {what}, and a record has one value:"
            f" {'compare the latest versions' if versions else 'give rows with the columns key and value'}",
            store=layout.store,
        )
    windows = [name for name in layout.time_columns if not versions]
    missing = [name for name in ("key", *windows) if name not in df.columns]
    if missing:
        raise SparkBridgeError(
            f"the rows have no column {missing[0]!r}, only: {', '.join(df.columns)}. Give those of diff"
            f" of store {layout.store!r}, all columns of them",
            store=layout.store,
        )
    time = "valid_from" if versions else "timestamp"
    stamp = unix_millis(coalesce(col(f"backfill.{time}"), col(f"live.{time}"))).alias("timestamp")
    bounds = [unix_millis(col(name)).alias(name) for name in windows]
    return df.select(col("key"), *bounds, col("backfill.value").alias("value"), stamp)


def rows_of_topic(rows: DataFrame | pa.Table, topic: str) -> DataFrame | pa.Table:
    """Returns rows of keys and values of a topic, with times in ms, and headers if they have some.

    :raises SparkBridgeError: if a column is missing or has another type.
    """
    if not isinstance(rows, pa.Table):
        from streams.spark.tables.write import rows_to_write

        return rows_to_write(rows.drop("partition"), topic, None)
    for name in ("key", "value"):
        if name not in rows.column_names:
            raise SparkBridgeError(
                f"the rows have no column {name!r}, only: {', '.join(rows.column_names)}", topic=topic
            )
    found = rows.select([name for name in ("key", "value", "timestamp", "headers") if name in rows.column_names])
    if "timestamp" not in found.column_names:
        return found
    kind = found.schema.field("timestamp").type
    if pa.types.is_timestamp(kind) and kind.tz is None:
        raise NaiveTimestampError("the column timestamp has no time zone: give it one", topic=topic)
    if not pa.types.is_timestamp(kind) and not pa.types.is_integer(kind):
        raise SparkBridgeError(f"the column timestamp must be a time or whole ms, got {kind}", topic=topic)
    times = found.column("timestamp")
    if pa.types.is_timestamp(kind):
        times = times.cast(pa.timestamp("ms", "UTC"), safe=False)
    place = found.schema.get_field_index("timestamp")
    return found.set_column(place, "timestamp", times.cast(pa.int64()))


def encoder_of(
    sink: SinkNode, settings: StreamsConfig, partitions: int, layout: TableLayout | None
) -> CorrectionEncoder:
    """Returns what makes the records of a sink.

    :param settings: the configuration, which has the default serdes.
    :param partitions: of the sink's topic.
    :param layout: that of the table whose rows are given; ``None`` if they are rows as the topic has them.
    """
    topic, sink = sink.topic or "", with_serdes(sink, settings)
    if layout is None:
        key, value = column_of("key", sink.key_serde), column_of("value", sink.value_serde)
        return CorrectionEncoder(sink, topic, partitions, key, value)
    end = ends_of(layout.parameters) if layout.form is ChangelogForm.WINDOWS else None
    return CorrectionEncoder(sink, topic, partitions, layout.key, layout.value, end)


def encoded(rows: DataFrame | pa.Table, encoder: CorrectionEncoder) -> Iterator[RunRow]:
    """Yields the records of rows, one part of Spark's rows in memory at a time.

    :raises StreamsError: if a row cannot be written, as the task raised it.
    """
    if isinstance(rows, pa.Table):
        for batch in encoder.records(rows.to_batches()):
            yield from map(_record, batch.to_pylist())
        return
    text = packed(encoder)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with passed_to_driver():
            yield from unpacked(text).records(batches)

    try:
        for row in rows.mapInArrow(run, SPARK_COLUMNS).toLocalIterator():
            yield _record(row)
    except StreamsError:
        raise
    except Exception as error:
        raise error_of(error, f"writing the corrections of topic {encoder.topic!r}") from error


def _record(row: Any) -> RunRow:
    headers = [(one["key"], _bytes(one["value"])) for one in row["headers"] or ()]
    return RunRow(row["partition"], _bytes(row["key"]), _bytes(row["value"]), row["ts"], headers or None)


def _bytes(data: bytes | bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)
