"""Global stores in a running application, on a broker in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Materialized, Produced, StreamsBuilder
from processor_api.errors import (
    ConfigError,
    DeserializationError,
    MissingTopicError,
    ProcessingError,
    StreamsError,
    TopologyError,
)
from processor_api.handlers import ProducerRecord, Response
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from waiting import DEADLINE_S

S = Serdes.STRING
STRINGS: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
TO_STRINGS: Produced[str, str] = Produced(key_serde=S, value_serde=S)
PARTITIONS = 3


class LookUp(Processor[str, str, str, str]):
    """Forwards what the global table has for the key."""

    def process(self, record: Record[str, str]) -> None:
        found = self.context.get_state_store("g").get(record.key)
        self.context.forward(record.with_value("none" if found is None else f"{found.value}@{found.timestamp}"))


def with_table(engine: str = "rocksdb", value_serde: Serde[Any] = S) -> Topology:
    builder = StreamsBuilder()
    how: Consumed[str, Any] = Consumed(key_serde=S, value_serde=value_serde)
    builder.global_table("global", how, materialized=Materialized(name="g", store_type=engine))
    builder.stream("in", STRINGS).process(LookUp).to("out", TO_STRINGS)
    return builder.build()


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"global": PARTITIONS, "in": 1, "out": 1}, one_state=True) as kit:
        yield kit


# ------------------------------------------------------------------ filling and following


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_tasks_see_the_whole_topic_from_their_first_record(kit: Cluster, engine: str, guarantee: str) -> None:
    """All partitions of it, whatever the task's own; then what comes, and what is deleted (semantics 93)."""
    for partition in range(PARTITIONS):
        kit.send_pairs("global", [(f"k{partition}", "old"), (f"k{partition}", f"v{partition}")], partition)
    kit.send_pairs("global", [(None, "no key")], 0)
    kit.send_pairs("in", [(f"k{partition}", "?") for partition in range(PARTITIONS)])
    app = kit.start(with_table(engine), processing_guarantee=guarantee)
    kit.until(lambda: len(kit.values("out")) == PARTITIONS)
    assert kit.values("out") == ["v0@1", "v1@1", "v2@1"]
    kit.send_pairs("global", [("k1", None), ("new", "n")], 1)
    kit.until(lambda: kit.ask("new") == ["n@3"])
    assert kit.ask("k1", "k2") == ["none", "v2@1"]
    assert app.state is ClientState.RUNNING


def test_global_stores_are_filled_when_start_returns(kit: Cluster) -> None:
    kit.send_pairs("global", [("a", "1"), (None, "no key"), ("b", "2")], 2)
    restores = Restores()
    app = kit.app(with_table(), restores=restores, start=False)
    app.start()
    assert restores.started == [("g", "global-2", 0, 3)]
    assert restores.ended == [("g", "global-2", 2)]
    assert app.state in (ClientState.REBALANCING, ClientState.RUNNING)


def test_the_consumer_of_global_stores_joins_no_group(kit: Cluster) -> None:
    """Nobody's offsets are committed but the tasks', and no other topic is made than the tasks'."""
    kit.send_pairs("global", [("a", "1")])
    kit.start(with_table())
    assert kit.ask("a") == ["1@0"]
    committed = kit.broker.groups.group("app").offsets
    kit.until(lambda: committed)
    assert {partition.topic for partition in committed} == {"in"}
    assert not any("changelog" in name for name in kit.broker.topics)


@pytest.mark.parametrize(("engine", "again"), [("rocksdb", []), ("memory", [("g", "global-0", 0, 2)])])
def test_a_restart_goes_on_where_the_store_is(kit: Cluster, engine: str, again: list[Any]) -> None:
    """A store on disk reads what it does not hold; one in memory all of the topic."""
    kit.send_pairs("global", [("a", "1"), ("b", "1")])
    kit.start(with_table(engine)).close()
    same = Restores()
    kit.start(with_table(engine), same).close()
    assert same.started == again

    kit.send_pairs("global", [("b", "2")])
    tail = Restores()
    kit.start(with_table(engine), tail)
    assert tail.started == [("g", "global-0", 0 if again else 2, 3)]
    assert kit.ask("a", "b") == ["1@0", "2@2"]


def test_what_was_followed_is_kept_like_what_was_restored(kit: Cluster) -> None:
    app = kit.start(with_table())
    kit.send_pairs("global", [("a", "1")])
    kit.until(lambda: kit.ask("a") == ["1@0"])
    app.close()
    restores = Restores()
    kit.start(with_table(), restores)
    assert restores.started == []
    assert kit.ask("a") == ["1@0"]


def test_a_partition_that_is_new_is_read_from_its_beginning(kit: Cluster) -> None:
    """It is no reason to fill the store anew."""
    kit.send_pairs("global", [("a", "1")], 0)
    kit.start(with_table()).close()
    kit.send_pairs("global", [("b", "2")], 1)
    restores = Restores()
    kit.start(with_table(), restores)
    assert restores.started == [("g", "global-1", 0, 1)]
    assert kit.ask("a", "b") == ["1@0", "2@0"]


def test_a_store_of_another_name_on_the_same_topic_is_filled_from_the_beginning(kit: Cluster) -> None:
    """As is one whose rows are written otherwise: the offset belongs to the rows."""
    kit.send_pairs("global", [("a", "1")])
    kit.start(with_table()).close()
    builder = StreamsBuilder()
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("g"), S, S)
    builder.add_global_store(plain, "global", STRINGS, Upper)
    restores = Restores()
    kit.start(builder.build(), restores)
    assert restores.started == [("g", "global-0", 0, 1)]


# ------------------------------------------------------------------ offsets that are gone


def test_a_store_whose_offset_is_not_in_the_topic_any_more_is_rebuilt_loudly(
    kit: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Records were deleted that the store had not seen: what it holds may be wrong."""
    kit.send_pairs("global", [("a", "1"), ("b", "1")])
    kit.start(with_table()).close()
    kit.send_pairs("global", [("b", "2"), ("c", "3")])
    kit.broker.log(TopicPartition("global", 0)).delete_before(3)
    with caplog.at_level(logging.ERROR, "streams.restore"):
        restores = Restores()
        kit.start(with_table(), restores)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "global store is rebuilt from its topic: its offset is outside of the topic"
    ]
    assert restores.started == [("g", "global-0", 3, 4)]
    assert kit.ask("a", "b", "c") == ["none", "none", "3@3"]


def test_records_deleted_before_they_were_followed_end_the_application_and_a_restart_rebuilds(kit: Cluster) -> None:
    """Tasks must not read a store that is being filled again (semantics 94)."""
    release = threading.Event()
    entered = threading.Event()

    class Waits(Processor[str, str, None, None]):
        def process(self, record: Record[str, str]) -> None:
            if record.value == "wait":
                entered.set()
                release.wait(DEADLINE_S)
            self.context.get_state_store("g").put(record.key, record.value)

    app = kit.start(with_processor(Waits))
    kit.send_pairs("global", [("a", "wait")])
    assert entered.wait(DEADLINE_S)
    kit.send_pairs("global", [("b", "lost"), ("c", "kept")])
    kit.broker.log(TopicPartition("global", 0)).delete_before(2)
    release.set()
    kit.until(lambda: app.state is ClientState.ERROR)
    assert isinstance(app.failure, StreamsError)
    assert "Start the application again" in str(app.failure)
    assert (app.failure.store, app.failure.topic) == ("g", "global")
    restores = Restores()
    kit.start(with_processor(Waits), restores)
    assert restores.started == [("g", "global-0", 2, 3)]


# ------------------------------------------------------------------ global stores with a processor


class Upper(Processor[str, str, None, None]):
    """Stores values in upper case, also those without a key."""

    def process(self, record: Record[str, str]) -> None:
        store = self.context.get_state_store("g")
        store.put(record.key or "no-key", None if record.value is None else record.value.upper())


class LookUpPlain(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(str(self.context.get_state_store("g").get(record.key))))


def with_processor(supplier: Any, reader: Any = LookUpPlain, **source: Any) -> Topology:
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("g"), S, S)
    how: Consumed[str, str] = Consumed(**{"key_serde": S, "value_serde": S, **source})
    builder.add_global_store(store, "global", how, supplier)
    builder.stream("in", STRINGS).process(reader).to("out", TO_STRINGS)
    return builder.build()


def test_a_restore_runs_the_processor_on_what_has_a_key(kit: Cluster) -> None:
    """KAFKA-7663; records without a key reach it only while it follows."""
    kit.send_pairs("global", [("a", "x"), (None, "y"), ("b", "z")])
    restores = Restores()
    kit.start(with_processor(Upper), restores)
    assert restores.ended == [("g", "global-0", 2)]
    assert kit.ask("a", "b", "no-key") == ["X", "Z", "None"]
    kit.send_pairs("global", [(None, "y")])
    kit.until(lambda: kit.ask("no-key") == ["Y"])


class Counts(Processor[str, str, None, None]):
    """Counts the records of each key, and tells what the context tells."""

    told: list[Any] = []  # noqa: RUF012 - of all instances

    def process(self, record: Record[str, str]) -> None:
        store = self.context.get_state_store("g")
        store.put(record.key, str(int(store.get(record.key) or "0") + 1))
        metadata = self.context.record_metadata
        assert metadata is not None
        self.told.append((self.context.task_id, metadata.topic, metadata.offset, record.timestamp))
        self.context.forward(record)  # goes nowhere
        self.context.commit()  # means nothing


def test_each_record_is_processed_once_across_restarts(kit: Cluster) -> None:
    """Rows and the offset up to which the topic was read are one write: a processor may add to what is there."""
    Counts.told.clear()
    for _ in range(3):
        kit.send_pairs("global", [("a", "x")] * 5)
        app = kit.start(with_processor(Counts))
        kit.send_pairs("global", [("a", "x")] * 5)
        kit.until(lambda: len(Counts.told) % 10 == 0)
        app.close()
    kit.start(with_processor(Counts))
    assert kit.ask("a") == ["30"]
    assert Counts.told == [(TaskId(-1, -1), "global", number, number) for number in range(30)]


def test_a_timestamp_extractor_decides_in_restore_and_after(kit: Cluster) -> None:
    builder = StreamsBuilder()
    how: Consumed[str, str] = Consumed(
        key_serde=S, value_serde=S, timestamp_extractor=lambda record, partition_time: int(record.value)
    )
    builder.global_table("global", how, materialized="g")
    builder.stream("in", STRINGS).process(LookUp).to("out", TO_STRINGS)
    kit.send_pairs("global", [("a", "100")])
    kit.start(builder.build())
    kit.send_pairs("global", [("b", "200")])
    kit.until(lambda: kit.ask("b") == ["200@200"])
    assert kit.ask("a") == ["100@100"]


def test_several_global_stores_may_read_each_other(kit: Cluster) -> None:
    """But each is written by its own processor alone."""

    class FromG(Processor[str, str, None, None]):
        def process(self, record: Record[str, str]) -> None:
            self.context.get_state_store("h").put(record.key, str(self.context.get_state_store("g").get("a")))

    class LookUpH(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(str(self.context.get_state_store("h").get(record.key))))

    kit.broker.create_topic("second", 1)
    topology = with_processor(Upper, LookUpH)
    other = Stores.key_value_store_builder(Stores.in_memory_key_value_store("h"), S, S).with_logging_disabled()
    topology.add_global_store(other, "hs", "second", "hp", FromG, key_serde=S, value_serde=S)
    app = kit.start(topology)
    kit.send_pairs("global", [("a", "x")])
    kit.until(lambda: kit.send_pairs("second", [("b", "?")]) or kit.ask("b") == ["X"])
    assert app.state is ClientState.RUNNING


@pytest.mark.parametrize("persistent", [True, False])
def test_a_store_of_windows_may_be_global(kit: Cluster, persistent: bool) -> None:
    """Readers see segments that are newer than themselves."""

    class KeepByTime(Processor[str, str, None, None]):
        def process(self, record: Record[str, str]) -> None:
            self.context.get_state_store("g").put(record.key, record.value, record.timestamp * 60_000)

    class Fetch(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            with self.context.get_state_store("g").fetch_range(record.key, 0, 10**12) as rows:
                self.context.forward(record.with_value(" ".join(f"{start}:{value}" for start, value in rows)))

    make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
    store = Stores.window_store_builder(make("g", 600_000, 60_000), S, S)
    builder = StreamsBuilder()
    builder.add_global_store(store, "global", STRINGS, KeepByTime)
    builder.stream("in", STRINGS).process(Fetch).to("out", TO_STRINGS)
    kit.send_pairs("global", [("a", "0")])
    kit.start(builder.build())
    assert kit.ask("a") == ["0:0"]
    kit.send_pairs("global", [("a", str(number)) for number in range(1, 4)])
    kit.until(lambda: kit.ask("a") == ["0:0 60000:1 120000:2 180000:3"])


class KeepVersions(Processor[str, str, None, None]):
    def process(self, record: Record[str, str]) -> None:
        self.context.get_state_store("g").put(record.key, record.value, record.timestamp)


class ListVersions(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        with self.context.get_state_store("g").versions(record.key) as rows:
            self.context.forward(record.with_value(" ".join(f"{row.timestamp}:{row.value}" for row in rows)))


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
def test_a_store_of_versions_may_be_global(kit: Cluster, engine: str) -> None:
    """And is rebuilt with its history, not only with its latest versions."""

    def topology() -> Topology:
        supplier = Stores.persistent_versioned_key_value_store("g", 600_000).on_engine(engine)
        builder = StreamsBuilder()
        builder.add_global_store(
            Stores.versioned_key_value_store_builder(supplier, S, S), "global", STRINGS, KeepVersions
        )
        builder.stream("in", STRINGS).process(ListVersions).to("out", TO_STRINGS)
        return builder.build()

    kit.send_pairs("global", [("a", "1"), ("a", "2")])
    app = kit.start(topology())
    assert kit.ask("a") == ["0:1 1:2"]
    kit.send_pairs("global", [("a", "3")])
    kit.until(lambda: kit.ask("a") == ["0:1 1:2 2:3"])
    app.close()
    kit.send_pairs("global", [("a", "4"), ("a", "5")])
    kit.broker.log(TopicPartition("global", 0)).delete_before(4)
    kit.start(topology())
    assert kit.ask("a") == ["4:5"]


def test_a_global_store_with_timestamps_does_not_take_over_the_rows_of_a_plain_one(kit: Cluster) -> None:
    """It is filled from the beginning, and the topic may not say any more what was deleted."""
    kit.send_pairs("global", [("a", "1"), ("b", "2")])
    builder = StreamsBuilder()
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("g"), S, S)
    builder.add_global_store(plain, "global", STRINGS, Upper)
    kit.start(builder.build()).close()
    kit.broker.log(TopicPartition("global", 0)).delete_before(1)
    kit.start(with_table())
    assert kit.ask("a", "b") == ["none", "2@1"]


# ------------------------------------------------------------------ only global stores


def test_an_application_of_global_stores_alone_has_no_stream_threads(kit: Cluster) -> None:
    builder = StreamsBuilder()
    builder.global_table("global", STRINGS, materialized="g")
    kit.send_pairs("global", [("a", "1")])
    app = kit.app(builder.build(), num_stream_threads=2, start=False)
    app.start()
    assert app.state is ClientState.RUNNING
    assert app.tasks() == {}
    assert app.close(60)
    assert app.state is ClientState.NOT_RUNNING


def test_a_topology_that_reads_nothing_is_refused(kit: Cluster) -> None:
    app = kit.app(Topology(), start=False)
    with pytest.raises(TopologyError, match="the topology has no source: add a source or a global store"):
        app.start()
    assert app.state is ClientState.ERROR


# ------------------------------------------------------------------ errors


def start_fails(kit: Cluster, kind: type[Exception], topology: Topology, **config: Any) -> Exception:
    app = kit.app(topology, start=False, **config)
    with pytest.raises(kind) as found:
        app.start()
    assert app.state is ClientState.ERROR
    assert app.failure is found.value
    return found.value


def ends_with(kit: Cluster, app: KafkaStreams, kind: type[Exception]) -> Exception:
    kit.until(lambda: app.state is ClientState.ERROR)
    assert isinstance(app.failure, kind), app.failure
    return app.failure


@pytest.mark.parametrize("missing", ["store", "source"])
def test_a_serde_that_is_missing_is_named(kit: Cluster, missing: str) -> None:
    """When the application is made, so that nothing is open: the next start finds the stores free."""
    key_serde = None if missing == "store" else S
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("g"), key_serde, S).with_logging_disabled()
    topology = Topology().add_global_store(store, "gs", "global", "gp", Upper)
    with pytest.raises(ConfigError) as error:
        kit.app(topology, start=False, default_key_serde=None)
    assert ("store 'g'" if missing == "store" else "source 'gs'") in str(error.value)
    kit.start(with_table())


def test_a_topic_that_is_missing_is_named(tmp_path: Path) -> None:
    with Cluster(tmp_path, topics={"in": 1, "out": 1}, one_state=True) as kit:
        error = start_fails(kit, MissingTopicError, with_table())
        assert "source topics do not exist: 'global'." in str(error)
        kit.broker.create_topic("global")
        kit.start(with_table())  # nothing was left locked


def test_a_topic_that_goes_while_it_is_read_is_named(kit: Cluster) -> None:
    class Deletes(Upper):
        def init(self, context: Any) -> None:
            kit.clients.admin({}).delete_topics(["global"])

    kit.send_pairs("global", [("a", "1")])
    error = start_fails(kit, StreamsError, with_processor(Deletes), task_timeout_ms=200)
    assert "topic 'global' does not exist" in str(error)


class WritesGlobal(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.get_state_store("g").put(record.key, record.value)


def test_a_task_that_writes_a_global_store_fails_with_node_and_store(kit: Cluster) -> None:
    app = kit.start(with_processor(Upper, WritesGlobal))
    kit.send_pairs("in", [("a", "x")])
    error = ends_with(kit, app, ProcessingError)
    assert "node 'KSTREAM-PROCESSOR-0000000003' can only read store 'g', not write to it" in str(error)
    assert kit.broker.groups.group("app").offsets.get(TopicPartition("in", 0)) in (None, (0, ""))


def test_a_record_that_cannot_be_read_goes_to_the_handler(kit: Cluster) -> None:
    """While it follows: a restore of a global table does not read what it puts into the store (semantics 93)."""
    asked: list[Any] = []

    def handler(context: Any, record: Any, error: Exception) -> Response:
        asked.append((context.processor_node_id, context.task_id, record.topic, record.offset))
        return Response.resume([ProducerRecord(topic="out", key=None, value=b"letter")])

    config = {
        "deserialization_exception_handler": handler,
        "errors_dead_letter_queue_topic_name": "out",
    }
    app = kit.start(with_table(value_serde=Serdes.LONG), **config)
    kit.send_pairs("global", [("a", "short"), ("b", "8 bytes.")])
    kit.until(lambda: kit.ask("b") == ["4044340739162075950@1"])
    assert kit.ask("a") == ["none"]
    assert asked == [("KSTREAM-SOURCE-0000000000", TaskId(-1, -1), "global", 0)]
    assert app.state is ClientState.RUNNING
    assert "letter" not in kit.values("out")  # dead letters are not for global stores (KIP-1034)


def test_without_a_handler_a_record_that_cannot_be_read_ends_the_application(kit: Cluster) -> None:
    app = kit.start(with_processor(Upper, key_serde=Serdes.LONG))
    kit.send_pairs("global", [("short", "x")])
    error: Any = ends_with(kit, app, DeserializationError)
    assert (error.topic, error.partition, error.offset) == ("global", 0, 0)
    assert error.node == "KSTREAM-SOURCE-0000000000"


def test_a_restored_record_that_cannot_be_read_goes_to_the_handler_too(kit: Cluster) -> None:
    """Where a processor restores."""
    kit.send_pairs("global", [("short", "x")])
    start_fails(kit, DeserializationError, with_processor(Upper, key_serde=Serdes.LONG))
    go_on = {"deserialization_exception_handler": "LogAndContinueExceptionHandler"}
    kit.start(with_processor(Upper, key_serde=Serdes.LONG), **go_on)


class Fails(Processor[str, str, None, None]):
    def process(self, record: Record[str, str]) -> None:
        if record.value == "bad":
            raise ValueError("bad")
        self.context.get_state_store("g").put(record.key, record.value)


@pytest.mark.parametrize("restored", [True, False])
def test_the_processing_handler_is_asked_only_if_told_so(kit: Cluster, restored: bool) -> None:
    """KIP-1270."""
    records = [("a", "1"), ("a", "bad"), ("b", "2")]
    go_on = {"processing_exception_handler": "LogAndContinueProcessingExceptionHandler"}
    if restored:
        kit.send_pairs("global", records)
        error: Any = start_fails(kit, ProcessingError, with_processor(Fails), **go_on)
    else:
        app = kit.start(with_processor(Fails), **go_on)
        kit.send_pairs("global", records)
        error = ends_with(kit, app, ProcessingError)
    assert (error.topic, error.offset, error.node) == ("global", 1, "KTABLE-SOURCE-0000000001")
    kit.start(with_processor(Fails), processing_exception_handler_global_enabled=True, **go_on)
    kit.until(lambda: kit.ask("a", "b") == ["1", "2"])


def test_what_the_processor_of_a_global_store_cannot_do_is_told(kit: Cluster) -> None:
    class Schedules(Upper):
        def init(self, context: Any) -> None:
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda now: None)

    error = start_fails(kit, TopologyError, with_processor(Schedules))
    assert "'KTABLE-SOURCE-0000000001' fills a global store and cannot schedule" in str(error)

    class AsksTime(Upper):
        def init(self, context: Any) -> None:
            context.current_stream_time_ms()

    error = start_fails(kit, TopologyError, with_processor(AsksTime))
    assert "'KTABLE-SOURCE-0000000001' fills a global store, and only tasks have a stream time" in str(error)


@pytest.mark.parametrize("reprocesses", [False, True])
def test_a_topic_that_was_truncated_and_grew_again_fills_the_store_again(
    kit: Cluster, reprocesses: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offset was inside of the log, and stood for another record there (KIP-320)."""
    topology = with_processor(Upper) if reprocesses else with_table()
    kit.send_pairs("global", [("a", "1"), ("lost", "2")], 0)
    kit.send_pairs("global", [("b", "3")], 1)
    app = kit.start(topology)
    assert app.close(60)
    kit.broker.lose_records(TopicPartition("global", 0), 1)
    kit.send_pairs("global", [("c", "4"), ("d", "5")], 0)
    restores = Restores()
    with caplog.at_level(logging.ERROR, "streams"):
        app = kit.start(topology, restores)
    assert [one.msg.partition(":")[0] for one in caplog.records] == ["global store is rebuilt from its topic"]
    assert {(topic, start) for _, topic, start, _ in restores.started} == {("global-0", 0), ("global-1", 0)}
    assert [found.partition("@")[0].lower() for found in kit.ask("a", "b", "c", "d", "lost")] == [*"1345", "none"]
    assert app.close(60)
    restores = Restores()
    kit.start(topology, restores)
    assert restores.started == []


def test_a_processor_that_cannot_be_initialised_is_named(kit: Cluster) -> None:
    class Fails(Upper):
        def init(self, context: Any) -> None:
            raise KeyError("mine")

    error: Any = start_fails(kit, ProcessingError, with_processor(Fails))
    assert error.node == "KTABLE-SOURCE-0000000001"


# ------------------------------------------------------------------ the end


def test_close_ends_a_start_that_fills_global_stores(kit: Cluster) -> None:
    """From another thread, since the start waits for the stores."""
    kit.send_pairs("global", [("a", "x")] * 10)
    entered, release = threading.Event(), threading.Event()
    closed: list[str] = []

    class Waits(Processor[str, str, None, None]):
        def process(self, record: Record[str, str]) -> None:
            entered.set()
            release.wait(DEADLINE_S)

        def close(self) -> None:
            closed.append("closed")

    app = kit.app(with_processor(Waits), start=False)
    starter = threading.Thread(target=app.start)
    starter.start()
    assert entered.wait(DEADLINE_S)
    assert app.close(0) is False
    release.set()
    starter.join(DEADLINE_S)
    assert app.close(60)
    assert (app.state, app.failure, closed) == (ClientState.NOT_RUNNING, None, ["closed"])
    assert app.tasks() == {}
    kit.start(with_processor(Upper))  # the place in the state directory is free


def test_state_can_be_cleaned_up_after_the_end(kit: Cluster) -> None:
    kit.send_pairs("global", [("a", "1")])
    app = kit.start(with_table())
    with pytest.raises(StreamsError, match="RUNNING"):
        app.clean_up()
    app.close()
    app.clean_up()
    restores = Restores()
    kit.start(with_table(), restores)
    assert restores.started == [("g", "global-0", 0, 1)]


def test_two_processes_of_one_state_directory_have_a_copy_each(kit: Cluster) -> None:
    kit.send_pairs("global", [("a", "1")])
    first = kit.start(with_table())
    restores = Restores()
    kit.app(with_table(), restores=restores)
    assert restores.started == [("g", "global-0", 0, 1)]
    assert sorted(path.name for path in (kit.directory / "app" / "global").iterdir()) == ["0", "1"]
    assert first.state in (ClientState.RUNNING, ClientState.REBALANCING)
