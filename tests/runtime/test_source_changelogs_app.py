"""Stores whose source topic is their changelog: read-only ones (KIP-813), and tables under topology.optimization."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Materialized, Produced, StreamsBuilder
from processor_api.clock import ManualClock
from processor_api.errors import ProcessingError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB, StoreSupplier
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.failing_clients import trapped
from runtime_support.running_app import Cluster, Restores
from runtime_support.snapshot_place import REFUSED, TAKEN, Place
from runtime_support.task_kit import TaskKit
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.config import StreamsConfig
from streams.kafka.ports import ClientUnusable, OffsetAndMetadata
from streams.restore.restorer import Restorer
from streams.runtime.snapshots.task_snapshots import TaskSnapshots
from streams.runtime.start.task_restores import TaskRestores
from streams.runtime.tasks.assembly import ThreadClients
from streams.testing.broker import EmbeddedClients

S = Serdes.STRING
STRINGS: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)


class Keep(Processor[str, str, str, str]):
    """Stores records as they are."""

    def process(self, record: Record[str, str]) -> None:
        if record.key is not None:
            self.context.get_state_store("r").put(record.key, record.value)


class LookUp(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(str(self.context.get_state_store("r").get(record.key))))


class Writes(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.get_state_store("r").put(record.key, record.value)


def read_only(engine: str, reader: Any = LookUp) -> Topology:
    supplier = StoreSupplier(name="r", kind="key-value", engine=engine)
    topology = Topology().add_read_only_state_store(
        Stores.key_value_store_builder(supplier, S, S), "rs", "ref", "rp", Keep, key_serde=S, value_serde=S
    )
    topology.add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", reader, "s")
    topology.connect_processor_and_state_stores("p", "r")
    return topology.add_sink("out", "out", "p", key_serde=S, value_serde=S)


class LookUpTable(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        found = self.context.get_state_store("r").get(record.key)
        self.context.forward(record.with_value("None" if found is None else found.value))


def optimized_table(engine: str) -> Topology:
    builder = StreamsBuilder()
    table: Materialized[str, str] = Materialized(name="r", store_type=engine)
    builder.table("ref", STRINGS, materialized=table)
    builder.stream("in", STRINGS).process(LookUpTable, "r").to("out", Produced(key_serde=S, value_serde=S))
    settings = {"application.id": "app", "bootstrap.servers": "x:1", "topology.optimization": "all"}
    return builder.build(StreamsConfig.of(settings))


Build = Callable[[str], Topology]


@pytest.fixture(name="build", params=[read_only, optimized_table])
def build_fixture(request: pytest.FixtureRequest) -> Build:
    build: Build = request.param
    return build


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"ref": 1, "in": 1, "out": 1}, one_state=True) as kit:
        yield kit


def committed(kit: Cluster) -> int:
    """Of the source topic."""
    found = kit.broker.groups.group("app").offsets.get(TopicPartition("ref", 0))
    return 0 if found is None else found.offset


@pytest.mark.parametrize("engine", [ROCKSDB, MEMORY])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_removed_store_is_restored_up_to_the_committed_offset(
    kit: Cluster, build: Build, engine: str, guarantee: str
) -> None:
    """The rest comes through the processor; what has no key is not for the store (semantics 95)."""
    config = {"processing_guarantee": guarantee}
    kit.send_pairs("ref", [("a", "1"), (None, "no key"), ("b", "1"), ("b", None)])
    app = kit.start(build(engine), **config)
    kit.until(lambda: kit.ask("a", "b") == ["1", "None"])
    kit.until(lambda: committed(kit) == 4)
    app.close()
    shutil.rmtree(kit.directory)
    kit.send_pairs("ref", [("c", "3")])
    restores = Restores()
    kit.start(build(engine), restores, **config)
    assert restores.started == [("r", "ref-0", 0, 4)]
    kit.until(lambda: kit.ask("a", "b", "c") == ["1", "None", "3"])
    assert sorted(name for name in kit.broker.topics if "tasks" not in name) == ["in", "out", "ref"]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_kept_store_reads_nothing_again(kit: Cluster, build: Build, guarantee: str) -> None:
    config = {"processing_guarantee": guarantee}
    kit.send_pairs("ref", [("a", "1"), ("b", "2")])
    app = kit.start(build(ROCKSDB), **config)
    kit.until(lambda: committed(kit) == 2)
    app.close()
    kit.send_pairs("ref", [("b", "3")])
    restores = Restores()
    kit.start(build(ROCKSDB), restores, **config)
    assert restores.started == []
    kit.until(lambda: kit.ask("a", "b") == ["1", "3"])


def set_back(kit: Cluster, offset: int) -> None:
    """Sets the committed offset of the source topic."""
    offsets, place = kit.broker.groups.group("app").offsets, TopicPartition("ref", 0)
    offsets[place] = offsets[place]._replace(offset=offset)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("back_to", [0, 1, 2])
def test_a_store_that_is_ahead_of_the_committed_offset_is_emptied(
    kit: Cluster, build: Build, caplog: pytest.LogCaptureFixture, back_to: int, guarantee: str
) -> None:
    """Records that are processed again met rows of later ones: a table showed what was to come."""
    config = {"processing_guarantee": guarantee}
    kit.send_pairs("ref", [("a", "1"), ("b", "2"), ("a", "3")])
    app = kit.start(build(ROCKSDB), **config)
    kit.until(lambda: committed(kit) == 3)
    app.close()
    set_back(kit, back_to)
    restores = Restores()
    with caplog.at_level(logging.WARNING):
        kit.start(build(ROCKSDB), restores, **config)
        assert restores.started == ([("r", "ref-0", 0, back_to)] if back_to else [])
        kit.until(lambda: committed(kit) == 3)
    assert kit.ask("a", "b") == ["3", "2"]
    said = [one for one in caplog.records if "ahead of the committed offset" in one.getMessage()]
    assert [(one.levelno, vars(one)["store"], vars(one)["offset"]) for one in said] == [(logging.WARNING, "r", 2)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_what_is_processed_again_sees_the_table_as_it_was(kit: Cluster, build: Build, guarantee: str) -> None:
    """After a rewind, the first look-ups are answered by rows before the committed offset alone."""
    config = {"processing_guarantee": guarantee, "max_task_idle_ms": 2000}
    kit.send_pairs("ref", [("a", "1"), ("a", "2"), ("a", "3")])
    app = kit.start(build(ROCKSDB), **config)
    kit.until(lambda: committed(kit) == 3)
    assert kit.ask("a") == ["3"]
    app.close()
    set_back(kit, 1)
    kit.send("?", key="a", topic="in", timestamp=0)
    answers = len(kit.values("out"))
    kit.start(build(ROCKSDB), **config)
    kit.until(lambda: len(kit.values("out")) > answers)
    assert kit.values("out")[answers:][0] == "1"


def test_a_commit_that_failed_leaves_no_store_ahead(
    tmp_path: Path, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    """At least once, engines were written before offsets: a failed commit would cost all rows of such a store."""
    failing: list[str] = []

    def trap(call: str) -> None:
        if call == "commit" and failing:
            raise ClientUnusable(failing.pop())

    with Cluster(tmp_path, topics={"ref": 1, "in": 1, "out": 1}, clients=trapped(trap)) as kit:
        kit.start(build(ROCKSDB))
        kit.send_pairs("ref", [("a", "1")])
        kit.until(lambda: committed(kit) == 1)
        with caplog.at_level(logging.WARNING):
            failing.append("the connection broke")
            kit.send_pairs("ref", [("a", "2"), ("b", "1")])
            kit.until(lambda: committed(kit) == 3)
        assert not failing
        assert kit.ask("a", "b") == ["2", "1"]
        assert [one for one in caplog.records if "rebuilt" in one.getMessage()] == []


def test_an_active_task_refuses_a_snapshot_that_is_ahead(
    tmp_path: Path, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    """A task without state began with rows of records that it was about to process again."""
    caplog.set_level(logging.INFO)
    with Cluster(tmp_path / "live", topics={"ref": 1, "in": 1, "out": 1}) as kit:
        place = Place(kit, tmp_path / "snapshots", caplog, "at_least_once")
        kit.send_pairs("ref", [("a", "1"), ("a", "2"), ("a", "3")])
        app = place.worker(built=build(ROCKSDB))
        kit.until(lambda: committed(kit) == 3)
        kit.until(lambda: place.manifests() and place.newest().stores["r"].offset == 2)
        app.close()
        caplog.clear()
        set_back(kit, 1)
        kit.send("?", key="a", topic="in", timestamp=0)
        app = place.worker(built=build(ROCKSDB), interval_ms=None, max_task_idle_ms=2000)
        kit.until(lambda: kit.values("out"))
        assert kit.values("out") == ["1"]
        assert "but the committed offset is 1: records are processed again" in place.said(REFUSED)[0]
        kit.until(lambda: committed(kit) == 3)
        app.close()
        caplog.clear()
        place.worker(built=build(ROCKSDB), interval_ms=None)
        assert kit.ask("a") == ["3"]
        assert len(place.said(TAKEN)) == 1


@pytest.mark.parametrize("engine", [ROCKSDB, MEMORY])
def test_a_standby_that_is_ahead_waits_for_the_group(tmp_path: Path, build: Build, engine: str) -> None:
    """It followed its topic from the committed offset again, whose offset hid the later rows that it kept."""
    place, clock = TopicPartition("ref", 0), ManualClock(0)
    with TaskKit(build(engine), tmp_path) as kit:
        for value in (b"1", b"2", b"3"):
            kit.pipe("ref", b"a", value)
        kit.commit()
        clients = EmbeddedClients(kit.broker)
        consumer = clients.consumer({})
        thread = ThreadClients(consumer, consumer, clients.producer({}), clients.admin({}))
        restores = TaskRestores(Restorer(consumer, clock), thread, TaskSnapshots(None, "app", clock), clock)
        progress = kit.task.stores.progress
        kit.broker.create_topic("in")
        for offset, end in ((1, 3), (2, 3), (3, 3), (9, 3)):
            jobs = restores.plan_standby(kit.task, {place: OffsetAndMetadata(offset)})
            assert [(job.start, job.end) for job in jobs] == [(3, end)]
        assert progress.has_rows("r")
        # What it has is right again when the group has come so far; before that it cannot become active with it.
        assert restores.plan([(kit.task, {place: OffsetAndMetadata(3)})]) == []
        assert progress.has_rows("r")
        assert [(one.start, one.end) for one in restores.plan([(kit.task, {place: OffsetAndMetadata(1)})])] == [(0, 1)]
        assert not progress.has_rows("r")


def test_a_topic_that_serves_another_store_now_fills_it_from_the_beginning(kit: Cluster) -> None:
    """The offset that is stored says what the rows of one store hold."""
    kit.send_pairs("ref", [("a", "1")])
    app = kit.start(read_only(ROCKSDB))
    kit.until(lambda: committed(kit) == 1)
    app.close()
    restores = Restores()
    kit.start(optimized_table(ROCKSDB), restores)  # rows of another format
    assert restores.started == [("r", "ref-0", 0, 1)]
    assert kit.ask("a") == ["1"]


def test_only_its_own_processor_writes_to_a_read_only_store(kit: Cluster) -> None:
    app = kit.start(read_only(MEMORY, Writes))
    kit.send_pairs("in", [("a", "x")])
    kit.until(lambda: app.state is ClientState.ERROR)
    assert isinstance(app.failure, ProcessingError)
    assert "node 'p' can only read store 'r', not write to it: only node 'rp'" in str(app.failure)


def test_new_records_are_seen_by_connected_processors_at_once(kit: Cluster) -> None:
    """They are in one task: also what is not committed."""
    app: KafkaStreams = kit.start(read_only(ROCKSDB), commit_interval_ms=60_000)
    kit.send_pairs("ref", [("a", "1")])
    kit.until(lambda: kit.ask("a") == ["1"])
    assert committed(kit) == 0
    assert app.state is ClientState.RUNNING
