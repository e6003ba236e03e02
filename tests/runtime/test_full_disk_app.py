"""A disk that is full for a time: the application waits, and nothing is lost or counted twice."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Materialized, StreamsBuilder
from processor_api.errors import DiskFullError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.filling_disk import FillingDisk
from runtime_support.running_app import Cluster, Counting, JumpingClock, counting
from streams.app.states import ClientState
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.runtime.tasks.full_disk import REOPEN_AFTER_S
from streams.runtime.tasks.retry import TaskTimeoutError
from waiting import wait_until

GUARANTEES = ["exactly_once_v2", "at_least_once"]
FULL = "the disk is full: free some space there, and processing goes on by itself; nothing is lost"
ROOM = "the disk has room again: processing goes on"

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


def on_disk() -> Topology:
    """Numbers the records of each value, by a store that is on disk."""
    return counting(store=Stores.persistent_key_value_store("counts"))


@pytest.fixture
def disk() -> FillingDisk:
    return FillingDisk()


@pytest.fixture(name="running")
def running_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, one_state=True) as cluster:
        yield cluster


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any]]:
    """The lines about the disk: their texts, and how often it was tried."""
    return [(one.getMessage(), getattr(one, "times", 1)) for one in caplog.records if one.getMessage() in (FULL, ROOM)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_commit_waits_for_room(
    guarantee: str, disk: FillingDisk, running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread ended, its supervisor started it again, and so on, until it gave up."""
    caplog.set_level(logging.WARNING)
    running.app(on_disk(), platform=disk.platform(), processing_guarantee=guarantee, retry_backoff_ms=10)
    running.send("a", "b")
    running.until(lambda: running.committed() == 2)
    disk.full = True
    running.send("a", "b", "c")
    running.until(lambda: lines(caplog))
    processed = len(running.values(committed=False))
    running.send("d")
    wait_until("it is tried again", lambda: len(lines(caplog)) == 1 and disk.refused)
    assert len(running.values(committed=False)) == processed
    assert running.last.state is ClientState.RUNNING
    disk.full = False
    running.until(lambda: running.committed() == 6)
    running.until_out("a=1", "b=1", "a=2", "b=2", "c=1", "d=1")
    assert lines(caplog) == [(FULL, 1), (ROOM, 1)]
    [line] = [one for one in caplog.records if one.getMessage() == FULL]
    assert line.levelname == "WARNING"
    assert line.directory == str(running.directory / "app")  # type: ignore[attr-defined]
    assert "no space is left for" in line.error  # type: ignore[attr-defined]
    assert "bytes remain" in line.error  # type: ignore[attr-defined]
    assert ClientState.PENDING_ERROR not in running.entered()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_a_full_disk_did_not_take_is_restored_by_the_next_start(
    guarantee: str, disk: FillingDisk, running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets are committed, since its changelog has it, so that it is not counted again."""
    caplog.set_level(logging.WARNING)
    config = {"processing_guarantee": guarantee, "retry_backoff_ms": 10}
    running.app(on_disk(), platform=disk.platform(), **config)
    running.send("a")
    running.until(lambda: running.committed() == 1)
    disk.full = True
    running.send("a", "a")
    running.until(lambda: lines(caplog))
    assert running.last.close(60)
    assert running.last.state is ClientState.NOT_RUNNING
    assert running.committed() == 3
    disk.full = False
    running.app(on_disk(), platform=disk.platform(), **config)
    running.send("a")
    running.until(lambda: running.committed() == 4)
    running.until_out("a=1", "a=2", "a=3", "a=4")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_task_is_opened_when_there_is_room(
    guarantee: str, disk: FillingDisk, running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    disk.full = True
    running.app(on_disk(), platform=disk.platform(), processing_guarantee=guarantee, retry_backoff_ms=10)
    running.send("a")
    running.until(lambda: lines(caplog))
    assert disk.opened == 0
    assert running.values(committed=False) == []
    disk.full = False
    running.until_out("a=1")
    running.until_state(running.last, ClientState.RUNNING)
    assert lines(caplog) == [(FULL, 1), (ROOM, 1)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_restore_begins_again_when_there_is_room(guarantee: str, disk: FillingDisk, running: Cluster) -> None:
    """From the offset that is on the disk; no record of a changelog is left out."""
    config = {"processing_guarantee": guarantee, "retry_backoff_ms": 10}
    running.app(on_disk(), platform=disk.platform(), **config)
    running.send(*(f"v{number}" for number in range(50)))
    running.until(lambda: running.committed() == 50)
    assert running.last.close(60)

    class Filling:
        """Fills the disk when the first batch is restored."""

        met = 0

        def on_restore_start(self, *_: Any) -> None:
            self.met += 1
            disk.full = self.met == 1

        def on_batch_restored(self, *_: Any) -> None: ...

        def on_restore_end(self, *_: Any) -> None: ...

    filling: Any = Filling()
    empty = {"state.dir": str(running.directory / "empty")}
    running.app(on_disk(), empty, platform=disk.platform(), restores=filling, **config)
    running.until(lambda: disk.refused)
    disk.full = False
    running.send(*(f"v{number}" for number in range(50)))
    running.until(lambda: running.committed() == 100)
    assert sorted(running.values()) == sorted(f"v{number}={times}" for number in range(50) for times in (1, 2))
    assert filling.met > 1


def test_a_disk_that_stays_full_is_an_error(disk: FillingDisk, running: Cluster) -> None:
    """After ``task.timeout.ms``; it says what was full."""
    running.app(on_disk(), platform=disk.platform(), task_timeout_ms=200, retry_backoff_ms=10)
    running.send("a")
    running.until(lambda: running.committed() == 1)
    disk.full = True
    running.send("a")
    failure = running.failed()
    assert isinstance(failure, TaskTimeoutError)
    assert isinstance(failure.__cause__, DiskFullError)
    assert "no space is left for" in str(failure)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_database_that_does_not_go_on_is_opened_again(
    guarantee: str, running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """As one of RocksDB after some errors, such as that of a quota."""
    caplog.set_level(logging.WARNING)
    disk, clock = FillingDisk(breaks=True), JumpingClock()
    running.app(on_disk(), platform=disk.platform(clock), processing_guarantee=guarantee, retry_backoff_ms=10)
    running.send("a")
    running.until(lambda: running.committed() == 1)
    disk.full = True
    running.send("a", "b")
    running.until(lambda: lines(caplog))
    disk.full = False
    before = disk.refused
    running.until(lambda: disk.refused > before + 1)
    assert disk.opened == 1
    clock.ahead_s += REOPEN_AFTER_S
    running.send("b")
    running.until(lambda: running.committed() == 4)
    running.until_out("a=1", "a=2", "b=1", "b=2")
    assert disk.opened == 2


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_store_without_a_changelog_keeps_what_a_full_disk_did_not_take(
    guarantee: str, disk: FillingDisk, running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else has it, so that its offsets wait under at-least-once."""
    caplog.set_level(logging.WARNING)
    topology = Topology().add_source("source", "in").add_processor("p", Counting, "source").add_sink("sink", "out", "p")
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), Serdes.STRING, Serdes.LONG)
    topology.add_state_store(store.with_logging_disabled(), "p")
    running.app(topology, platform=disk.platform(), processing_guarantee=guarantee, retry_backoff_ms=10)
    running.send("a")
    running.until(lambda: running.committed() == 1)
    disk.full = True
    running.send("a", "a")
    running.until(lambda: lines(caplog))
    assert running.committed() == (3 if guarantee == "exactly_once_v2" else 1)
    disk.full = False
    running.send("a")
    running.until(lambda: running.committed() == 4)
    running.until_out("a=1", "a=2", "a=3", "a=4")
    assert lines(caplog) == [(FULL, 1), (ROOM, 1)]


def test_global_stores_wait_too(disk: FillingDisk, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While they are filled, and while they follow their topic; a close does not wait for room."""
    caplog.set_level(logging.WARNING)
    builder, strings = StreamsBuilder(), Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    builder.global_table("global", strings, materialized=Materialized(name="g"))
    with Cluster(tmp_path, topics={"global": 1}, one_state=True) as running:
        running.send_pairs("global", [("a", "1")])
        app = running.app(builder.build(), platform=disk.platform(), retry_backoff_ms=10)
        running.until_state(app, ClientState.RUNNING)
        disk.full = True
        running.send_pairs("global", [("a", "2")])
        running.until(lambda: lines(caplog))
        store = app.store(StoreQueryParameters.from_name_and_type("g", QueryableStoreTypes.key_value_store()))
        assert store.get("a") == "1"
        disk.full = False
        running.until(lambda: store.get("a") == "2")
        running.until(lambda: len(lines(caplog)) == 2)
        assert lines(caplog) == [(FULL, 1), (ROOM, 1)]
        disk.full = True
        running.send_pairs("global", [("a", "3")])
        running.until(lambda: len(lines(caplog)) == 3)
        assert app.close(60)
        assert app.state is ClientState.NOT_RUNNING
        disk.full = False
        again = running.app(builder.build(), platform=disk.platform())
        running.until_state(again, ClientState.RUNNING)
        store = again.store(StoreQueryParameters.from_name_and_type("g", QueryableStoreTypes.key_value_store()))
        assert store.get("a") == "3"
