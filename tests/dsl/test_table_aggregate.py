"""Grouped tables, against a recomputation from scratch."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import Grouped, KTable, Materialized, StreamsBuilder
from dsl.processors.tables.aggregate import TableGroupBy
from dsl_support.fake_task import FakeTask
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from streams.testing import TopologyTestDriver

Updates = list[tuple[str, str | None]]

updates = st.lists(
    st.tuples(st.sampled_from("abcd"), st.none() | st.sampled_from(["x1", "x2", "y1", "y2"])), max_size=30
)
stores = st.sampled_from([Materialized(name="s"), Materialized(name="s", caching=False)])
sources = st.sampled_from([Materialized(name="t"), Materialized(name="t", caching=False)])


def by_letter(key: str, value: str) -> tuple[str, str]:
    return value[0], value


def task_of(source: Materialized[Any, Any] | None, build: Any, **options: Any) -> FakeTask:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in") if source is None else builder.table("in", materialized=source)
    build(table).to_stream().to("out")
    return FakeTask(builder.build(), **options)


def piped(task: FakeTask, given_updates: Updates) -> FakeTask:
    for timestamp, (key, value) in enumerate(given_updates):
        task.pipe("in", key, value, timestamp)
    return task


def rows(given_updates: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: value for key, value in dict(given_updates).items() if value is not None}


@given(updates, sources, stores)
def test_a_count_is_the_number_of_rows_in_each_group(
    given_updates: Updates, source: Materialized[Any, Any], store: Materialized[Any, Any]
) -> None:
    """A group that lost its last row stays, at 0."""
    task = piped(task_of(source, lambda t: t.group_by(by_letter).count(materialized=store)), given_updates)
    found = rows(task.values("out"))
    assert {group: n for group, n in found.items() if n} == Counter(v[0] for v in rows(given_updates).values())


@given(updates, sources, stores)
def test_a_sum_is_that_of_the_rows_in_each_group(
    given_updates: Updates, source: Materialized[Any, Any], store: Materialized[Any, Any]
) -> None:
    grouped: Grouped[str, int] = Grouped(value_serde=Serdes.LONG)
    task = piped(
        task_of(
            source,
            lambda t: t.group_by(lambda k, v: (v[0], int(v[1])), grouped).reduce(
                lambda a, b: a + b, lambda a, b: a - b, materialized=store
            ),
        ),
        given_updates,
    )
    expected: Counter[str] = Counter()
    for value in rows(given_updates).values():
        expected[value[0]] += int(value[1])
    assert {group: n for group, n in rows(task.values("out")).items() if n} == expected


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.sampled_from(["x1", "y1", "y2"]), st.integers(0, 60)))
)
def test_late_updates_of_a_versioned_table_do_not_count(given_updates: list[tuple[str, str | None, int]]) -> None:
    """Semantics 38: a group has the rows of the latest time, and of one time those that came last."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("versions", 30)
    table: KTable[str, str] = builder.table("in", materialized=Materialized(supplier=supplier))
    table.group_by(by_letter).count(materialized="n").to_stream().map_values(str).to("out")
    latest: dict[str, tuple[int, str | None]] = {}
    config = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}
    with TopologyTestDriver(builder.build(config), config) as driver:
        topic = driver.create_input_topic("in")
        now = -1
        for key, value, time in given_updates:
            topic.pipe_input(key, value, timestamp=time)
            now = max(now, time)
            if time >= now - 30 and time >= latest.get(key, (-1, None))[0]:
                latest[key] = time, value
        found = rows(driver.create_output_topic("out").read_key_values())
    expected = Counter(value[0] for _, value in latest.values() if value is not None)
    assert {group: int(n) for group, n in found.items() if n != "0"} == expected


def told(table: KTable[str, str]) -> KTable[str, str]:
    return table.group_by(by_letter).aggregate(
        str,
        lambda k, v, a: f"{a}+{v}",
        lambda k, v, a: f"{a}-{v}",
        materialized=Materialized(name="s", caching=False),
    )


def test_the_old_value_is_taken_out_before_the_new_one_is_put_in() -> None:
    """Semantics 41, 42: one change within a group; between groups two, the removal first."""
    task = piped(
        task_of(Materialized(name="t", caching=False), told), [("a", "x1"), ("a", "x2"), ("a", "y1"), ("a", None)]
    )
    assert task.values("out") == [
        ("x", "+x1"),
        ("x", "+x1-x1+x2"),
        ("x", "+x1-x1+x2-x2"),
        ("y", "+y1"),
        ("y", "+y1-y1"),
    ]
    assert [data for _, data, _ in task.internal["s-repartition"]] == [
        b"x1\x01",
        b"\x04x2x1\x02",
        b"x2\x00",
        b"y1\x01",
        b"y1\x00",
    ]


def test_workers_being_upgraded_get_two_changes_also_within_a_group() -> None:
    for version, changes in (("3.4", 3), ("3.5", 2), ("2.4", 3), (None, 2)):
        config = {} if version is None else {"upgrade.from": version}
        task = piped(task_of(None, told, config=config), [("a", "x1"), ("a", "x2")])
        assert len(task.internal["s-repartition"]) == changes
        assert task.values("out")[-1] == ("x", "+x1-x1+x2")


def test_equal_keys_of_different_types_are_different_groups() -> None:
    """1 and True are equal in Python, but a serde may write them differently."""
    sent: list[Any] = []
    context: Any = SimpleNamespace(
        forward=lambda key, change, timestamp, headers: sent.append((type(key), change)),
        fail=None,
        processing_context=lambda: SimpleNamespace(app_configs=dict),
    )
    process = TableGroupBy(lambda k, v: (1 if v == "x1" else True, v)).bind(context)
    process("a", ("x2", "x1"), 0, None)
    process("a", ("x2", "x2"), 0, None)
    assert sent == [(int, (None, "x1")), (bool, ("x2", None)), (bool, ("x2", "x2"))]


def test_a_row_without_a_new_key_or_value_is_in_no_group() -> None:
    def selector(key: str, value: str) -> tuple[str | None, str | None]:
        return (None if value == "x1" else value[0]), (None if value == "x2" else value)

    task = task_of(None, lambda t: t.group_by(selector).count(materialized=Materialized(name="s", caching=False)))
    piped(task, [("a", "x1"), ("a", "x2"), ("a", "y1"), ("a", "x1")])
    assert task.values("out") == [("y", 1), ("y", 0)]


def test_a_row_for_which_no_pair_is_returned_is_in_no_group() -> None:
    """Was an error of the record, where Kafka Streams leaves that half out."""

    def selector(key: str, value: str) -> tuple[str, str] | None:
        return None if value.startswith("x") else (value[0], value)

    task = task_of(None, lambda t: t.group_by(selector).count(materialized=Materialized(name="s", caching=False)))
    piped(task, [("a", "x1"), ("a", "y1"), ("b", "y2"), ("a", "x2"), ("b", None)])
    assert task.values("out") == [("y", 1), ("y", 2), ("y", 1), ("y", 0)]


def test_there_is_nothing_to_take_out_of_a_group_without_an_aggregate() -> None:
    """Semantics 42: the subtractor is skipped, the initializer runs for what is put in."""

    def build(table: KTable[str, str]) -> KTable[str, str]:
        return table.group_by(by_letter).aggregate(
            str,
            lambda k, v, a: f"{a}+{v}",
            lambda k, v, a: None,
            materialized=Materialized(name="s", caching=False),
        )

    task = piped(task_of(None, build), [("a", "x1"), ("b", "x2"), ("a", "x2"), ("b", "y1"), ("a", "y1")])
    assert task.values("out") == [
        ("x", "+x1"),
        ("x", "+x1+x2"),
        ("x", "+x2"),
        ("x", None),
        ("y", "+y1"),
        ("x", None),
        ("y", "+y1+y1"),
    ]


def test_a_result_has_the_largest_timestamp_of_what_it_touched() -> None:
    """Semantics 14; a deletion goes into the store with that of its record."""
    task = task_of(None, told)
    for value, timestamp in (("x1", 50), ("x2", 10)):
        task.pipe("in", "a", value, timestamp)
    task.pipe("in", "b", "y1", 20)
    assert [(o.key, o.timestamp) for o in task.take("out")] == [("x", 50), ("x", 50), ("y", 20)]


def test_a_failing_selector_drops_the_change_and_a_failing_adder_too() -> None:
    def fail(*arguments: Any) -> Any:
        raise KeyError("boom")

    task = piped(task_of(None, lambda t: t.group_by(fail).count(), continue_on_error=True), [("a", "x1")])
    assert len(task.failures) == 1
    task = piped(
        task_of(None, lambda t: t.group_by(by_letter).reduce(fail, fail), continue_on_error=True), [("a", "x1")]
    )
    assert (len(task.failures), task.values("out")) == (0, [("x", "x1")])
    piped(task, [("b", "x2")])
    assert (len(task.failures), task.values("out")) == (1, [])


def test_a_named_repartition_topic_serves_all_aggregations_of_a_table() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in")
    groups = table.group_by(by_letter, "g")
    groups.count(materialized="n").to_stream().to("out")
    groups.count(materialized="m").to_stream().to("out")
    topology = builder.build()
    assert list(topology.repartition_topics) == ["g-repartition"]
    assert piped(FakeTask(topology), [("a", "x1")]).values("out") == [("x", 1), ("x", 1)]


def test_an_aggregate_that_is_changed_in_place_still_has_its_old_value() -> None:
    def add(key: str, value: str, aggregate: list[str]) -> list[str]:
        aggregate.append(value)
        return aggregate

    def remove(key: str, value: str, aggregate: list[str]) -> list[str]:
        aggregate.remove(value)
        return aggregate

    seen: list[Any] = []

    def selector(key: str, value: list[str]) -> tuple[str, str]:
        seen.append(list(value))
        return key, "-"

    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in")
    store: Materialized[str, list[str]] = Materialized(name="s", caching=False)
    table.group_by(by_letter).aggregate(list, add, remove, materialized=store).group_by(selector).count()
    piped(FakeTask(builder.build()), [("a", "x1"), ("b", "x2"), ("a", None)])
    assert seen == [["x1"], ["x1", "x2"], ["x1"], ["x2"], ["x1", "x2"]]
