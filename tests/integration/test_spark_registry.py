"""Columns of DataFrames as objects with schemas in a registry: into topics and out of them, and through a backfill."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException

from integration_support.topics import Topics
from registry_server import KeptRegistry
from spark_support.registry_models import Paid, Sale, names, serdes
from streams import SchemaRegistry
from streams.spark import Backfill, History, read_topic, write_topic

pytestmark = pytest.mark.spark

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
AT = "timestamp_micros(1767268800000001)"
LATER = NOON + datetime.timedelta(microseconds=1)
PRICE = "cast(1.50 as decimal(9,2))"
SOLD = f"named_struct('id', 'a', 'raw', x'fffe', 'price', {PRICE}, 'at', {AT})"
STRUCTS: dict[str, tuple[str, Any]] = {
    "avro-dataclass": (
        f"named_struct('id', 'a', 'raw', x'fffe', 'price', {PRICE}, 'at', {AT}, 'tags', array('x', 'y'),"
        " 'more', map('n', 1), 'note', x'616263')",
        Sale("a", b"\xff\xfe", Decimal("1.50"), LATER, ["x", "y"], {"n": 1}, b"abc"),
    ),
    "avro-model": (SOLD, Paid(id="a", raw=b"\xff\xfe", price="1.50", at=LATER)),
    "avro-schema": (SOLD, {"id": "a", "raw": b"\xff\xfe", "price": Decimal("1.50"), "at": LATER}),
    "json-model": (SOLD, Paid(id="a", raw=b"\xff\xfe", price="1.50", at=LATER)),
    "json-schema": (
        f"named_struct('id', 'a', 'price', {PRICE}, 'at', {AT}, 'more', map('n', 1))",
        {"id": "a", "price": 1.5, "at": "2026-01-01T12:00:00.000001+00:00", "more": {"n": 1}},
    ),
    "protobuf": ("named_struct('name', 'a', 'number', 7, 'packed', true, 'kind', 'TYPE_INT64')", None),
    "protobuf-bytes": ("x'fffe'", None),
}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with KeptRegistry(()) as server:
        yield SchemaRegistry(server.url)


def expected_of(name: str) -> Any:
    from google.protobuf.type_pb2 import Field as Message
    from google.protobuf.wrappers_pb2 import BytesValue

    if name == "protobuf":
        return Message(name="a", number=7, packed=True, kind="TYPE_INT64")
    return BytesValue(value=b"\xff\xfe") if name == "protobuf-bytes" else STRUCTS[name][1]


def values(spark: Any, kafka: str, topic: str) -> list[Any]:
    rows = read_topic(spark, kafka, topic, key="string").orderBy("partition", "offset").collect()
    return [None if row.value is None else bytes(row.value) for row in rows]


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_is_written_as_its_object_and_what_is_read_with_the_same_bytes(
    spark: Any, kafka: str, topics: Topics, registry: SchemaRegistry, name: str
) -> None:
    made, again = topics.create(name), topics.create(f"{name}-again")
    serde = serdes()[name].with_default(registry.as_default(None))
    df = spark.sql(f"select 'a' key, {STRUCTS[name][0]} value union all select 'b', null")
    write_topic(df.coalesce(1), kafka, made, key="string", value=serde)
    (data, nothing) = values(spark, kafka, made)
    bound = serde.bind(made, is_key=False)
    assert (bound.deserialize(data), nothing) == (expected_of(name), None)
    shown = read_topic(spark, kafka, made, key="string", value=serde)
    write_topic(shown.select("key", "value").coalesce(1), kafka, again, key="string", value=serde)
    assert values(spark, kafka, again) == [data, None]


def test_what_is_no_object_of_the_schema_is_refused(
    spark: Any, kafka: str, topics: Topics, registry: SchemaRegistry
) -> None:
    topic = topics.create("refused")
    for name, value, why in (
        ("avro-dataclass", "named_struct('id', 'a')", "raw"),
        ("json-schema", "named_struct('raw', x'00')", "JSON does not have bytes"),
        ("protobuf", "named_struct('nothing', 1)", "no field named"),
    ):
        serde = serdes()[name].with_default(registry.as_default(None))
        with pytest.raises(PythonException, match=rf"(?s)SerializationError: the value .*{why}"):
            write_topic(spark.sql(f"select 'a' key, {value} value"), kafka, topic, value=serde)


def test_a_backfill_of_columns_has_the_objects_of_each_schema(
    spark: Any, registry: SchemaRegistry, tmp_path: Path
) -> None:
    def run(values: dict[str, Any], place: str, **columns: Any) -> Any:
        histories = {topic: History(df, partition=None, offset=None, **columns) for topic, df in values.items()}
        backfill = Backfill(
            spark, names, histories, application_id="app", run_dir=tmp_path / place,
            config={"schema.registry.url": registry.url}, partitions=dict.fromkeys([*STRUCTS, "out"], 1),
        )  # fmt: skip
        return backfill.run()

    lake = {
        topic: spark.sql(f"select 'a' key, {struct} value, timestamp_millis(1) timestamp")
        for topic, (struct, _) in STRUCTS.items()
    }
    first = run(lake, "first", encoded=False)
    tables = {topic: first.table(f"{topic}-table").select("key", "value", "timestamp") for topic in STRUCTS}
    again = run(tables, "again", encoded=False)
    for topic, serde in serdes().items():
        bound = serde.with_default(registry.as_default(None)).bind(topic, is_key=False)
        (row,) = first.table(f"{topic}-table", raw=True).collect()
        assert bound.deserialize(bytes(row.value)) == expected_of(topic)
        (same,) = again.table(f"{topic}-table", raw=True).collect()
        assert bytes(same.value) == bytes(row.value)
    shown = tables["avro-dataclass"].collect()[0].value
    assert json.loads(shown) == {
        "id": "a", "raw": {"base64": "//4="}, "price": "1.50", "at": "2026-01-01T12:00:00.000001+00:00",
        "tags": ["x", "y"], "more": {"n": 1}, "note": "abc",
    }  # fmt: skip
