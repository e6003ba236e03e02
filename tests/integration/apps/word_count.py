"""Counts words of several topics."""

import os

from streams import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder

TEXT = Serdes.STRING


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    lines = builder.stream(os.environ["INPUTS"].split(","), Consumed(key_serde=TEXT, value_serde=TEXT))
    if os.environ.get("VERSION") == "2":
        lines = lines.filter(lambda key, line: True)
    words = lines.flat_map_values(str.split)
    grouped = words.group_by(lambda key, word: word, Grouped(name="words", key_serde=TEXT, value_serde=TEXT))
    counts = grouped.count(materialized=Materialized(name="counts", key_serde=TEXT))
    counts.to_stream().map_values(str).to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder
