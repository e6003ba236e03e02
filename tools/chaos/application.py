"""Counts the records of each key: the application of the bench."""

from __future__ import annotations

from streams import Produced, StreamsBuilder


def topology() -> StreamsBuilder:
    """Returns the builder that `streams run` is given."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").group_by_key().count(materialized="counts").to_stream().to("out", Produced(value_serde="long"))
    return builder
