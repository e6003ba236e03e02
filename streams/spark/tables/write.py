"""Writes a DataFrame to a topic of Kafka, as the application itself would write its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.errors import AuthorizationError, RetryableError, StreamsError
from processor_api.record import Headers
from processor_api.serde import Serde, Serdes
from processor_api.texts import repr_of
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.user_code.given_serdes import SerdeLike, optional_serde
from streams.config import clients
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.producing.batch_limits import limited
from streams.kafka.producing.deliveries import not_delivered
from streams.spark import errors
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.values import python_values, writer_of, written, written_with_headers
from streams.spark.session import check_version, check_workers
from streams.spark.sources.offsets import ClusterConfig, cluster_settings
from streams.spark.time_units import another_unit_row, as_ms, check_time_unit, refuse_other_unit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

QUEUE_FULL_WAIT_S = 0.1
DELIVERY_S = 300.0
"""Time that the last records of a task may take to be delivered."""
INTEGERS = ("bigint", "int")
ORDER_OF_OUTPUTS = ("partition", "upstream", "seq")
"""The columns by which the records of :meth:`BackfillResult.output` are in order."""
ANY = -1
"""The partition that murmur2 of the key chooses, as Kafka's Java clients do."""


@dataclass(frozen=True)
class WriteReport:
    """The records that :func:`write_topic` has written, each acknowledged by the broker."""

    topic: str
    records: int
    """How many, without those that failed tasks have written besides."""
    tasks: int


@dataclass(frozen=True)
class WritePlan:
    """Everything that a task needs to write its rows; sent to the executors."""

    producer: Mapping[str, Any]
    """The settings of the producer of each task."""
    topic: str
    partitions: int
    key: Serde[Any]
    value: Serde[Any]
    partitioner: StreamPartitioner | None
    guessed_unit: bool = False
    """Whether times are integers whose unit is not said."""


def write_topic(
    df: DataFrame,
    config: ClusterConfig,
    topic: str,
    *,
    key: SerdeLike[Any] | None = None,
    value: SerdeLike[Any] | None = None,
    partitioner: StreamPartitioner | None = None,
    time_unit: str | None = None,
) -> WriteReport:
    """Writes the rows of a DataFrame as records of a topic, and returns once every one is acknowledged.

    It takes the columns ``key`` and ``value``, and if they are there ``timestamp`` (a time with a zone, or an integer;
    null is now), ``headers`` as `read_topic` gives them, and ``partition`` (null leaves the choice to the key). Other
    columns are ignored. Null keys and values stay null. A record without a partition goes where ``partitioner`` says,
    else where Kafka's Java clients put its key.

    Each task writes by an idempotent producer of its own, in the order of its rows: what the client sends again on its
    own account is there once. **A task that fails is tried again by Spark, and writes all its rows again**: what it had
    written before stays. So each record is there at least once, and a record of a failed task perhaps once more for
    each try; the tries have the same bytes if the DataFrame is deterministic. Rows of one key that are in several tasks
    have no order: sort within ``df.repartition("key")`` if it matters. Rows of :meth:`BackfillResult.output`, which
    have the columns ``partition``, ``upstream`` and ``seq``, are written in the order of these columns.

    :param key: writes the column ``key``, a serde, its name, or a model; by default text and bytes are written as they
        are.
    :param value: the same for ``value``. Serdes of objects write structs and maps as objects, and text that is JSON.
    :param time_unit: the unit of integer times: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``. Without it they are ms, and
        one that seems to be in another unit is refused.
    :raises UnknownPartitionCount: if the topic does not exist.
    :raises NaiveTimestampError: if ``timestamp`` has no time zone.
    :raises TimestampRangeError: in the task, if a time is before 1970 or seems to be in another unit. No record of its
        batch of rows is sent.
    :raises SparkBridgeError: if a column is missing or has another type, or Spark would run tasks twice on purpose.
    :raises SerializationError: in the task, if a serde cannot write a key or a value.
    """
    spark = df.sparkSession
    check_version(spark)
    check_workers(spark)
    check_time_unit(time_unit)
    if spark.conf.get("spark.speculation", "false") == "true":
        raise errors.SparkBridgeError(
            "spark.speculation runs slow tasks twice, which writes their records twice: turn it off"
        )
    settings = cluster_settings(config)
    admin = ConfluentClients().admin(clients.admin(settings, "streams-spark"))
    found = admin.topics([topic]).get(topic)
    if found is None:
        raise errors.UnknownPartitionCount(
            f"topic {topic!r} does not exist: create it before writing to it", topic=topic
        )
    rows = rows_to_write(df, topic, time_unit)
    plan = WritePlan(
        limited(clients.producer(settings, "streams-spark"), admin, [topic]),
        topic,
        found.partitions,
        _serde_of(df, "key", key, topic),
        _serde_of(df, "value", value, topic),
        partitioner,
        time_unit is None and dict(df.dtypes).get("timestamp") in INTEGERS,
    )
    text = packed(plan)
    written = rows.mapInArrow(lambda batches: _write_task(text, batches), "records long").collect()
    return WriteReport(topic, sum(row["records"] for row in written), len(written))


def rows_to_write(df: DataFrame, topic: str, time_unit: str | None) -> DataFrame:
    """Returns the columns that are written, each with the one type that tasks take."""
    from pyspark.sql.functions import col, unix_millis

    types = dict(df.dtypes)
    if types.keys() >= set(ORDER_OF_OUTPUTS):
        # The rows of one partition are in several files, which Spark would read at the same time.
        df = df.repartition("partition").sortWithinPartitions(*ORDER_OF_OUTPUTS)
    for name in ("key", "value"):
        if name not in types:
            raise errors.SparkBridgeError(
                f"there is no column {name!r} to write, only: {', '.join(types)}; select what it is to be, or"
                f" lit(None).cast('binary').alias({name!r})",
                topic=topic,
            )
    columns = [col("key"), col("value")]
    if "timestamp" in types:
        if types["timestamp"] == "timestamp_ntz":
            raise errors.NaiveTimestampError(
                "the column timestamp has no time zone: cast it to timestamp in the session's zone, or make it by"
                " to_utc_timestamp",
                topic=topic,
            )
        if types["timestamp"] not in ("timestamp", *INTEGERS):
            raise errors.SparkBridgeError(
                f"the column timestamp is a time or ms, not {types['timestamp']}", topic=topic
            )
        time = col("timestamp")
        ms = unix_millis(time) if types["timestamp"] == "timestamp" else as_ms(time, time_unit)
        columns.append(ms.alias("timestamp"))
    if "headers" in types:
        if types["headers"] != "array<struct<key:string,value:binary>>":
            raise errors.SparkBridgeError(
                f"the column headers is array<struct<key:string,value:binary>>, not {types['headers']}", topic=topic
            )
        columns.append(col("headers"))
    if "partition" in types:
        columns.append(col("partition").cast("int"))
    return df.select(*columns)


def _serde_of(df: DataFrame, name: str, serde: SerdeLike[Any] | None, topic: str) -> Serde[Any]:
    kind, given = dict(df.dtypes)[name], optional_serde(serde, name, "write_topic", topic=topic)
    if given is None:
        if kind not in ("binary", "string", "void"):
            raise errors.SparkBridgeError(
                f"the column {name} is {kind}: give the serde that writes it, {name}=...", topic=topic
            )
        given = Serdes.STRING if kind == "string" else Serdes.BYTES
    return given.bind(topic, is_key=name == "key")


def _write_task(text: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on the executors: writes the rows of one task."""
    import pyarrow as pa

    plan: WritePlan = unpacked(text)
    with closing(_PartitionSender(plan, ConfluentClients().producer(plan.producer))) as sender:
        for batch in batches:
            sender.send(batch)
        sender.finish()
        yield pa.RecordBatch.from_pydict({"records": [sender.count]}, pa.schema([("records", pa.int64())]))


def _described(batch: pa.RecordBatch, row: int) -> str:
    """Returns a row of a batch as an error names it."""
    return f"the record with the key {repr_of(batch.column('key')[row].as_py(), 200)}"


class _PartitionSender:
    """Sends the rows of one task."""

    def __init__(self, plan: WritePlan, producer: Any) -> None:
        self.count = 0
        self._plan = plan
        self._producer = producer
        self._failure: StreamsError | None = None
        self._write_key, self._write_value = writer_of("key", plan.key), writer_of("value", plan.value)
        producer.prepare([plan.topic])

    def send(self, batch: pa.RecordBatch) -> None:
        """Sends the rows of a batch.

        :raises SerializationError: if a serde cannot write one.
        :raises PartitionMismatchError: if the topic has no such partition.
        """
        names, count = batch.schema.names, len(batch)
        nothing: list[Any] = [None] * count

        def column(name: str) -> list[Any]:
            return batch.column(name).to_pylist() if name in names else nothing

        if "timestamp" in names:
            self._check_times(batch)
        keys, values = python_values(batch.column("key")), python_values(batch.column("value"))
        headers: Any = [[(one["key"], one["value"]) for one in given] if given else None for given in column("headers")]
        plan = self._plan
        if plan.key.takes_headers or plan.value.takes_headers:
            headers = [Headers(one or ()) for one in headers]
            raw_keys = written_with_headers("key", plan.key, keys, headers, "key", plan.topic)
            raw_values = written_with_headers("value", plan.value, values, headers, "value", plan.topic)
        else:
            raw_keys = written(self._write_key, keys, "key", plan.key, plan.topic)
            raw_values = written(self._write_value, values, "value", plan.value, plan.topic)
        zero = self._producer.zero_timestamp_ms
        for number, (time, partition) in enumerate(zip(column("timestamp"), column("partition"), strict=True)):
            stamp = 0 if time is None else zero if time == 0 else time  # 0 is "now" for the client
            for place in self._places(partition, keys[number], values[number], headers[number]):
                self._produce(raw_values[number], raw_keys[number], place, stamp, headers[number])
        self._producer.poll(0.0)
        self._check()

    def _check_times(self, batch: pa.RecordBatch) -> None:
        """Refuses times that no reader takes, before a record of the batch is sent.

        :raises TimestampRangeError: with the key of the row.
        """
        import pyarrow.compute as pc

        times = batch.column("timestamp")
        if (pc.min(times).as_py() or 0) < 0:
            row = pc.index(pc.less(times, 0), True).as_py()
            raise errors.TimestampRangeError(
                f"{_described(batch, row)} has the time {times[row].as_py()} ms, which is before 1970: it would end"
                " every application that reads the topic. Leave such rows out, or give them another time (null is now)",
                topic=self._plan.topic,
            )
        if self._plan.guessed_unit and (row := another_unit_row(times)) is not None:
            refuse_other_unit(times[row].as_py(), f"{_described(batch, row)} has the time", topic=self._plan.topic)

    def _places(self, given: int | None, key: Any, value: Any, headers: Any) -> Iterable[int]:
        count = self._plan.partitions
        if given is None:
            if self._plan.partitioner is None:
                return (ANY,)
            chosen = self._plan.partitioner(self._plan.topic, key, value, headers, count)
            if chosen is None:
                return (ANY,)
        else:
            chosen = (given,)
        for place in chosen:
            if not 0 <= place < count:
                raise errors.PartitionMismatchError(
                    f"topic {self._plan.topic!r} has {count} partitions, so none with the number {place}",
                    topic=self._plan.topic,
                    key=key,
                )
        return chosen

    def _produce(self, value: Any, key: Any, partition: int, time: int, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(self._plan.topic, value, key, partition, self._delivered, None, time, headers)
                self.count += 1
                return
            except BufferError:
                self._producer.poll(QUEUE_FULL_WAIT_S)
                self._check()
            except StreamsError:
                raise
            except Exception as error:
                self._producer.refused(error, self._plan.topic)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = not_delivered(error, self._plan.topic, message.partition())

    def _check(self) -> None:
        if self._failure is not None:
            failure = self._failure
            text = failure.message.replace("; no offset after it was committed", "")
            kind = AuthorizationError if "allow " in text else errors.SparkBridgeError
            raise kind(f"{text}; what the task wrote before is in the topic", **failure.place()) from failure

    def finish(self) -> None:
        """Waits until all records are acknowledged.

        :raises SparkBridgeError: if one was refused.
        :raises RetryableError: if that takes too long.
        """
        delivered = self._producer.flush(DELIVERY_S)
        self._check()
        if not delivered:
            raise RetryableError(
                f"records were not acknowledged within {DELIVERY_S:g} s: see whether the brokers run",
                topic=self._plan.topic,
            )

    def close(self) -> None:
        self._producer.close()
