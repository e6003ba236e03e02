"""Positions, bounds, queries, requests and results as values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_support.session import Golden, golden
from processor_api.errors import StreamsError
from processor_api.stores.queries import (
    IsolationLevel,
    KeyQuery,
    MultiVersionedKeyQuery,
    RangeQuery,
    ResultOrder,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from streams.queries.position import Position, PositionBound
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason, QueryResult, StateQueryResult

OFFSETS = st.dictionaries(
    st.text(max_size=3), st.dictionaries(st.integers(0, 3), st.integers(0, (1 << 63) - 1), max_size=3), max_size=3
)
POSITIONS = st.builds(Position, OFFSETS)


def vectors(config: pytest.Config) -> list[Any]:
    found: Golden = golden(config)
    groups = [group for file in found.of_kind("vectors") for group in file.data["groups"]]
    return [vector for group in groups if group["format"] == "position" for vector in group["vectors"]]


def test_the_bytes_of_a_position_are_those_of_kafka_streams(request: pytest.FixtureRequest) -> None:
    """Topics and partitions may come in another order."""
    recorded = vectors(request.config)
    assert len(recorded) > 5
    for vector in recorded:
        if "error" in vector:
            with pytest.raises(ValueError, match="version"):
                Position.from_bytes(bytes.fromhex(vector["input"]["hex"]))
            continue
        offsets = vector["input"]["position"]
        position = Position({topic: {int(p): o for p, o in found.items()} for topic, found in offsets.items()})
        assert Position.from_bytes(bytes.fromhex(vector["hex"])) == position
        assert len(position.to_bytes()) == len(vector["hex"]) // 2
        assert Position.from_bytes(position.to_bytes() + b"\0\0") == position


@given(POSITIONS, POSITIONS)
def test_merging_takes_the_greater_offset(one: Position, other: Position) -> None:
    merged = one.merge(other)
    for topic in one.topics | other.topics:
        mine, its = one.partition_positions(topic), other.partition_positions(topic)
        expected = {p: max(mine.get(p, -1), its.get(p, -1)) for p in {*mine, *its}}
        assert merged.partition_positions(topic) == expected
    assert merged == other.merge(one)
    assert (hash(merged), merged.to_bytes()) == (hash(other.merge(one)), other.merge(one).to_bytes())
    assert all(PositionBound.at(part).reached(merged, p) for part in (one, other) for p in range(4))


def test_a_component_never_goes_back() -> None:
    position = Position().with_component("t", 0, 5).with_component("t", 0, 3).with_component("t", 1, 0)
    assert str(position) == "t-0@5, t-1@0"
    assert (bool(position), bool(Position({"t": {}})), str(Position())) == (True, False, "nothing")
    with pytest.raises(ValueError, match="-1 for partition 0 of topic 't'"):
        Position({"t": {0: -1}})


@pytest.mark.parametrize(
    ("position", "partition", "reached"),
    [({"t": {0: 5}}, 0, True), ({"t": {0: 4}}, 0, False), ({}, 0, False), ({"t": {0: 1}}, 7, True),
     ({"u": {0: 9}}, 0, False)],
)  # fmt: skip
def test_a_bound_is_about_one_partition(position: Any, partition: int, reached: bool) -> None:
    bound = PositionBound.at(Position({"t": {0: 5, 3: 1}}))
    assert bound.reached(Position(position), partition) == reached
    assert PositionBound.unbounded().reached(Position(position), partition)


def test_queries_are_values() -> None:
    assert KeyQuery("a", skip_cache=True) == KeyQuery(key="a", skip_cache=True) != KeyQuery("a")
    assert RangeQuery("a", order=ResultOrder.ASCENDING) == RangeQuery(lower="a", order=ResultOrder.ASCENDING)
    assert WindowRangeQuery.with_key("a") != WindowRangeQuery.with_window_start_range(0, 1)
    assert len({VersionedKeyQuery("a", 1), VersionedKeyQuery("a", as_of=1)}) == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KeyQuery(None), "a KeyQuery needs a key"),
        (lambda: VersionedKeyQuery("a", "now"), "needs times in whole ms, or as datetimes with a zone, got 'now'"),  # type: ignore[arg-type]
        (lambda: RangeQuery("a", "b", "asc"), "must be a ResultOrder, got 'asc'"),  # type: ignore[arg-type]
        (lambda: WindowKeyQuery("a", 0, None), "starts of windows in whole ms, got None"),  # type: ignore[arg-type]
        (lambda: WindowRangeQuery("a", 1, 2), "needs the key of sessions"),
        (lambda: WindowRangeQuery(), "needs the key of sessions"),
        (lambda: WindowRangeQuery(None, 1), "needs the key of sessions"),
        (lambda: MultiVersionedKeyQuery("a", 5, 4), "from_time 5 of a MultiVersionedKeyQuery is after to_time 4"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_a_request_is_built_step_by_step() -> None:
    request = StateQueryRequest.in_store("s").with_query(KeyQuery("a"))
    assert request.is_all_partitions
    bound = PositionBound.at(Position({"t": {0: 1}}))
    built = (
        request.with_partitions([1, 2])
        .with_position_bound(bound)
        .require_active()
        .enable_execution_info()
        .with_isolation_level(IsolationLevel.READ_COMMITTED)
    )
    assert built == StateQueryRequest(
        store_name="s",
        query=KeyQuery("a"),
        partitions=frozenset({1, 2}),
        position_bound=bound,
        is_require_active=True,
        execution_info_enabled=True,
        isolation_level=IsolationLevel.READ_COMMITTED,
    )
    assert built.with_all_partitions().is_all_partitions
    with pytest.raises(TypeError, match="a request needs a query, such as KeyQuery, got 'a'"):
        StateQueryRequest.in_store("s").with_query("a")  # type: ignore[arg-type]


def test_a_result_has_a_value_or_a_reason() -> None:
    good: QueryResult[int] = QueryResult(outcome=5)
    bad: QueryResult[int] = QueryResult(failure=FailureReason.NOT_PRESENT, message="elsewhere")
    assert (good.result, good.is_success, bad.is_failure, bad.failure_message) == (5, True, True, "elsewhere")
    with pytest.raises(StreamsError, match="NOT_PRESENT: elsewhere"):
        bad.result  # noqa: B018 - it raises
    for asked in ("failure_reason", "failure_message"):
        with pytest.raises(StreamsError, match="did not fail"):
            getattr(good, asked)


def test_the_only_result_is_the_one_that_found_something() -> None:
    nothing: QueryResult[int] = QueryResult()
    found: QueryResult[int] = QueryResult(outcome=5, position=Position({"t": {1: 2}}))
    failed: QueryResult[int] = QueryResult(failure=FailureReason.NOT_PRESENT)
    assert StateQueryResult(partition_results={0: nothing, 1: found}).only_partition_result is found
    assert StateQueryResult(partition_results={0: nothing, 1: failed}).only_partition_result is failed
    assert StateQueryResult(partition_results={0: nothing}).only_partition_result is None
    both = StateQueryResult(partition_results={0: found, 1: failed, 2: nothing})
    with pytest.raises(StreamsError, match=r"partitions \[0, 1\] have several"):
        both.only_partition_result  # noqa: B018 - it raises
    assert both.position == found.position
    assert StateQueryResult(global_result=failed).position == Position()
