"""Topics and tables of a real Kafka as structs: what was read is written with the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer

from integration_support.topics import Topics
from processor_api.serde import Serdes
from spark_support.stores_app import recreate
from state.formats.windowed_serdes import WindowedSerdes
from streams import Consumed, Materialized, StreamsBuilder
from streams.serdes import pydantic_serde
from streams.spark import SparkBridgeError, read_table, read_topic, write_topic


@dataclass
class Line:
    item: str
    price: Decimal | None = None


@dataclass
class Order:
    number: int
    lines: list[Line] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)


ORDERS = [
    Order(1, [Line("tea", Decimal("1.50")), Line("é")], {"a": "b"}),
    Order(2),
]


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    stored = Materialized(name="orders", key_serde=pydantic_serde(Line), value_serde=pydantic_serde(Order))
    builder.table(
        "orders-in", Consumed(key_serde=pydantic_serde(Line), value_serde=pydantic_serde(Order)), materialized=stored
    )
    return builder


def send(kafka: str, topic: str, rows: list[tuple[bytes, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for key, value in rows:
        producer.produce(topic, value, key, timestamp=1_000)
    assert producer.flush(30) == 0


def raw(df: Any) -> list[tuple[Any, ...]]:
    rows = [(bytes(row.key), None if row.value is None else bytes(row.value)) for row in df.collect()]
    return sorted(rows, key=repr)


def test_structs_of_a_topic_are_written_with_the_bytes_they_were_read_from(
    spark: Any, kafka: str, topics: Topics
) -> None:
    topic, copy = topics.create("orders", 1), topics.create("copy", 1)
    key = WindowedSerdes.time_windowed_serde_from(pydantic_serde(Line), 500)
    bound = key.bind(topic, is_key=True)
    windowed = [bound.from_json({"key": {"item": "é", "price": "2"}, "window": {"start": at, "end": at + 500}})
                for at in (0, 1_000)]  # fmt: skip
    keys = [bound.serialize(one) for one in windowed]
    values = [pydantic_serde(Order).serialize(one) for one in ORDERS]
    send(kafka, topic, [(keys[0], values[0]), (keys[1], values[1]), (keys[1], None)])
    found = read_topic(spark, kafka, topic, key=key, value=Order, structs=True)
    shown = found.selectExpr("key.key.item", "key.window.start", "get(value.lines, 0).price", "value.notes").collect()
    assert [tuple(row) for row in shown] == [
        ("é", 0, "1.50", {"a": "b"}), ("é", 1_000, None, {}), ("é", 1_000, None, None),
    ]  # fmt: skip
    assert write_topic(found.select("key", "value", "partition"), kafka, copy, key=key, value=Order).records == 3
    assert raw(read_topic(spark, kafka, copy)) == raw(read_topic(spark, kafka, topic))
    with pytest.raises(SparkBridgeError, match=r"'value' has no single type\. Leave structs out"):
        read_topic(spark, kafka, topic, key=Serdes.BYTES, value="json", structs=True)


def test_a_table_has_structs_of_its_keys_and_values(
    spark: Any, kafka: str, topics: Topics, unique_name: Callable[[str], str]
) -> None:
    application = unique_name("app")
    changelog = f"{application}-orders-changelog"
    recreate(topics, changelog)
    key = pydantic_serde(Line).bind(changelog, is_key=True)
    rows = [(key.serialize(Line("a")), pydantic_serde(Order).serialize(one)) for one in ORDERS]
    send(kafka, changelog, [*rows, (key.serialize(Line("b")), None)])
    table = read_table(spark, kafka, topology, "orders", application_id=application, structs=True)
    assert [tuple(row) for row in table.selectExpr("key.item", "value.number", "value.notes").collect()] == [
        ("a", 2, {})
    ]
