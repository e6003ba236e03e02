"""Copies a topic, record by record."""

import os

from streams import Consumed, Produced, Serdes, StreamsBuilder

TEXT = Serdes.STRING


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    stream = builder.stream(os.environ["INPUTS"].split(","), Consumed(key_serde=TEXT, value_serde=TEXT))
    stream.to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder
