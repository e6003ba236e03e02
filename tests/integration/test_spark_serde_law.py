"""Serdes of the library in Spark, on a broker: what a worker wrote is read, and written again as it was."""

from __future__ import annotations

import datetime
import math
import uuid
from pathlib import Path
from typing import Any

import pytest

from integration_support.topics import Topics
from processor_api.user_code.given_serdes import as_serde
from serde_support.values import NOON, Mixed, Order, Sale
from streams import KafkaStreams, Materialized, Serde, StreamsBuilder, Window, Windowed, WindowedSerdes, list_serde
from streams.kafka.confluent.clients import ConfluentClients
from streams.spark import read_table, read_topic, write_topic
from waiting import wait_until

GIVEN: dict[str, tuple[Any, list[Any]]] = {
    "string": ("string", ["", "a\0b", "grüße 🚀"]),
    "bytes": ("bytes", [b"", b"\0\xff"]),
    "integer": ("integer", [-(2**31), 2**31 - 1]),
    "long": ("long", [-(2**63), 2**63 - 1]),
    "short": ("short", [-(2**15), 2**15 - 1]),
    "double": ("double", [math.nan, -0.0, 0.0, math.inf, 5e-324]),
    "float": ("float", [1.5, -0.0, math.inf]),
    "boolean": ("boolean", [True, False]),
    "uuid": ("uuid", [uuid.UUID(int=7)]),
    "json": ("json", [{"b": [1, None, 1.0, 2**70], "a": "é"}, "text", [], 0, 1e22]),
    "model": (Mixed, [Mixed(at=NOON, tags={"b": 1, "a": 2}, names=frozenset("ab")), Mixed(either="1", z=[1])]),
    "order": (Order, [Order(id="1", key=uuid.UUID(int=7), day=NOON.date(), wait=datetime.timedelta(microseconds=1))]),
    "dataclass": (Sale, [Sale("a", tags={"b": 1, "a": 2})]),
    "list": (list_serde("long"), [[1, None], []]),
    "doubles": (list_serde("double"), [[math.nan, -math.inf, 1.5]]),
    "window": (WindowedSerdes.time_windowed_serde_from("string", 10), [Windowed("k", Window(0, 10))]),
    "session": (WindowedSerdes.session_windowed_serde_from("json"), [Windowed({"b": 1, "a": 2}, Window(3, 2**40))]),
}
"""Serdes and values by the names of topics."""


def serdes_of(given: Any, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    serde = as_serde(given)
    return serde.bind(topic, is_key=True), serde.bind(topic, is_key=False)


def topology(application: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    for name, (serde, _) in GIVEN.items():
        kept: Materialized[Any, Any] = Materialized(name=name, key_serde=serde, value_serde=serde)
        builder.stream(f"{name}-{application}", key_serde=serde, value_serde=serde).to_table(materialized=kept)
    return builder


@pytest.mark.slow
def test_what_workers_and_spark_write_has_the_same_bytes(spark: Any, kafka: str, tmp_path: Path) -> None:
    """Each value is a key too, from a topic and from the changelog of a store, in both directions."""
    application = f"law-{uuid.uuid4().hex[:8]}"
    topics = Topics(kafka, lambda kind: f"{kind}-{application}")
    written: dict[str, list[tuple[bytes | None, bytes | None]]] = {}
    producer = ConfluentClients(kafka).producer({})
    for name, (given, values) in GIVEN.items():
        topic = topics.create(name)
        key, value = serdes_of(given, topic)
        written[name] = [(key.serialize(one), value.serialize(one)) for one in values]
        for data in written[name]:
            producer.produce(topic, data[1], data[0], 0, None, None, 1000, None)
    assert producer.flush(60)
    producer.close()
    settings = {"application.id": application, "bootstrap.servers": kafka, "state.dir": f"{tmp_path}"}
    built = topology(application).build(settings)
    with KafkaStreams(built, settings) as app:
        ends = {f"{name}-{application}": len(written[name]) for name in GIVEN}
        wait_until(
            "all is committed",
            lambda: (
                app.failure is not None
                or all(topics.committed(application, one) == {0: end} for one, end in ends.items())
            ),
        )
        assert app.failure is None
    for name, (given, _) in GIVEN.items():
        topic = f"{name}-{application}"
        read = read_topic(spark, kafka, topic, key=given, value=given)
        table = read_table(spark, settings, built, name)
        for source, df in (("topic", read), ("table", table)):
            again = topics.create(f"{name}-{source}-again")
            write_topic(df.select("key", "value").coalesce(1), kafka, again, key=given, value=given)
            found = [(bytes(row.key), bytes(row.value)) for row in read_topic(spark, kafka, again).collect()]
            assert sorted(found) == sorted(written[name]), (name, source)
