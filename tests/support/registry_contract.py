"""The contract of a schema registry with the serdes, which the one in memory and real ones pass."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from streams import Avro, JsonSchema, SchemaRegistry, StreamsBuilder, TopologyTestDriver
from streams.registry.schemas import NotInRegistry, SchemaError


@dataclass
class Order:
    customer: str
    cents: int
    note: str | None = None


class Purchase(BaseModel):
    customer: str


def avro_record(name: str, *fields: str) -> str:
    """Returns the schema of a record, with fields such as ``cents:long`` or ``note:string:"none"``, the last part of
    which is the default, in JSON."""
    made = []
    for field in fields:
        called, kind, *default = field.split(":")
        made.append({"name": called, "type": kind, **({"default": json.loads(default[0])} if default else {})})
    return json.dumps({"type": "record", "name": name, "fields": made})


class RegistryContract:
    """Subclasses give the fixture ``url``; topics have names of their own, since a registry may be shared."""

    @pytest.fixture
    def topic(self) -> str:
        return f"orders-{uuid.uuid4().hex[:8]}"

    @pytest.fixture
    def registry(self, url: str) -> SchemaRegistry:
        return SchemaRegistry(url)

    def test_a_topology_registers_what_it_writes(self, registry: SchemaRegistry, topic: str) -> None:
        builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=registry)
        sums = builder.stream(topic).group_by_key()
        sums.reduce(lambda a, b: Order(a.customer, a.cents + b.cents), materialized=topic).to_stream().to(
            f"{topic}-out"
        )
        with TopologyTestDriver(builder) as driver:
            given = driver.create_input_topic(topic)
            given.pipe_key_values([("a", Order("ann", 1)), ("a", Order("ann", 2))])
            assert driver.create_output_topic(f"{topic}-out").read_values()[-1] == Order("ann", 3)
        subjects = registry.client.subjects()
        expected = [f"{topic}-value", f"{topic}-out-value", f"test-application-{topic}-changelog-value"]
        assert [one for one in expected if one not in subjects] == []

    def test_another_process_reads_by_the_id(self, registry: SchemaRegistry, url: str, topic: str) -> None:
        data = Avro(Order, registry=registry).bind(topic, is_key=False).serialize(Order("ann", 1, "x"))
        other = SchemaRegistry(url, request_timeout_ms=9_999)  # so it has a client of its own, which knows nothing
        found = Avro(registry=other).bind(topic, is_key=False).deserialize(data)
        assert found == {"customer": "ann", "cents": 1, "note": "x"}

    def test_a_later_version_gets_an_id_of_its_own(self, registry: SchemaRegistry, topic: str) -> None:
        first = {"type": "record", "name": "Order", "fields": [{"name": "customer", "type": "string"}]}
        old = Avro(schema=first, registry=registry).bind(topic, is_key=False).serialize({"customer": "ann"})
        later = {
            "type": "record",
            "name": "Order",
            "fields": [*first["fields"], {"name": "cents", "type": "long", "default": 7}],
        }
        serde = Avro(schema=later, registry=registry).bind(topic, is_key=False)
        new = serde.serialize({"customer": "bob", "cents": 1})
        assert old[:5] != new[:5]
        assert serde.deserialize(old) == {"customer": "ann", "cents": 7}
        assert registry.client.versions(f"{topic}-value") == [1, 2]

    def test_a_schema_has_one_id_in_all_subjects(self, registry: SchemaRegistry, topic: str) -> None:
        """Equal keys of two topics had other bytes, and stood in other partitions."""
        bound = [Avro(Order, registry=registry).bind(f"{topic}-{n}", is_key=True) for n in range(2)]
        latest = Avro(Order, registry=registry, use_latest_version=True).bind(f"{topic}-1", is_key=True)
        assert len({serde.serialize(Order("ann", 1)) for serde in (*bound, latest)}) == 1

    def test_what_is_not_there_is_named(self, registry: SchemaRegistry, topic: str) -> None:
        with pytest.raises(NotInRegistry, match="schema id 987654"):
            registry.client.by_id(987654)
        strict = Avro(Order, registry=registry, auto_register_schemas=False).bind(topic, is_key=False)
        with pytest.raises(SchemaError, match=rf"subject {topic}-value.*auto\.register\.schemas"):
            strict.serialize(Order("ann", 1))
        latest = Avro(Order, registry=registry, use_latest_version=True).bind(topic, is_key=False)
        with pytest.raises(SchemaError, match=f"latest version of subject {topic}-value"):
            latest.serialize(Order("ann", 1))

    def test_what_was_registered_before_is_found(self, registry: SchemaRegistry, topic: str) -> None:
        data = Avro(Order, registry=registry).bind(topic, is_key=False).serialize(Order("ann", 1))
        for options in ({"auto_register_schemas": False}, {"use_latest_version": True}):
            serde = Avro(Order, registry=registry, **options).bind(topic, is_key=False)  # type: ignore[arg-type]
            assert serde.serialize(Order("ann", 1)) == data

    def test_references_are_followed(self, registry: SchemaRegistry, topic: str) -> None:
        Avro(Order, name="shop.Order", registry=registry).bind(topic, is_key=False).serialize(Order("ann", 1))
        box: dict[str, Any] = {
            "type": "record",
            "name": "shop.Box",
            "fields": [{"name": "order", "type": "shop.Order"}],
        }
        serde = Avro(schema=box, references=[("shop.Order", f"{topic}-value", 1)], registry=registry)
        bound = serde.bind(f"{topic}-boxes", is_key=False)
        value = {"order": {"customer": "ann", "cents": 1, "note": None}}
        assert Avro(registry=registry).bind(f"{topic}-boxes", is_key=False).deserialize(bound.serialize(value)) == value

    def test_json_schema(self, registry: SchemaRegistry, topic: str) -> None:
        serde = JsonSchema(Purchase, registry=registry).bind(topic, is_key=False)
        assert serde.deserialize(serde.serialize(Purchase(customer="ann"))) == Purchase(customer="ann")

    def test_compatibility_is_asked_without_registering(self, registry: SchemaRegistry, topic: str) -> None:
        Avro(Order, registry=registry).bind(topic, is_key=False).serialize(Order("ann", 1))
        client, subject = registry.client, f"{topic}-value"
        assert client.is_compatible(subject, Avro(Order).format().own)
        assert client.versions(subject) == [1]
