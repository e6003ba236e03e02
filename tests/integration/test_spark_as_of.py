"""Tables as of a time: from the changelog, from versions, and from snapshots; or an error that says which ways there
are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from integration_support.fierce_broker import first_offset
from integration_support.topics import Topics
from processor_api.clock import SystemClock
from processor_api.stores.factory import Stores
from streams import KafkaStreams, Materialized, Serdes, StreamsBuilder
from streams.snapshots.manifest import TaskSnapshot
from streams.spark import (
    NaiveTimestampError,
    OffsetRangeLost,
    SparkBridgeError,
    UnknownPartitionCount,
    pin_offsets,
    read_table,
)
from streams.spark.sources.offsets import cluster_settings, consumer_settings
from streams.spark.sources.partition_reader import read_range
from waiting import wait_until

TEXT = Serdes.STRING
SETTINGS = {"default.key.serde": "string", "default.value.serde": "string"}
HISTORY = 3_600_000
NOW = SystemClock().time_ms()
NEVER = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
SOON = {"cleanup.policy": "compact", "segment.ms": "500", "max.compaction.lag.ms": "500"}


def app() -> StreamsBuilder:
    """The tables of an application that does not run: their changelogs are written here."""
    builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
    builder.table("in", materialized=Materialized(name="names"))
    versions = Stores.persistent_versioned_key_value_store("versions", HISTORY, 60_000)
    builder.table("versions-in", materialized=Materialized(supplier=versions))
    return builder


class Changelog:
    """A changelog of one partition."""

    def __init__(self, bootstrap: str, application: str, store: str, configs: dict[str, str]) -> None:
        self.bootstrap, self.application, self.store = bootstrap, application, store
        self.topic = f"{application}-{store}-changelog"
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(self.topic, 1, 1, config=configs)])[self.topic].result()
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._refused: list[Any] = []

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(error)

    def write(self, records: Iterable[tuple[str, str | None, int]]) -> None:
        for key, value, time in records:
            self._producer.produce(self.topic, value, key, timestamp=time, on_delivery=self._delivered)
        assert self._producer.flush(60) == 0
        assert not self._refused, "a record was refused, such as one of the future"

    def compact(self, first: int) -> None:
        """Waits until there are no records before an offset; segments are closed by records of later times."""

        def is_compacted() -> bool:
            self.write([("rolls", "on", SystemClock().time_ms())])
            found = first_offset(self.bootstrap, self.topic)
            return found is not None and found >= first

        wait_until("the changelog is compacted", is_compacted)

    def table(self, spark: Any, as_of: Any, **options: Any) -> dict[str, str]:
        found = read_table(
            spark, {**SETTINGS, "bootstrap.servers": self.bootstrap}, app, self.store, raw=True, as_of=as_of,
            application_id=self.application, **options,
        )  # fmt: skip
        return {bytes(row.key).decode(): bytes(row.value).decode()[-2:] for row in found.collect()}


@pytest.fixture
def changelog(fierce: str, unique_name: Callable[[str], str]) -> Callable[[str, dict[str, str]], Changelog]:
    return lambda store, configs: Changelog(fierce, unique_name("app"), store, configs)


def test_a_changelog_that_was_not_compacted_has_the_table_of_each_time(
    spark: Any, changelog: Callable[..., Changelog]
) -> None:
    log = changelog("names", NEVER)
    log.write([("a", "a1", NOW), ("b", "b1", NOW + 10), ("a", "a2", NOW + 20), ("b", None, NOW + 30)])
    assert log.table(spark, NOW - 1) == {}
    assert log.table(spark, NOW) == {"a": "a1"}
    assert log.table(spark, datetime.fromtimestamp((NOW + 19) / 1000, UTC)) == {"a": "a1", "b": "b1"}
    assert log.table(spark, NOW + 20) == {"a": "a2", "b": "b1"}
    assert log.table(spark, NOW + 99) == {"a": "a2"}
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW past USING streams_table OPTIONS (topology '{__name__}:app', store 'names',"
        f" `application.id` '{log.application}', `bootstrap.servers` '{log.bootstrap}', raw 'true', as_of '{NOW}')"
    )
    assert spark.sql("SELECT count(*) FROM past").collect() == [(1,)]


def test_a_changelog_that_was_compacted_since_names_the_other_ways(
    spark: Any, changelog: Callable[..., Changelog]
) -> None:
    log = changelog("names", SOON)
    log.write((f"k{number}", "v1", NOW) for number in range(50))
    log.write((f"k{number}", "v2", NOW + 10) for number in range(50))

    log.compact(50)
    with pytest.raises(Exception, match=r"OffsetRangeLost: .* Ways to have tables of the past: a versioned store, .*"):
        log.table(spark, NOW)
    with pytest.raises(Exception, match=r"OffsetRangeLost"):
        log.table(spark, NOW + 99)
    later = SystemClock().time_ms() + HISTORY
    assert log.table(spark, later) == {"rolls": "on", **{f"k{number}": "v2" for number in range(50)}}


def test_first_records_that_were_deleted_are_not_passed_over(spark: Any, changelog: Callable[..., Changelog]) -> None:
    log = changelog("names", {**NEVER, "cleanup.policy": "compact,delete"})
    log.write((f"k{number}", "v1", NOW + number) for number in range(10))
    for future in log.admin.delete_records([ClientPartition(log.topic, 0, 4)]).values():
        future.result()
    with pytest.raises(OffsetRangeLost, match=r"before offset 4 were deleted, .* Ways to have tables of the past"):
        log.table(spark, NOW + 7)


def test_versions_are_those_that_were_valid(spark: Any, changelog: Callable[..., Changelog]) -> None:
    """Late ones too: they are in the history where they belong."""
    log = changelog("versions", NEVER)
    first = NOW - 2 * HISTORY
    log.write([("a", "a1", first), ("b", "b1", first + 10), ("a", "a3", first + 30), ("a", "a2", first + 20),
               ("b", None, first + 40)])  # fmt: skip
    assert log.table(spark, first - 1) == {}
    assert log.table(spark, first + 5) == {"a": "a1"}
    assert log.table(spark, first + 20) == {"a": "a2", "b": "b1"}
    assert log.table(spark, first + 35) == {"a": "a3", "b": "b1"}
    assert log.table(spark, first + 40) == {"a": "a3"}
    log.write([("c", "c1", NOW)])
    with pytest.raises(Exception, match=rf"OffsetRangeLost: .*'versions' keeps its history for {HISTORY} ms"):
        log.table(spark, first)
    assert log.table(spark, NOW) == {"a": "a3", "c": "c1"}


def test_versions_that_a_compaction_may_have_removed_are_refused(
    spark: Any, changelog: Callable[..., Changelog]
) -> None:
    log = changelog("versions", SOON)
    log.write((f"k{number}", "v1", NOW) for number in range(50))
    log.write((f"k{number}", "v2", NOW + 10) for number in range(50))

    log.compact(50)
    with pytest.raises(Exception, match=r"OffsetRangeLost: .* has been compacted, and rows that it had may be missing"):
        log.table(spark, NOW + 5)


def test_a_time_excludes_what_means_another_one(spark: Any, changelog: Callable[..., Changelog]) -> None:
    log = changelog("names", NEVER)
    with pytest.raises(SparkBridgeError, match="give offsets, or as_of, not both"):
        log.table(spark, NOW, offsets=pin_offsets(log.bootstrap, log.topic))
    with pytest.raises(SparkBridgeError, match="leave out versions, or as_of"):
        log.table(spark, NOW, versions="all")
    with pytest.raises(NaiveTimestampError, match="has no time zone"):
        log.table(spark, datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(SparkBridgeError, match="as_of is a time, not 'yesterday'"):
        log.table(spark, "yesterday")


def test_a_snapshot_has_what_a_compaction_has_removed(
    spark: Any, kafka: str, topics: Topics, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """The changelog is emptied up to the snapshot, so that nothing else has its rows."""
    topic, name = topics.create("in", 1), unique_name("app")

    def counts() -> StreamsBuilder:
        builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
        builder.stream(topic).group_by_key().count(materialized=Materialized(name="counts"))
        return builder

    config = {
        **SETTINGS, "application.id": name, "bootstrap.servers": kafka, "state.dir": str(tmp_path / "state"),
        "state.snapshot.dir": str(tmp_path / "snapshots"), "state.snapshot.interval.ms": 50, "commit.interval.ms": 50,
    }  # fmt: skip
    producer = Producer({"bootstrap.servers": kafka})

    def send(keys: Iterable[str], time: int) -> None:
        for key in keys:
            producer.produce(topic, "x", key, timestamp=time)
        assert producer.flush(60) == 0

    def table(**options: Any) -> dict[str, int]:
        return {row.key: row.value for row in read_table(spark, config, counts, "counts", **options).collect()}

    def snapshot_offsets() -> list[int]:
        """Offsets of the snapshots that are there."""
        found = [TaskSnapshot.parse(path.read_bytes()) for path in tmp_path.glob("snapshots/*/tasks/0_0/*.json")]
        return [one.stores["counts"].offset or 0 for one in found]

    changelog = f"{name}-counts-changelog"
    running = KafkaStreams(counts, config)
    running.start()
    send(["a", "b", "a"], NOW)
    wait_until("a snapshot has the counts", lambda: latest_of(kafka, changelog) == {"a": 2, "b": 1}
               and max(snapshot_offsets(), default=0) + 1 >= pin_offsets(kafka, changelog).ranges[0].end)  # fmt: skip
    assert running.close(60)
    followed = max(snapshot_offsets()) + 1
    running = KafkaStreams(counts, {key: one for key, one in config.items() if not key.startswith("state.snapshot")})
    running.start()
    later = SystemClock().time_ms()
    send(["c", "a"], later + 10)
    wait_until("more is counted", lambda: latest_of(kafka, changelog).items() >= {"a": 3, "c": 1}.items())
    send(["b"], later + 20)
    wait_until("the rest is counted", lambda: latest_of(kafka, changelog)["b"] == 2)
    assert running.close(60)
    admin = AdminClient({"bootstrap.servers": kafka})
    both = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    allowed = ConfigResource(ConfigResource.Type.TOPIC, changelog, incremental_configs=[both])
    admin.incremental_alter_configs([allowed])[allowed].result()
    for future in admin.delete_records([ClientPartition(changelog, 0, followed)]).values():
        future.result()
    assert table(as_of=later + 15) == {"a": 3, "b": 1, "c": 1}
    assert table(as_of=later) == {"a": 2, "b": 1}
    rows = read_table(spark, config, counts, "counts", as_of=later + 15).orderBy("key").collect()
    assert [row.changelog_offset is None for row in rows] == [False, True, False]
    assert [int(row.timestamp.timestamp() * 1000) for row in rows] == [later + 10, NOW, later + 10]
    with pytest.raises(OffsetRangeLost, match="Ways to have tables of the past"):
        table(as_of=NOW)  # the snapshot was made after that, and may have what came after it


def latest_of(bootstrap: str, changelog: str) -> dict[str, int]:
    """The last count of each key; none as long as there is no changelog."""
    try:
        pinned = pin_offsets(bootstrap, changelog).ranges[0]
    except UnknownPartitionCount:
        return {}
    settings = consumer_settings(cluster_settings(bootstrap), "read_committed")
    found = [one for messages in read_range(settings, pinned) for one in messages]
    return {one.key().decode(): int.from_bytes(one.value()[-8:], "big") for one in found}
