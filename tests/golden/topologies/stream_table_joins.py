"""Topologies that join a stream with a table, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import KTable, Materialized, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.topology import Topology

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]


def kv(name: str, value_serde: Any = S) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde)


def plus(left: Any, right: Any) -> str:
    """Java's ``left + "+" + right``."""
    return f"{text(left)}+{text(right)}"


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def inner(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("right", materialized=kv("t"))
    builder.stream("left").join(table, plus).to("output")
    return builder.build(config)


CASES: dict[str, Build] = {
    "stream-table-inner": inner,
}
