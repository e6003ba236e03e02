"""Counts words of several topics."""

import os
from typing import Any

from streams import (
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
)

TEXT = Serdes.STRING


class Ticking(Processor[Any, Any, Any, Any]):
    """Writes its store at each tick, so that something always waits for the next commit."""

    @staticmethod
    def stores() -> list[Any]:
        return [Stores.key_value_store("ticks", Serdes.STRING, Serdes.LONG)]

    def init(self, context: Any) -> None:
        super().init(context)
        self.ticks = context.get_state_store("ticks")
        context.schedule(20, PunctuationType.WALL_CLOCK_TIME, lambda now_ms: self.ticks.put("last", now_ms))

    def process(self, record: Record[Any, Any]) -> None:
        pass


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    lines = builder.stream(os.environ["INPUTS"].split(","), Consumed(key_serde=TEXT, value_serde=TEXT))
    version = os.environ.get("VERSION")
    if version == "2":  # beside which version 1 may run
        lines = lines.filter(lambda key, line: True)
    if os.environ.get("BUSY"):
        lines.process(Ticking)
    words = lines.flat_map_values(str.split)
    grouped = words.group_by(lambda key, word: word, Grouped(name="words", key_serde=TEXT, value_serde=TEXT))
    counts = grouped.count(materialized=Materialized(name="counts", key_serde=TEXT))
    if version == "3":  # beside which it may not
        counts.filter(lambda word, count: count > 1, materialized=Materialized(name="many"))
    counts.to_stream().map_values(str).to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder
