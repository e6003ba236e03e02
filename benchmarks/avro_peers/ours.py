"""W1 with Avro for this library, which `benchmarks/bench_avro_peers.py` starts: with dicts, or with a dataclass.

Arguments: bootstrap servers, application id, state directory, URL of the registry, input, output, schema of the output,
and ``dict`` or ``dataclass``.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from typing import Any

from streams import Avro, KafkaStreams, StreamsBuilder


@dataclass
class Order:
    id: int
    user: str
    type: str
    amount: float
    country: str
    active: bool
    note: str


@dataclass
class Totalled(Order):
    total: float


def with_total(order: Order) -> Totalled:
    return Totalled(
        order.id, order.user, order.type, order.amount, order.country, order.active, order.note, order.amount * 2
    )


def topology(source: str, target: str, schema: str, values: str) -> StreamsBuilder:
    """Returns the filter with a changed value."""
    builder = StreamsBuilder(key_serde="string")
    if values == "dict":
        kept = builder.stream(source, value_serde="avro").filter(lambda key, order: order["amount"] >= 50.0)
        totalled: Any = kept.map_values(lambda order: {**order, "total": order["amount"] * 2})
        totalled.to(target, value_serde=Avro(schema=schema))
    else:
        objects = builder.stream(source, value_serde=Avro(Order)).filter(lambda key, order: order.amount >= 50.0)
        objects.map_values(with_total).to(target, value_serde=Avro(Totalled, schema=schema))
    return builder


def main() -> None:
    bootstrap, application, state_dir, url, source, target, schema, values = sys.argv[1:]
    settings = {
        "application.id": application,
        "bootstrap.servers": bootstrap,
        "state.dir": state_dir,
        "schema.registry.url": url,
        "auto.offset.reset": "earliest",
    }
    app = KafkaStreams(topology(source, target, schema, values).build(), settings)
    app.set_state_listener(lambda new, old: print("running", flush=True) if new == "RUNNING" else None)
    stopping: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    app.start()
    while not stopping and not app.wait(0.2):
        pass
    app.close()


if __name__ == "__main__":
    main()
