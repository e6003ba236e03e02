"""Changelogs that Kafka Streams has written in Avro are gone on with: rows, windows, and a record as key.

``tools/golden/avro_changelogs.py`` records topics, offsets and schemas; ``integration/test_avro_migration.py`` does the
same with Java itself, on a real broker and a real registry.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration_support.avro_totals import ORDER, TOPICS, added_up, orders
from registry_server import KeptRegistry
from runtime_support.kept_cluster import APPLICATION, committed, load, topology, unread
from streams import Avro, SchemaRegistry, StateError
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.testing import EmbeddedKafka
from waiting import wait_until

RECORDED = Path(__file__).parent / "avro"
KEPT = json.loads(gzip.decompress((RECORDED / "cluster.json.gz").read_bytes()))
CHANGELOGS = (f"{APPLICATION}-totals-changelog", f"{APPLICATION}-minutes-changelog")


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path / "unused") as made:
        load(made, RECORDED)
        yield made


@pytest.fixture
def registry() -> Iterator[KeptRegistry]:
    """Has the schemas of Java, with their ids."""
    with KeptRegistry(KEPT["schemas"]) as made:
        yield made


def sent(kafka: EmbeddedKafka, topic: str) -> dict[str, list[str]]:
    """Returns what a topic has of each key, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for log in kafka.broker.topics[topic].partitions:
        for record in committed(log):
            found[record.key().decode()].append(record.value().decode())
    return found


def keys(kafka: EmbeddedKafka, changelog: str) -> list[bytes]:
    return [one.key() for log in kafka.broker.topics[changelog].partitions for one in committed(log)]


def settings(registry: KeptRegistry, folder: Path, guarantee: str) -> dict[str, Any]:
    return {
        "application.id": APPLICATION,
        "state.dir": str(folder / "state"),
        "processing.guarantee": guarantee,
        "schema.registry.url": registry.url,
        "statestore.cache.max.bytes": 0,
        "commit.interval.ms": 50,
    }


def test_keys_with_a_schema_of_their_own_are_refused(
    kafka: EmbeddedKafka, registry: KeptRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would have other bytes than the rows of Java, which no look-up would find: each sum would begin again."""
    monkeypatch.setenv("OWN_KEYS", "yes")
    with pytest.raises(StateError) as refused:
        kafka.start(lambda _: topology("avro_totals", TOPICS), settings(registry, tmp_path, "exactly_once_v2"))
    said = str(refused.value)
    assert "has rows that the serdes of this version cannot read or find" in said
    assert "is now written with other bytes than this row has" in said


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_what_java_has_left_is_gone_on_with(
    kafka: EmbeddedKafka, registry: KeptRegistry, tmp_path: Path, guarantee: str
) -> None:
    former = {name: keys(kafka, name) for name in CHANGELOGS}
    first, second = (orders(phase, KEPT["first"]) for phase in range(2))
    assert sent(kafka, "totals") == added_up(first)[0]  # by Java
    serde = Avro(schema=ORDER, registry=SchemaRegistry(registry.url))
    topic = kafka.create_input_topic("orders", "string", serde)
    for order in second:
        fields = {"id": order.id, "customer": order.customer, "cents": order.cents}
        topic.pipe_input(order.customer, fields, timestamp=order.timestamp)
    app = kafka.start(lambda _: topology("avro_totals", TOPICS), settings(registry, tmp_path, guarantee))
    wait_until("all is read", lambda: app.failure is not None or not unread(kafka), lambda: unread(kafka))
    store = app.store(StoreQueryParameters("totals", QueryableStoreTypes.key_value_store()))
    totals = {customer.name: total for customer, total in store.all()}
    app.close()
    if app.failure is not None:
        raise app.failure
    expected = added_up([*first, *second])
    assert (sent(kafka, "totals"), sent(kafka, "minutes")) == expected
    rows = {name: f"{one.orders}:{one.cents}:{one.last}" for name, one in totals.items()}
    assert rows == {name: values[-1] for name, values in expected[0].items()}
    assert {one.largest for name, one in totals.items() if name in ("customer-0", "customer-1")} == {0}  # Java's rows
    for name, before in former.items():  # rows of Java have new values under the very bytes of their keys
        after = keys(kafka, name)[len(before) :]
        assert set(before) & set(after)
        assert {key[:5] for key in after} == {before[0][:5]}
