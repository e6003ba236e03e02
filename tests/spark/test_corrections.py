"""Corrections of a live table: the records of a corrected run, each in the topic once, whenever a call is killed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backfill_kit import SETTINGS
from clone_kit import Killed, KilledClients
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from processor_api.topology.partitioner import partition_for_key
from runtime_support.running_app import Cluster
from streams import (
    BufferConfig,
    Materialized,
    Produced,
    SessionWindows,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
)
from streams.kafka.own_names import corrections_group
from streams.kafka.ports import OffsetAndMetadata
from streams.spark import Backfill, BackfillResult, History, PositionError, RunDirConflict, SparkBridgeError
from streams.spark.corrections.publish import CorrectedTable, CorrectionsReport, publish_corrections
from streams.spark.runs.run_directory import RunDirectory

SOURCE, OUT, PARTITIONS, SINK_PARTITIONS = "payments", "out", 2, 3
CONFIG = {"application.id": "shop", "bootstrap.servers": "in-memory:9092", **SETTINGS}
Make = Callable[[int], Callable[[], StreamsBuilder]]


def builder(least: int) -> tuple[StreamsBuilder, Any]:
    made = StreamsBuilder(key_serde="string", value_serde="long")
    return made, made.stream(SOURCE).filter(lambda key, amount: amount >= least)


def totals(least: int) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        top, paid = builder(least)
        table = paid.group_by_key().reduce(lambda total, amount: total + amount, materialized="table")
        table.to_stream().to(OUT)
        table.map_values(str).to_stream().to("texts", Produced(value_serde="string"))
        return top

    return made


def objects(least: int) -> Callable[[], StreamsBuilder]:
    """Objects, with a partitioner that looks at the value, and the sink has another serde than the store."""

    def made() -> StreamsBuilder:
        top, paid = builder(least)
        how = Materialized(name="table", value_serde="json")
        table = paid.group_by_key().aggregate(
            lambda: {"sum": 0}, lambda k, v, agg: {"sum": agg["sum"] + v}, materialized=how
        )
        by_value = lambda topic, key, value, headers, count: [value["sum"] % count]  # noqa: E731
        table.to_stream().to(OUT, Produced(value_serde="json", partitioner=by_value))
        return top

    return made


def windows(least: int) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        top, paid = builder(least)
        counts = paid.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(100)).count(materialized="table")
        counts.to_stream().to(OUT)
        closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        closed.to_stream().to("closed")
        return top

    return made


def sessions(least: int) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        top, paid = builder(least)
        gaps = SessionWindows.of_inactivity_gap_with_no_grace(20)
        paid.group_by_key().windowed_by(gaps).count(materialized="table").to_stream().to(OUT)
        return top

    return made


def versions(least: int) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        top, paid = builder(least)
        store = Materialized(supplier=Stores.persistent_versioned_key_value_store("table", 10_000))
        paid.group_by_key().reduce(lambda total, amount: total + amount, materialized=store).to_stream().to(OUT)
        return top

    return made


def payments(spark: Any) -> Any:
    rng = random.Random(5)
    rows, now = [], 1_000
    for number in range(160):
        now += rng.choice((0, 3, 40))
        key = f"k{rng.randrange(9)}"
        rows.append((key, rng.randrange(-5, 20), now, partition_for_key(key.encode(), PARTITIONS), number))
    rows.append(("refunds", -4, now, partition_for_key(b"refunds", PARTITIONS), 200))
    rows.append(("first", 0, 1, partition_for_key(b"first", PARTITIONS), 201))
    return spark.createDataFrame(rows, "key string, value long, timestamp long, partition int, offset long")


@pytest.fixture(name="run")
def run_fixture(spark: Any, tmp_path: Path) -> Callable[..., BackfillResult]:
    def run(topology: Callable[[], StreamsBuilder]) -> BackfillResult:
        history = History(payments(spark).sort("offset"), encoded=False)
        directory = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        counts = {SOURCE: PARTITIONS, **dict.fromkeys((OUT, "texts", "closed"), SINK_PARTITIONS)}
        given: dict[str, Any] = {"application_id": "shop", "partitions": counts, "config": SETTINGS}
        return Backfill(spark, topology, {SOURCE: history}, run_dir=directory, gaps="allow", **given).run()

    return run


@pytest.fixture(name="live")
def live_fixture(tmp_path: Path) -> Iterator[Cluster]:
    topics = {SOURCE: PARTITIONS, **dict.fromkeys((OUT, "texts", "closed"), SINK_PARTITIONS)}
    with Cluster(tmp_path / "live", topics=topics) as cluster:
        yield cluster


def publish(live: Cluster, result: BackfillResult, rows: Any, **options: Any) -> CorrectionsReport:
    table = CorrectedTable(
        options.pop("store", "table"), RunDirectory(result.run_dir), result.topology, StreamsConfig.of(CONFIG)
    )
    given = {"clients": live.clients, "dry_run": False, **options}
    return publish_corrections(table, rows, StreamsConfig.of(CONFIG), **given)


def found_in(live: Cluster, topic: str = OUT) -> list[tuple[Any, ...]]:
    return sorted((one.key(), one.value(), one.timestamp()[1], one.partition()) for one in live.broker.records(topic))


def last_outputs(result: BackfillResult, topic: str = OUT) -> dict[bytes, tuple[Any, ...]]:
    """The last record that a run wrote for each key: value, time in ms and partition."""
    rows = result.output(topic).selectExpr("key", "value", "unix_millis(timestamp) ms", "partition", "upstream", "seq")
    found = {}
    for row in sorted(rows.collect(), key=lambda row: (row.upstream, row.seq)):
        found[bytes(row.key)] = (None if row.value is None else bytes(row.value), row.ms, row.partition)
    return found


# ------------------------------------------------------------------ the records


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("made", [totals, objects, windows, sessions, versions])
def test_corrections_are_the_records_of_the_corrected_run(
    made: Make, raw: bool, live: Cluster, run: Callable[..., BackfillResult]
) -> None:
    """Key, value, time and partition of each are those of the last record that the corrected run wrote for the key."""
    wrong, right = run(made(0)), run(made(-100))
    diff = right.diff("table", wrong.table("table", raw=raw, expired_windows=False))
    plan = publish(live, right, diff, dry_run=True)
    assert found_in(live) == []
    report = publish(live, right, diff)
    written, expected = found_in(live), last_outputs(right)
    corrected = [one for one in written if one[1] is not None]
    assert len({one[0] for one in written}) == len(written) == report.records == report.written == diff.count() > 3
    assert corrected == [(key, *expected[key]) for key, *_ in corrected]
    gone = diff.where("difference = 'only_live'").count()
    assert (report.tombstones, len(written) - len(corrected)) == (gone, gone)
    assert (plan.records, plan.tombstones, plan.partitions) == (report.records, gone, report.partitions)
    assert sum(report.partitions.values()) == report.records
    assert not plan.complete
    assert report.complete
    if made is sessions:
        assert gone > 0


def test_keys_that_only_the_live_table_has_are_deleted(live: Cluster, run: Callable[..., BackfillResult]) -> None:
    """The time is that of the live row, and a time of 0 is sent as Kafka's clients can send it."""
    wrong, right = run(totals(-100)), run(totals(5))
    diff = right.diff("table", wrong.table("table"))
    report = publish(live, right, diff.where("key IN ('refunds', 'first')"))
    assert (report.records, report.tombstones) == (2, 2)
    times = {row.key: row.ms for row in diff.selectExpr("key", "unix_millis(live.timestamp) ms").collect()}
    expected = [(key, None, times[key], partition_for_key(key.encode(), SINK_PARTITIONS)) for key in times]
    assert found_in(live) == sorted((key.encode(), *rest) for key, *rest in expected if key in ("refunds", "first"))
    assert "'refunds': null (partition" in str(report)
    assert "2 records written" in str(report)


def test_a_topic_with_other_rows_gets_rows_as_it_has_them(live: Cluster, run: Callable[..., BackfillResult]) -> None:
    wrong, right = run(totals(0)), run(totals(-100))
    diff = right.diff("table", wrong.table("table"))
    with pytest.raises(SparkBridgeError, match="'texts' does not have the rows of store 'table' as they are"):
        publish(live, right, diff, topic="texts")
    mapped = diff.selectExpr("key", "string(backfill.value) as value", "backfill.timestamp as timestamp")
    with pytest.raises(SparkBridgeError, match=r"the rows do not say which topic .* give topic=.*directly to: out"):
        publish(live, right, mapped)
    with pytest.raises(SparkBridgeError, match="no sink of the topology writes to topic 'other'; they write to: out"):
        publish(live, right, mapped, topic="other")
    report = publish(live, right, mapped, topic="texts")
    expected = last_outputs(right, "texts")
    assert found_in(live, "texts") == sorted((key, *expected[key]) for key, *_ in found_in(live, "texts"))
    assert report.written == diff.count() == len(found_in(live, "texts"))
    with pytest.raises(StreamsError, match="a row has no key, so it corrects nothing"):
        publish(live, right, mapped.selectExpr("cast(null as string) key", "value"), topic="texts")
    with pytest.raises(StreamsError, match="cannot be written by the serde 'long'"):
        publish(live, right, mapped.selectExpr("key", "value"), topic=OUT)


def test_a_held_back_table_is_not_published_as_it_is(live: Cluster, run: Callable[..., BackfillResult]) -> None:
    """A window may be open, and a record of it would be taken for its final result."""
    right = run(windows(-100))
    diff = right.diff("table", run(windows(0)).table("table", expired_windows=False))
    with pytest.raises(SparkBridgeError, match="'closed' does not have the rows of store 'table' as they are"):
        publish(live, right, diff, topic="closed")
    with pytest.raises(SparkBridgeError, match="the rows have no column 'window_start'"):
        publish(live, right, diff.drop("window_start"))


def test_equal_tables_write_nothing(live: Cluster, run: Callable[..., BackfillResult]) -> None:
    right = run(totals(0))
    report = publish(live, right, right.diff("table", right.table("table")))
    assert (report.records, report.written) == (0, 0)
    assert "nothing differs" in str(report)


# ------------------------------------------------------------------ killed, and called again


def test_each_correction_is_there_once_whichever_call_is_killed(
    live: Cluster, run: Callable[..., BackfillResult]
) -> None:
    """A call is killed at its first request, the next at its second, and so on, until one ends."""
    right = run(totals(-100))
    diff = right.diff("table", run(totals(0)).table("table")).localCheckpoint()
    kills = 0
    while True:
        clients = KilledClients(live.clients, kills, None)
        try:
            report = publish(live, right, diff, clients=clients)
            break
        except Killed:
            kills += 1
        finally:
            clients.end()
    expected = last_outputs(right)
    written = found_in(live)
    assert written == [(key, *expected[key]) for key, *_ in written]
    assert len({key for key, *_ in written}) == len(written) == diff.count()
    assert kills > 15
    assert report.complete
    before = len(live.broker.records(OUT))
    again = publish(live, right, diff)
    assert (again.written, again.complete, len(live.broker.records(OUT))) == (0, True, before)
    assert "published by an earlier call: nothing is written" in str(again)
    assert publish(live, right, diff, dry_run=True).complete


def test_a_killed_call_is_continued_without_its_rows(live: Cluster, run: Callable[..., BackfillResult]) -> None:
    """The live table has changed since, so the same rows cannot be made again."""
    right = run(totals(-100))
    diff = right.diff("table", run(totals(0)).table("table"))
    with pytest.raises(Killed):
        publish(live, right, diff, clients=KilledClients(live.clients, 0, "commit_transaction"))
    assert found_in(live) == []
    with pytest.raises(RunDirConflict, match=f"an earlier call began to publish {diff.count()} other corrections"):
        publish(live, right, diff.where("key = 'refunds'"))
    assert publish(live, right, None, dry_run=True).records == diff.count()
    assert found_in(live) == []
    report = publish(live, right, None)
    assert (report.written, report.complete) == (diff.count(), True)
    assert len(found_in(live)) == diff.count()
    with pytest.raises(SparkBridgeError, match=r"corrections are continued .* there are: none. Give the rows"):
        publish(live, right, None)


def test_large_corrections_are_sent_in_several_transactions(
    spark: Any, live: Cluster, run: Callable[..., BackfillResult]
) -> None:
    """Killed between two of them, the next call continues after the first."""
    right = run(totals(-100))
    rows = spark.range(50).selectExpr("concat('k', id) key", "repeat('x', 1000000) value", "1000L timestamp")
    with pytest.raises(Killed):
        publish(live, right, rows, topic="texts", clients=KilledClients(live.clients, 1, "commit_transaction"))
    sent = len(found_in(live, "texts"))
    assert 0 < sent < 50
    assert publish(live, right, rows, topic="texts").written == 50 - sent
    assert len({key for key, *_ in found_in(live, "texts")}) == len(found_in(live, "texts")) == 50


def test_forgotten_progress_is_refused(live: Cluster, run: Callable[..., BackfillResult]) -> None:
    """Offsets of a group without members expire."""
    right = run(totals(-100))
    diff = right.diff("table", run(totals(0)).table("table"))
    with pytest.raises(Killed):
        publish(live, right, diff, clients=KilledClients(live.clients, 0, "commit_transaction"))
    (kept,) = (Path(right.run_dir) / "corrections").glob("[0-9a-f]*")
    live.broker.groups.group(corrections_group("shop", kept.name)).offsets.clear()
    with pytest.raises(StreamsError, match=r"the broker has forgotten how many of .* Compare the topic with"):
        publish(live, right, None)
    assert found_in(live) == []


def test_an_application_that_went_on_is_refused(live: Cluster, run: Callable[..., BackfillResult]) -> None:
    right = run(totals(-100))
    diff = right.diff("table", run(totals(0)).table("table"))
    producer = live.clients.producer({})
    for number in range(300):
        producer.produce(SOURCE, bytes(8), b"k1", 0, None, None, 5_000 + number, None)
    producer.flush()
    place = TopicPartition(SOURCE, 0)
    consumer = live.clients.consumer({"group.id": "shop"})
    consumer.commit({place: OffsetAndMetadata(300)})
    consumer.close()
    with pytest.raises(PositionError, match=r"payments-0: \d+ in the result, 300 in the application.*positions='ig"):
        publish(live, right, diff)
    with pytest.raises(PositionError, match="has processed other records"):
        publish(live, right, diff, dry_run=True)
    assert found_in(live) == []
    assert publish(live, right, diff, positions="ignore").written == diff.count()
    with pytest.raises(SparkBridgeError, match="positions must be 'check' or 'ignore', got 'no'"):
        publish(live, right, diff, positions="no")
