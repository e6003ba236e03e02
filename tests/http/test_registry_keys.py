"""Keys and values with schemas in a registry, over HTTP: a key that was shown is asked for at any of two workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from http_support.asking import AT_ONCE, Answer, ask, free_port, lines
from processor_api.record import Headers
from runtime_support.running_app import Cluster
from streams import Avro, KafkaStreams, SchemaRegistry, StreamsBuilder, TimeWindows
from streams.app.states import ClientState
from streams.registry.schemas import AVRO, SchemaText
from waiting import wait_until

NAMES = [f"n{number:02}" for number in range(16)]


@dataclass(frozen=True)
class Shop:
    name: str
    raw: bytes


@dataclass
class Visit:
    raw: bytes
    shop: str


def shop_of(name: str) -> Shop:
    return Shop(name, bytes([255, *name.encode()]))


def settled(port: int, path: str, data: bytes | None = None) -> Answer:
    """Asks until the partitions have their workers."""
    found: list[Answer] = []

    def is_answered() -> bool:
        found.append(ask(port, path, data))
        return found[-1].status != 503

    wait_until(f"{path} is answered", is_answered)
    return found[-1]


class Served:
    """Two workers of one topology, on ports of their own, and what is written to its topics."""

    def __init__(self, cluster: Cluster, builder: StreamsBuilder) -> None:
        self.cluster, self._builder = cluster, builder
        self.ports, self.apps = [free_port(), free_port()], list[KafkaStreams]()

    def start(self) -> None:
        for port in self.ports:
            self.apps.append(self.cluster.app(self._builder.build(), AT_ONCE, http_listen=f"127.0.0.1:{port}"))
            self.cluster.until_state(self.apps[-1], ClientState.RUNNING)
        wait_until("both have tasks", lambda: all(any(one.tasks().values()) for one in self.apps))

    def send(self, topic: str, key: Any, value: Any) -> None:
        producer = self.cluster.clients.producer({})
        for name in NAMES:
            headers = Headers()
            data = key.with_headers(headers).serialize(shop_of(name))
            producer.produce(topic, value.serialize(Visit(b"\xff", name)), data, -1, None, None, 1, headers)
        producer.flush()

    def rows(self, path: str) -> list[Any]:
        return lines(ask(self.ports[0], path))[0]

    def check_each_key(self, store: str) -> None:
        """Each key that is shown is found at each worker, alone and together with the others."""
        # One answer: while a task moves, the next one may be 503.
        rows = wait_until(
            "all are counted", lambda: len(found := self.rows(f"/stores/{store}/range")) == len(NAMES) and found
        )
        keys = [row["key"] for row in rows]
        assert sorted(key["name"] for key in keys) == NAMES
        assert all(list(key["raw"]) == ["base64"] for key in keys)
        for port in self.ports:
            for key in keys:
                answer = settled(port, f"/stores/{store}/get?key={quote(json.dumps(key))}")
                assert (answer.status, answer.json.get("key")) == (200, key), answer.text
            together = settled(port, f"/stores/{store}/get", json.dumps({"keys": keys}).encode()).json["rows"]
            assert [row["key"] for row in together] == keys
            assert all("value" in row for row in together)


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> SchemaRegistry:
    return SchemaRegistry(f"mock://{request.node.nodeid}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"visits": 2}) as found:
        yield found


@pytest.mark.parametrize("ids", ["prefix", "header"])
def test_keys_of_a_source_and_of_a_repartition_topic(cluster: Cluster, registry: SchemaRegistry, ids: str) -> None:
    """With ids in headers other bytes chose the partition than those that were looked for."""
    key, value = Avro(Shop, schema_ids=ids), Avro(Visit)
    builder = StreamsBuilder(schema_registry=registry)
    visits = builder.stream("visits", key_serde=key, value_serde=value)
    visits.group_by_key().count(materialized="by-source")
    other = visits.group_by(lambda shop, visit: shop_of(visit.shop), key_serde=key, value_serde=value)
    other.count(materialized="repartitioned")
    other.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(materialized="windows")
    visits.to_table(materialized="table")
    served = Served(cluster, builder)
    served.start()
    unknown = quote('{"name": "n00", "raw": "?"}')
    for port in served.ports:  # before a schema is registered, which it will be
        assert settled(port, f"/stores/by-source/get?key={unknown}").status == 404
    bound = [
        Avro(model, schema_ids=ids if is_key else "prefix", registry=registry).bind("visits", is_key=is_key)
        for model, is_key in ((Shop, True), (Visit, False))
    ]
    served.send("visits", *bound)
    for store in ("by-source", "repartitioned", "table"):
        served.check_each_key(store)
    shown = {"name": "n03", "raw": {"base64": "/24wMw=="}}
    for port in served.ports:
        rows, _ = lines(ask(port, f"/stores/windows/windows?key={quote(json.dumps(shown))}"))
        assert [(row["key"], row["start"], row["end"], row["value"]) for row in rows] == [(shown, 0, 10, 1)]
        answer = ask(port, f"/stores/table/get?key={quote(json.dumps(shown))}").json
        assert answer["value"] == {"raw": {"base64": "/w=="}, "shop": "n03"}


def test_a_partition_is_that_of_the_schema_of_the_source_topic(cluster: Cluster, registry: SchemaRegistry) -> None:
    """The changelog's own schema has another id, by whose bytes another partition was asked."""
    schema = json.loads(Avro(Shop).format().own.text)  # type: ignore[union-attr]
    client = registry.client
    ids = {
        client.register(subject, SchemaText(json.dumps({**schema, "doc": doc}), AVRO)).id
        for subject, doc in (("visits-key", "of visits"), ("app-counts-changelog-key", "of counts"))
    }
    assert len(ids) == 2
    settings = {"use_latest_version": True, "auto_register_schemas": False}
    builder = StreamsBuilder(schema_registry=registry)
    visits = builder.stream("visits", key_serde=Avro(Shop, **settings), value_serde=Avro(Visit))
    visits.group_by_key().count(materialized="counts")
    served = Served(cluster, builder)
    served.start()
    key = Avro(Shop, registry=registry, **settings).bind("visits", is_key=True)
    served.send("visits", key, Avro(Visit, registry=registry).bind("visits", is_key=False))
    served.check_each_key("counts")
