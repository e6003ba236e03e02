"""Queries of a running application: stores (IQv1) and requests (IQv2), while it processes, restores and rebalances."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl import StreamsBuilder
from golden_support.topologies import load_module
from processor_api.errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    StateStoreMigratedError,
    StreamsError,
    StreamsNotStartedError,
    StreamsRebalancingError,
    StreamsStoppedError,
    UnknownStateStoreError,
)
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.queries import (
    IsolationLevel,
    KeyQuery,
    RangeQuery,
    TimestampedKeyWithHeadersQuery,
    TimestampedRangeWithHeadersQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, counting
from state.engine.registry import register_engine
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.queries.position import Position, PositionBound
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from waiting import wait_until

C = ClientState
S = Serdes.STRING
EOS = {"processing.guarantee": "exactly_once_v2"}
TYPES = QueryableStoreTypes
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def counts(app: KafkaStreams, partition: int | None = None, *, stale: bool = False) -> Any:
    parameters = StoreQueryParameters.from_name_and_type("counts", TYPES.key_value_store())
    if partition is not None:
        parameters = parameters.with_partition(partition)
    return app.store(parameters.enable_stale_stores() if stale else parameters)


def listed(rows: Any) -> list[Any]:
    with rows:
        return list(rows)


def request(query: Any) -> StateQueryRequest[Any]:
    return StateQueryRequest.in_store("counts").with_query(query)


@pytest.fixture(params=["memory", "rocksdb", "sqlite"])
def store(request: pytest.FixtureRequest, root: Path) -> Any:
    """On each engine that is built in, and on one of a user's own."""
    if request.param == "sqlite":
        register_engine("sqlite", load_module(str(root / "examples/08_custom_stores/sqlite_engine.py")).SqliteEngine)
        return Stores.persistent_key_value_store("counts").on_engine("sqlite")
    make = Stores.in_memory_key_value_store if request.param == "memory" else Stores.persistent_key_value_store
    return make("counts")


def test_a_store_is_read_partition_by_partition(store: Any, make_cluster: Callable[..., Cluster]) -> None:
    """Of two threads; a composite asks one task after another."""
    cluster = make_cluster(partitions=3)
    app = cluster.app(counting(store=store), {"num.stream.threads": 2})
    cluster.until_state(app, C.RUNNING)
    for partition, values in enumerate(("aab", "bc", "d")):
        cluster.send(*values, partition=partition)
    cluster.until_out("a=1", "a=2", "b=1", "b=1", "c=1", "d=1")
    found = counts(app)
    assert sorted(listed(found.all())) == [("a", 2), ("b", 1), ("b", 1), ("c", 1), ("d", 1)]
    assert (found.get("a"), found.get("d"), found.get("z")) == (2, 1, None)
    assert listed(counts(app, 0).all()) == [("a", 2), ("b", 1)]
    assert listed(counts(app, 1).reverse_range("a", "c")) == [("c", 1), ("b", 1)]
    assert listed(counts(app, 1).prefix_scan("c")) == [("c", 1)]
    with found.range("a", "b") as rows:
        assert rows.peek_next_key() == "a"
        assert next(rows) == ("a", 2)
    with pytest.raises(StreamsError, match="closed"):
        next(rows)


def test_requests_tell_results_by_partition(store: Any, make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(partitions=2)
    app = cluster.app(counting(store=store), {"num.stream.threads": 2})
    cluster.until_state(app, C.RUNNING)
    cluster.send(*"aab", partition=0)
    cluster.send(*"cd", partition=1)
    cluster.until_out("a=1", "a=2", "b=1", "c=1", "d=1")
    found = app.query(request(KeyQuery("a")).require_active().enable_execution_info())
    assert {partition: one.result for partition, one in found.partition_results.items()} == {0: 2, 1: None}
    assert found.only_partition_result is found.partition_results[0]
    assert found.position == Position({"in": {0: 2, 1: 1}})
    assert (
        "KeyQuery at READ_UNCOMMITTED of store 'counts', task 0_0 (runs)"
        in found.partition_results[0].execution_info[0]
    )
    failed = app.query(request(WindowKeyQuery("a", 0, 10)).with_partitions([0, 7]).enable_execution_info())
    infos = {partition: one.execution_info for partition, one in failed.partition_results.items()}
    assert re.fullmatch(r"WindowKeyQuery at .*, task 0_0 \(runs\): \d+ us: UNKNOWN_QUERY_TYPE", infos[0][0])
    assert infos[7] == ("WindowKeyQuery of store 'counts', no task of the store is here: DOES_NOT_EXIST",)
    with app.query(request(RangeQuery())) as ranges:
        assert listed(ranges.partition_results[1].result) == [("c", 1), ("d", 1)]
    some = app.query(request(KeyQuery("a")).with_partitions([0, 7]))
    assert some.partition_results[0].result == 2
    assert some.partition_results[7].failure_reason is FailureReason.DOES_NOT_EXIST
    other = app.query(request(WindowKeyQuery("a", 0, 10)).with_partitions([0])).partition_results[0]
    assert other.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert "is a key-value store, which does not support WindowKeyQuery" in other.failure_message


# ------------------------------------------------------------------ when a store cannot be read


def test_an_application_that_does_not_run_refuses(cluster: Cluster) -> None:
    app = cluster.app(counting(), start=False)
    for ask in (lambda: counts(app), lambda: app.query(request(KeyQuery("a"))), app.all_local_store_partition_lags):
        with pytest.raises(StreamsNotStartedError, match="not started: call start"):
            ask()
    app.start()
    cluster.until_state(app, C.RUNNING)
    found = counts(app)
    assert found.is_open
    assert app.close(60)
    for ask in (lambda: counts(app), lambda: app.query(request(KeyQuery("a"))), lambda: found.get("a"), found.all):
        with pytest.raises(StreamsStoppedError, match="NOT_RUNNING"):
            ask()
    assert not found.is_open


def test_what_cannot_be_read_is_told(make_cluster: Callable[..., Cluster]) -> None:
    """Unknown stores with those there are, other kinds, partitions that do not exist."""
    cluster = make_cluster(partitions=2)
    app = cluster.app(counting())
    cluster.until_state(app, C.RUNNING)
    other = StoreQueryParameters.from_name_and_type("count", TYPES.key_value_store())
    with pytest.raises(UnknownStateStoreError, match="does not have store 'count'; it has: 'counts'"):
        app.store(other)
    with pytest.raises(UnknownStateStoreError, match="does not have store 'count'"):
        app.query(StateQueryRequest.in_store("count").with_query(KeyQuery("a")))
    windows = StoreQueryParameters.from_name_and_type("counts", TYPES.window_store())
    with pytest.raises(InvalidStateStoreError, match="is a key-value store and cannot be read as a window store"):
        app.store(windows)
    with pytest.raises(InvalidStateStorePartitionError, match="does not have partition 2: it has 2"):
        counts(app, 2)
    with pytest.raises(StreamsError, match="does not accept null keys"):
        counts(app).get(None)


def test_a_partition_of_another_process_is_not_here(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(partitions=2)
    apps = [cluster.app(counting()) for _ in range(2)]
    wait_until("each has a task", lambda: all(len(*app.tasks().values()) == 1 for app in apps))
    for app in apps:
        cluster.until_state(app, C.RUNNING)
    here = next(iter(apps[0].tasks().values()))[0].partition
    found = apps[0].query(request(KeyQuery("a")).with_partitions([0, 1]))
    assert found.partition_results[here].is_success
    assert found.partition_results[1 - here].failure_reason is FailureReason.NOT_PRESENT
    with pytest.raises(InvalidStateStorePartitionError, match="is not in this process"):
        counts(apps[0], 1 - here)
    with pytest.raises(StreamsError, match=r"NOT_PRESENT: partition \d of store 'counts' is not in this process"):
        found.partition_results[1 - here].result  # noqa: B018 - it raises


def test_a_store_is_found_again_where_its_task_goes(store: Any, make_cluster: Callable[..., Cluster]) -> None:
    """A thread is removed: the other one takes over, and who has the store goes on with it."""
    cluster = make_cluster(partitions=2)
    app = cluster.app(counting(store=store), {"num.stream.threads": 2})
    cluster.until_state(app, C.RUNNING)
    cluster.send("a", partition=0)
    cluster.send("b", partition=1)
    cluster.until_out("a=1", "b=1")
    found = counts(app)
    assert app.remove_stream_thread(10) is not None
    wait_until(
        "one thread runs all", lambda: [len(one.active_tasks) for one in app.metadata_for_local_threads()] == [2]
    )
    cluster.until_state(app, C.RUNNING)
    assert (found.get("a"), found.get("b")) == (1, 1)
    found_by_query = app.query(request(KeyQuery("b")).require_active())
    assert {partition: one.result for partition, one in found_by_query.partition_results.items()} == {0: None, 1: 1}


def test_an_iterator_ends_with_its_store(store: Any, cluster: Cluster) -> None:
    """It says that the store went elsewhere, rather than ending early; so does one of a request."""
    app = cluster.app(counting(store=store))
    cluster.until_state(app, C.RUNNING)
    cluster.send(*"abc")
    cluster.until_out("a=1", "b=1", "c=1")
    rows = counts(app).all()
    asked = app.query(request(RangeQuery())).partition_results[0].result
    assert next(rows) == next(asked) == ("a", 1)
    assert app.close(60)
    for iterator in (rows, asked):
        with pytest.raises(StateStoreMigratedError, match="store 'counts' was closed during the read"):
            list(iterator)
        iterator.close()


def test_a_store_that_is_restored_is_read_if_stale_stores_will_do(store: Any, cluster: Cluster) -> None:
    """And its lag is known; nothing is known of its position."""
    each = {"changelog.updates": "each"}
    first = cluster.app(counting(store=store), each)
    cluster.send(*"aab")
    cluster.until_out("a=1", "a=2", "b=1")
    assert first.close(60)
    app = cluster.app(counting(store=store), each, start=False)
    app.pause()
    app.start()
    wait_until("it restores", app.all_local_store_partition_lags)
    (lag,) = app.all_local_store_partition_lags()["counts"].values()
    assert (lag.current_offset_position, lag.end_offset_position, lag.offset_lag) == (0, 3, 3)
    with pytest.raises(StreamsRebalancingError, match="task 0_0 of store 'counts' does not run yet"):
        counts(app)
    stale = counts(app, stale=True)
    assert (stale.get("a"), listed(stale.all())) == (None, [])
    results = app.query(request(KeyQuery("a"))).partition_results
    assert (results[0].result, results[0].position) == (None, Position())
    bound = PositionBound.at(Position({"in": {0: 0}}))
    assert _reason(app, request(KeyQuery("a")).with_position_bound(bound)) is FailureReason.NOT_UP_TO_BOUND
    assert _reason(app, request(KeyQuery("a")).require_active()) is FailureReason.NOT_ACTIVE
    app.resume()
    cluster.until_state(app, C.RUNNING)
    assert (stale.get("a"), counts(app).get("a")) == (2, 2)
    assert app.all_local_store_partition_lags()["counts"][0].offset_lag == 0


class _Looking:
    """A restore listener that looks when a batch was restored."""

    def __init__(self, look: Callable[[str], Any]) -> None:
        self._look = look
        self.seen: dict[str, Any] = {}

    def on_restore_start(self, *told: Any) -> None: ...

    def on_restore_end(self, *told: Any) -> None: ...

    def on_batch_restored(self, partition: Any, store: str, end_offset: int, restored: int) -> None:
        self.seen[store] = self._look(store)


def test_stores_of_each_kind_are_read_while_they_are_restored(cluster: Cluster) -> None:
    """With what is restored so far."""
    each = {"changelog.updates": "each"}
    first = cluster.app(_many_kinds(), each)
    cluster.until_state(first, C.RUNNING)
    cluster.send("x", "y", key="a")
    bound = PositionBound.at(Position({"in": {0: 1}}))
    asked = StateQueryRequest.in_store("sessions").with_query(WindowRangeQuery.with_key("a")).with_position_bound(bound)
    wait_until("it is processed", lambda: first.query(asked).partition_results[0].is_success)
    assert first.close(60)
    app = cluster.app(_many_kinds(), each, start=False)
    types: dict[str, Any] = {
        "timestamped": (TYPES.key_value_store(), lambda store: store.get("a")),
        "headers": (TYPES.key_value_store(), lambda store: listed(store.all())),
        "versioned": (TYPES.versioned_key_value_store(), lambda store: store.get("a").value),
        "windows": (TYPES.window_store(), lambda store: listed(store.fetch_range("a", 0, 0))),
        "sessions": (TYPES.session_store(), lambda store: store.fetch_session("a", 1, 4)),
    }

    def look(name: str) -> Any:
        type_, read = types[name]
        parameters = StoreQueryParameters.from_name_and_type(name, type_).enable_stale_stores()
        return read(app.store(parameters)), app.all_local_store_partition_lags()[name][0].offset_lag

    listener = _Looking(look)
    app.set_global_state_restore_listener(listener)
    app.start()
    cluster.until_state(app, C.RUNNING)
    found = {"timestamped": "y", "headers": [("a", "y")], "versioned": "y", "windows": [(0, "y")], "sessions": "y"}
    assert listener.seen == {name: (value, 0) for name, value in found.items()}


def _reason(app: KafkaStreams, asked: Any) -> FailureReason:
    (found,) = app.query(asked).partition_results.values()
    return found.failure_reason


# ------------------------------------------------------------------ positions and isolation


@pytest.mark.parametrize("guarantee", [{}, EOS])
def test_a_position_can_be_waited_for(guarantee: Any, store: Any, cluster: Cluster) -> None:
    """Whoever knows the offset of an input record asks for a store that has seen it."""
    app = cluster.app(counting(store=store), guarantee)
    cluster.until_state(app, C.RUNNING)
    bound = PositionBound.at(Position({"in": {0: 2}, "elsewhere": {1: 9}}))
    asked = request(KeyQuery("a")).with_position_bound(bound)
    assert _reason(app, asked) is FailureReason.NOT_UP_TO_BOUND
    cluster.send("a", "x", "a")
    for level in IsolationLevel:
        wait_until(
            "the store is that far",
            lambda at=level: not app.query(asked.with_isolation_level(at)).partition_results[0].is_failure,
        )
        (found,) = app.query(asked.with_isolation_level(level)).partition_results.values()
        assert found.result == 2
        assert bound.reached(found.position, 0)


@pytest.mark.parametrize("guarantee", [{}, EOS])
def test_committed_positions_outlive_the_process(guarantee: Any, store: Any, cluster: Cluster) -> None:
    """Stores in memory are restored to what was committed, and so are their positions."""
    settings = {**guarantee, "state.dir": str(cluster.directory / "kept")}
    first = cluster.app(counting(store=store), settings)
    cluster.send(*"aab")
    cluster.until_out("a=1", "a=2", "b=1")
    assert first.close(60)
    app = cluster.app(counting(store=store), settings)
    cluster.until_state(app, C.RUNNING)
    for level in IsolationLevel:
        found = app.query(request(KeyQuery("b")).with_isolation_level(level)).partition_results[0]
        assert found.result == 1
        assert PositionBound.at(Position({"in": {0: 2}})).reached(found.position, 0)


def test_what_is_not_committed_shows_only_at_that_level(store: Any, cluster: Cluster) -> None:
    """Exactly once reads what was committed, unless a query or the settings say otherwise."""
    app = cluster.app(
        counting(store=store), {**EOS, "commit.interval.ms": 600_000, "producer.transaction.timeout.ms": 900_000}
    )
    cluster.until_state(app, C.RUNNING)
    cluster.send("a", "b")
    anyway = request(KeyQuery("b")).with_isolation_level(UNCOMMITTED)
    wait_until("it is processed", lambda: app.query(anyway).partition_results[0].result == 1)
    committed = request(KeyQuery("b")).with_isolation_level(COMMITTED)
    assert app.query(committed).partition_results[0].result is None
    assert app.query(request(KeyQuery("b"))).partition_results[0].result is None
    found = counts(app)
    assert (found.get("b"), found.read_only(UNCOMMITTED).get("b"), found.read_only(COMMITTED).get("b")) == (
        None,
        1,
        None,
    )
    assert listed(found.read_only(UNCOMMITTED).all()) == [("a", 1), ("b", 1)]
    assert listed(found.read_only(COMMITTED).all()) == []
    assert app.query(anyway).position == Position({"in": {0: 1}})
    assert app.query(committed).position == Position()
    bound = PositionBound.at(Position({"in": {0: 1}}))
    assert _reason(app, committed.with_position_bound(bound)) is FailureReason.NOT_UP_TO_BOUND
    assert app.query(anyway.with_position_bound(bound)).partition_results[0].is_success


# ------------------------------------------------------------------ kinds


class _PutsEverywhere(Processor[Any, Any, Any, Any]):
    """Puts each value under the record's key into a store of each kind."""

    def process(self, record: Record[Any, Any]) -> None:
        for name in ("timestamped", "headers"):
            put = self.context.get_state_store(name).put
            value: Any = (record.value, record.timestamp, [("h", b"1")]) if name == "headers" else None
            put(
                record.key,
                ValueTimestampHeaders(*value) if value else ValueAndTimestamp(record.value, record.timestamp),
            )
        self.context.get_state_store("versioned").put(record.key, record.value, record.timestamp)
        self.context.get_state_store("windows").put(record.key, record.value, 0)
        self.context.get_state_store("sessions").put(Windowed(record.key, Window(1, 4)), record.value)


def _many_kinds() -> Topology:
    builders = [
        Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store("timestamped"), S, S),
        Stores.timestamped_key_value_store_with_headers_builder(Stores.in_memory_key_value_store("headers"), S, S),
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("versioned", 1000), S, S),
        Stores.window_store_builder(Stores.persistent_window_store("windows", 1000, 10), S, S),
        Stores.session_store_builder(Stores.in_memory_session_store("sessions", 1000), S, S),
    ]
    topology = Topology().add_source("source", "in").add_processor("p", _PutsEverywhere, "source")
    for builder in builders:
        topology.add_state_store(builder, "p")
    return topology


def test_each_kind_is_read_as_its_type_shows_it(make_cluster: Callable[..., Cluster]) -> None:
    """Values of stores with timestamps and headers may be read without them; iterators of several tasks are joined."""
    cluster = make_cluster(partitions=2)
    app = cluster.app(_many_kinds())
    cluster.until_state(app, C.RUNNING)
    cluster.send("x", "y", key="a", partition=0)
    cluster.send("z", key="b", partition=1)

    def read(name: str, type_: Any) -> Any:
        return app.store(StoreQueryParameters.from_name_and_type(name, type_))

    sessions = read("sessions", TYPES.session_store())
    wait_until(
        "all is processed",
        lambda: sessions.fetch_session("a", 1, 4) == "y" and sessions.fetch_session("b", 1, 4) == "z",
    )
    assert read("timestamped", TYPES.key_value_store()).get("a") == "y"
    assert listed(read("timestamped", TYPES.key_value_store()).all()) == [("a", "y"), ("b", "z")]
    assert read("timestamped", TYPES.timestamped_key_value_store()).get("a") == ValueAndTimestamp("y", 5)
    assert listed(read("headers", TYPES.key_value_store()).all()) == [("a", "y"), ("b", "z")]
    assert read("headers", TYPES.timestamped_key_value_store()).get("b") == ValueAndTimestamp("z", 5)
    with_headers = read("headers", TYPES.timestamped_key_value_store_with_headers())
    assert with_headers.get("b") == ValueTimestampHeaders("z", 5, [("h", b"1")])
    versioned = read("versioned", TYPES.versioned_key_value_store())
    assert versioned.get("a").value == "y"
    assert [one.value for one in listed(versioned.versions("a"))] == ["y"]
    assert [key for key, _ in listed(versioned.range())] == ["a", "b"]
    windows = read("windows", TYPES.window_store())
    assert (windows.fetch("a", 0), windows.fetch("q", 0)) == ("y", None)
    assert listed(windows.fetch_range("b", 0, 9)) == [(0, "z")]
    assert listed(windows.all()) == [(Windowed("a", Window(0, 10)), "y"), (Windowed("b", Window(0, 10)), "z")]
    assert listed(sessions.fetch("b")) == [(Windowed("b", Window(1, 4)), "z")]
    assert listed(sessions.find_sessions("a", 0, 9)) == [(Windowed("a", Window(1, 4)), "y")]
    records = app.query(StateQueryRequest.in_store("headers").with_query(TimestampedRangeWithHeadersQuery()))
    with records:
        assert [one.headers for part in records.partition_results.values() for one in part.result] == [
            [("h", b"1")]
        ] * 2
    record = app.query(StateQueryRequest.in_store("headers").with_query(TimestampedKeyWithHeadersQuery("a")))
    assert record.only_partition_result is not None
    assert record.only_partition_result.result == Record("a", "y", 5, [("h", b"1")])


def test_a_global_store_is_read(cluster: Cluster) -> None:
    """By store(); query() says that it does not."""
    cluster.broker.create_topic("table", 1)
    builder = StreamsBuilder()
    builder.global_table("table", materialized="names")
    app = cluster.app(builder.build())
    cluster.until_state(app, C.RUNNING)
    names = app.store(StoreQueryParameters.from_name_and_type("names", TYPES.key_value_store()))
    cluster.send("ann", topic="table", key="1")
    wait_until("the table has it", lambda: names.get("1") == "ann")
    assert listed(names.all()) == [("1", "ann")]
    found = app.query(StateQueryRequest.in_store("names").with_query(KeyQuery("1"))).global_result
    assert found is not None
    assert found.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE


def test_queries_go_on_while_records_are_processed(store: Any, make_cluster: Callable[..., Cluster]) -> None:
    """What a count shows never goes back, in two partitions of two threads, and no query fails."""
    cluster = make_cluster(partitions=2)
    app = cluster.app(counting(store=store), {"num.stream.threads": 2})
    cluster.until_state(app, C.RUNNING)
    found = counts(app)
    last = {"a": 0, "b": 0}
    for _ in range(20):
        cluster.send(*["a"] * 50, partition=0)
        cluster.send(*["b"] * 50, partition=1)
        for key in last:
            now = found.get(key) or 0
            assert now >= last[key]
            last[key] = now
        assert {key for key, _ in listed(found.all())} <= {"a", "b"}
    wait_until("all is counted", lambda: (found.get("a"), found.get("b")) == (1000, 1000), lambda: listed(found.all()))
