"""What tests of state that is thrown away, and restored, have in common."""

from __future__ import annotations

import logging

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

__all__ = ["looking_up", "rebuilds"]

S = Serdes.STRING


def rebuilds(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str | None, str | None]]:
    """What was logged of it: the message, the store and the task."""
    return [
        (record.getMessage(), record.__dict__.get("store"), record.__dict__.get("task"))
        for record in caplog.records
        if record.levelno == logging.ERROR and "rebuilt" in record.getMessage()
    ]


class _Fill(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.get_state_store("g").put(record.key, record.value)


class _Look(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(str(self.context.get_state_store("g").get(record.value))))


def looking_up() -> Topology:
    """A global store of the topic ``ref``, and ``in`` to ``out``: what it has for each value."""
    builder = Stores.key_value_store_builder(Stores.persistent_key_value_store("g"), S, S).with_logging_disabled()
    made = Topology().add_global_store(builder, "gs", "ref", "gp", _Fill, key_serde=S, value_serde=S)
    made.add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", _Look, "s")
    return made.add_sink("sink", "out", "p", key_serde=S, value_serde=S)
