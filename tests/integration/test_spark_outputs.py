"""The outputs of a backfill as records of a topic: all that they have, and in their order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration_support.topics import Topics
from streams import StreamsBuilder
from streams.spark import Backfill, History, read_topic, write_topic

HEADERS = "array<struct<key:string,value:binary>>"
COLUMNS = f"partition int, offset long, key binary, value binary, timestamp long, headers {HEADERS}"
PARTITIONS = 3


def copying(topic: Any) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        builder = StreamsBuilder(key_serde="string", value_serde="long")
        builder.stream("events").to(topic)
        return builder

    return made


def events(spark: Any) -> Any:
    """Few keys, so that the order of each matters; deletions, empty keys, and headers of which names repeat."""
    rows = []
    for number in range(120):
        key = ("", "ann", "bob", "é")[number % 4].encode()
        value = None if number % 7 == 0 else number.to_bytes(8, "big")
        headers = [("n", b"%d" % number), ("n", None)] if number % 3 == 0 else None
        rows.append((number % 2, number // 2, bytearray(key), value and bytearray(value), 1_000 + number, headers))
    return spark.createDataFrame(rows, COLUMNS)


def records(df: Any) -> list[tuple[Any, ...]]:
    found = df.selectExpr("partition", "key", "value", "unix_millis(timestamp) ms", "headers").collect()
    return [(row.partition, row.key, row.value, row.ms, [tuple(one) for one in row.headers or ()]) for row in found]


@pytest.mark.parametrize("serdes", [{}, {"key": "string", "value": "long"}])
def test_an_output_is_written_as_it_is(
    serdes: dict[str, str], spark: Any, kafka: str, topics: Topics, tmp_path: Path
) -> None:
    """As bytes, and decoded: partitions, times and headers are those of the backfill, and so is the order."""
    topic = topics.create("out", PARTITIONS)
    history = History(events(spark), headers="headers", partitions=2)
    result = Backfill(
        spark,
        copying(topic),
        {"events": history},
        application_id="shop",
        run_dir=tmp_path,
        partitions={topic: PARTITIONS},
    ).run()
    output = result.output(topic, **serdes)
    assert write_topic(output, kafka, topic, **serdes).records == 120
    written = read_topic(spark, kafka, topic, headers=True, **serdes).orderBy("partition", "offset")
    assert records(written) == records(output.orderBy("partition", "upstream", "seq"))
    assert len({row[0] for row in records(written)}) > 1


def test_an_output_without_partitions_goes_by_its_keys(spark: Any, kafka: str, topics: Topics, tmp_path: Path) -> None:
    """The topic is named by a function, so the backfill does not know how many partitions it has."""
    topic = topics.create("out", PARTITIONS)
    named = copying(lambda key, value, context, topic=topic: topic)
    history = History(events(spark), headers="headers", partitions=2)
    result = Backfill(spark, named, {"events": history}, application_id="shop", run_dir=tmp_path).run()
    output = result.output(topic)
    assert {row[0] for row in records(output)} == {None}
    assert write_topic(output, kafka, topic).records == 120
    written = records(read_topic(spark, kafka, topic, headers=True))
    assert sorted(map(repr, (row[1:] for row in written))) == sorted(map(repr, (row[1:] for row in records(output))))
    assert len({(bytes(row[1]), row[0]) for row in written}) == 4, "a key is in one partition"
