"""History that Kafka retains is processed again, compared with the live tables, and corrected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from backfill_kit import SETTINGS
from integration_support.topics import Topics
from processor_api.serde import Serdes
from streams import Consumed, Grouped, KafkaStreams, Materialized, Produced, StreamsBuilder
from streams.spark import (
    Backfill,
    History,
    OffsetRanges,
    offsets_of,
    pin_offsets,
    read_table,
    read_topic,
    write_topic,
)
from waiting import wait_until

TEXT, NUMBER = Serdes.STRING, Serdes.LONG
PARTITIONS = 2
DAY_MS = 86_400_000
BEGIN_MS = 1_700_000_000_000

Payment = tuple[str, int, int]
"""A key, an amount and a timestamp in ms."""


def totals(payments: str, out: str, least: int) -> Callable[[], StreamsBuilder]:
    """Sums the payments of each payer from an amount on."""

    def made() -> StreamsBuilder:
        builder = StreamsBuilder()
        source = builder.stream(payments, Consumed(key_serde=TEXT, value_serde=NUMBER))
        paid = source.filter(lambda payer, amount: amount >= least)
        table = paid.group_by_key(Grouped(key_serde=TEXT, value_serde=NUMBER)).reduce(
            lambda total, amount: total + amount,
            materialized=Materialized(name="totals", key_serde=TEXT, value_serde=NUMBER),
        )
        table.to_stream().map_values(str).to(out, Produced(key_serde=TEXT, value_serde=TEXT))
        return builder

    return made


def sums(payments: list[Payment], least: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for payer, amount, _ in payments:
        if amount >= least:
            found[payer] = found.get(payer, 0) + amount
    return found


def pay(kafka: str, topic: str, payments: list[Payment], end: str | None = None) -> None:
    """Writes payments, in a transaction if it is said how that ends."""
    settings = {"bootstrap.servers": kafka, "partitioner": "murmur2_random"}
    producer = Producer(settings if end is None else {**settings, "transactional.id": f"{topic}-payments"})
    if end is not None:
        producer.init_transactions(60)
        producer.begin_transaction()
    for payer, amount, time in payments:
        producer.produce(topic, amount.to_bytes(8, "big", signed=True), payer, timestamp=time)
    assert producer.flush(60) == 0
    if end == "commit":
        producer.commit_transaction(60)
    elif end == "abort":
        producer.abort_transaction(60)


def test_a_corrected_topology_is_replayed_compared_and_published(
    spark: Any, kafka: str, topics: Topics, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """The live application leaves out refunds; the replay ends at the offsets at which its table is pinned."""
    payments, out = topics.create("payments", PARTITIONS), topics.create("totals", PARTITIONS)
    application = unique_name("app")
    paid = [(f"payer-{n % 9}", n % 50 - 4, BEGIN_MS + n) for n in range(400)]
    refunded = [("only-refunds", -5, BEGIN_MS + 500)]
    pay(kafka, payments, paid, "commit")
    pay(kafka, payments, [("payer-1", 1_000_000, BEGIN_MS + 401)], "abort")
    pay(kafka, payments, refunded, "commit")
    before = [*paid, *refunded]
    pinned = OffsetRanges.from_json(pin_offsets(kafka, payments).to_json())

    wrong, right = totals(payments, out, 0), totals(payments, out, -1_000)
    config = {
        "application.id": application, "bootstrap.servers": kafka, "state.dir": str(tmp_path / "state"),
        "processing.guarantee": "exactly_once_v2",
    }  # fmt: skip
    app = KafkaStreams(wrong, config)
    app.start()
    try:

        def live() -> dict[str, int]:
            assert app.failure is None, app.failure
            with topics.reader(out) as reader:
                reader.to_end()
                return {str(payer): int(total or 0) for payer, total in reader.latest.items()}

        wait_until("the live totals are complete", lambda: live() == sums(before, 0), tell=live)
    finally:
        assert app.close(60)
    ends = pin_offsets(kafka, f"{application}-totals-changelog")
    pay(kafka, payments, [("payer-1", 7, BEGIN_MS + 600)], "commit")

    history = History.kafka(spark, kafka, payments, offsets=pinned)
    given: dict[str, Any] = {"application_id": application, "config": SETTINGS, "partitions": {out: PARTITIONS}}
    same = Backfill(spark, wrong, {payments: history}, run_dir=tmp_path / "same", **given).run()
    table = read_table(spark, kafka, wrong, "totals", application_id=application, offsets=ends)
    assert table.count() == 9
    assert same.diff("totals", table).collect() == []
    assert sum(task["positions"].get(payments, 0) for task in same.stages[0].tasks) < sum(
        end for end in pinned.ends().values()
    ), "markers and aborted records end each partition"

    again = History.kafka(spark, kafka, payments, offsets=pinned)
    corrected = Backfill(spark, right, {payments: again}, run_dir=tmp_path / "right", **given).run()
    different = corrected.diff("totals", table)
    rows = {row.key: row for row in different.collect()}
    was, should_be = sums(before, 0), sums(before, -1_000)
    assert rows.keys() == {key for key in should_be if was.get(key) != should_be[key]}
    assert rows["only-refunds"].difference == "only_backfill"
    assert rows["only-refunds"].live is None
    changed = {key: row for key, row in rows.items() if key != "only-refunds"}
    assert {row.difference for row in changed.values()} == {"different"}
    assert {key: (row.live.value, row.backfill.value) for key, row in changed.items()} == {
        key: (was[key], should_be[key]) for key in changed
    }

    before_publishing = pin_offsets(kafka, out)
    report = write_topic(
        different.selectExpr("key", "string(backfill.value) as value", "backfill.timestamp as timestamp"),
        kafka, out, key=TEXT, value=TEXT,
    )  # fmt: skip
    assert report.records == len(rows)
    ends_before = {place.partition: end for place, end in before_publishing.ends().items()}
    behind = pin_offsets(kafka, out, start=ends_before)
    published = read_topic(spark, kafka, out, key=TEXT, value=TEXT, offsets=behind).collect()
    assert {row.key: int(row.value) for row in published} == {key: should_be[key] for key in rows}
    places = {row.key: row.partition for row in read_topic(spark, kafka, out, key=TEXT, value=TEXT).collect()}
    assert {row.key: row.partition for row in published} == {key: places[key] for key in rows}


def test_a_range_of_time_is_replayed(
    spark: Any, kafka: str, topics: Topics, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """A day is the offsets from its first record to that of the next day."""
    payments = topics.create("payments", PARTITIONS)
    days = [[(f"payer-{n % 5}", n, BEGIN_MS + day * DAY_MS + n) for n in range(60)] for day in range(3)]
    for day in days:
        pay(kafka, payments, day)
    begin, end = (datetime.fromtimestamp((BEGIN_MS + day * DAY_MS) / 1000, UTC) for day in (1, 2))
    history = History.kafka(spark, kafka, payments, start=begin, end=end)
    ranges = offsets_of(history.df)
    assert sorted(one.partition for one in ranges.ranges if one.start > 0) == [0, 1]
    topology = totals(payments, "out", 0)
    result = Backfill(
        spark, topology, {payments: history}, application_id=unique_name("app"), run_dir=tmp_path / "run",
        partitions={"out": PARTITIONS},
    ).run()  # fmt: skip
    assert {row.key: row.value for row in result.table("totals").collect()} == sums(days[1], 0)
    assert result.stages[0].rows == 60
