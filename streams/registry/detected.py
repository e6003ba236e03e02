"""Records of topics that nothing is known of: read by the ids in front of them, where a registry knows these."""

from __future__ import annotations

from typing import Any

from processor_api.serde import Serde, Serdes
from streams.registry.bound import ID_MAGIC, ID_SIZE
from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schema_serdes import Avro, JsonSchema
from streams.registry.schemas import AVRO, JSON, SchemaError

_KINDS = {AVRO: Avro, JSON: JsonSchema}


class DetectedSerde(Serde[Any]):
    """The serde of a topic whose schemas a registry has.

    Avro and JSON Schema are read as dicts; anything else stays bytes, as Protobuf, which needs a class. Values are
    written with the latest schema of the topic's subject, and bytes as they are.
    """

    __slots__ = ("_registry", "_serdes", "_subject")

    def __init__(self, registry: SchemaRegistry, topic: str, *, is_key: bool) -> None:
        super().__init__(self._write, self._read, name="detected by id")
        self._registry = registry
        self._subject = f"{topic}-{'key' if is_key else 'value'}"
        self._serdes: dict[str, Serde[Any]] = {
            kind: make(registry=registry).bind(topic, is_key=is_key) for kind, make in _KINDS.items()
        }

    def to_json(self, value: Any) -> Any:
        return (Serdes.BYTES if isinstance(value, bytes) else self._serdes[AVRO]).to_json(value)

    def from_json(self, given: Any) -> Any:
        """Returns the value that JSON stands for by the latest schema, or else bytes."""
        from streams.registry.client import NotInRegistry

        try:
            return self._latest().from_json(given)
        except NotInRegistry:
            return Serdes.BYTES.from_json(given)

    def _latest(self) -> Serde[Any]:
        kind = self._registry.client.latest(self._subject).schema.kind
        if kind not in self._serdes:
            raise SchemaError(f"subject {self._subject} is of {kind}, which needs a class: give the application")
        return self._serdes[kind]

    def _read(self, data: bytes) -> Any:
        if data[:1] != ID_MAGIC or len(data) < ID_SIZE:
            return data
        from streams.registry.client import NotInRegistry

        try:
            kind = self._registry.client.by_id(int.from_bytes(data[1:ID_SIZE], "big")).schema.kind
        except NotInRegistry:
            return data
        serde = self._serdes.get(kind)
        try:
            return data if serde is None else serde.deserialize(data)
        except SchemaError:  # a number, for instance, whose first bytes are like an id
            return data

    def _write(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else self._latest().serialize(value)
