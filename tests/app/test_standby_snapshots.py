"""Standby tasks without state begin with snapshots of their tasks, and follow the changelogs from there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime_support.running_app import Cluster, active, counting, standbys
from streams.app.kafka_streams import KafkaStreams
from streams.platform import Platform
from streams.restore.follower import StandbyUpdateListener
from streams.snapshots.manifest import TaskSnapshot
from streams.snapshots.objects import DirectoryObjects
from waiting import wait_until

ALL = ["0_0", "0_1", "0_2", "0_3"]
TAKEN = "snapshot of the task taken"
REFUSED = "a snapshot is not taken"


class Applied(StandbyUpdateListener):
    """A listener that counts the records that copies apply."""

    def __init__(self) -> None:
        self.records = 0

    def on_batch_loaded(
        self, partition: Any, store: str, task_id: Any, batch_end_offset: int, batch_size: int, current_end_offset: int
    ) -> None:
        self.records += batch_size


class Place:
    """The place of snapshots, in which a first worker of four tasks has written one of each."""

    def __init__(self, cluster: Cluster, root: Path, store: Any, caplog: pytest.LogCaptureFixture) -> None:
        self.cluster = cluster
        self.root = root
        self._store = store
        self._caplog = caplog
        self._counted = 0
        self.settings: dict[str, Any] = {"num_standby_replicas": 1, "state_snapshot_dir": str(root)}
        self.first = cluster.app(counting(store=store), state_snapshot_interval_ms=20, **self.settings)
        self.count(50)
        wait_until("each task has a snapshot with all records", self._complete, deadline_s=30)

    def count(self, more: int) -> None:
        """Sends values to each task, and waits until all of them are counted and committed."""
        begin, self._counted = self._counted + 1, self._counted + more
        for partition in range(4):
            self.cluster.send(*("a" * more), partition=partition)
        self.cluster.until_out(*[f"a={number}" for number in range(1, self._counted + 1) for _ in range(4)])
        assert begin <= self._counted

    def _complete(self) -> bool:
        try:
            found = [TaskSnapshot.parse(path.read_bytes()) for path in self.root.glob("*/tasks/**/*.json")]
        except FileNotFoundError:  # the worker has deleted one meanwhile
            return False
        records = self.cluster.broker.records("app-counts-changelog")
        last = {f"0_{one.partition()}": one.offset() for one in records}
        have = {(one.task, state.offset) for one in found for state in one.stores.values()}
        return len(last) == 4 and have.issuperset(last.items())

    def second(self, applied: Applied, **settings: Any) -> KafkaStreams:
        """Starts another worker, which has two of the tasks and copies of the others."""
        app = self.cluster.app(counting(store=self._store), start=False, **{**self.settings, **settings})
        app.set_standby_update_listener(applied)
        app.start()
        return app

    def said(self, text: str) -> list[logging.LogRecord]:
        return [one for one in self._caplog.records if one.getMessage().startswith(text)]


@pytest.fixture(name="place")
def place_fixture(
    make_cluster: Callable[..., Cluster], tmp_path: Path, store: Any, caplog: pytest.LogCaptureFixture
) -> Place:
    caplog.set_level(logging.INFO)
    return Place(make_cluster(4), tmp_path / "snapshots", store, caplog)


def is_filled(place: Place, app: KafkaStreams) -> bool:
    """Whether each store of a worker has as much of its changelog as that of the first worker, and all of it."""
    records = place.cluster.broker.records("app-counts-changelog")
    last = {one.partition(): one.offset() + 1 for one in records}
    own, other = (one.all_local_store_partition_lags().get("counts", {}) for one in (app, place.first))
    return all(
        {found[partition].current_offset_position for found in (own, other) if partition in found} == {end}
        and partition in own
        for partition, end in last.items()
    )


def test_copies_begin_with_snapshots_and_follow_what_is_behind_them(place: Place) -> None:
    applied = Applied()
    second = place.second(applied)
    wait_until("it has two tasks and two copies", lambda: len(active(second)) == len(standbys(second)) == 2)
    wait_until("all are taken", lambda: len(place.said(TAKEN)) == 4)
    wait_until("copies are filled", lambda: is_filled(place, second))
    assert applied.records == 0
    place.count(2)
    wait_until("each copy has applied some", lambda: applied.records >= 2)
    wait_until("copies are filled", lambda: is_filled(place, second))
    assert place.first.close(30)
    wait_until("it has all tasks", lambda: active(second) == ALL)
    place.count(1)
    assert not place.said(REFUSED)


class Damaged(DirectoryObjects):
    """A place of snapshots whose files are damaged for one of its readers."""

    def read(self, name: str) -> Iterator[bytes]:
        yield from [b"damaged"] if "/files/" in name else super().read(name)


def test_copies_without_a_snapshot_that_can_be_used_read_the_changelogs(place: Place) -> None:
    applied = Applied()
    second = place.second(applied, platform=Platform(snapshots=lambda root: Damaged(place.root)))
    wait_until("it has two tasks and two copies", lambda: len(active(second)) == len(standbys(second)) == 2)
    wait_until("copies are filled", lambda: is_filled(place, second))
    assert applied.records >= 2
    assert len(place.said(REFUSED)) >= 4
    assert place.first.close(30)
    wait_until("it has all tasks", lambda: active(second) == ALL)
    place.count(1)


class Held(DirectoryObjects):
    """A place of snapshots whose files are not read until a test wants it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.go_on = threading.Event()
        self.reading: set[str] = set()

    def read(self, name: str) -> Iterator[bytes]:
        if "/files/" in name:
            self.reading.add(name.partition("/tasks/")[2].partition("/")[0])
            assert self.go_on.wait(60)
        yield from super().read(name)


def test_a_copy_that_becomes_active_while_its_snapshot_is_copied_goes_on_with_it(place: Place) -> None:
    """The task waits for the snapshot; a worker that closes meanwhile waits for nothing."""
    held, applied = Held(place.root), Applied()
    platform = Platform(snapshots=lambda root: held)
    second = place.second(applied, platform=platform)
    wait_until("copies and tasks wait", lambda: len(held.reading) >= 3)
    assert standbys(second)
    assert place.first.close(30)

    def waiting() -> list[int]:
        return sorted(one.copying.size > 0 for one in second.status().tasks if one.copying is not None)

    wait_until("all tasks wait, one of them for another", lambda: waiting() == [False, True, True, True])
    held.go_on.set()
    wait_until("it has all tasks", lambda: active(second) == ALL)
    place.count(1)
    assert len(place.said(TAKEN)) == 4
    assert applied.records == 0
    assert [one.copying for one in second.status().tasks] == [None] * 4


def test_a_worker_that_closes_gives_up_the_snapshots_of_its_copies(place: Place) -> None:
    held = Held(place.root)
    second = place.second(Applied(), platform=Platform(snapshots=lambda root: held))
    wait_until("copies and tasks wait", lambda: len(held.reading) >= 3)
    try:
        assert second.close(30)
    finally:
        held.go_on.set()
    wait_until("the other one has all tasks", lambda: active(place.first) == ALL)
    place.count(1)
    assert not place.said(TAKEN)
