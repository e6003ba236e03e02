"""State of a worker that was away until its changelog had forgotten deletions is restored from the beginning."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from state.engine.port import OFFSETS
from state.formats.offsets import complete_at_key, offset_key, read_time, write_offset, write_time
from state.rocksdb.engine import RocksEngine
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

S = Serdes.STRING
CHANGELOG = "app-store-changelog"
HOUR_MS = 3_600_000
REBUILT = "store is rebuilt from its changelog: it is older than the deletions that the changelog still has"


FROM_THE_FUTURE = "store is rebuilt from its changelog: its time is ahead of the clock, so its age is not known"


class WallClock(SystemClock):
    """The machine's clock, with a wall clock that a test moves."""

    ahead_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.ahead_ms


class Puts(Processor[str, str, str, str]):
    """Puts its records, deletes keys whose value is "none", and forwards all keys that there are."""

    def process(self, record: Record[str, str]) -> None:
        store = self.context.get_state_store("store")
        store.put(record.key, None if record.value == "none" else record.value)
        self.context.forward(record.with_value(" ".join(key for key, _ in store.all())))


def keeping() -> Topology:
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Puts, "s")
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("store"), S, S)
    return topology.add_state_store(store, "p").add_sink("out", "out", "p", key_serde=S, value_serde=S)


@pytest.fixture(name="clock")
def clock_fixture() -> WallClock:
    return WallClock()


class HidesSettings:
    """Clients of a cluster that shows no settings of topics, or fails when it is asked for them."""

    def __init__(self, broker: EmbeddedBroker, error: Exception | None = None) -> None:
        self._clients = EmbeddedClients(broker)
        self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def admin(self, config: Any) -> Any:
        return _HidingAdmin(self._clients.admin(config), self)


class _HidingAdmin:
    def __init__(self, admin: Any, clients: HidesSettings) -> None:
        self._admin, self._clients = admin, clients

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)

    def topic_settings(self, names: Any) -> dict[str, dict[str, str]]:
        if self._clients.error is not None:
            raise self._clients.error
        return {}


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path, clock: WallClock) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 1, "out": 1}, clock=clock) as kit:
        yield kit


def worker(kit: Cluster, machine: str, *records: tuple[str, str], **settings: Any) -> tuple[str, Restores]:
    """Runs a worker on a machine until it has processed records; returns the keys that it has then."""
    restores = Restores()
    before = len(kit.values("out"))
    app = kit.start(keeping(), restores, state_dir=str(kit.directory / machine), **settings)
    kit.send_pairs("in", records)
    kit.until(lambda: len(kit.values("out")) == before + len(records))
    assert app.close(30)
    return kit.values("out")[-1], restores


def forget_deletions(kit: Cluster, clock: WallClock, hours: float) -> None:
    """Lets the broker compact the changelog, and again some hours later."""
    for ahead in (0.0, hours):
        clock.ahead_ms += int(ahead * HOUR_MS)
        kit.broker.roll(CHANGELOG)
        kit.broker.clean(CHANGELOG)


def test_state_by_a_clock_that_was_ahead_is_no_younger_for_it(
    kit: Cluster, clock: WallClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It looked young until the time had come, and keys came back that others had deleted."""
    clock.ahead_ms = 100 * HOUR_MS
    worker(kit, "first", ("a", "1"), ("b", "1"))
    clock.ahead_ms = 0
    worker(kit, "second", ("a", "none"))
    forget_deletions(kit, clock, 26)
    found, restores = worker(kit, "first", ("c", "1"))
    assert found == "b c"
    assert restores.started[0][2] == kit.broker.topics[CHANGELOG].partitions[0].start_offset
    assert [one.getMessage() for one in caplog.records if one.getMessage() == FROM_THE_FUTURE] == [FROM_THE_FUTURE]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_keys_that_were_deleted_elsewhere_do_not_come_back_with_old_state(
    kit: Cluster, clock: WallClock, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tombstone was written and forgotten while this machine was away."""
    settings = {"processing_guarantee": guarantee}
    assert worker(kit, "one", ("a", "1"), ("b", "1"), **settings)[0] == "a b"
    assert worker(kit, "two", ("a", "none"), ("c", "1"), **settings)[0] == "b c"
    forget_deletions(kit, clock, 25)
    with caplog.at_level(logging.WARNING):
        keys, restores = worker(kit, "one", ("d", "1"), **settings)
    assert keys == "b c d"
    assert restores.started[0][2] == 0
    assert REBUILT in caplog.text


def test_state_that_is_young_enough_is_kept(kit: Cluster, clock: WallClock, caplog: pytest.LogCaptureFixture) -> None:
    worker(kit, "one", ("a", "1"), ("b", "1"))
    worker(kit, "two", ("a", "none"), ("c", "1"))
    forget_deletions(kit, clock, 20)
    keys, restores = worker(kit, "one", ("d", "1"))
    assert keys == "b c d"
    assert [start for _, _, start, _ in restores.started] == [2]
    assert REBUILT not in caplog.text


def test_old_state_that_nobody_has_changed_since_is_kept(
    kit: Cluster, clock: WallClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine that was switched off for a month reads nothing again."""
    worker(kit, "one", ("a", "1"), ("b", "1"))
    clock.ahead_ms += 30 * 24 * HOUR_MS
    keys, restores = worker(kit, "one", ("d", "1"))
    assert keys == "a b d"
    assert not restores.started
    assert REBUILT not in caplog.text


def test_a_worker_that_waited_for_records_is_as_young_as_its_end(kit: Cluster, clock: WallClock) -> None:
    """Nobody else writes to the changelog of a task that runs, so its store is complete when it closes."""
    worker(kit, "one", ("a", "1"), ("b", "1"))
    clock.ahead_ms += 30 * HOUR_MS
    worker(kit, "one", *())
    worker(kit, "two", ("a", "none"), ("c", "1"))
    clock.ahead_ms += 10 * HOUR_MS
    keys, restores = worker(kit, "one", ("d", "1"))
    assert keys == "b c d"
    assert [start for _, _, start, _ in restores.started] == [2]


@pytest.mark.parametrize("error", [None, RuntimeError("no right to ask")], ids=["not shown", "an error"])
def test_old_state_is_used_where_nobody_says_how_long_deletions_are_kept(
    kit: Cluster, clock: WallClock, error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    worker(kit, "one", ("a", "1"), ("b", "1"))
    worker(kit, "two", ("b", "2"), ("c", "1"))
    clock.ahead_ms += 25 * HOUR_MS
    kit.clients = HidesSettings(kit.broker, error)
    with caplog.at_level(logging.WARNING):
        keys, restores = worker(kit, "one", ("d", "1"))
    assert keys == "a b c d"
    assert [start for _, _, start, _ in restores.started] == [2]
    assert REBUILT not in caplog.text
    assert ("settings of its changelogs cannot be read" in caplog.text) is (error is not None)


def test_a_restore_that_is_not_finished_is_as_old_as_its_begin(kit: Cluster, clock: WallClock, tmp_path: Path) -> None:
    """What it has read of a key may be behind a deletion that is gone when the rest is read."""
    worker(kit, "one", ("a", "1"), ("b", "1"))
    database = tmp_path / "one" / "app" / "0_0" / "rocksdb"
    engine = RocksEngine(database, [])
    begun = read_time(engine.family(OFFSETS).get(complete_at_key(CHANGELOG)))
    assert begun is not None
    assert abs(clock.time_ms() - begun) < HOUR_MS
    batch = engine.batch()  # as a restore leaves it that was killed behind its first batch
    batch.put(offset_key(CHANGELOG, 0), write_offset(0), engine.family(OFFSETS).handle)
    batch.put(complete_at_key(CHANGELOG), write_time(begun - 30 * HOUR_MS), engine.family(OFFSETS).handle)
    engine.write(batch)
    engine.close()
    _, restores = worker(kit, "one", ("c", "1"))
    assert [start for _, _, start, _ in restores.started] == [0]
