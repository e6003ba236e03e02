"""Windows of a history that is longer than they live: the table has all of them, a comparison the last ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streams import SessionWindows, StreamsBuilder, TimeWindows
from streams.spark import Backfill, BackfillResult, History

DAY_MS = 86_400_000
START = 1_700_000_000_000
DAYS = 20


def by_day() -> StreamsBuilder:
    """Counts by day, and by session; a store shows the last days only."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    events = builder.stream("events").group_by_key()
    daily = TimeWindows.of_size_with_no_grace(timedelta(days=1))
    events.windowed_by(daily).count(materialized="days")
    sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(hours=1))
    events.windowed_by(sessions).count(materialized="sessions")
    return builder


@pytest.fixture
def result(spark: Any, tmp_path: Path) -> BackfillResult:
    """A backfill over a record a day of one key."""
    rows = spark.range(DAYS).selectExpr("'a' key", "'v' value", f"timestamp_millis({START} + id * {DAY_MS}) timestamp")
    history = History(rows, partition=None, offset=None, encoded=False)
    return Backfill(
        spark, by_day, {"events": history}, application_id="a", run_dir=tmp_path, partitions={"events": 1}
    ).run()


@pytest.mark.parametrize("store", ["days", "sessions"])
def test_a_table_has_the_windows_of_the_whole_history(result: BackfillResult, store: str) -> None:
    """It had the last ones, and nothing said so."""
    found = result.table(store)
    assert found.count() == found.select("window_start").distinct().count() == DAYS
    assert 0 < result.table(store, expired_windows=False).count() < 5
    assert result.table(store, expired_windows=True).count() == DAYS
    assert result.table(store, raw=True).count() == DAYS


@pytest.mark.parametrize("store", ["days", "sessions"])
def test_a_comparison_has_the_windows_that_both_show(result: BackfillResult, store: str) -> None:
    """With all windows, those that the live table does not have any more are differences."""
    live = result.table(store, expired_windows=False)
    assert result.diff(store, live).count() == 0
    found = result.diff(store, live, expired_windows=True)
    assert {row.difference for row in found.collect()} == {"only_backfill"}
    assert found.count() == DAYS - live.count()
    assert result.diff(store, result.table(store), expired_windows=True).count() == 0
