"""Aggregations of a grouped stream, also against a recomputation from scratch."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl import Consumed, KGroupedStream, KStream, KTable, Materialized, Produced, StreamsBuilder
from dsl_support.fake_task import FakeTask, Output
from processor_api.serde import Serdes

Records = list[tuple[str | None, str | None, int]]

records = st.lists(
    st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.sampled_from("xyz"), st.integers(0, 20)), max_size=30
)


def task_of(build: Callable[[KGroupedStream[str, str]], KTable[str, Any]], **options: Any) -> FakeTask:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in")
    build(stream.group_by_key()).to_stream().to("out")
    return FakeTask(builder.build(), **options)


def piped(task: FakeTask, given_records: Records) -> FakeTask:
    for number, (key, value, timestamp) in enumerate(given_records):
        task.pipe("in", key, value, timestamp, [("n", b"%d" % number)])
    return task


def store(*, caching: bool) -> Materialized[str, Any]:
    return Materialized(name="s", caching=caching)


def joined(key: str, value: str, aggregate: str) -> str | None:
    """Forgets everything at a "z"."""
    return None if value == "z" else aggregate + value


def recomputed(given_records: Records, start: Any, step: Callable[[str, str, Any], Any]) -> list[Output]:
    """What an uncached aggregation sends: after each record, the aggregate of all its key's records so far."""
    results = []
    for number, (key, value, _) in enumerate(given_records):
        if key is None or value is None:
            continue
        aggregate, latest = None, -1
        for k, v, t in given_records[: number + 1]:
            if k == key and v is not None:
                latest = max(latest, t) if aggregate is not None else t
                aggregate = step(key, v, start if aggregate is None else aggregate)
        results.append(Output(key, aggregate, latest, [("n", b"%d" % number)]))
    return results


@given(records)
def test_a_count_is_the_number_of_records_at_the_largest_timestamp(given_records: Records) -> None:
    """Semantics 13, 19, 23: nulls are dropped, headers are the last record's."""
    task = piped(task_of(lambda g: g.count(materialized=store(caching=False))), given_records)
    assert task.take("out") == recomputed(given_records, 0, lambda key, value, n: n + 1)
    assert len(task.drops) == sum(key is None or value is None for key, value, _ in given_records)


@given(records)
def test_an_aggregate_is_what_its_records_make_of_the_initial_value(given_records: Records) -> None:
    """A None deletes the key, and the next record starts anew."""
    task = piped(task_of(lambda g: g.aggregate(str, joined, materialized=store(caching=False))), given_records)
    assert task.take("out") == recomputed(given_records, "", joined)


@given(records)
def test_a_reduction_starts_with_the_first_value(given_records: Records) -> None:
    def step(key: str, value: str, so_far: str) -> str | None:
        return value if so_far == "" else joined(key, value, so_far)

    task = piped(
        task_of(lambda g: g.reduce(lambda a, b: joined("", b, a), materialized=store(caching=False))), given_records
    )
    assert task.take("out") == recomputed(given_records, "", step)


@given(records)
def test_with_a_cache_the_store_and_the_last_results_are_the_same(given_records: Records) -> None:
    """The cache is flushed after each record here, so only deletions of absent keys may be missing (semantics 73)."""

    def build(caching: bool) -> FakeTask:
        return piped(task_of(lambda g: g.aggregate(str, joined, materialized=store(caching=caching))), given_records)

    cached, uncached = build(True), build(False)
    assert cached.stores["s"].rows == uncached.stores["s"].rows
    assert cached.values("out") == list(without_idle_deletions(uncached.values("out")))


def without_idle_deletions(updates: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    there = set()
    for key, value in updates:
        if value is not None or key in there:
            yield key, value
        if value is None:
            there.discard(key)
        else:
            there.add(key)


@pytest.mark.parametrize(("caching", "sent"), [(True, ["c"]), (False, ["b", "c", "c"])])
def test_with_a_cache_only_the_last_result_is_sent(caching: bool, sent: list[str]) -> None:
    """Semantics 73: one record that leads to several updates of a key leads to one change."""
    builder = StreamsBuilder()
    lines: KStream[str, str] = builder.stream("in")
    table = lines.flat_map_values(str.split).group_by_key().reduce(max, materialized=store(caching=caching))
    table.to_stream().to("out")
    task = FakeTask(builder.build())
    task.pipe("in", "k", "b c a")
    assert [output.value for output in task.take("out")] == sent


def test_one_cache_flushes_its_keys_in_the_order_of_their_last_updates() -> None:
    """Semantics 74."""
    builder = StreamsBuilder()
    lines: KStream[str, str] = builder.stream("in")
    table = lines.flat_map_values(str.split).to_table(materialized="t")
    counts = table.group_by(lambda k, v: (k, v)).count(materialized="n")
    counts.to_stream().to("out")
    task = FakeTask(builder.build())
    for key in ("a", "b"):
        task.stores["n"].put(key, 1, 0)
    task.stores["n"].put("a", 2, 0)
    task.stores["n"].flush()
    assert task.values("out") == [("b", 1), ("a", 2)]


def test_a_deletion_carries_the_time_of_the_record_that_caused_it_into_the_store() -> None:
    """A deleted row has no timestamp left, so the changelog gets the record's own (formats 11)."""
    for caching in (True, False):
        task = task_of(lambda g: g.aggregate(str, joined, materialized=store(caching=caching)))  # noqa: B023
        piped(task, [("a", "x", 50), ("a", "z", 10)])
        assert task.stores["s"].changelog == [Output("a", "x", 50), Output("a", None, 10)]


def changes(
    build: Callable[[KGroupedStream[str, str]], KTable[str, Any]], given_records: Records, settings: Any = None
) -> list[Any]:
    """What an aggregation sends to a grouped table, which asks for old values."""
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in")
    table = build(stream.group_by_key())
    seen: list[Any] = []

    def selector(key: str, value: Any) -> tuple[str, str]:
        seen.append(value)
        return key, "-"

    table.group_by(selector).count()
    piped(FakeTask(builder.build(settings)), given_records)
    return seen


TWO: Records = [("a", "x", 0), ("a", "y", 1)]


@pytest.mark.parametrize("caching", [True, False])
def test_the_old_value_is_what_the_store_held(caching: bool) -> None:
    """Semantics 37: new, new, old. The first change has none, with a cache or without."""
    assert changes(lambda g: g.count(materialized=store(caching=caching)), TWO) == [1, 2, 1]
    assert changes(lambda g: g.aggregate(lambda: "i", joined, materialized=store(caching=caching)), TWO) == [
        "ix",
        "ixy",
        "ix",
    ]
    reduced = changes(lambda g: g.reduce(lambda a, b: a + b, materialized=store(caching=caching)), TWO)
    assert reduced == ["x", "xy", "x"]


def test_with_javas_defects_the_first_old_value_without_a_cache_is_the_initial_one() -> None:
    keep = {"dsl.java.defects": "keep"}
    assert changes(lambda g: g.count(materialized=store(caching=False)), TWO, keep) == [1, 0, 2, 1]
    assert changes(lambda g: g.aggregate(lambda: "i", joined, materialized=store(caching=False)), TWO, keep) == [
        "ix",
        "i",
        "ixy",
        "ix",
    ]


def test_an_aggregate_that_is_changed_in_place_still_has_its_old_value() -> None:
    """A store gives a new copy at each read; the old value must be such a copy, not the changed object."""

    def append(key: str, value: str, aggregate: list[str]) -> list[str]:
        aggregate.append(value)
        return aggregate

    seen = changes(lambda g: g.aggregate(list, append, materialized=store(caching=False)), TWO)
    assert seen == [["x"], ["x", "y"], ["x"]]


@pytest.mark.parametrize("caching", [True, False])
def test_an_error_of_a_function_drops_the_record_and_leaves_the_store(caching: bool) -> None:
    def aggregator(key: str, value: str, aggregate: str) -> str:
        if value == "y":
            raise KeyError("boom")
        return aggregate + value

    task = task_of(lambda g: g.aggregate(str, aggregator, materialized=store(caching=caching)), continue_on_error=True)
    piped(task, [("a", "x", 7), ("a", "y", 3), ("a", "x", 5)])
    assert task.values("out") == [("a", "x"), ("a", "xx")]
    [(_, error, record)] = task.failures
    assert (type(error), record) == (KeyError, Output("a", "y", 3, [("n", b"1")]))


def test_a_failing_initializer_or_reducer_goes_to_the_handler_too() -> None:
    def fail(*arguments: Any) -> Any:
        raise KeyError("boom")

    task = task_of(lambda g: g.aggregate(fail, joined), continue_on_error=True)
    assert len(piped(task, TWO).failures) == 2
    task = task_of(lambda g: g.reduce(fail), continue_on_error=True)
    assert len(piped(task, TWO).failures) == 1


def test_a_named_repartition_topic_serves_all_aggregations_of_a_group() -> None:
    """Semantics 102; without a name each has its own."""
    builder = StreamsBuilder()
    keyed: KStream[str, str] = builder.stream("in")
    named = keyed.group_by(lambda k, v: v, "g")
    named.count(materialized="n").to_stream().to("counts")
    named.reduce(max, materialized="m")
    unnamed = keyed.group_by(lambda k, v: v)
    unnamed.count(materialized="n2")
    unnamed.reduce(max, materialized="m2")
    topology = builder.build()
    assert list(topology.repartition_topics) == ["g-repartition", "n2-repartition", "m2-repartition"]
    task = FakeTask(topology)
    piped(task, [("a", "x", 0), ("b", "x", 1), (None, "x", 2)])
    assert task.values("counts") == [("x", 1), ("x", 2), ("x", 3)]


def test_results_have_serdes_where_they_are_known() -> None:
    """A count is a long, a reduction keeps the values' serde, an aggregate has what its store was given."""
    builder = StreamsBuilder()
    group = builder.stream("in", Consumed(key_serde=Serdes.UUID, value_serde=Serdes.SHORT)).group_by_key()
    aggregated: Materialized[Any, float] = Materialized(value_serde=Serdes.DOUBLE)
    group.count(materialized="n").to_stream().to("1", Produced(name="count"))
    group.reduce(max, materialized="m").to_stream().to("2", Produced(name="reduce"))
    group.aggregate(float, lambda k, v, a: a, materialized=aggregated).to_stream().to("3", Produced(name="with"))
    group.aggregate(float, lambda k, v, a: a).to_stream().to("4", Produced(name="without"))
    topology = builder.build()
    nodes: Any = topology.nodes
    assert [nodes[name].key_serde for name in ("count", "reduce", "with", "without")] == [Serdes.UUID] * 4
    assert [nodes[name].value_serde for name in ("count", "reduce", "with", "without")] == [
        Serdes.LONG,
        Serdes.SHORT,
        Serdes.DOUBLE,
        None,
    ]
    assert (topology.stores["n"].key_serde, topology.stores["n"].value_serde) == (Serdes.UUID, Serdes.LONG)
