"""Snapshots of stores in memory, alone and beside stores on disk: a worker without state begins with them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from runtime_support.snapshot_place import REFUSED, TAKEN, WRITTEN, Workers
from streams.snapshots.manifest import TaskSnapshot
from streams.snapshots.store_files import TableFile
from waiting import wait_until

STRING, LONG = Serdes.STRING, Serdes.LONG


class Counting(Processor[Any, Any, Any, Any]):
    """Counts values in each of its stores."""

    def __init__(self, stores: list[str]) -> None:
        self.names = stores

    def init(self, context: Any) -> None:
        self.context = context
        self.stores = [context.get_state_store(name) for name in self.names]

    def process(self, record: Record[Any, Any]) -> None:
        counts = []
        for store in self.stores:
            count = (store.get(record.value) or 0) + 1
            store.put(record.value, count)
            counts.append(count)
        self.context.forward(Record(record.value, f"{record.value}={'/'.join(map(str, counts))}", record.timestamp))


def topology(*stores: Any, unlogged: bool = False) -> Topology:
    suppliers = stores or (Stores.in_memory_key_value_store("counts"),)
    names = [one.name for one in suppliers] + ["more"] * unlogged
    built = Topology()
    built.add_source("s", "in", key_serde=STRING, value_serde=STRING)
    built.add_processor("p", lambda: Counting(names), "s")
    for supplier in suppliers:
        built.add_state_store(Stores.key_value_store_builder(supplier, STRING, LONG), "p")
    if unlogged:
        more = Stores.key_value_store_builder(Stores.in_memory_key_value_store("more"), STRING, LONG)
        built.add_state_store(more.with_logging_disabled(), "p")
    built.add_sink("k", "out", "p", key_serde=STRING, value_serde=STRING)
    return built


class Place(Workers):
    """The place of snapshots of stores in memory, and the workers that use it."""

    def __init__(self, cluster: Cluster, root: Path, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__(cluster, root, caplog)
        self.folder /= "memory"

    def manifests(self, folder: Path | None = None) -> list[TaskSnapshot]:
        try:
            return [TaskSnapshot.parse(path.read_bytes()) for path in sorted((folder or self.folder).glob("*.json"))]
        except FileNotFoundError:  # the worker has deleted one meanwhile
            return []

    def holds(self, store: str, offset: int) -> bool:
        """Whether a snapshot has the changelog of a store up to an offset."""
        found = [*self.manifests(), *self.manifests(self.folder.parent)]
        return any(one.stores[store].offset == offset for one in found if store in one.stores)

    def write(self, built: Topology, *values: str, **settings: Any) -> None:
        """Runs a worker that processes values, until a snapshot of each part of the task has all of them."""
        app = self.cluster.start(built, state_snapshot_dir=str(self.root), state_snapshot_interval_ms=20, **settings)
        self.process(*values)
        broker = self.cluster.broker
        stores = [name[4:-10] for name in list(broker.topics) if name.endswith("-changelog")]
        ends = {store: broker.records(f"app-{store}-changelog")[-1].offset() for store in stores}
        wait_until("snapshots have them", lambda: all(self.holds(store, offset) for store, offset in ends.items()))
        assert app.close(30)

    def begin(self, built: Topology, *values: str, **settings: Any) -> tuple[list[str], int]:
        """Runs a worker without state; returns what it answers, and how many records it replayed."""
        snapshots = {"state_snapshot_dir": str(self.root), **settings}
        return self.answers(lambda restores: self.cluster.start(built, restores, **snapshots), *values)


@pytest.fixture(name="place")
def place_fixture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    caplog.set_level(logging.INFO)
    with Cluster(tmp_path / "live") as cluster:
        yield Place(cluster, tmp_path / "snapshots", caplog)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_worker_begins_with_the_rows_of_a_store_in_memory(place: Place, guarantee: str) -> None:
    place.write(topology(), "a", "b", "a", processing_guarantee=guarantee)
    answers, replayed = place.begin(topology(), "a", "b", processing_guarantee=guarantee)
    assert (answers, replayed) == (["a=3", "b=2"], 0)
    assert len(place.said(TAKEN)) == 1
    answers, replayed = place.begin(topology(), "a", processing_guarantee=guarantee)
    assert (answers, replayed) == (["a=4"], 2)  # what the second worker wrote, which made no snapshots
    assert not place.said(REFUSED)
    assert not list(place.cluster.directory.glob("**/snapshot-*"))


def test_a_task_with_stores_on_disk_and_in_memory_has_snapshots_of_both(place: Place) -> None:
    """If one of them cannot be used, the other one is, and the changelog of the former is replayed."""
    stores = Stores.in_memory_key_value_store("counts"), Stores.persistent_key_value_store("kept")
    place.write(topology(*stores), "a", "b", "a")
    assert [sorted(one.stores) for one in place.manifests()[-1:]] == [["counts"]]
    on_disk = place.folder.parent
    assert [sorted(one.stores) for one in place.manifests(on_disk)[-1:]] == [["kept"]]
    assert place.begin(topology(*stores), "a") == (["a=3/3"], 0)
    assert len(place.said(TAKEN)) == 2
    for path in (place.folder / "files").iterdir():
        path.write_bytes(b"damaged")
    logged = len(place.cluster.broker.records("app-counts-changelog"))
    answers, replayed = place.begin(topology(*stores), "a")
    assert answers == ["a=4/4"]
    assert replayed == logged + 1  # all of "counts", and of "kept" the last record
    assert len(place.said(TAKEN)) == 1
    assert "is damaged" in place.said(REFUSED)[0]


def test_a_store_in_memory_without_a_changelog_begins_empty(place: Place) -> None:
    """It would lack what came behind the snapshot; the others of its task have one all the same."""
    place.write(topology(unlogged=True), "a", "a")
    assert place.begin(topology(unlogged=True), "a") == (["a=3/1"], 0)


def test_rows_of_another_form_are_refused(place: Place) -> None:
    """A newer release has written them, and calls their files by the sums of their content, as this one does."""
    place.write(topology(), "a", "a")
    for path in place.folder.glob("*.json"):
        found = TaskSnapshot.parse(path.read_bytes())
        path.unlink()
        files = []
        for file in found.files:
            content = (place.folder / "files" / file.digest).read_bytes().replace(b"rows 1", b"rows 2", 1)
            digest = blake2b(content, digest_size=32).hexdigest()
            (place.folder / "files" / digest).write_bytes(content)
            files.append(TableFile(file.name, len(content), digest))
        newer = replace(found, files=files)
        (place.folder / newer.name(newer.made_ms)).write_bytes(newer.to_json())
    logged = len(place.cluster.broker.records("app-counts-changelog"))
    assert place.begin(topology(), "a") == (["a=3"], logged)
    assert "does not have rows that this release reads" in place.said(REFUSED)[0]
    assert not place.said(TAKEN)


KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: Stores.in_memory_key_value_store("counts"),
    "LRU map": lambda: Stores.lru_map("counts", 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_did_not_change_are_written_once(kind: str, place: Place, caplog: pytest.LogCaptureFixture) -> None:
    built = topology(KINDS[kind]())
    app = place.cluster.start(built, state_snapshot_dir=str(place.root), state_snapshot_interval_ms=20)
    place.cluster.send(*(f"value-{number}" for number in range(500)))
    wait_until("they are answered", lambda: len(place.cluster.values()) == 500)
    wait_until("it is committed", lambda: place.cluster.committed() == 500)
    count = len(place.said(WRITTEN))
    wait_until("three more are written", lambda: len(place.said(WRITTEN)) >= count + 3)
    assert app.close(30)
    last = [one for one in caplog.records if one.getMessage() == WRITTEN][-1]
    assert last.bytes > 100  # type: ignore[attr-defined]
    assert last.new_bytes < 400  # type: ignore[attr-defined]
    rows = place.begin(built, "value-499")
    assert rows == (["value-499=2"], 0)
