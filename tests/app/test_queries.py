"""Queries of a running application: stores (IQv1) and requests (IQv2), while it processes, restores and rebalances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import (
    StreamsError,
)
from processor_api.isolation import IsolationLevel
from processor_api.store_spec import Stores
from runtime_support.running_app import Cluster, counting
from streams.app.kafka_streams import ClientState, KafkaStreams
from streams.queries.position import Position
from streams.queries.query_types import KeyQuery, RangeQuery, WindowKeyQuery
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters

C = ClientState
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


@pytest.fixture(params=["memory", "rocksdb"])
def store(request: pytest.FixtureRequest) -> Any:
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
    with app.query(request(RangeQuery())) as ranges:
        assert listed(ranges.partition_results[1].result) == [("c", 1), ("d", 1)]
    some = app.query(request(KeyQuery("a")).with_partitions([0, 7]))
    assert some.partition_results[0].result == 2
    assert some.partition_results[7].failure_reason is FailureReason.DOES_NOT_EXIST
    other = app.query(request(WindowKeyQuery("a", 0, 10)).with_partitions([0])).partition_results[0]
    assert other.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert "is a key-value store, which cannot answer WindowKeyQuery" in other.failure_message
