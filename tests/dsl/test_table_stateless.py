"""Filters and mapped values of a table, against a recomputation from scratch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl import KTable, Materialized, StreamsBuilder
from dsl_support.fake_task import FakeTask

Updates = list[tuple[str, int | None]]

updates = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=30)
stores = st.sampled_from([None, Materialized(name="s"), Materialized(name="s", caching=False)])
sources = st.sampled_from([None, Materialized(name="t"), Materialized(name="t", caching=False)])


def task_of(source: Materialized[Any, Any] | None, build: Any) -> FakeTask:
    builder = StreamsBuilder()
    table: KTable[str, int] = builder.table("in") if source is None else builder.table("in", materialized=source)
    build(table).to_stream().to("out")
    return FakeTask(builder.build())


def piped(task: FakeTask, given_updates: Updates) -> FakeTask:
    for key, value in given_updates:
        task.pipe("in", key, value)
    return task


def rows(given_updates: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """The table that updates lead to."""
    return {key: value for key, value in dict(given_updates).items() if value is not None}


@given(updates, sources, stores)
def test_a_filtered_table_is_the_filter_of_the_table(
    given_updates: Updates, source: Materialized[Any, Any] | None, store: Materialized[Any, Any] | None
) -> None:
    task = piped(task_of(source, lambda t: t.filter(lambda k, v: v > 4, materialized=store)), given_updates)
    expected = {key: value for key, value in rows(given_updates).items() if value > 4}
    assert rows(task.values("out")) == expected
    if store is not None:
        assert {key: value for key, (value, _) in task.stores["s"].rows.items()} == expected


@given(updates, sources, stores)
def test_a_mapped_table_is_the_map_of_the_table(
    given_updates: Updates, source: Materialized[Any, Any] | None, store: Materialized[Any, Any] | None
) -> None:
    """A None as the result deletes the row."""
    task = piped(
        task_of(source, lambda t: t.map_values(lambda v: v * 2 if v else None, materialized=store)), given_updates
    )
    expected = {key: value * 2 for key, value in rows(given_updates).items() if value}
    assert rows(task.values("out")) == expected
    if store is not None:
        assert {key: value for key, (value, _) in task.stores["s"].rows.items()} == expected


def test_the_functions_never_see_a_null() -> None:
    """Semantics 29; a null would raise here."""
    task = task_of(None, lambda t: t.filter(lambda k, v: v > 0).filter_not(lambda k, v: v < 0).map_values(lambda v: -v))
    assert piped(task, [("a", 1), ("a", None)]).values("out") == [("a", -1), ("a", None)]


@pytest.mark.parametrize(
    ("source", "store", "expected"),
    [
        (None, None, [("a", None), ("a", 9), ("a", None), ("a", None)]),
        (Materialized(name="t"), None, [("a", 9), ("a", None)]),
        (Materialized(name="t", caching=False), None, [("a", 9), ("a", None)]),
        (None, Materialized(name="s"), [("a", 9), ("a", None)]),
        (None, Materialized(name="s", caching=False), [("a", None), ("a", 9), ("a", None), ("a", None)]),
    ],
)
def test_without_old_values_a_row_that_never_passed_is_deleted(
    source: Materialized[Any, Any] | None, store: Materialized[Any, Any] | None, expected: Updates
) -> None:
    """Semantics 32: with them nothing is sent; a cache swallows such a deletion by itself."""
    task = task_of(source, lambda t: t.filter(lambda k, v: v > 4, materialized=store))
    assert piped(task, [("a", 1), ("a", 9), ("a", 2), ("a", 3)]).values("out") == expected


@pytest.mark.parametrize("caching", [True, False])
def test_a_filter_with_a_store_of_its_own_and_old_values_writes_nothing_for_what_never_passed(caching: bool) -> None:
    store: Materialized[Any, Any] = Materialized(name="s", caching=caching)
    task = task_of(Materialized(name="t"), lambda t: t.filter(lambda k, v: v > 4, materialized=store))
    piped(task, [("a", 1), ("a", 9), ("a", 2), ("a", 3)])
    assert task.values("out") == [("a", 9), ("a", None)]
    assert [(o.key, o.value) for o in task.stores["s"].changelog] == [("a", 9), ("a", None)]


@pytest.mark.parametrize("store", [None, Materialized(name="s"), Materialized(name="s", caching=False)])
def test_a_failing_function_drops_the_change(store: Materialized[Any, Any] | None) -> None:
    def mapper(key: str, value: int) -> int:
        if value == 5:
            raise KeyError("boom")
        return value

    builder = StreamsBuilder()
    table: KTable[str, int] = builder.table("in", materialized="t")
    mapped = table.map_values_with_key(mapper, materialized=store)
    mapped.group_by(lambda k, v: (k, str(v))).count(materialized="n").to_stream().to("out")
    task = piped(FakeTask(builder.build(), continue_on_error=True), [("a", 1), ("a", 5), ("b", 2)])
    assert len(task.failures) == 1
    assert rows(task.values("out")) == {"a": 1, "b": 1}


def test_a_table_becomes_a_stream_of_its_updates() -> None:
    task = task_of(None, lambda t: t)
    assert piped(task, [("a", 1), ("a", None)]).values("out") == [("a", 1), ("a", None)]


def test_a_stream_of_a_table_may_get_new_keys() -> None:
    builder = StreamsBuilder()
    table: KTable[str, int] = builder.table("in")
    table.to_stream(lambda k, v: f"{k}{v}").to("out")
    task = piped(FakeTask(builder.build()), [("a", 1), ("a", None)])
    assert task.values("out") == [("a1", 1), ("aNone", None)]
