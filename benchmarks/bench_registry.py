"""The time of serdes with schemas in a registry, and of a task with them: µs of processor time a record of six fields.

    python -m benchmarks registry

The best of several rounds. The task is W1 (a filter and a changed value), with Avro and with JSON in turn. Beside them
is fastavro alone, with a frame of five bytes.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from pydantic import BaseModel

from benchmarks.task_rig import TaskRig
from streams import Avro, JsonSchema, SchemaRegistry, StreamsBuilder

ROUNDS, CALLS, RECORDS = 9, 20_000, 100_000
REGISTRY = SchemaRegistry("mock://benchmark")


@dataclass
class Order:
    id: str
    customer: str
    cents: int
    count: int
    paid: bool
    weight: float


class OrderModel(BaseModel):
    id: str
    customer: str
    cents: int
    count: int
    paid: bool
    weight: float


FIELDS: dict[str, Any] = {
    "id": "o-1", "customer": "ann", "cents": 250, "count": 3, "paid": True, "weight": 1.5,
}  # fmt: skip
SCHEMA = Avro(Order).format().own.text


def micros(call: Callable[[Any], Any], value: Any) -> float:
    """Returns the time of a call, the best of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(CALLS):
            call(value)
        best = min(best, (time.process_time() - begin) / CALLS * 1e6)
    return best


def serdes() -> None:
    own: list[tuple[str, Any, Any]] = [
        ("avro, dataclass", Avro(Order, registry=REGISTRY), Order(**FIELDS)),
        ("avro, pydantic", Avro(OrderModel, registry=REGISTRY), OrderModel(**FIELDS)),
        ("avro, dict", Avro(schema=SCHEMA, registry=REGISTRY), FIELDS),
        ("avro, dict without a schema", Avro(registry=REGISTRY), None),
        ("json schema, pydantic", JsonSchema(OrderModel, registry=REGISTRY), OrderModel(**FIELDS)),
    ]
    data = b""
    print(f"{'serde':30} {'write':>6} {'read':>6}")
    for name, serde, value in own:
        bound = serde.bind("json" if name.startswith("json") else "orders", is_key=False)
        value = bound.deserialize(data) if value is None else value
        data = bound.serialize(value)
        print(f"{name:30} {micros(bound.serialize, value):6.2f} {micros(bound.deserialize, data):6.2f}")
    parsed = fastavro.parse_schema(json.loads(SCHEMA))

    def write(value: Any) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        return b"\x00\x00\x00\x00\x01" + stream.getvalue()

    def read(data: bytes) -> Any:
        return fastavro.schemaless_reader(BytesIO(data[5:]), parsed, None)

    print(f"{'fastavro alone':30} {micros(write, FIELDS):6.2f} {micros(read, write(FIELDS)):6.2f}")


def task(serde: Any) -> float:
    """Returns the time of a record through W1."""
    builder = StreamsBuilder(key_serde="string", value_serde=serde)
    kept = builder.stream("in").filter(lambda key, order: order.cents >= 100)
    kept.map_values(lambda order: replace(order, cents=order.cents * 2)).to("out")
    data = serde.bind("in", is_key=False).serialize(Order(**FIELDS))
    records = [(b"k%d" % (number % 1000), data, number) for number in range(RECORDS)]
    with tempfile.TemporaryDirectory() as folder:
        rig = TaskRig(builder.build(), Path(folder))
        rig.run({"in": records[:1000]})
        found = min(rig.run({"in": records}) for _ in range(3))
        rig.close()
    return found / RECORDS * 1e6


def main() -> None:
    serdes()
    from streams.serdes import pydantic_serde

    for _ in range(2):
        for name, serde in (("avro", Avro(Order, registry=REGISTRY)), ("json", pydantic_serde(Order))):
            print(f"W1 with {name}: {task(serde):.2f}")


if __name__ == "__main__":
    main()
