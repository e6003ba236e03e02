"""Topics as DataFrames, and DataFrames as topics: each committed record once, with all that it has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PythonException

from integration_support.hostile import ALL_TIMES, NAMES, ODD, write
from integration_support.topics import Topics
from processor_api.errors import StreamsError, TopologyError
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.partitioner import partition_for_key
from spark_support.stores_app import recreate
from streams.kafka.confluent.clients import ConfluentClients
from streams.serdes import json_serde, pydantic_serde
from streams.spark import (
    NaiveTimestampError,
    OffsetRangeLost,
    OffsetRanges,
    SparkBridgeError,
    TimestampRangeError,
    UnknownPartitionCount,
    offsets_of,
    pin_offsets,
    read_topic,
    write_topic,
)
from streams.spark.sources.offsets import cluster_settings
from streams.spark.sources.topic_plan import plan_of

S, L = Serdes.STRING, Serdes.LONG


@pytest.fixture
def produce(kafka: str) -> Callable[..., None]:
    """Writes records of key, value, and what else the client takes; in a transaction if it is given how that ends."""

    def write(topic: str, records: list[tuple[Any, ...]], end: str | None = None) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": kafka, "partitioner": "murmur2_random"}
        producer = Producer(settings if end is None else {**settings, "transactional.id": topic})
        if end is not None:
            producer.init_transactions(30)
            producer.begin_transaction()
        for key, value, *rest in records:
            producer.produce(topic, value, key, **(rest[0] if rest else {}))
        assert producer.flush(60) == 0
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)

    return write


def test_every_part_of_a_record_arrives(spark: Any, kafka: str, topics: Topics, produce: Any) -> None:
    """Null and empty are different, times may be before 1970, partitions may be empty."""
    topic = topics.create("parts", 3)
    at = {"partition": 0}
    produce(topic, [
        (b"a", b"1", {**at, "timestamp": 1_700_000_000_123, "headers": [("h", b"x"), ("h", None), ("e", b"")]}),
        (None, b"", {**at, "timestamp": -5}),
        (b"", None, {**at, "timestamp": -(1 << 40)}),
    ])  # fmt: skip
    produce(topic, [(b"c", b"3", {"partition": 2, "timestamp": 7})])
    df = read_topic(spark, kafka, topic, headers=True, times="ms")
    columns = ("partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
    found = sorted(tuple(row) for row in df.select(*columns).collect())
    assert [(*row[:6], [tuple(one) for one in row[6]]) for row in found] == [
        (0, 0, 1_700_000_000_123, "CreateTime", b"a", b"1", [("h", b"x"), ("h", None), ("e", b"")]),
        (0, 1, -5, "CreateTime", None, b"", []),
        (0, 2, -(1 << 40), "CreateTime", b"", None, []),
        (2, 0, 7, "CreateTime", b"c", b"3", []),
    ]
    assert {row["topic"] for row in df.collect()} == {topic}


def test_records_that_no_client_of_ours_would_write_are_read(kafka: str, topics: Topics) -> None:
    """By what a task of Spark reads a partition with; a time that is no moment of Spark's is named with its place."""
    cases = [*NAMES, *ODD]
    topic = topics.create("hostile", len(cases), ALL_TIMES)
    for partition, case in enumerate(cases):
        write(kafka, topic, case, partition)
    given = {"bootstrap.servers": kafka}, topic, pin_offsets(kafka, topic), None, None
    in_ms, moments = (
        plan_of(cluster_settings(given[0]), *given[1:], headers=True, times=times, max_rows_per_task=None)
        for times in ("ms", "timestamp")
    )
    for wanted in in_ms.ranges:
        case = cases[wanted.partition]
        rows = [row for batch in in_ms.batches(wanted) for row in batch.to_pylist()]
        assert rows[-1]["value"] == b"behind", case.name
        if case.headers is not None:
            assert [(one["key"], one["value"]) for one in rows[0]["headers"]] == case.headers
        try:
            read = sum(len(batch) for batch in moments.batches(wanted))
        except StreamsError as error:
            told = str(error)
            assert case.name.startswith("times-"), told
            assert f"topic='{topic}'" in told
            assert "offset=0" in told
        else:
            assert read == len(rows)


def test_times_are_moments_whatever_the_zone_of_the_session(
    spark: Any, kafka: str, topics: Topics, produce: Any
) -> None:
    topic = topics.create("zones")
    produce(topic, [(b"a", b"1", {"timestamp": 1_700_000_000_123}), (b"b", b"2", {"timestamp": -1})])
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = read_topic(spark, kafka, topic).selectExpr("unix_millis(timestamp)", "string(timestamp)").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [row[0] for row in found] == [1_700_000_000_123, None]  # -1 is Kafka's word for no timestamp
    assert found[0][1] == "2023-11-14 17:13:20.123"


def test_aborted_records_are_left_out_and_markers_end_no_read_early(
    spark: Any, kafka: str, topics: Topics, produce: Any
) -> None:
    topic = topics.create("transactions")
    produce(topic, [(b"a", b"%d" % number) for number in range(5)], "commit")
    produce(topic, [(b"a", b"aborted")] * 4, "abort")
    pinned = pin_offsets(kafka, topic)
    assert pinned.ends() == {TopicPartition(topic, 0): 11}  # with two markers, the last offsets are no records
    df = read_topic(spark, kafka, topic, value=S, offsets=pinned)
    assert [row["value"] for row in df.orderBy("offset").collect()] == ["0", "1", "2", "3", "4"]
    every = read_topic(spark, kafka, topic, offsets=pin_offsets(kafka, topic, isolation="read_uncommitted"))
    assert every.count() == 9


def test_an_open_transaction_is_behind_the_end(spark: Any, kafka: str, topics: Topics, produce: Any) -> None:
    topic = topics.create("open")
    produce(topic, [(b"a", b"1")], "commit")
    producer = ConfluentClients(kafka).producer({"transactional.id": f"{topic}-open"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"open", b"a", 0, None, None, 5, None)
    producer.flush(30)
    try:
        df = read_topic(spark, kafka, topic)
        assert offsets_of(df).ends() == {TopicPartition(topic, 0): 2}
        assert df.count() == 1
    finally:
        producer.abort_transaction()
        producer.close()


def test_ranges_by_time_and_pieces(spark: Any, kafka: str, topics: Topics, produce: Any) -> None:
    topic = topics.create("times", 2)
    for partition in (0, 1):
        produce(topic, [(b"k", b"v", {"partition": partition, "timestamp": 1000 * n}) for n in range(1, 101)])
    start, end = datetime.fromtimestamp(20.5, UTC), 50_000
    df = read_topic(spark, kafka, topic, start=start, end=end, times="ms", max_rows_per_task=7)
    assert {(each.start, each.end) for each in offsets_of(df).ranges} == {(20, 49)}
    assert df.rdd.getNumPartitions() == 10
    found = sorted((row["partition"], row["timestamp"]) for row in df.collect())
    assert found == [(partition, 1000 * n) for partition in (0, 1) for n in range(21, 50)]
    one = read_topic(spark, kafka, topic, partitions=[1], start={1: 90})
    assert sorted(row["offset"] for row in one.collect()) == list(range(90, 100))
    text = offsets_of(df).to_json()
    assert OffsetRanges.from_json(text) == offsets_of(df)
    assert read_topic(spark, kafka, topic, start=10**13).count() == 0
    assert read_topic(spark, kafka, topic, partitions=[]).count() == 0


def test_times_are_found_among_markers_of_transactions(kafka: str, topics: Topics, produce: Any) -> None:
    """The marker of the first transaction, written today, was taken for the first record of any time before: a range of
    times was empty, and nothing said so."""
    topic = topics.create("back-dated")
    for first in (1, 11, 21):
        produce(topic, [(b"k", b"v", {"timestamp": 1000 * (first + n)}) for n in range(10)], "commit")
    pinned = pin_offsets(kafka, topic, start=15_000, end=26_000)
    assert [(each.start, each.end) for each in pinned.ranges] == [(15, 27)]
    assert pin_offsets(kafka, topic, end=1_000).ranges[0].end == 0
    assert pin_offsets(kafka, topic, end=31_000).ranges[0].end == 33


def test_values_get_the_types_of_their_serdes(spark: Any, kafka: str, topics: Topics, produce: Any) -> None:
    topic = topics.create("types")
    serdes = {"long": L, "int": Serdes.INTEGER, "double": Serdes.DOUBLE, "boolean": Serdes.BOOLEAN, "string": S}
    samples: dict[str, Any] = {"long": -(1 << 62), "int": -7, "double": 0.1, "boolean": True, "string": "é"}
    produce(topic, [(b"k", None), (b"k", b'{"b":[1,2.5],"a":"\xc3\xa9"}')])
    found = read_topic(spark, kafka, topic, value=json_serde()).orderBy("offset")
    assert [row["value"] for row in found.collect()] == [None, '{"b":[1,2.5],"a":"é"}']
    assert found.selectExpr("from_json(value, 'a string, b array<double>') as value").collect()[1]["value"]["b"] == [
        1.0,
        2.5,
    ]
    for kind, serde in serdes.items():
        one = topics.create(f"type-{kind}")
        produce(one, [(b"k", serde.serialize(samples[kind])), (b"k", None)])
        df = read_topic(spark, kafka, one, value=serde)
        assert dict(df.dtypes)["value"] == {"long": "bigint"}.get(kind, kind)
        assert [row["value"] for row in df.orderBy("offset").collect()] == [samples[kind], None]


def test_a_record_that_the_serde_cannot_read_is_named(spark: Any, kafka: str, topics: Topics, produce: Any) -> None:
    topic = topics.create("unreadable")
    produce(topic, [(b"k", L.serialize(1)), (b"k", b"four")])
    with pytest.raises(PythonException) as failure:
        read_topic(spark, kafka, topic, value=L).count()
    text = str(failure.value)
    assert "DeserializationError: the value b'four' cannot be read by the serde 'long'" in text
    assert f"topic='{topic}', partition=0, offset=1" in text


def test_pinned_records_that_are_gone_are_missed_on_the_driver(
    spark: Any, kafka: str, topics: Topics, produce: Any
) -> None:
    topic = topics.create("truncated")
    produce(topic, [(b"k", b"v")] * 10)
    pinned = pin_offsets(kafka, topic)
    df = read_topic(spark, kafka, topic, offsets=pinned)
    ConfluentClients().admin({"bootstrap.servers": kafka}).delete_records({TopicPartition(topic, 0): 4})
    with pytest.raises(OffsetRangeLost, match=r"has offsets from 4 to 10, so records at 0 were deleted"):
        read_topic(spark, kafka, topic, offsets=pinned)
    with pytest.raises(PythonException, match=r"OffsetRangeLost.*no longer has offset 0"):
        df.count()
    recreate(topics, topic)
    with pytest.raises(OffsetRangeLost, match="was deleted and made again"):
        read_topic(spark, kafka, topic, offsets=pinned)
    with pytest.raises(PythonException, match="OffsetRangeLost"):
        df.count()


def test_wrong_requests_are_refused_on_the_driver(spark: Any, kafka: str, topics: Topics) -> None:
    topic = topics.create("wrong", 2)
    with pytest.raises(UnknownPartitionCount, match="topic 'nowhere' does not exist"):
        read_topic(spark, kafka, "nowhere")
    with pytest.raises(UnknownPartitionCount, match="has 2 partitions, so none with the number 2"):
        read_topic(spark, kafka, topic, partitions=[2])
    with pytest.raises(NaiveTimestampError, match=r"2024-01-01T00:00:00 has no time zone"):
        read_topic(spark, kafka, topic, start=datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(SparkBridgeError, match="start is 'earliest', 'latest', a time"):
        read_topic(spark, kafka, topic, start="first")
    with pytest.raises(
        OffsetRangeLost, match=r"has offsets from 0 to 0, so records at 5 do not exist, or no longer exist"
    ):
        read_topic(spark, kafka, topic, end={0: 5})
    with pytest.raises(SparkBridgeError, match=r"give offsets, or start, end and partitions"):
        read_topic(spark, kafka, topic, start=0, offsets=pin_offsets(kafka, topic))
    with pytest.raises(SparkBridgeError, match="no offsets of topic 'other' are pinned"):
        pin_offsets(kafka, topic).of("other")
    with pytest.raises(SparkBridgeError, match=r"not a text of OffsetRanges\.to_json"):
        OffsetRanges.from_json("[]")
    with pytest.raises(SparkBridgeError, match="only a DataFrame as read_topic"):
        offsets_of(spark.range(1))


# ------------------------------------------------------------------------------------------------ writing


def test_rows_are_written_as_the_application_would(spark: Any, kafka: str, topics: Topics) -> None:
    """Partitions by Java's murmur2, times, headers, null and empty values."""
    topic = topics.create("written", 5)
    rows = [
        (f"key-{number}", number, 1_700_000_000_000 + number, [("h", b"%d" % number), ("n", None)])
        for number in range(200)
    ]
    schema = "key string, value long, ms long, headers array<struct<key:string,value:binary>>"
    df = spark.createDataFrame([*rows, ("gone", None, 7, None), (None, 5, None, None)], schema)
    report = write_topic(
        df.selectExpr("key", "value", "timestamp_millis(ms) as timestamp", "headers"), kafka, topic, value=L
    )
    assert (report.topic, report.records) == (topic, 202)
    found = read_topic(spark, kafka, topic, key=S, value=L, headers=True, times="ms").collect()
    by_key = {row["key"]: row for row in found}
    assert len(by_key) == len(found) == 202
    for key, value, ms, headers in rows:
        row = by_key[key]
        assert (row["value"], row["timestamp"], row["partition"]) == (value, ms, partition_for_key(key.encode(), 5))
        assert [tuple(one) for one in row["headers"]] == headers
    assert (by_key["gone"]["value"], by_key["gone"]["timestamp"]) == (None, 7)
    assert by_key[None]["timestamp"] > rows[-1][2]


def test_a_partition_or_a_partitioner_decides_where_a_record_goes(spark: Any, kafka: str, topics: Topics) -> None:
    topic = topics.create("placed", 3)
    df = spark.createDataFrame([("a", "x", 2), ("b", "y", None)], "key string, value string, partition int")
    write_topic(df, kafka, topic, key=S, partitioner=lambda topic, key, value, headers, count: [0, 1])
    found = read_topic(spark, kafka, topic, key=S).select("partition", "key").collect()
    assert sorted(tuple(row) for row in found) == [(0, "b"), (1, "b"), (2, "a")]
    with pytest.raises(PythonException, match=r"PartitionMismatchError.*has 3 partitions, so none with the number 3"):
        write_topic(df.selectExpr("key", "value", "3 as partition"), kafka, topic)


def test_json_text_and_structs_are_written_by_serdes_of_objects(spark: Any, kafka: str, topics: Topics) -> None:
    from spark_support.models import Order

    topic = topics.create("objects")
    df = spark.createDataFrame([("a", '{"id": 1, "note": "é"}'), ("b", None)], "key string, value string")
    write_topic(df.coalesce(1), kafka, topic, value=pydantic_serde(Order))
    struct = df.limit(1).selectExpr("key", "from_json(value, 'id long, note string') as value")
    write_topic(struct, kafka, topic, value=json_serde())
    values = [row["value"] for row in read_topic(spark, kafka, topic, value=S).orderBy("offset").collect()]
    assert values == ['{"id":1,"note":"é"}', None, '{"id":1,"note":"é"}']
    with pytest.raises(
        PythonException, match=r"SerializationError: the value .*cannot be written by the serde 'pydantic"
    ):
        write_topic(spark.createDataFrame([("a", '{"id": "x"}')], "key string, value string"), kafka, topic,
                    value=pydantic_serde(Order))  # fmt: skip


def test_serdes_are_given_by_name_or_as_models(spark: Any, kafka: str, topics: Topics) -> None:
    """Names failed with an AttributeError, and maps were written as lists of pairs."""
    from spark_support.models import Order

    topic = topics.create("named", 1)
    rows = spark.sql("select 'a' key, map('fare', cast(1.5 as decimal(10,2))) value")
    write_topic(rows, kafka, topic, key="string", value="json")
    write_topic(spark.sql("select 'b' key, named_struct('id', 7L, 'note', 'é') value"), kafka, topic, value=Order)
    found = read_topic(spark, kafka, topic, key="string", value="json").select("key", "value").collect()
    assert [tuple(row) for row in found] == [("a", '{"fare":1.5}'), ("b", '{"id":7,"note":"é"}')]
    last = read_topic(spark, kafka, topic, value=Order, start={0: 1})
    assert [row.value for row in last.collect()] == ['{"id":7,"note":"é"}']
    for call in (
        lambda: read_topic(spark, kafka, topic, value="jsno"),
        lambda: write_topic(rows, kafka, topic, value=dict),
    ):
        with pytest.raises(TopologyError, match="takes as its value a serde, one of the names"):
            call()


def test_a_task_that_fails_after_its_rows_writes_them_again(spark: Any, kafka: str, topics: Topics) -> None:
    """As documented: nothing is lost, and what the first try had sent is there twice."""
    topic = topics.create("retried")
    df = (
        spark.range(0, 100, 1, 1)
        .selectExpr("string(id) as key", "string(id) as value")
        .mapInArrow(fail_at_the_end_of_the_first_try, "key string, value string")
    )
    assert write_topic(df, kafka, topic).records == 100
    values = [row["value"] for row in read_topic(spark, kafka, topic, value=S).collect()]
    assert set(values) == {str(number) for number in range(100)}
    assert 100 <= len(values) <= 200


def fail_at_the_end_of_the_first_try(batches: Any) -> Any:
    from pyspark import TaskContext

    yield from batches
    if TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("the first try fails")


@pytest.mark.parametrize(
    ("time", "error"),
    [
        pytest.param(
            *("timestamp'1969-12-31 23:59:59'", "key 'old' has the time -1000 ms, which is before 1970"),
            marks=pytest.mark.slow,
        ),
        ("-1", "key 'old' has the time -1 ms, which is before 1970"),
        ("1711843200", "key 'old' has the time 1711843200, which is taken for ms since 1970 and seems to be seconds"),
        pytest.param(
            "1711843200000000", "seems to be microseconds or nanoseconds: say time_unit=", marks=pytest.mark.slow
        ),
    ],
)
def test_a_time_that_ends_every_reader_is_not_written(
    spark: Any, kafka: str, topics: Topics, time: str, error: str
) -> None:
    """Times before 1970 were written as they are, and ended every application that reads the topic."""
    topic = topics.create("old-times")
    rows = spark.sql(
        f"select 'new' key, 'v' value, cast(null as bigint) ms union all select 'old', 'v', {_as_ms(time)}"
    )
    written = rows.selectExpr("key", "value", "timestamp_millis(ms) timestamp" if "'" in time else "ms timestamp")
    with pytest.raises(PythonException, match=f"TimestampRangeError: .*{error}"):
        write_topic(written.coalesce(1), kafka, topic)
    assert read_topic(spark, kafka, topic).count() == 0


def _as_ms(time: str) -> str:
    return f"unix_millis({time})" if "'" in time else time


def test_integer_times_of_a_unit_that_is_said_are_written(spark: Any, kafka: str, topics: Topics) -> None:
    """Rounded towards the past, exact beyond what a double holds; ms are taken as they are if that is said."""
    topic = topics.create("units", 1)
    second = 1_711_843_200
    for unit, time in {"s": second, "ms": second, "us": second * 10**6 + 999, "ns": second * 10**9 + 999_999}.items():
        rows = spark.sql(f"select '{unit}' key, 'v' value, {time}L timestamp")
        assert write_topic(rows, kafka, topic, time_unit=unit).records == 1
    found = read_topic(spark, kafka, topic, key=S, times="ms").select("key", "timestamp").collect()
    assert {row.key: row.timestamp for row in found} == {
        "s": second * 1000,
        "ms": second,
        "us": second * 1000,
        "ns": second * 1000,
    }
    with pytest.raises(SparkBridgeError, match="time_unit='h': it must be 's', 'ms', 'us', 'ns'"):
        write_topic(rows, kafka, topic, time_unit="h")
    for start in (second, second * 10**6):
        with pytest.raises(TimestampRangeError, match=f"start is {start}, which is taken for ms"):
            pin_offsets(kafka, topic, start=start)


def test_what_cannot_be_written_is_refused_on_the_driver(spark: Any, kafka: str, topics: Topics) -> None:
    topic = topics.create("refused")
    rows = spark.createDataFrame([("a", 1)], "key string, value long")
    with pytest.raises(UnknownPartitionCount, match="topic 'nowhere' does not exist: create it"):
        write_topic(rows, kafka, "nowhere", value=L)
    with pytest.raises(SparkBridgeError, match="column value is bigint: give the serde"):
        write_topic(rows, kafka, topic)
    with pytest.raises(SparkBridgeError, match="no column 'key' to write, only: value"):
        write_topic(rows.select("value"), kafka, topic, value=L)
    naive = rows.selectExpr("key", "value", "timestamp_ntz '2024-01-01 00:00:00' as timestamp")
    with pytest.raises(NaiveTimestampError, match="has no time zone"):
        write_topic(naive, kafka, topic, value=L)
    assert read_topic(spark, kafka, topic).count() == 0
