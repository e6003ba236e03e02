"""The runtime's own metrics of running applications, under Kafka's names and tags."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dsl import Materialized, SessionWindows, StreamsBuilder, TimeWindows
from processor_api.metrics import RecordingLevel
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, counting
from state.registry.statistics import ROCKSDB_PROPERTIES, ROCKSDB_STATISTICS
from state.write_buffer.iterators import RowIterator
from streams.app.kafka_streams import KafkaStreams
from streams.metrics.registry import Metrics
from streams.runtime.engines.store_counters import StoreCounters
from streams.runtime.threads.thread_metrics import GroupCounters
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

S = Serdes.STRING
APP = {"client.id": "me"}
THREAD = {"thread-id": "me-StreamThread-1"}
TASK = {**THREAD, "task-id": "0_0"}


def values(app: KafkaStreams, group: str, tags: dict[str, str] | None = None) -> dict[str, Any]:
    """By name, of a group and, if given, of exactly these tags."""
    return {
        name.name: metric.metric_value()
        for name, metric in app.metrics().items()
        if name.group == group and (tags is None or dict(name.tags) == tags)
    }


class Using(Processor[str, str, str, str]):
    """Puts each record into its stores, and reads it again."""

    names: tuple[str, ...] = ("kept",)

    def init(self, context: Any) -> None:
        super().init(context)
        self.stores = [context.get_state_store(name) for name in self.names]
        context.schedule(1000, PunctuationType.STREAM_TIME, lambda now: None)

    def process(self, record: Any) -> None:
        for store in self.stores:
            store.put_if_absent(record.key, record.value)
            store.put(record.key, record.value)
            assert store.get(record.key) == record.value
            with store.all() as rows:
                assert dict(rows)[record.key] == record.value
        self.context.forward(record)


def using(*builders: StoreBuilder[Any, Any]) -> Topology:
    def made() -> Using:
        found = Using()
        found.names = tuple(builder.name for builder in builders)
        return found

    topology = Topology().add_source("source", "in").add_processor("p", made, "source")
    for builder in builders:
        topology = topology.add_state_store(builder, "p")
    return topology.add_sink("sink", "out", "p")


def kv(name: str, persistent: bool = True) -> StoreBuilder[Any, Any]:
    supplier = Stores.persistent_key_value_store(name) if persistent else Stores.in_memory_key_value_store(name)
    return Stores.key_value_store_builder(supplier, S, S)


def committed(cluster: Cluster, app: KafkaStreams, values_sent: int) -> Callable[[], bool]:
    def over() -> bool:
        return len(cluster.values()) == values_sent and values(app, "stream-thread-metrics")["commit-total"] > 0

    return over


def test_a_thread_and_its_tasks_have_totals_rates_latencies_and_ratios(cluster: Cluster) -> None:
    app = cluster.app(using(kv("kept")), APP)
    cluster.send("a", "b", "c")
    wait_until("it is committed", committed(cluster, app, 3))
    thread = values(app, "stream-thread-metrics", THREAD)
    names = {f"{what}-{stat}" for what in ("process", "commit", "poll") for stat in ("total", "rate", "ratio")}
    names |= {f"{what}-latency-{stat}" for what in ("process", "commit", "poll") for stat in ("avg", "max")}
    names |= {f"task-{what}-{stat}" for what in ("created", "closed") for stat in ("total", "rate")}
    assert set(thread) == names | {
        "thread-start-time",
        "thread-state",
        "state",
        "stalled-partitions",
        "service-outage-total",
        "last-commit-seconds-ago",
    }
    assert (thread["task-created-total"], thread["task-closed-total"]) == (1, 0)
    assert thread["process-total"] == 3
    assert 0 < thread["process-rate"] <= 3 / 30
    assert 0 < thread["process-latency-avg"] <= thread["process-latency-max"] < 60_000
    assert 0 < thread["commit-latency-avg"] <= thread["commit-latency-max"]
    assert 0 < thread["poll-ratio"] <= 1
    task = values(app, "stream-task-metrics", TASK)
    assert task["process-total"] == 3
    assert 0 < task["process-rate"] <= 3 / 30
    assert (task["punctuate-total"] > 0) == (task["punctuate-rate"] > 0) == (task["punctuate-latency-avg"] > 0)
    assert (task["dropped-records-total"], task["dropped-records-rate"]) == (0, 0)


def test_a_store_tells_of_its_commits_and_of_rocksdb(cluster: Cluster) -> None:
    """Commits of KIP-892, RocksDB's properties of KIP-607; a store in memory has no such properties.

    Each key is written once: RocksDB counts a key for each write of it that no compaction has merged yet, and how many
    commits write a key again depends on when they are.
    """
    app = cluster.app(using(kv("kept"), kv("light", persistent=False)), APP)
    cluster.send("a", key="x")
    cluster.send("b", key="y")
    wait_until("it is committed", committed(cluster, app, 2))
    tags = {**TASK, "rocksdb-state-id": "kept"}

    def told() -> dict[str, Any]:
        return values(app, "stream-state-metrics", tags)

    wait_until("the engine has both", lambda: told()["estimate-num-keys"] == 2 and not told()["uncommitted-entries"])
    found = told()
    commits = {"commit-rate", "commit-latency-avg", "commit-latency-max", "uncommitted-entries", "uncommitted-bytes"}
    assert set(found) == commits | set(ROCKSDB_PROPERTIES)
    assert 0 < found["commit-latency-avg"] <= found["commit-latency-max"]
    assert found["commit-latency-max"] > 1000, "it is in nanoseconds"
    assert found["commit-rate"] > 0
    assert found["num-entries-active-mem-table"] == found["estimate-num-keys"] == 2
    assert found["block-cache-capacity"] == 64 << 20
    assert 0 < found["cur-size-active-mem-table"] <= found["size-all-mem-tables"]
    light = values(app, "stream-state-metrics", {**TASK, "in-memory-state-id": "light"})
    assert set(light) == commits | {"num-keys"}
    assert light["num-keys"] == 2
    app.close()
    assert values(app, "stream-state-metrics") == {}


def test_a_metric_that_is_kept_outlives_its_store(cluster: Cluster) -> None:
    """Whoever asks after the close is told 0, not an error of the binding."""
    app = cluster.app(using(kv("kept")), APP)
    cluster.send("a")
    wait_until("it is committed", committed(cluster, app, 1))
    kept = [metric for name, metric in app.metrics().items() if name.name in ROCKSDB_PROPERTIES]
    assert len(kept) == len(ROCKSDB_PROPERTIES)
    app.close()
    assert {metric.metric_value() for metric in kept} == {0}


def test_what_waits_for_a_commit_is_counted_in_entries_and_bytes(cluster: Cluster) -> None:
    app = cluster.app(using(kv("kept")), {**APP, "commit.interval.ms": 3_600_000})
    cluster.send("a", "bb")
    wait_until("it is processed", lambda: len(cluster.values()) == 2)
    found = values(app, "stream-state-metrics", {**TASK, "rocksdb-state-id": "kept"})
    assert found["uncommitted-entries"] == 1  # of one key
    assert found["uncommitted-bytes"] > found["uncommitted-entries"] * 45
    assert math.isnan(found["commit-latency-avg"])
    assert found["commit-rate"] == 0


def test_operations_of_stores_are_measured_at_debug_only(cluster: Cluster) -> None:
    """Those of the processor: what a store does within a call of its own does not count."""
    app = cluster.app(using(kv("kept")), {**APP, "metrics.recording.level": "DEBUG"})
    cluster.send("a", "b", "c")
    wait_until("it is committed", committed(cluster, app, 3))
    found = values(app, "stream-state-metrics", {**TASK, "rocksdb-state-id": "kept"})
    for name in ("get", "put", "put-if-absent", "all", "iterator-duration"):
        latency = "" if name == "iterator-duration" else "-latency"
        assert 0 < found[f"{name}{latency}-avg"] <= found[f"{name}{latency}-max"]
        if name != "iterator-duration":
            assert 0 < found[f"{name}-rate"] <= 3 / 30
    assert found["num-open-iterators"] == 0
    assert math.isnan(found["oldest-iterator-open-since-ms"])
    assert found["delete-rate"] == 0


def test_a_store_of_the_dsl_is_measured_too(cluster: Cluster) -> None:
    app = cluster.app(counting(), {**APP, "metrics.recording.level": "DEBUG"})
    cluster.send("a", "b", "c")
    cluster.until_out("a=1", "b=1", "c=1")
    (tags,) = [dict(name.tags) for name in app.metrics() if name.name == "put-rate"]
    found = values(app, "stream-state-metrics", tags)
    assert 0 < found["put-rate"] <= 3 / 30
    assert found["get-rate"] == pytest.approx(found["put-rate"], rel=0.1)


def of_store(app: KafkaStreams, store: str) -> dict[str, float]:
    """The calls of a store by operation, as their rates over the whole window tell."""
    found = {}
    for name, metric in app.metrics().items():
        if name.group == "stream-state-metrics" and store in name.tags.values() and name.name.endswith("-rate"):
            found[name.name.removesuffix("-rate")] = metric.metric_value()
    return {name: rate for name, rate in found.items() if rate and name != "commit"}


def test_a_versioned_store_is_measured_as_others(cluster: Cluster) -> None:
    """With the reads of a join, as of the times of its records."""
    builder = StreamsBuilder()
    versions = Stores.persistent_versioned_key_value_store("versions", 60_000)
    table = builder.table("other", materialized=Materialized.as_(versions))
    builder.stream("in").join(table, lambda one, other: one + other).to("out")
    cluster.broker.create_topic("other", 1)
    app = cluster.app(builder.build(), {**APP, "metrics.recording.level": "DEBUG"})
    cluster.send("row", topic="other")
    wait_until("it is put", lambda: "put" in of_store(app, "versions"))
    cluster.send("a")
    cluster.until_out("arow")
    assert set(of_store(app, "versions")) == {"put", "get"}


def test_windows_of_operators_are_measured(cluster: Cluster) -> None:
    """They read and write rows without a call of the store."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(timedelta(seconds=1))
    stream = builder.stream("in")
    counts = stream.group_by_key().windowed_by(windows).count(materialized=Materialized(name="windows"))
    counts.to_stream(lambda window, count: window.key).map_values(str).to("out")
    sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(seconds=1))
    stream.group_by_key().windowed_by(sessions).count(materialized=Materialized(name="sessions"))
    app = cluster.app(builder.build(), {**APP, "metrics.recording.level": "DEBUG"})
    cluster.send("a", "b")
    cluster.until_out("2")
    assert set(of_store(app, "windows")) == {"fetch", "put"}
    assert {"fetch", "put"} <= set(of_store(app, "sessions")) <= {"fetch", "put", "remove"}


def test_the_hits_of_a_cache_are_a_ratio_at_debug(cluster: Cluster) -> None:
    """Kafka's names and tags; the write buffer is the cache, also of a store that sends each change on at once."""
    app = cluster.app(counting(), {**APP, "metrics.recording.level": "DEBUG"})
    cluster.send("a", "a", "a", "b")
    cluster.until_out("a=1", "a=2", "a=3", "b=1")
    [tags] = [dict(name.tags) for name in app.metrics() if name.name == "hit-ratio-avg"]
    assert set(tags) == {"thread-id", "task-id", "record-cache-id"}
    found = values(app, "stream-record-cache-metrics", tags)
    assert set(found) == {"hit-ratio-avg", "hit-ratio-min", "hit-ratio-max"}
    assert 0 < found["hit-ratio-avg"] < 1
    assert found["hit-ratio-min"] == found["hit-ratio-avg"] == found["hit-ratio-max"], "one window"
    app.close()
    other = cluster.start(counting())
    assert values(other, "stream-record-cache-metrics") == {}


def test_a_restore_counts_what_it_read_and_what_is_left(cluster: Cluster, tmp_path: Path) -> None:
    """KIP-869."""
    first = cluster.app(using(kv("kept")), APP)
    cluster.send("a", "b", "c")
    wait_until("it is committed", committed(cluster, first, 3))
    first.close()
    logged = len(cluster.broker.records("app-kept-changelog"))
    assert logged >= 1
    second = cluster.app(using(kv("kept")), {**APP, "state.dir": str(tmp_path / "another")})
    wait_until("it is restored", lambda: values(second, "stream-task-metrics", TASK).get("restore-total") == logged)
    found = values(second, "stream-task-metrics", TASK)
    assert 0 < found["restore-rate"] <= logged
    wait_until(
        "all is read", lambda: values(second, "stream-task-metrics", TASK)["restore-remaining-records-total"] == 0
    )


def test_a_rebalance_is_counted_with_its_time(cluster: Cluster) -> None:
    """It goes from the join, or from the loss of tasks, to the assignment."""
    app = cluster.app(using(kv("kept")), APP)
    cluster.send("a")
    wait_until("it is committed", committed(cluster, app, 1))

    def found() -> dict[str, Any]:
        return values(app, "consumer-coordinator-metrics", THREAD)

    first = found()
    assert set(first) == {
        *(f"{what}-{stat}" for what in ("rebalance", "failed-rebalance") for stat in ("total", "rate-per-hour")),
        *(f"rebalance-latency-{stat}" for stat in ("avg", "max", "total")),
        "last-rebalance-seconds-ago",
    }
    assert first["rebalance-total"] >= 1
    assert first["failed-rebalance-total"] == 0
    assert first["rebalance-rate-per-hour"] > 0
    assert 0 < first["rebalance-latency-avg"] <= first["rebalance-latency-max"] <= first["rebalance-latency-total"]
    assert 0 <= first["last-rebalance-seconds-ago"] < 60
    app.add_stream_thread()
    # whichever of the two threads has the task: both are told
    wait_until("the new member is counted", lambda: found()["rebalance-total"] > first["rebalance-total"])
    other = {"thread-id": "me-StreamThread-2"}

    def tasks(of: dict[str, str]) -> tuple[int, int]:
        thread = values(app, "stream-thread-metrics", of)
        return thread["task-created-total"], thread["task-closed-total"]

    wait_until("one of them has it", lambda: sum(made - closed for made, closed in (tasks(THREAD), tasks(other))) == 1)


def test_tasks_that_are_lost_are_a_failed_rebalance() -> None:
    now = [10.0]
    metrics = Metrics(lambda: int(now[0] * 1000))
    group = GroupCounters(metrics, lambda: now[0])
    assert group.since_last_s() == -1
    group.begins()
    now[0] = 12.0
    group.owns(gone=False, lost=False)
    now[0] = 15.0
    assert group.since_last_s() == 3
    group.owns(gone=True, lost=True)
    now[0] = 19.0
    group.owns(gone=False, lost=False)
    assert (group.rebalances, group.failed, group.rebalance_s, group.rebalance_s_max) == (2, 1, 6, 4)
    group.owns(gone=False, lost=False)
    assert (group.rebalances, group.rebalance_s) == (3, 6), "tasks that are only added take no time"


def test_the_global_thread_has_metrics_of_its_own(cluster: Cluster) -> None:
    cluster.broker.create_topic("everywhere", 1)
    builder = StreamsBuilder()
    builder.global_table("everywhere", materialized="table")
    builder.stream("in").to("out")
    app = cluster.app(builder.build(), APP)
    producer = cluster.clients.producer({})
    producer.produce("everywhere", b"v", b"k", 0, None, None, 0, None)
    producer.flush()
    tags = {"thread-id": "me-GlobalStreamThread", "task-id": "-1_-1"}
    wait_until("it is there", lambda: values(app, "stream-task-metrics", tags).get("process-total"))
    assert values(app, "stream-task-metrics", tags)["process-rate"] > 0
    assert (
        values(app, "stream-thread-metrics", {"thread-id": "me-GlobalStreamThread"})["thread-state"].name == "RUNNING"
    )
    store = {**tags, "rocksdb-state-id": "table"}
    wait_until("it is in the engine", lambda: values(app, "stream-state-metrics", store)["estimate-num-keys"] == 1)
    assert values(app, "stream-state-metrics", store)["commit-rate"] > 0
    app.close()
    assert values(app, "stream-state-metrics") == {}


def lags(app: KafkaStreams) -> dict[str, float]:
    """The lag of each input partition, by topic and number."""
    return {
        f"{name.tags['topic']}-{name.tags['partition']}": metric.metric_value()
        for name, metric in app.metrics().items()
        if name.name == "records-lag"
    }


def test_each_input_partition_has_its_lag(cluster: Cluster) -> None:
    """What waits counts until it is processed."""
    app = cluster.app(counting(), APP)
    cluster.send("a", "b")
    wait_until("nothing is left", lambda: len(cluster.values()) == 2 and lags(app) == {"in-0": 0})
    app.pause()
    cluster.send("c", "d", "e")
    wait_until("three wait", lambda: lags(app) == {"in-0": 3})
    app.resume()
    wait_until("nothing is left", lambda: lags(app) == {"in-0": 0})
    app.close()
    assert lags(app) == {}


def test_records_of_an_open_transaction_are_lag(cluster: Cluster) -> None:
    """The consumer cannot read them yet, which is no reason to say that there is nothing to do. The marker at the end
    of the transaction is no lag, and is committed: it stayed at 1 until the next record, and paged the owner of an idle
    application."""
    app = cluster.app(counting(), APP)
    producer = EmbeddedClients(cluster.broker).producer({"transactional.id": "other"})
    producer.init_transactions()
    producer.begin_transaction()
    for value in (b"a", b"b"):
        producer.produce("in", value, b"k", 0, None, None, 1)
    producer.flush()
    wait_until("both wait", lambda: lags(app) == {"in-0": 2})
    producer.commit_transaction()
    wait_until("nothing is left", lambda: len(cluster.values()) == 2 and lags(app) == {"in-0": 0})
    admin, place = EmbeddedClients(cluster.broker).admin({}), TopicPartition("in", 0)
    wait_until("the marker is committed", lambda: admin.group_offsets("app", [place])[place].offset == 3)
    app.close()
    producer.begin_transaction()
    producer.produce("in", b"c", b"k", 0, None, None, 1)
    producer.flush()
    producer.abort_transaction()
    app = cluster.app(counting(), APP)
    wait_until("an aborted record is no lag after a restart", lambda: lags(app) == {"in-0": 0})
    wait_until("it is committed", lambda: admin.group_offsets("app", [place])[place].offset == 5)


def test_an_idle_application_that_writes_transactions_has_no_lag(cluster: Cluster) -> None:
    """Each transaction leaves a marker in the repartition topic."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    words = builder.stream("in").group_by(lambda key, value: value, "by-word")
    words.count(materialized="counts").to_stream().to("out", value_serde="long")
    app = cluster.app(builder.build(), {**APP, "processing.guarantee": "exactly_once_v2"})
    places = [TopicPartition("in", 0), TopicPartition("app-by-word-repartition", 0)]
    admin = EmbeddedClients(cluster.broker).admin({})
    for number in (1, 2, 3):
        cluster.send("a")
        wait_until(
            "nothing is left",
            lambda number=number: len(cluster.values()) == number and set(lags(app).values()) == {0},
        )
        wait_until(
            "the group is at the ends",
            lambda: (
                {place: one.offset for place, one in admin.group_offsets("app", places).items()}
                == admin.log_ends(places)
            ),
        )


def test_topics_have_what_was_read_and_written(cluster: Cluster) -> None:
    """Records that were read are counted, those that were written are estimated (KIP-846)."""
    app = cluster.app(counting(), APP)
    cluster.send("a", "bb")
    tags = {**TASK, "processor-node-id": "source", "topic": "in"}

    def read() -> dict[str, Any]:
        return values(app, "stream-topic-metrics", tags)

    wait_until("both are read", lambda: read() == {"records-consumed-total": 2, "bytes-consumed-total": 5})
    written = {**TASK, "processor-node-id": "sink", "topic": "out"}
    assert set(values(app, "stream-topic-metrics", written)) == {"records-produced-total"}


def test_rocksdb_keeps_statistics_at_debug_only(cluster: Cluster) -> None:
    """Of the database of a task, that is of all of its stores (KIP-471)."""
    tags = {**TASK, "rocksdb-state-id": "all"}
    app = cluster.app(using(kv("kept")), {**APP, "metrics.recording.level": "DEBUG"})
    cluster.send("a", "b")
    wait_until("it is written", lambda: values(app, "stream-state-metrics", tags).get("bytes-written-total", 0) > 0)
    found = values(app, "stream-state-metrics", tags)
    assert set(found) == set(ROCKSDB_STATISTICS)
    assert found["number-file-errors-total"] == 0
    assert not [name for name, value in found.items() if name.endswith("-total") and math.isnan(value)]
    app.close()
    app = cluster.app(using(kv("kept")), {**APP, "application.id": "quiet"})
    wait_until("it runs", lambda: "commit-total" in values(app, "stream-thread-metrics"))
    assert values(app, "stream-state-metrics", tags) == {}


def test_the_oldest_iterator_that_is_open_has_its_time() -> None:
    now = [1000]
    counters = StoreCounters(Metrics(lambda: now[0], level=RecordingLevel.DEBUG), lambda: now[0] / 1000)

    class Rows:
        name, persistent, is_open = "kept", False, True

        def all(self) -> RowIterator:
            return RowIterator(iter([(b"k", b"v")]), "kept")

    store = counters.measured(Rows())
    first = store.all()
    now[0] = 3000
    second = store.all()
    assert (counters.open_iterators, counters.oldest_iterator_ms()) == (2, 1000)
    first.close()
    assert (counters.open_iterators, counters.oldest_iterator_ms()) == (1, 3000)
    second.close()
    second.close()
    assert counters.open_iterators == 0
    assert math.isnan(counters.oldest_iterator_ms())
