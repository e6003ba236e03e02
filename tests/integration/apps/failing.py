"""Fails at every record."""

import os

from streams import Consumed, Produced, Serdes, StreamsBuilder

TEXT = Serdes.STRING


def refuse(value: str) -> str:
    raise ValueError(f"{value} is refused")


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    stream = builder.stream(os.environ["INPUTS"], Consumed(key_serde=TEXT, value_serde=TEXT))
    stream.map_values(refuse).to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder
