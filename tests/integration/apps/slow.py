"""Counts words, and stays in a state of its life as long as the environment asks for."""

import os
import time
from pathlib import Path
from typing import Any

from streams import Processor, Record, Serdes, StoreBuilder, Stores, Topology

TEXT, NUMBER = Serdes.STRING, Serdes.LONG


def wait_at(state: str) -> None:
    """If this is the state asked for: tells that it is reached, and waits for the word to go on."""
    if os.environ.get("WAIT_AT") == state:
        Path(os.environ["REACHED"]).touch()
        while not Path(os.environ["GO_ON"]).exists():
            time.sleep(0.02)


class Count(Processor[str, str, str, int]):
    @classmethod
    def stores(cls) -> list[StoreBuilder[str, int]]:
        return [Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), TEXT, NUMBER)]

    def init(self, context: Any) -> None:
        super().init(context)
        self.counts = context.get_state_store("counts")

    def process(self, record: Record[str, str]) -> None:
        count = (self.counts.get(record.value) or 0) + 1
        self.counts.put(record.value, count)
        self.context.forward(Record(record.value, count, record.timestamp))

    def close(self) -> None:
        wait_at("closing")


class Pass(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def topology() -> Topology:
    """The environment names the topics."""
    wait_at("import")
    made = Topology()
    made.add_source("source", os.environ["INPUTS"], key_serde=TEXT, value_serde=TEXT)
    made.add_processor("count", Count, "source")
    if os.environ.get("VERSION") == "2":
        made.add_processor("another", Pass, "source")
        made.add_state_store(Stores.key_value_store("new", TEXT, NUMBER), "another")
    return made.add_sink("sink", os.environ["OUTPUT"], "count", key_serde=TEXT, value_serde=NUMBER)
