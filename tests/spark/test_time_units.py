"""Integer times of a history: in the unit that is said, and refused where they seem to be in one that nobody said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams import StreamsBuilder
from streams.spark import Backfill, History, TimestampRangeError

SECOND = 1_711_843_200


def latest() -> StreamsBuilder:
    """Keeps the last value of each key, and the name of it from a global table."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    names = builder.global_table("names", materialized="names")
    events = builder.stream("events")
    named = events.join(names, lambda value, name: f"{value} {name}", key_selector=lambda key, value: key)
    named.group_by_key().reduce(lambda _, value: value, materialized="latest")
    return builder


def run(spark: Any, tmp_path: Path, time: int, names_time: int, unit: str | None) -> dict[str, Any]:
    def history(value: str, at: int) -> History:
        rows = spark.sql(f"select 'a' key, '{value}' value, {at}L timestamp")
        return History(rows, partition=None, offset=None, encoded=False, time_unit=unit)

    inputs = {"events": history("v", time), "names": history("n", names_time)}
    result = Backfill(
        spark, latest, inputs, application_id="a", run_dir=tmp_path, partitions={"events": 1, "names": 1}
    ).run()
    rows = result.table("latest").selectExpr("key", "value", "unix_millis(timestamp) ms").collect()
    return {row.key: (row.value, row.ms) for row in rows}


@pytest.mark.parametrize(
    ("unit", "time", "ms"),
    [
        ("s", SECOND, SECOND * 1000),
        ("ms", SECOND, SECOND),
        ("us", SECOND * 10**6 + 999, SECOND * 1000),
        ("ns", SECOND * 10**9 + 999_999, SECOND * 1000),
        (None, SECOND * 1000, SECOND * 1000),
        (None, 7, 7),
    ],
)
def test_times_are_in_the_unit_that_is_said(spark: Any, tmp_path: Path, unit: str | None, time: int, ms: int) -> None:
    assert run(spark, tmp_path, time, time, unit) == {"a": ("v n", ms)}


@pytest.mark.parametrize(("time", "names_time", "topic"), [(SECOND, 1, "events"), (1, SECOND * 10**6, "names")])
def test_times_that_seem_to_be_in_another_unit_are_refused(
    spark: Any, tmp_path: Path, time: int, names_time: int, topic: str
) -> None:
    """Seconds were taken for ms of January 1970: windows and joins were of another time, and nothing said so."""
    with pytest.raises(TimestampRangeError, match=rf"history of topic '{topic}' has the time {max(time, names_time)}"):
        run(spark, tmp_path, time, names_time, None)
