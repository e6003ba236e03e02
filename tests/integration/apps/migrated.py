"""The application that is migrated: counts words, in all and by minute, with labels from a table.

The same topology in Java is ``tests/golden/recorder/src/main/java/migration/WordCount.java``.
"""

import os
from datetime import timedelta

from streams import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows

TEXT = Serdes.STRING


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    text = Consumed(key_serde=TEXT, value_serde=TEXT)
    words = (
        builder.stream(os.environ["LINES"], text)
        .flat_map_values(lambda line: line.split(" "))
        .group_by(lambda key, word: word, Grouped(name="words", key_serde=TEXT, value_serde=TEXT))
    )
    labels = builder.table(
        os.environ["LABELS"], text, materialized=Materialized(name="labels", key_serde=TEXT, value_serde=TEXT)
    )
    totals = words.count(materialized=Materialized(name="totals", key_serde=TEXT))
    labelled = totals.to_stream().left_join(labels, lambda count, label: f"{label or 'none'}:{count}")
    labelled.to(os.environ["TOTALS"], Produced(key_serde=TEXT, value_serde=TEXT))
    minutes = words.windowed_by(TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(hours=1)))
    counts = minutes.count(name="by-minute", materialized=Materialized(name="minutes", key_serde=TEXT))
    counts.to_stream(lambda word, count: f"{word.key}@{word.window.start}").map_values(str).to(
        os.environ["MINUTES"], Produced(key_serde=TEXT, value_serde=TEXT)
    )
    return builder
