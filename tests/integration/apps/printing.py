"""Counts values and prints the counts, and asks for memory where a value says so."""

import os

from streams import Grouped, Materialized, Printed, StreamsBuilder


def hungry(value: str) -> str:
    """``limit`` asks for more memory than there is."""
    if value == "limit":
        bytes(1 << 60)
    return value


def topology() -> StreamsBuilder:
    """The environment names the topics, and says whether counts are printed."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    values = builder.stream(os.environ["INPUTS"]).map_values(hungry)
    counts = values.group_by(lambda _, value: value, Grouped(key_serde="string", value_serde="string")).count(
        materialized=Materialized(name="counts")
    )
    texts = counts.to_stream().map_values(str)
    texts.to(os.environ["OUTPUT"])
    if "PRINTS" in os.environ:
        texts.print(Printed(label="count"))
    return builder
