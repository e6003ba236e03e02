"""Topologies built by hand from sources, processors, sinks and stores."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.store_spec import Stores
from processor_api.topology import Topology

S = Serdes.STRING

StringProcessor = Processor[str | None, str | None, str | None, str | None]
StringRecord = Record[str | None, str | None]


class Route(StringProcessor):
    """Chooses children by the value."""

    def process(self, record: StringRecord) -> None:
        forward = self.context.forward
        if record.value is None:
            forward(record.with_value("none"), "rest")
        elif record.value == "p":
            forward(record.with_timestamp(record.timestamp + 100), "ps")
        elif record.value == "q":
            forward(record.with_key("Q").with_headers([("new", b"1")]))
        else:
            forward(record, "rest")
            forward(record.with_value(record.value + "2"), "ps")


def papi_forward_named_children(config: Any) -> Topology:
    return (
        Topology()
        .add_source("src", "input", key_serde=S, value_serde=S)
        .add_processor("route", Route, "src")
        .add_sink("ps", "out-p", "route", key_serde=S, value_serde=S)
        .add_sink("rest", "out-rest", "route", key_serde=S, value_serde=S)
    )


class PutShared(StringProcessor):
    """Stores values, and asks for a commit each time."""

    def process(self, record: StringRecord) -> None:
        if record.key is not None:
            self.context.get_state_store("shared").put(record.key, record.value)
        self.context.commit()


class GetShared(StringProcessor):
    """Appends what is stored for the key."""

    def process(self, record: StringRecord) -> None:
        if record.key is None:
            self.context.forward(record.with_value("no-key"))
        else:
            found = self.context.get_state_store("shared").get(record.key)
            self.context.forward(record.with_value(f"{_java(record.value)}/{_java(found)}"))


def _java(value: str | None) -> str:
    """A value as Java joins it into a string."""
    return "null" if value is None else value


def papi_shared_store(config: Any) -> Topology:
    return (
        Topology()
        .add_source("s1", "left", key_serde=S, value_serde=S)
        .add_source("s2", "right", key_serde=S, value_serde=S)
        .add_processor("put", PutShared, "s1")
        .add_processor("get", GetShared, "s2")
        .add_state_store(
            Stores.key_value_store_builder(Stores.persistent_key_value_store("shared"), S, S), "put", "get"
        )
        .add_sink("sink", "output", "get", key_serde=S, value_serde=S)
    )


class Pass(Processor[Any, Any, Any, Any]):
    """Forwards what it gets."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def describe_papi(config: Any) -> Topology:
    return (
        Topology()
        .add_source("s1", "b", "a")
        .add_source("s2", re.compile("x-[0-9]+"))
        .add_processor("p1", Pass, "s1", "s2")
        .add_processor("p2", Pass, "p1")
        .add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("st"), S, S), "p1", "p2")
        .add_sink("k1", "out", "p1", "p2")
        .add_sink("k2", lambda key, value, context: "x", "p2")
    )


CASES: dict[str, Callable[[Any], Topology]] = {
    "papi-forward-named-children": papi_forward_named_children,
    "papi-shared-store": papi_shared_store,
    "describe-papi": describe_papi,
}
