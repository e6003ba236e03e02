"""Counts words by the DSL, which finds out by itself that words have to be repartitioned."""

from streams import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, run

TEXT, NUMBER = Serdes.STRING, Serdes.LONG


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(key_serde=TEXT, value_serde=TEXT))
    words = lines.flat_map_values(lambda line: line.lower().split())
    counts = words.group_by(lambda _, word: word, Grouped(key_serde=TEXT, value_serde=TEXT))
    table = counts.count(materialized=Materialized(name="word-counts", key_serde=TEXT, value_serde=NUMBER))
    table.to_stream().to("counts", Produced(key_serde=TEXT, value_serde=NUMBER))
    return builder


if __name__ == "__main__":
    run(topology)
