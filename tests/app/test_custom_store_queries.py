"""Stores of the user's own in a running application: their task reads them, and nobody else is let in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import InvalidStateStoreError, StoreError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp, VersionedRecord
from processor_api.stores.custom import CustomStateStore, StateStoreContext
from processor_api.stores.factory import PROXIED, Stores
from processor_api.stores.queries import (
    IsolationLevel,
    KeyQuery,
    MultiVersionedKeyQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
)
from processor_api.stores.suppliers import CUSTOM_VERSIONED
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from state.read_views.view import open_view
from state.registry.kinds import open_store
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state_support.bytes_stores import MemoryBytes, PlainBytes, PlainBytesSupplier, TimestampedBytes
from state_support.texts import InMemory, Texts
from streams.app.states import ClientState
from streams.queries.position import Position, PositionBound
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.testing.contracts.store_kit import StoreKit
from streams.testing.driver import TopologyTestDriver
from waiting import wait_until

S = Serdes.STRING
SAYS = "store 'store' is a custom store, which only its task can read"


class Versions(CustomStateStore):
    """The last version of each key."""

    name = "store"  # type: ignore[assignment]
    persistent = False  # type: ignore[assignment]
    is_open = False  # type: ignore[assignment]

    def init(self, context: StateStoreContext) -> None:
        self.rows: dict[bytes, tuple[bytes | None, int]] = {}
        self.is_open = True  # type: ignore[misc]

    def commit(self, offsets: Any) -> None:
        """Nothing to write."""

    def close(self) -> None:
        self.is_open = False  # type: ignore[misc]

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        self.rows[key] = value, timestamp
        return -1

    def get(self, key: bytes, as_of: int | None = None) -> VersionedRecord[bytes] | None:
        value, timestamp = self.rows.get(key, (None, 0))
        return None if value is None else VersionedRecord(value, timestamp)

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord[bytes] | None:
        found = self.get(key)
        self.put(key, None, timestamp)
        return found


class VersionsSupplier:
    name = "store"
    history_retention_ms = 1000
    get = Versions


def of_bytes(kind: Any) -> Any:
    return PlainBytesSupplier("store", kind)


BUILDERS: dict[str, Any] = {
    "custom": Stores.custom("store", Texts),
    "custom, in memory": Stores.custom("store", InMemory),
    "versions": Stores.versioned_key_value_store_builder(VersionsSupplier(), S, S),
    "bytes": Stores.key_value_store_builder(of_bytes(PlainBytes), S, S),
    "bytes, cached": Stores.key_value_store_builder(of_bytes(PlainBytes), S, S).with_caching_enabled(),
    "bytes, in memory": Stores.key_value_store_builder(of_bytes(MemoryBytes), S, S),
    "bytes with timestamps": Stores.timestamped_key_value_store_builder(of_bytes(TimestampedBytes), S, S),
    "bytes without their timestamps": Stores.timestamped_key_value_store_builder(of_bytes(PlainBytes), S, S),
}
QUERIES: list[Any] = [
    KeyQuery("a"),
    RangeQuery(),
    TimestampedKeyQuery("a"),
    TimestampedRangeQuery(),
    VersionedKeyQuery("a"),
    MultiVersionedKeyQuery("a"),
    WindowKeyQuery("a", 0, 9),
]
TYPES: list[Any] = [
    QueryableStoreTypes.key_value_store(),
    QueryableStoreTypes.timestamped_key_value_store(),
    QueryableStoreTypes.versioned_key_value_store(),
    QueryableStoreTypes.window_store(),
    QueryableStoreTypes.session_store(),
]


class Replaces(Processor[str, str, str, str]):
    """Puts the value and forwards the one before."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def process(self, record: Record[str, str]) -> None:
        store: Any = self.context.get_state_store("store")
        before = plain(store.get(record.key))
        if self._kind == CUSTOM_VERSIONED:
            store.put(record.key, record.value, record.timestamp)
        elif self._kind in ("timestamped-key-value", PROXIED):
            store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))
        else:
            store.put(record.key, record.value)
        self.context.forward(record.with_value(f"{before} {record.value}"))


def plain(found: Any) -> str | None:
    """A value without what a store tells with it."""
    return found[0] if isinstance(found, tuple) else found


def replacing(builder: Any) -> Topology:
    topology = Topology().add_source("source", "in").add_processor("p", lambda: Replaces(builder.kind), "source")
    return topology.add_state_store(builder, "p").add_sink("sink", "out", "p")


@pytest.fixture(name="builder", params=BUILDERS)
def builder_fixture(request: pytest.FixtureRequest) -> Any:
    return BUILDERS[request.param]


def refuses(store: Callable[[Any], Any], query: Callable[[Any], Any]) -> None:
    """Every way to read the store says that it is for its task alone."""
    for type_ in TYPES:
        asked = StoreQueryParameters.from_name_and_type("store", type_)
        for parameters in (asked, asked.with_partition(0), asked.enable_stale_stores()):
            with pytest.raises(InvalidStateStoreError, match=SAYS):
                store(parameters)
    bound = PositionBound.at(Position({"in": {0: 1_000_000}}))
    for one in QUERIES:
        asked_: Any = StateQueryRequest.in_store("store").with_query(one)
        variants = [asked_, asked_.require_active(), asked_.with_position_bound(bound), asked_.with_partitions([0])]
        variants += [asked_.with_isolation_level(level) for level in IsolationLevel]
        for request in variants:
            (found,) = query(request).partition_results.values()
            assert found.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
            assert SAYS in found.failure_message


def test_they_are_for_their_task_alone(builder: Any, cluster: Cluster) -> None:
    """Which goes on reading and writing them."""
    app = cluster.app(replacing(builder))
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("1", "2")
    cluster.until_out("None 1", "1 2")
    refuses(app.store, app.query)
    elsewhere: Any = StateQueryRequest.in_store("store").with_query(KeyQuery("a")).with_partitions([7])
    assert app.query(elsewhere).partition_results[7].failure_reason is FailureReason.DOES_NOT_EXIST
    cluster.send("3")
    cluster.until_out("None 1", "1 2", "2 3")


def test_nobody_opens_them_while_they_are_restored(builder: Any, cluster: Cluster) -> None:
    """A query would have closed the store that is being restored, or made another one of it."""
    each = {"changelog.updates": "each"}
    first = cluster.app(replacing(builder), each)
    cluster.send("1", "2")
    cluster.until_out("None 1", "1 2")
    assert first.close(60)
    app = cluster.app(replacing(builder), each, start=False)
    app.pause()
    app.start()
    wait_until("it restores", app.all_local_store_partition_lags)
    refuses(app.store, app.query)
    app.resume()
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("3")
    cluster.until_out("None 1", "1 2", "2 3")


def test_the_test_driver_refuses_queries_as_well(builder: Any) -> None:
    """And gives the store itself as before: it runs on one thread."""
    with TopologyTestDriver(replacing(builder), {"default.key.serde": S, "default.value.serde": S}) as driver:
        topic = driver.create_input_topic("in", S, S)
        topic.pipe_input("a", "1", timestamp=5)
        refuses(driver.query_store, driver.query)
        assert plain(driver.get_state_store("store").get("a")) == "1"


def test_no_view_is_opened_of_them(builder: Any, tmp_path: Path) -> None:
    """At either level; nor does their engine give a snapshot, or a lock."""
    kit = StoreKit(builder, tmp_path)
    opened = open_store(
        builder,
        engine=kit.engine,
        cursor=Cursor(),
        budget=Budget(1 << 20, 0),
        log=lambda *_: None,
        key_serde=S,
        value_serde=S,
    )
    for level in IsolationLevel:
        with pytest.raises(StoreError, match=SAYS):
            open_view(opened, level)
    for ask in (lambda: kit.engine.snapshot([]), lambda: kit.engine.lock):
        with pytest.raises(StoreError, match=SAYS):
            ask()
    opened.close()
    kit.engine.close()
