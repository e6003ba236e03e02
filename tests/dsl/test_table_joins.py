"""Joins of tables, against a recomputation from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl import BufferConfig, KTable, Materialized, StreamsBuilder, Suppressed
from dsl_support.fake_task import FakeTask
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores

Updates = list[tuple[str, str, str | None, int]]
Joined = Callable[[str | None, str | None], str | None]

updates = st.lists(
    st.tuples(
        st.sampled_from(["left", "right", "third"]),
        st.sampled_from("abc"),
        st.none() | st.sampled_from(["1", "2", "3"]),
        st.integers(0, 20),
    ),
    max_size=40,
)
"""Topic, key, value and timestamp: tombstones, equal updates and late ones among them."""
kinds = st.sampled_from(["join", "left_join", "outer_join"])
results = st.sampled_from([None, Materialized(name="r"), Materialized(name="r", caching=False)])
sources = st.sampled_from([None, Materialized(name="t"), Materialized(name="t", caching=False)])


def plus(left: str | None, right: str | None) -> str | None:
    """A joiner that sometimes deletes."""
    return None if left == right == "3" else f"{left}+{right}"


def joined_task(
    kind: str,
    source: Materialized[str, str] | None,
    result: Materialized[str, str] | None,
    below: Callable[[KTable[str, str]], KTable[Any, Any]] = lambda table: table,
) -> FakeTask:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", materialized=source)
    right: KTable[str, str] = builder.table("right")
    builder.stream("third")
    table = getattr(left, kind)(right, plus, materialized=result)
    below(table).to_stream().to("out")
    return FakeTask(builder.build())


def piped(task: FakeTask, given_updates: Updates) -> FakeTask:
    for topic, key, value, timestamp in given_updates:
        task.pipe(topic, key, value, timestamp)
    return task


def rows_of(given_updates: Updates, topic: str) -> dict[str, tuple[str, int]]:
    """The rows of a table that is not versioned: the last update of each key in the order in which they came."""
    last = {key: (value, timestamp) for name, key, value, timestamp in given_updates if name == topic}
    return {key: (row[0], row[1]) for key, row in last.items() if row[0] is not None}


def expected_rows(kind: str, given_updates: Updates) -> dict[str, str]:
    left, right = rows_of(given_updates, "left"), rows_of(given_updates, "right")
    keys = {"join": left.keys() & right.keys(), "left_join": left.keys(), "outer_join": left.keys() | right.keys()}
    none = (None, 0)
    found = {key: plus(left.get(key, none)[0], right.get(key, none)[0]) for key in keys[kind]}
    return {key: value for key, value in found.items() if value is not None}


def last_rows(task: FakeTask) -> dict[Any, Any]:
    return {key: value for key, value in dict(task.values("out")).items() if value is not None}


@given(updates, kinds, sources, results)
def test_the_result_is_the_join_of_the_rows(
    given_updates: Updates,
    kind: str,
    source: Materialized[str, str] | None,
    result: Materialized[str, str] | None,
) -> None:
    """Whether tables and result are cached or not, or not stored at all."""
    task = piped(joined_task(kind, source, result), given_updates)
    assert last_rows(task) == expected_rows(kind, given_updates)


@given(updates, kinds, results)
def test_a_grouped_result_knows_its_old_values(
    given_updates: Updates, kind: str, result: Materialized[str, str] | None
) -> None:
    """Each change takes the old row out of its group, whichever side it came from."""
    task = piped(
        joined_task(kind, None, result, lambda table: table.group_by(lambda k, v: (v, v)).count()), given_updates
    )
    counts = {group: count for group, count in last_rows(task).items() if count}
    assert counts == Counter(expected_rows(kind, given_updates).values())


@given(updates, kinds, kinds)
def test_a_join_without_a_store_is_joined_by_computing_its_rows(given_updates: Updates, first: str, then: str) -> None:
    """The right table of the second join is the result of the first."""
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    right: KTable[str, str] = builder.table("right")
    inner = getattr(left, first)(right, plus).filter(lambda k, v: v != "1+1")
    third: KTable[str, str] = builder.table("third")
    getattr(third, then)(inner, lambda a, b: f"{a}/{b}").to_stream().to("out")
    task = piped(FakeTask(builder.build()), given_updates)

    lefts = {key: row[0] for key, row in rows_of(given_updates, "third").items()}
    inners = {key: value for key, value in expected_rows(first, given_updates).items() if value != "1+1"}
    keys = {"join": lefts.keys() & inners.keys(), "left_join": lefts.keys(), "outer_join": lefts.keys() | inners.keys()}
    assert last_rows(task) == {key: f"{lefts.get(key)}/{inners.get(key)}" for key in keys[then]}


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
def test_options_without_a_name_make_a_store_too(kind: str) -> None:
    """As Kafka Streams has it, and for joins of tables alone (semantics 109): the store has a changelog."""
    for options, stores in ((None, []), (Materialized(caching=False), ["KTABLE-MERGE-STATE-STORE-0000000004"])):
        builder = StreamsBuilder()
        left: KTable[str, str] = builder.table("left", materialized="l")
        joined = getattr(left, kind)(builder.table("right", materialized="r"), plus, materialized=options)
        assert joined.queryable_store_name is None
        assert sorted(builder.build().stores) == [*stores, "l", "r"]


def test_the_result_has_the_larger_timestamp() -> None:
    """Semantics 18, also where the later row is the older one by its time."""
    task = piped(joined_task("left_join", None, None), [("left", "a", "1", 7), ("right", "a", "2", 3)])
    assert [(out.value, out.timestamp) for out in task.outputs["out"]] == [("1+None", 7), ("1+2", 7)]


def test_nothing_is_sent_where_there_is_no_result_before_and_after() -> None:
    """Semantics 33."""
    gone: Updates = [("left", "a", None, 1), ("right", "a", None, 2)]
    alone: Updates = [("left", "a", "1", 1), ("left", "a", None, 2)]
    other: Updates = [("right", "a", "1", 1), ("right", "a", None, 2)]
    sent = {
        kind: [
            len(piped(joined_task(kind, None, None), given_updates).outputs["out"])
            for given_updates in (gone, alone, other)
        ]
        for kind in ("join", "left_join", "outer_join")
    }
    assert sent == {"join": [0, 0, 0], "left_join": [0, 2, 0], "outer_join": [0, 2, 2]}


def test_a_failing_joiner_goes_to_the_handler() -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    left.join(builder.table("right"), lambda a, b: int(a) / int(b), name="j").to_stream().to("out")
    task = FakeTask(builder.build(), continue_on_error=True)
    piped(task, [("left", "a", "1", 1), ("right", "a", "0", 2)])
    assert [(node, type(error)) for node, error, _ in task.failures] == [("j-join-other", ZeroDivisionError)]


def test_the_topics_of_both_tables_are_copartitioned() -> None:
    """Through operators in between, and through a join that is joined."""
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    mapped = left.map_values(str.upper).filter(lambda k, v: True)
    both = mapped.join(builder.table("right"), plus)
    both.outer_join(builder.table("third"), lambda a, b: f"{a}{b}")
    topology = builder.build()
    groups = [
        {topic for source in group for topic in topology.nodes[source].topics}  # type: ignore[union-attr]
        for group in topology.copartition_groups
    ]
    assert {"left", "right"} in groups
    assert {"left", "right", "third"} in groups


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
def test_what_is_no_table_of_the_same_builder_is_refused(kind: str) -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("left")
    with pytest.raises(TopologyError, match=rf"^{kind} of a table needs another table, got KStream"):
        getattr(table, kind)(builder.stream("right"), plus)
    with pytest.raises(TopologyError, match="come from different builders: use one StreamsBuilder"):
        getattr(table, kind)(StreamsBuilder().table("right"), plus)


def test_a_joiner_that_cannot_be_called_is_refused() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("left")
    other: KTable[str, str] = builder.table("right")
    with pytest.raises(TopologyError, match="joiner"):
        table.join(other, "not a function")  # type: ignore[arg-type]


def test_two_joins_of_one_name_are_refused() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("left")
    other: KTable[str, str] = builder.table("right")
    table.join(other, plus, name="j")
    table.left_join(other, plus, name="j")
    with pytest.raises(TopologyError, match="a node named 'j-join-this' is already added"):
        builder.build()


def test_a_join_of_versioned_tables_is_not_versioned_and_can_be_suppressed() -> None:
    builder = StreamsBuilder()

    def versioned(topic: str) -> KTable[str, str]:
        store = Stores.persistent_versioned_key_value_store(topic, 100)
        return builder.table(topic, materialized=Materialized(supplier=store, key_serde=Serdes.STRING))

    joined = versioned("left").join(versioned("right"), plus)
    joined.suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded())).to_stream().to("out")
    assert "KTABLE-SUPPRESS" in builder.build().describe()
