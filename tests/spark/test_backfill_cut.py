"""A backfill that is given its cut: the cut is kept for the bootstrap, and histories that do not fit are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backfill_kit import SETTINGS, Row, write_history
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from runtime_support.running_app import Cluster
from spark_support.finished_runs import Sent, processed, send_all
from streams import Consumed, Materialized, StreamsBuilder
from streams.spark import (
    Backfill,
    BackfillResult,
    Cut,
    CutError,
    History,
    HistoryBeyondCutError,
    HistoryShortOfCutError,
    RunDirConflict,
    UnsupportedForBackfill,
)
from streams.spark.handover.bootstrap import bootstrap

ROWS = [Row(b"k%d" % (one % 5), b"v", 1_000 + one, partition=one % 2) for one in range(40)]
PLACES = [TopicPartition("events", number) for number in range(2)]


def counts() -> StreamsBuilder:
    builder = StreamsBuilder()
    events = builder.stream("events", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    events.group_by_key().count(
        materialized=Materialized(name="counts", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    )
    return builder


def backfill(spark: Any, path: Path, cut: Cut | None, rows: list[Row] = ROWS, **options: Any) -> Backfill:
    lake = path / f"lake-{len(options)}"
    if not lake.exists():
        write_history(lake, rows, **options)
    offset = "offset" if options.get("offsets", True) else None
    history = History.parquet(spark, str(lake), partitions=2, offset=offset)
    given: dict[str, Any] = {"application_id": "app", "run_dir": path / "run", "config": SETTINGS, "outputs": "none"}
    return Backfill(spark, counts, {"events": history}, cut=cut, **given)


@pytest.fixture(name="live")
def live_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "live", topics={"events": 2}) as cluster:
        send_all(
            cluster.clients.producer({}), [Sent("events", one.partition, one.key, one.value, one.ts) for one in ROWS]
        )
        yield cluster


def test_the_cut_of_a_backfill_is_that_of_its_handover(spark: Any, live: Cluster, tmp_path: Path) -> None:
    """An aborted transaction lies between the history and the cut, so the end of the history is not the cut."""
    producer = live.clients.producer({"transactional.id": "aborted"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("events", b"v", b"k0", 0, None, None, 2_000, None)
    producer.flush()
    producer.abort_transaction()
    config = {"application.id": "app", "bootstrap.servers": "in-memory:9092"}
    cut = Cut.at_end(config, ["events"], clients=live.clients)
    assert cut.offsets[PLACES[0]] > 20
    backfill(spark, tmp_path, cut).run()
    result = BackfillResult.load(spark, tmp_path / "run", counts)
    assert result.cut == cut
    send_all(live.clients.producer({}), [Sent("events", 0, b"k0", b"v", 3_000), Sent("events", 1, b"k1", b"v", 3_000)])
    report = bootstrap(result, config, clients=live.clients)
    assert {place: report.offsets[place] for place in PLACES} == dict(cut.offsets)
    app = live.start(counts().build(), statestore_cache_max_bytes=0)
    group = live.broker.groups.group("app")
    live.until(lambda: all(processed(live, group, place) for place in PLACES))
    assert app.close(30)
    found: dict[Any, int] = {}
    for one in live.broker.records("app-counts-changelog"):
        found[one.partition(), one.key()] = int.from_bytes(one.value() or b"", "big")
    expected: dict[Any, int] = {}
    for place, key in [*((one.partition, one.key) for one in ROWS), (0, b"k0"), (1, b"k1")]:
        expected[place, key] = expected.get((place, key), 0) + 1
    assert found == expected


def test_a_backfill_over_spark_connect_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    connect: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UnsupportedForBackfill, match="does not run over Spark Connect"):
        Backfill(connect, counts, {}, application_id="app", run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_history_that_goes_beyond_the_cut_is_refused_by_the_plan(spark: Any, tmp_path: Path) -> None:
    cut = Cut({PLACES[0]: 20, PLACES[1]: 19})
    with pytest.raises(HistoryBeyondCutError, match="events-1 ends at offset 20, and the cut is 19"):
        backfill(spark, tmp_path, cut).plan()
    assert not (tmp_path / "run" / "run.json").exists()


def test_pinned_offsets_are_compared_with_the_cut_without_reading(spark: Any) -> None:
    """A history of Kafka says where it ends; in files, the last record may rightly lie before the cut."""
    from streams.spark.backfill.cut_check import check_cut
    from streams.spark.sources.ranges import OffsetRange, OffsetRanges
    from streams.spark.tables.known import remember

    unread = spark.range(1).selectExpr("raise_error('read')::binary key", "1L timestamp", "0 partition", "0L offset")
    ranges = (OffsetRange("events", 0, 5, 20), OffsetRange("events", 1, 0, 20))
    history = History(remember(unread, OffsetRanges(ranges, {}, "read_committed")), value=None)

    def check(first: int, second: int) -> None:
        check_cut(Cut({PLACES[0]: first, PLACES[1]: second}), {"events": history}, {}, {"events": 2})

    check(20, 20)
    with pytest.raises(HistoryBeyondCutError, match="events-1 ends at offset 20, and the cut is 19"):
        check(20, 19)
    with pytest.raises(HistoryShortOfCutError, match="events-0 ends at offset 20, and the cut is 21") as short:
        check(21, 20)
    assert "pin_offsets(config, topic" in str(short.value)


def test_a_history_that_goes_beyond_the_time_of_the_cut_is_refused_by_the_plan(spark: Any, tmp_path: Path) -> None:
    last = max(one.ts for one in ROWS)
    for time, fits in ((last, False), (last + 1, True)):
        made = backfill(spark, tmp_path, Cut(dict.fromkeys(PLACES, 20), skip_before_ms=time), offsets=False)
        if fits:
            made.plan()
        else:
            with pytest.raises(HistoryBeyondCutError, match=f"a record of time {last}"):
                made.plan()


@pytest.mark.parametrize("offsets", [{}, {PLACES[0]: 20}, {**dict.fromkeys(PLACES, 20), ("events", 2): 0}])
def test_a_cut_of_other_partitions_is_refused(spark: Any, offsets: Any, tmp_path: Path) -> None:
    with pytest.raises(CutError, match="and the backfill 2"):
        backfill(spark, tmp_path, Cut(offsets)).plan()


def test_a_run_is_not_resumed_with_another_cut(spark: Any, tmp_path: Path) -> None:
    backfill(spark, tmp_path, Cut(dict.fromkeys(PLACES, 20))).run()
    with pytest.raises(RunDirConflict, match="other cut"):
        backfill(spark, tmp_path, Cut(dict.fromkeys(PLACES, 21))).run()
