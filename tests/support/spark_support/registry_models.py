"""Objects with schemas in a registry, and an application that reads them; tasks of Spark import this file."""

from __future__ import annotations

import dataclasses
import datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from streams import Avro, JsonSchema, Protobuf, StreamsBuilder


@dataclasses.dataclass
class Sale:
    """A dataclass with types that JSON does not have."""

    id: str
    raw: bytes
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]
    at: datetime.datetime
    tags: list[str]
    more: dict[str, int]
    note: bytes | str | None = None


class Paid(BaseModel):
    """A model whose bytes are base64 in JSON."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    id: str
    raw: bytes
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]
    paid_at: datetime.datetime = Field(alias="at")


def serdes() -> dict[str, Any]:
    """The serde of each topic."""
    from google.protobuf.type_pb2 import Field as Message
    from google.protobuf.wrappers_pb2 import BytesValue

    fields = [
        {"name": "id", "type": "string"},
        {"name": "raw", "type": ["null", "string", "bytes"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    return {
        "avro-dataclass": Avro(Sale),
        "avro-model": Avro(Paid),
        "avro-schema": Avro(schema={"type": "record", "name": "Sold", "fields": fields}),
        "json-model": JsonSchema(Paid),
        "json-schema": JsonSchema(schema={"type": "object", "title": "Sold"}),
        "protobuf": Protobuf(Message),
        "protobuf-bytes": Protobuf(BytesValue),
    }


def names() -> StreamsBuilder:
    """Passes on each object as it is, and keeps the last one of each key."""
    builder = StreamsBuilder(key_serde="string")
    for topic, serde in serdes().items():
        builder.table(topic, value_serde=serde, materialized=f"{topic}-table").to_stream().to("out", value_serde=serde)
    return builder
