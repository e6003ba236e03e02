"""Queries through the test driver, as they go in an application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dsl import Materialized, StreamsBuilder
from processor_api.errors import InvalidStateStoreError, StoreError, StreamsError, UnknownStateStoreError
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.queries import IsolationLevel, KeyQuery, RangeQuery, ResultOrder, TimestampedKeyQuery
from streams.queries.position import Position
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.testing.driver import TopologyTestDriver

S = Serdes.STRING


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    """A count of words by key, in a store that is cached, and a global table."""
    builder = StreamsBuilder()
    builder.stream("words").group_by_key().count(materialized=Materialized(name="counts"))
    builder.global_table("names", materialized="names")
    config = {"default.key.serde": S, "default.value.serde": S}
    with TopologyTestDriver(builder.build(), config) as made:
        topic = made.create_input_topic("words", S, S, start_timestamp=7)
        topic.pipe_key_values([("a", "x"), ("b", "x"), ("a", "x")])
        yield made


def ask(driver: TopologyTestDriver, query: Any, **how: Any) -> Any:
    request: Any = StateQueryRequest(store_name="counts", query=query, **how)
    return driver.query(request).partition_results[0]


def test_requests_are_answered(driver: TopologyTestDriver) -> None:
    found = ask(driver, KeyQuery("a"))
    assert (found.result, found.position) == (2, Position({"words": {0: 2}}))
    assert ask(driver, TimestampedKeyQuery("a")).result == ValueAndTimestamp(2, 7)
    with ask(driver, RangeQuery(order=ResultOrder.DESCENDING)).result as rows:
        assert list(rows) == [("b", 1), ("a", 2)]
    committed = ask(driver, KeyQuery("a"), isolation_level=IsolationLevel.READ_COMMITTED)
    assert (committed.result, committed.position) == (2, found.position)


def test_stores_are_read(driver: TopologyTestDriver) -> None:
    types = QueryableStoreTypes
    counts = driver.query_store(StoreQueryParameters.from_name_and_type("counts", types.key_value_store()))
    assert counts.get("a") == 2
    driver.create_input_topic("names", S, S).pipe_input("1", "ann")
    names = driver.query_store(StoreQueryParameters.from_name_and_type("names", types.key_value_store()))
    assert names.get("1") == "ann"
    with pytest.raises(InvalidStateStoreError, match="cannot be read as a window store"):
        driver.query_store(StoreQueryParameters.from_name_and_type("counts", types.window_store()))
    driver.close()
    with pytest.raises(StreamsError, match="closed"):
        counts.get("a")


@pytest.mark.parametrize("write", ["put", "put_if_absent", "put_all", "delete", "remove"])
def test_a_store_that_was_asked_for_cannot_be_written(write: str, driver: TopologyTestDriver) -> None:
    read_as = QueryableStoreTypes.key_value_store()
    counts = driver.query_store(StoreQueryParameters.from_name_and_type("counts", read_as))
    with pytest.raises(StoreError, match="store 'counts' can only be read here"):
        getattr(counts, write)("a", 1)
    with pytest.raises(AttributeError, match="fetch"):
        _ = counts.fetch


def test_what_cannot_be_asked(driver: TopologyTestDriver) -> None:
    with pytest.raises(UnknownStateStoreError, match=r"it has: 'counts', 'names'"):
        driver.query(StateQueryRequest.in_store("count").with_query(KeyQuery("a")))
    asked = StateQueryRequest.in_store("counts").with_query(KeyQuery("a")).with_partitions([1])
    assert driver.query(asked).partition_results[1].failure_reason is FailureReason.DOES_NOT_EXIST
