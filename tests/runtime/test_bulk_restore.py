"""A long restore is loaded in bulk: RocksDB takes rows as they come, and has memtables to look into when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from runtime_support.running_app import Cluster, S, counting
from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.start.task_restores import BULK_RECORDS

CHANGELOG = "app-counts-changelog"


class Memtables:
    """Which kind the database of task 0_0 has while it is restored, as RocksDB wrote it down."""

    def __init__(self, state: Path) -> None:
        self._path = state / "app" / "0_0" / "rocksdb"
        self.seen: set[str] = set()

    def now(self) -> str:
        newest = max(self._path.glob("OPTIONS-*"), key=lambda path: path.name)
        lines = newest.read_text().splitlines()
        told = next(line for line in lines if line.strip().startswith("memtable_factory="))
        return "vector" if "VectorRepFactory" in told else "sorted"

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None: ...

    def on_batch_restored(self, partition: TopicPartition, store: str, end_offset: int, restored: int) -> None:
        self.seen.add(self.now())

    def on_restore_end(self, partition: TopicPartition, store: str, restored: int) -> None: ...

    def on_restore_suspended(self, partition: TopicPartition, store: str, restored: int) -> None: ...


def changelog_of(cluster: Cluster, records: int) -> None:
    """Each key twice but for the last ones; the second count is what is to be found."""
    cluster.broker.create_topic(CHANGELOG, 1, {"cleanup.policy": "compact"})
    producer: Any = cluster.clients.producer({})
    for number in range(records):
        key, count = number % (records // 2), 2 if number >= records // 2 else 1
        producer.produce(CHANGELOG, count.to_bytes(8, "big"), b"%07d" % key, 0, None, None, 5, None)
    producer.flush()
    cluster.broker.groups.group("app").offsets[TopicPartition("in", 0)] = OffsetAndMetadata(0)


@pytest.mark.parametrize(
    ("records", "versioned", "memtables"),
    [
        (BULK_RECORDS, False, "vector"),
        (BULK_RECORDS - 1, False, "sorted"),
        (BULK_RECORDS, True, "sorted"),
    ],
    ids=["long", "short", "reads its rows"],
)
def test_a_long_restore_that_reads_nothing_is_loaded_in_bulk(
    cluster: Cluster, tmp_path: Path, records: int, versioned: bool, memtables: str
) -> None:
    changelog_of(cluster, records)
    topology = counting(store=Stores.persistent_key_value_store("counts"))
    if versioned:
        histories = Stores.persistent_versioned_key_value_store("histories", 1000)
        builder: StoreBuilder[Any, Any] = Stores.versioned_key_value_store_builder(histories, S, S)
        topology.add_state_store(builder, "p")
        cluster.broker.create_topic("app-histories-changelog", 1)
        cluster.send("one", topic="app-histories-changelog")
    listener = Memtables(tmp_path / "state")
    app = cluster.app(topology, {"state.dir": str(tmp_path / "state")}, start=False)
    app.set_global_state_restore_listener(listener)
    app.start()
    cluster.send("0000000", "0000001")
    cluster.until_out("0000000=3", "0000001=3")
    assert listener.seen == {memtables}
    assert listener.now() == "sorted"


def test_an_engine_keeps_its_rows_when_it_is_opened_for_loading_and_for_use(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "rocksdb", ["s.plain"])
    for number, bulk in enumerate((True, True, False)):
        engine.reopen(bulk=bulk)
        assert engine.bulk is bulk
        batch = engine.batch()
        family = engine.family("s.plain")
        for row in (b"a%d" % number, b"c%d" % number, b"b%d" % number):
            batch.put(row, b"%d" % number, family.handle)
        batch.put(b"offset", b"%d" % number, engine.family(OFFSETS).handle)
        engine.load(batch)
    rows = [(b"%c%d" % (letter, number), b"%d" % number) for letter in b"abc" for number in range(3)]
    assert list(engine.family("s.plain").range()) == rows
    assert list(engine.family("s.plain").range(reverse=True)) == rows[::-1]
    assert engine.family("s.plain").get(b"b0") == b"0"
    assert engine.family(OFFSETS).get(b"offset") == b"2"
    engine.close()


def test_a_snapshot_ends_when_its_engine_is_opened_anew(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "rocksdb", ["s.plain"])
    snapshot = engine.snapshot(["s.plain"])
    engine.reopen(bulk=True)
    with pytest.raises(StateError, match="closed"):
        snapshot.family("s.plain").get(b"a")
    assert engine.snapshot(["s.plain"]).family("s.plain").get(b"a") is None
    engine.close()


def test_an_engine_that_cannot_be_opened_anew_is_closed(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "rocksdb", ["s.plain"])
    batch = engine.batch()
    batch.put(b"a", b"1", engine.family("s.plain").handle)
    engine.write(batch)
    current = tmp_path / "rocksdb" / "CURRENT"
    current.rename(tmp_path / "CURRENT")
    with pytest.raises(StateError, match="its file CURRENT is missing"):
        engine.reopen(bulk=True)
    engine.close()
    (tmp_path / "CURRENT").rename(current)
    again = RocksEngine(tmp_path / "rocksdb", ["s.plain"])
    assert again.family("s.plain").get(b"a") == b"1"
    again.close()


def test_who_sets_options_keeps_them(tmp_path: Path) -> None:
    """Memtables for loading refuse what others allow, such as several writers at a time."""
    told: list[str] = []
    engine = RocksEngine(tmp_path / "rocksdb", ["s.plain"], configure=lambda family, options: told.append(family))
    engine.reopen(bulk=True)
    assert engine.bulk is False
    assert told == ["s.plain"]
    engine.close()
