"""A disk that is full when an application starts, or for a store of the user's own: waited for where that is safe."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Materialized, StreamsBuilder
from processor_api.errors import DiskFullError, ProcessingError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.custom import CustomStateStore
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.filling_disk import FillingDisk
from runtime_support.running_app import Cluster, counting
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.platform import Platform
from streams.runtime.tasks.retry import TaskTimeoutError

FULL = "the disk is full: free some space there, and processing goes on by itself; nothing is lost"
ROOM = "the disk has room again: processing goes on"

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


@pytest.fixture
def disk() -> FillingDisk:
    return FillingDisk()


@pytest.fixture(name="running")
def running_fixture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Cluster]:
    caplog.set_level(logging.WARNING)
    with Cluster(tmp_path, topics={"in": 1, "out": 1, "global": 1}, one_state=True) as cluster:
        yield cluster


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.getMessage() in (FULL, ROOM)]


def on_disk(*, globally: bool) -> Topology:
    if not globally:
        return counting(store=Stores.persistent_key_value_store("counts"))
    builder = StreamsBuilder()
    builder.global_table(
        "global", Consumed(key_serde="string", value_serde="string"), materialized=Materialized(name="g")
    )
    return builder.build()


class Starting(threading.Thread):
    """The start of an application, on a thread of its own since it waits."""

    def __init__(self, app: KafkaStreams) -> None:
        super().__init__(daemon=True)
        self.app = app
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.app.start()
        except Exception as error:
            self.error = error


@pytest.mark.parametrize("globally", [False, True])  # the directory, or a store that is opened in it
def test_a_start_waits_for_room(
    globally: bool, disk: FillingDisk, running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It failed at once, and a supervisor that starts a worker again and again gave up in seconds."""
    disk.full = True
    platform = disk.platform(locks=not globally)
    app = running.app(on_disk(globally=globally), start=False, platform=platform, retry_backoff_ms=10)
    starting = Starting(app)
    running.until(lambda: lines(caplog))
    assert starting.is_alive()
    assert lines(caplog) == [FULL]
    [line] = [one for one in caplog.records if one.getMessage() == FULL]
    assert line.waits == "the start of the application"  # type: ignore[attr-defined]
    disk.full = False
    running.until_state(app, ClientState.RUNNING)
    running.until(lambda: lines(caplog) == [FULL, ROOM])
    starting.join(10)
    assert starting.error is None


def test_a_start_that_waits_can_be_closed(disk: FillingDisk, running: Cluster) -> None:
    disk.full = True
    app = running.app(on_disk(globally=False), start=False, platform=disk.platform(locks=True), retry_backoff_ms=10)
    starting = Starting(app)
    running.until(lambda: disk.refused)
    assert app.close(60)
    starting.join(10)
    assert (starting.is_alive(), starting.error, app.state) == (False, None, ClientState.NOT_RUNNING)


def test_a_start_on_a_disk_that_stays_full_fails(disk: FillingDisk, running: Cluster) -> None:
    disk.full = True
    app = running.app(
        on_disk(globally=False),
        start=False,
        platform=disk.platform(locks=True),
        retry_backoff_ms=10,
        task_timeout_ms=200,
    )
    with pytest.raises(TaskTimeoutError, match="no space is left for") as caught:
        app.start()
    assert isinstance(caught.value.__cause__, DiskFullError)
    assert app.state is ClientState.ERROR
    assert not (running.directory / "app").exists()  # nothing is left of a start that failed


class Own(CustomStateStore):
    """Counts, in memory; one of its calls finds the disk full while there is no room."""

    name = "own"
    persistent = False
    is_open = False

    def __init__(self, disk: FillingDisk, where: str, number: int) -> None:
        self.disk, self.where, self.number = disk, where, number

    def check(self, where: str) -> None:
        if self.where == where and self.disk.full:
            self.disk.refused += 1
            raise OSError(self.number, os.strerror(self.number), "rows.db")

    def init(self, context: Any) -> None:
        self.check("opened")
        self.context, self.rows, self.is_open = context, dict[bytes, int](), True
        context.register(self.restore)

    def restore(self, records: Any) -> None:
        self.check("restored")
        self.rows.update((record.key, int(record.value)) for record in records)

    def add(self, key: bytes) -> int:
        self.check("used")
        count = self.rows[key] = self.rows.get(key, 0) + 1
        self.context.log_change(key, b"%d" % count)
        return count

    def commit(self, offsets: Any) -> None:
        self.check("committed")

    def close(self) -> None:
        self.is_open = False


class Count(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        count = self.context.get_state_store("own").add(record.value.encode())
        self.context.forward(record.with_value(f"{record.value}={count}"))


def with_own(disk: FillingDisk, where: str, number: int) -> Topology:
    made = Topology().add_source("source", "in", key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    made.add_processor("count", Count, "source")
    made.add_state_store(Stores.custom("own", lambda: Own(disk, where, number)), "count")
    return made.add_sink("sink", "out", "count", key_serde=Serdes.STRING, value_serde=Serdes.STRING)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize(
    ("where", "number"),
    [("opened", errno.ENOSPC), ("restored", errno.EDQUOT), ("committed", errno.ENOSPC), ("committed", errno.EDQUOT)],
)
def test_a_store_of_the_users_own_that_finds_the_disk_full_is_waited_for(
    where: str, number: int, guarantee: str, disk: FillingDisk, running: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the runtime calls it between records; the thread ended."""
    config: dict[str, Any] = {"processing_guarantee": guarantee, "retry_backoff_ms": 10}
    config["platform"] = Platform(has_room=lambda _: not disk.full)
    running.app(with_own(disk, where, number), **config)
    running.send("a", "a")
    running.until(lambda: running.committed() == 2)
    if where != "committed":
        assert running.last.close(60)
    disk.full = True
    if where != "committed":
        running.app(with_own(disk, where, number), **config)
    running.send("a", "b")
    running.until(lambda: lines(caplog) and disk.refused)
    [line] = [one for one in caplog.records if one.getMessage() == FULL]
    assert f"custom store 'own' could not be {where}: the disk" in line.error  # type: ignore[attr-defined]
    disk.full = False
    running.until(lambda: running.committed() == 4)
    running.until_out("a=1", "a=2", "a=3", "b=1")
    running.until(lambda: lines(caplog) == [FULL, ROOM])


def test_a_full_disk_in_the_middle_of_a_record_is_an_error_of_the_record(disk: FillingDisk, running: Cluster) -> None:
    """Half of the record may be done, so that it cannot be tried again in its place."""
    disk.full = True
    running.app(with_own(disk, "used", errno.ENOSPC))
    running.send("a")
    failure = running.failed()
    assert isinstance(failure, ProcessingError)
    assert "No space left on device" in str(failure)
    assert "'count'" in str(failure)
