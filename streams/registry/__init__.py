"""Serdes whose schemas are in a schema registry: Avro, Protobuf and JSON Schema.

Only `streams.registry.client` knows the client of the registry, and only `streams.registry.avro` fastavro. They are
loaded when they are first needed.
"""

from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schema_serdes import Avro, AvroType, JsonSchema, Protobuf
from streams.registry.schemas import SchemaReference

__all__ = ["Avro", "AvroType", "JsonSchema", "Protobuf", "SchemaReference", "SchemaRegistry"]
