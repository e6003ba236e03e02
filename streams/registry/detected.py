"""Records of topics that nothing is known of: read by the ids in front of them, where a registry knows these."""

from __future__ import annotations

from typing import Any

from processor_api.serde import Serde
from streams.registry.bound import ID_MAGIC, ID_SIZE
from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schema_serdes import Avro, JsonSchema
from streams.registry.schemas import AVRO, JSON, SchemaError

_KINDS = {AVRO: Avro, JSON: JsonSchema}


def detected_serde(registry: SchemaRegistry, topic: str, *, is_key: bool) -> Serde[Any]:
    """Returns the serde of a topic whose schemas a registry has.

    Avro and JSON Schema are read as dicts; anything else stays bytes, as Protobuf, which needs a class. Values are
    written with the latest schema of the topic's subject, and bytes as they are.
    """
    serdes = {kind: make(registry=registry).bind(topic, is_key=is_key) for kind, make in _KINDS.items()}
    part = "key" if is_key else "value"

    def read(data: bytes) -> Any:
        if data[:1] != ID_MAGIC or len(data) < ID_SIZE:
            return data
        from streams.registry.client import NotInRegistry

        try:
            kind = registry.client.by_id(int.from_bytes(data[1:ID_SIZE], "big")).schema.kind
        except NotInRegistry:
            return data
        serde = serdes.get(kind)
        try:
            return data if serde is None else serde.deserialize(data)
        except SchemaError:  # a number, for instance, whose first bytes are like an id
            return data

    def write(value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        kind = registry.client.latest(f"{topic}-{part}").schema.kind
        serde = serdes.get(kind)
        if serde is None:
            raise SchemaError(f"subject {topic}-{part} is of {kind}, which needs a class: give the application")
        data: bytes = serde.serialize(value)
        return data

    return Serde(write, read, name="detected by id")
