"""Window and session stores with headers in a topology: getters, queries, changelogs."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.queries import (
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from state.formats.keys import session_key, window_key
from streams.queries.request import StateQueryRequest
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
KIN: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]


class Keep(Processor[str, str, Any, Any]):
    """Keeps each record, with its headers, by its window of 10 ms and as a session of its own; ``-`` deletes."""

    def process(self, record: Record[str, str]) -> None:
        windows, sessions = map(self.context.get_state_store, ("windows", "sessions"))
        start, session = record.timestamp // 10 * 10, Windowed(record.key, Window(record.timestamp, record.timestamp))
        if record.value == "-":
            windows.put(record.key, None, start)
            return sessions.remove(session)
        headers = list(record.headers)
        windows.put(record.key, ValueTimestampHeaders(record.value, record.timestamp, headers), start)
        sessions.put(session, AggregationWithHeaders(record.value, headers))


def topology(*, memory: bool, cached: bool = False, time_ordered: bool = False) -> Topology:
    if memory:
        windows = Stores.in_memory_window_store("windows", 100, 10, time_ordered=time_ordered)
        sessions = Stores.in_memory_session_store("sessions", 100, time_ordered=time_ordered)
    else:
        windows = Stores.persistent_timestamped_window_store_with_headers("windows", 100, 10, time_ordered=time_ordered)
        sessions = Stores.persistent_session_store_with_headers("sessions", 100, time_ordered=time_ordered)
    built = Topology().add_source("source", "in").add_processor("keep", Keep, "source")
    for builder in (
        Stores.timestamped_window_store_with_headers_builder(windows, S, S),
        Stores.session_store_with_headers_builder(sessions, S, S),
    ):
        built.add_state_store(builder.with_caching_enabled() if cached else builder, "keep")
    return built


def listed(rows: Any) -> list[Any]:
    with rows:
        return list(rows)


@pytest.fixture(params=[(m, c, t) for m in (False, True) for c in (False, True) for t in (False, True)], ids=str)
def driver(request: pytest.FixtureRequest) -> Any:
    memory, cached, time_ordered = request.param
    with TopologyTestDriver(topology(memory=memory, cached=cached, time_ordered=time_ordered), CONFIG) as made:
        made.create_input_topic("in", S, S).pipe_input("a", "x", timestamp=5, headers=KIN)
        made.create_input_topic("in", S, S).pipe_input("b", "y", timestamp=12)
        yield made


def test_getters_show_headers_timestamps_or_values_alone(driver: TopologyTestDriver) -> None:
    assert driver.get_timestamped_window_store_with_headers("windows").fetch("a", 0) == ("x", 5, KIN)
    timestamped = driver.get_timestamped_window_store("windows")
    assert timestamped.fetch("a", 0) == ValueAndTimestamp("x", 5)
    timestamped.put("c", ValueAndTimestamp("z", 7), 0)
    plain = driver.get_window_store("windows")
    assert dict(listed(plain.fetch_all(0, 99))) == {
        Windowed("a", Window(0, 10)): "x",
        Windowed("b", Window(10, 20)): "y",
        Windowed("c", Window(0, 10)): "z",
    }
    plain.put("c", None, 0)
    assert listed(plain.fetch_range("c", 0, 99)) == []
    sessions = driver.get_session_store_with_headers("sessions")
    assert sessions.fetch_session("a", 5, 5) == AggregationWithHeaders("x", KIN)
    alone = driver.get_session_store("sessions")
    alone.put(Windowed("c", Window(7, 8)), "z")
    assert listed(alone.fetch("c")) == [(Windowed("c", Window(7, 8)), "z")]
    assert sessions.fetch_session("c", 7, 8) == AggregationWithHeaders("z", [])


def test_getters_of_other_kinds_are_refused(driver: TopologyTestDriver) -> None:
    for get, name in (
        (driver.get_timestamped_session_store, "sessions"),
        (driver.get_session_store_with_headers, "windows"),
        (driver.get_timestamped_window_store_with_headers, "sessions"),
    ):
        with pytest.raises(TopologyError, match=f"store '{name}' is a .*headers-.* store and cannot be read as a"):
            get(name)


def test_the_changelogs_have_the_headers_of_the_values(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("in", S, S).pipe_input("a", "-", timestamp=5, headers=[("gone", b"2")])
    produced = driver.take_produced()
    windows, sessions = (produced[f"test-application-{name}-changelog"] for name in ("windows", "sessions"))
    assert windows == [
        (window_key(b"a", 0), b"x", 5, KIN),
        (window_key(b"b", 10), b"y", 12, []),
        (window_key(b"a", 0), None, 5, [("gone", b"2")]),
    ]
    assert sessions == [
        (session_key(b"a", 5, 5), b"x", 5, KIN),
        (session_key(b"b", 12, 12), b"y", 12, []),
        (session_key(b"a", 5, 5), None, 5, [("gone", b"2")]),
    ]


def test_queries_give_records_with_headers_or_leave_them_out(driver: TopologyTestDriver) -> None:
    def ask(store: str, query: Any) -> list[Any]:
        with driver.query(StateQueryRequest.in_store(store).with_query(query)) as found:
            return list(found.partition_results[0].result)

    a, b = Windowed("a", Window(0, 10)), Windowed("b", Window(10, 20))
    records = [Record(a, "x", 5, KIN), Record(b, "y", 12, [])]
    assert ask("windows", TimestampedWindowKeyWithHeadersQuery("a", 0, 99)) == records[:1]
    in_range = TimestampedWindowRangeWithHeadersQuery.with_window_start_range(0, 99)
    assert ask("windows", in_range) == records
    assert ask("windows", WindowKeyQuery("a", 0, 99)) == [(0, ValueAndTimestamp("x", 5))]
    assert ask("windows", WindowRangeQuery.with_window_start_range(0, 99)) == [
        (a, ValueAndTimestamp("x", 5)), (b, ValueAndTimestamp("y", 12)),
    ]  # fmt: skip
    session = Windowed("a", Window(5, 5))
    assert ask("sessions", TimestampedWindowRangeWithHeadersQuery.with_key("a")) == [Record(session, "x", 5, KIN)]
    assert ask("sessions", WindowRangeQuery.with_key("a")) == [(session, "x")]


def test_stores_are_read_as_each_type_shows_them(driver: TopologyTestDriver) -> None:
    types = QueryableStoreTypes

    def read(name: str, store_type: Any) -> Any:
        return driver.query_store(StoreQueryParameters.from_name_and_type(name, store_type))

    assert read("windows", types.window_store()).fetch("a", 0) == "x"
    assert listed(read("windows", types.timestamped_window_store()).fetch_range("a", 0, 9)) == [
        (0, ValueAndTimestamp("x", 5))
    ]
    assert read("windows", types.timestamped_window_store_with_headers()).fetch("a", 0) == ("x", 5, KIN)
    assert read("sessions", types.session_store()).fetch_session("a", 5, 5) == "x"
    with_headers = read("sessions", types.session_store_with_headers())
    assert listed(with_headers.fetch("a")) == [(Windowed("a", Window(5, 5)), AggregationWithHeaders("x", KIN))]
