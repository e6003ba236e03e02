"""Counts words by the DSL, which finds out by itself that words have to be repartitioned."""

from streams import StreamsBuilder, run


def topology() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    words = builder.stream("lines").flat_map_values(lambda line: line.lower().split())
    table = words.group_by(lambda _, word: word).count(materialized="word-counts")
    table.to_stream().to("counts")
    return builder


if __name__ == "__main__":
    run(topology)
