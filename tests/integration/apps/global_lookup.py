"""Looks up each key of a stream in a global table, or in a read-only store of the same partition."""

import os
from typing import Any

from streams import Consumed, Processor, Produced, Record, Serdes, Stores, StreamsBuilder, Topology

TEXT = Serdes.STRING


class LookUp(Processor[str, str, str, str]):
    """Forwards what the global table has for the key."""

    def process(self, record: Record[str, str]) -> None:
        found = self.context.get_state_store("table").get(record.key)
        self.context.forward(record.with_value(f"{record.value}: {'none' if found is None else found.value}"))


def global_table() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    texts: Consumed[str, str] = Consumed(key_serde=TEXT, value_serde=TEXT)
    builder.global_table(os.environ["TABLE"], texts, materialized="table")
    stream = builder.stream(os.environ["INPUTS"], texts)
    stream.process(LookUp).to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder


class Keep(Processor[Any, Any, Any, Any]):
    """Stores records as they are."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.get_state_store("kept").put(record.key, record.value)


class LookUpKept(Processor[str, str, str, str]):
    """Forwards what the read-only store has for the key."""

    def process(self, record: Record[str, str]) -> None:
        found = self.context.get_state_store("kept").get(record.key)
        self.context.forward(record.with_value(f"{record.value}: {'none' if found is None else found}"))


def read_only_store() -> Topology:
    """The environment names the topics."""
    kept = Stores.key_value_store_builder(Stores.persistent_key_value_store("kept"), TEXT, TEXT)
    topology = Topology().add_read_only_state_store(
        kept, "table", os.environ["TABLE"], "keep", Keep, key_serde=TEXT, value_serde=TEXT
    )
    topology.add_source("questions", os.environ["INPUTS"], key_serde=TEXT, value_serde=TEXT)
    topology.add_processor("look-up", LookUpKept, "questions")
    topology.connect_processor_and_state_stores("look-up", "kept")
    return topology.add_sink("answers", os.environ["OUTPUT"], "look-up", key_serde=TEXT, value_serde=TEXT)
