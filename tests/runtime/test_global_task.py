"""Global stores without a thread: what is written when, and what other threads see."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dsl import Consumed, StreamsBuilder
from processor_api.clock import ManualClock
from processor_api.errors import StateError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from state.engine.memory import MemoryEngine
from state.engine.port import Engine
from streams.config import StreamsConfig
from streams.runtime.engines.opener import Engines
from streams.runtime.engines.shared_engine import SharedMemoryEngine
from streams.runtime.global_stores.task import GlobalTask
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

S = Serdes.STRING
PLACE = TopicPartition("global", 0)


class Watched(MemoryEngine):
    """Counts writes, and fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.fails = False

    def write(self, batch: Any) -> None:
        if self.fails:
            raise StateError("no space")
        self.writes += 1
        super().write(batch)


def topology(engine: str) -> Topology:
    builder = StreamsBuilder()
    for name in ("g", "h"):
        how: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
        builder.global_table("global" if name == "g" else "other", how, materialized=name)
    return builder.build({"application.id": "app", "default.dsl.store": engine})


class Kit:
    def __init__(self, directory: Path, engine: Any = None, made: Topology | None = None) -> None:
        config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "unused:9092"})
        clock = ManualClock(0)
        self.broker = EmbeddedBroker(clock, auto_create_topics=True)
        self._producer = EmbeddedClients(self.broker).producer({})
        name = "rocksDB" if engine is not None or directory is not None else "in_memory"

        def open_engine(kind: str, path: Path, families: list[str]) -> Engine:
            if engine is not None:
                return cast(Engine, engine)
            return Engines(clock).open(kind, path, families)

        self.topology = made or topology(name)
        self.task = GlobalTask(self.topology, config, directory, clock, open_engine)
        self.task.start()
        self.spec = self.topology.global_stores["g"]

    def messages(self, *records: tuple[str, str | None], time: int = 1) -> list[Any]:
        self.broker.create_topic("global")
        log = self.broker.log(PLACE)
        first = log.end_offset
        for key, value in records:
            raw = None if value is None else value.encode()
            self._producer.produce("global", raw, key.encode(), 0, None, None, time, None)
        self._producer.flush()
        return log.read(first, len(records), False)[0]

    def seen(self, key: str) -> Any:
        reader = self.task.stores.reader("g", "node")
        assert reader is not None
        return reader.facade.get(key)


@pytest.fixture(name="engine")
def engine_fixture() -> Watched:
    return Watched()


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path, engine: Watched) -> Kit:
    return Kit(tmp_path, engine)


def test_a_poll_is_one_write_with_its_offset(kit: Kit, engine: Watched) -> None:
    """Until then nobody sees any of it, then all see all of it."""
    kit.task.process(PLACE, kit.messages(("a", "1"), ("b", "2")))
    kit.task.process(PLACE, kit.messages(("a", "3")))
    assert (engine.writes, kit.seen("a"), kit.task.stores.stored_offset(kit.spec, PLACE)) == (0, None, None)
    kit.task.apply()
    assert engine.writes == 1
    assert (kit.seen("a")[0], kit.seen("b")[0]) == ("3", "2")
    assert kit.task.stores.stored_offset(kit.spec, PLACE) == 2
    kit.task.process(PLACE, kit.messages(("a", None)))
    kit.task.apply()
    assert kit.seen("a") is None


def test_a_write_that_fails_leaves_rows_and_offset_as_they_were(kit: Kit, engine: Watched) -> None:
    kit.task.process(PLACE, kit.messages(("a", "1")))
    kit.task.apply()
    engine.fails = True
    kit.task.process(PLACE, kit.messages(("a", "2"), ("b", "2")))
    with pytest.raises(StateError, match="no space"):
        kit.task.apply()
    assert (kit.seen("a")[0], kit.seen("b")) == ("1", None)
    assert kit.task.stores.stored_offset(kit.spec, PLACE) == 0


def test_nothing_of_what_was_written_stays_in_memory(kit: Kit) -> None:
    """A global store may be larger than memory."""
    rows = kit.task.stores.stores["g"].rows
    for start in range(0, 3000, 1000):
        kit.task.process(PLACE, kit.messages(*((f"k{number}", "v") for number in range(start, start + 1000))))
        kit.task.apply()
        assert (len(rows.clean), len(rows.drained), rows.budget.cached, rows.budget.uncommitted) == (0, 0, 0, 0)


def test_what_is_loaded_has_no_offset_before_it_is_on_disk(tmp_path: Path) -> None:
    """A crash in the middle of a restore must not leave an offset without the rows it stands for."""
    kit = Kit(tmp_path)
    try:
        assert kit.task.stores.load(kit.spec, kit.messages(("a", "1"), ("b", None))) == 2
        assert kit.seen("a")[0] == "1"
        assert kit.task.stores.stored_offset(kit.spec, PLACE) is None
    finally:
        kit.task.close()


@pytest.fixture(name="kept", params=[ROCKSDB, MEMORY])
def kept_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(tmp_path, SharedMemoryEngine() if request.param == MEMORY else None)
    yield kit
    kit.task.close()


def test_a_store_that_is_wiped_loses_its_rows_and_offsets_and_nothing_else(kept: Kit) -> None:
    other = TopicPartition("other", 0)
    kept.task.process(PLACE, kept.messages(("a", "1")))
    kept.task.move(other, 7)
    kept.task.apply()
    kept.task.stores.wipe(kept.spec)
    assert kept.seen("a") is None
    assert kept.task.stores.stored_offset(kept.spec, PLACE) is None
    assert kept.task.stores.stored_offset(kept.topology.global_stores["h"], other) == 6


def test_readers_on_other_threads_see_whole_writes(kept: Kit) -> None:
    """Every range shows a state that was there: both keys of a write, or neither."""
    reader = kept.task.stores.reader("g", "node")
    assert reader is not None
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            with reader.facade.all() as rows:
                found = [row[1][0] for row in rows]
            if len(set(found)) > 1 or len(found) not in (0, 40):
                wrong.append(found)
                return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in range(60):
            value = None if number % 3 == 2 else str(number)
            kept.task.process(PLACE, kept.messages(*((f"k{key}", value) for key in range(40))))
            kept.task.apply()
    finally:
        done.set()
        thread.join()
    assert wrong == []


def test_a_store_that_is_not_global_has_no_reader(kit: Kit) -> None:
    assert kit.task.stores.reader("elsewhere", "node") is None


def versions(engine: str) -> Topology:
    supplier = Stores.persistent_versioned_key_value_store("g", 1_000_000).on_engine(engine)
    store = Stores.versioned_key_value_store_builder(supplier, S, S).with_logging_disabled()
    return Topology().add_global_store(store, "s", "global", "p", KeepsVersions, key_serde=S, value_serde=S)


class KeepsVersions(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.get_state_store("g").put(record.key, record.value, record.timestamp)


def test_threads_that_look_for_old_versions_do_not_disturb_each_other(tmp_path: Path) -> None:
    """They moved one iterator, and read versions of other keys or none."""
    kit = Kit(tmp_path, made=versions(ROCKSDB))
    kit.task.process(PLACE, kit.messages(*((f"k{key}", f"{key}") for key in range(3)), ("k0", "x"), ("k1", "x")))
    for time in (2, 3):
        kit.task.process(PLACE, kit.messages(*((f"k{key}", "later") for key in range(3)), time=time))
    kit.task.apply()
    wrong: list[Any] = []

    def read(key: int) -> None:
        reader = kit.task.stores.reader("g", "node")
        assert reader is not None
        for _ in range(2_000):
            found = reader.facade.get(f"k{key}", 2)
            if found is None or found.value != "later":
                wrong.append((key, found))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=read, args=(key,)) for key in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        kit.task.close()
    assert not wrong
