"""Window and session stores in a topology: processors use them, tests look into them, commits keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.context import ProcessorContext
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from state.formats.keys import session_key, window_key
from streams.testing import TopologyTestDriver

S, L = Serdes.STRING, Serdes.LONG
CONFIG = {"default.key.serde": S, "default.value.serde": S}
SIZE = 10


class Count(Processor[str, str, Any, Any]):
    """Counts by key and window, and joins records of a key that are at most 5 ms apart into sessions."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.windows = context.get_state_store("windows")
        self.sessions = context.get_state_store("sessions")

    def process(self, record: Record[str, str]) -> None:
        start = record.timestamp - record.timestamp % SIZE
        found = self.windows.fetch(record.key, start)
        count = found.value + 1 if found else 1
        self.windows.put(record.key, ValueAndTimestamp(count, record.timestamp), start)
        first = last = record.timestamp
        text = record.value
        with self.sessions.find_sessions(record.key, max(first - 5, 0), last + 5) as near:
            merged = list(near)
        for session, value in merged:
            self.sessions.remove(session)
            first, last = min(first, session.window.start), max(last, session.window.end)
            text = value + text
        self.sessions.put(Windowed(record.key, Window(first, last)), text)


def topology(*, memory: bool, cached: bool) -> Topology:
    windows = Stores.in_memory_window_store if memory else Stores.persistent_timestamped_window_store
    sessions = Stores.in_memory_session_store if memory else Stores.persistent_session_store
    builders: list[StoreBuilder[Any, Any]] = [
        Stores.timestamped_window_store_builder(windows("windows", 100, SIZE), S, L),
        Stores.session_store_builder(sessions("sessions", 100), S, S),
    ]
    built = Topology().add_source("source", "in").add_processor("count", Count, "source")
    for builder in builders:
        built = built.add_state_store(builder.with_caching_enabled() if cached else builder, "count")
    return built


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_a_processor_counts_in_windows_and_sessions(memory: bool, cached: bool) -> None:
    """A test driver shows the stores, with timestamps and without; the changelogs have Java's keys."""
    with TopologyTestDriver(topology(memory=memory, cached=cached), CONFIG) as driver:
        topic = driver.create_input_topic("in", S, S)
        for key, value, timestamp in (("a", "x", 1), ("a", "y", 4), ("b", "z", 5), ("a", "w", 13)):
            topic.pipe_input(key, value, timestamp=timestamp)
        windows, sessions = driver.get_window_store("windows"), driver.get_session_store("sessions")
        assert windows.fetch("a", 0) == 2
        with windows.fetch_range("a", 0, 100) as rows:
            assert list(rows) == [(0, 2), (10, 1)]
        with driver.get_timestamped_window_store("windows").backward_fetch_range("a", 0, 100) as timed:
            assert list(timed) == [(10, ValueAndTimestamp(1, 13)), (0, ValueAndTimestamp(2, 4))]
        with sessions.fetch("a") as found:
            assert list(found) == [(Windowed("a", Window(1, 4)), "xy"), (Windowed("a", Window(13, 13)), "w")]
        produced = driver.take_produced()
        logged = [(one.key, one.value, one.timestamp) for one in produced["test-application-windows-changelog"]]
        assert (window_key(b"a", 0), L.serialize(2), 4) in logged
        last = produced["test-application-sessions-changelog"][-1]
        assert (last.key, last.value, last.timestamp) == (session_key(b"a", 13, 13), b"w", 13)


def test_a_late_put_counts_as_dropped() -> None:
    with TopologyTestDriver(topology(memory=True, cached=False), CONFIG) as driver:
        topic = driver.create_input_topic("in", S, S)
        topic.pipe_input("a", "now", timestamp=1000)
        topic.pipe_input("a", "late", timestamp=5)
        assert driver.metrics()["dropped-records-total"] == 2  # by the window store and by the session store
        with driver.get_window_store("windows").all() as rows:
            assert [key.window.start for key, _ in rows] == [1000]


def test_a_store_of_another_kind_cannot_be_asked_for() -> None:
    with TopologyTestDriver(topology(memory=True, cached=False), CONFIG) as driver:
        for get, name in (
            (driver.get_session_store, "windows"),
            (driver.get_window_store, "sessions"),
            (driver.get_timestamped_window_store, "sessions"),
        ):
            with pytest.raises(TopologyError, match=f"store '{name}' is a .* store and cannot be read as a"):
                get(name)


@pytest.mark.parametrize("memory", [False, True])
def test_what_was_not_committed_is_gone_after_an_abort(memory: bool, tmp_path: Path) -> None:
    """With the time that it had moved on."""
    with TaskKit(topology(memory=memory, cached=True), tmp_path) as kit:
        kit.pipe("in", b"a", b"x", 1)
        kit.commit()
        kit.pipe("in", b"a", b"future", 5000)
        kit.task.stores.drop_uncommitted()
        kit.task.stores.open(kit.collector, {})
        with kit.store("windows").all() as rows:
            assert list(rows) == [(Windowed("a", Window(0, SIZE)), ValueAndTimestamp(1, 1))]
