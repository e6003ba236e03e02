"""Foreign-key joins of tables, against a recomputation from scratch, and what their messages are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import Consumed, KTable, Materialized, StreamsBuilder, TableJoined
from processor_api.errors import ConfigError, ProcessingError, TopologyError
from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from state.formats.foreign_keys import read_response, read_subscription, subscription
from streams.testing.driver import TopologyTestDriver

Updates = list[tuple[str, str, str | None, int]]

SETTINGS = {"default.key.serde": "string", "default.value.serde": "string", "default.dsl.store": "in_memory"}

updates = st.lists(
    st.one_of(
        st.tuples(
            st.just("left"),
            st.sampled_from("abc"),
            st.none() | st.sampled_from(["x1", "x2", "y1", "y2", "-1", "z1"]),
            st.integers(0, 20),
        ),
        st.tuples(
            st.just("right"), st.sampled_from("xyq"), st.none() | st.sampled_from(["R", "S"]), st.integers(0, 20)
        ),
    ),
    max_size=40,
)
"""Topic, key, value and timestamp; the foreign key of a left row is its first letter, and ``-`` is none."""
results = st.sampled_from([None, Materialized(name="r"), Materialized(name="r", caching=False)])


def fk(value: str) -> str | None:
    return None if value[0] == "-" else value[0]


def plus(left: str, right: str | None) -> str | None:
    """A joiner that sometimes deletes."""
    return None if right == "S" and left[1] == "2" else f"{left}+{right}"


def topology(
    left_join: bool,
    result: Materialized[str, str] | None = None,
    below: Callable[[KTable[str, str]], KTable[Any, Any]] = lambda table: table,
    caching: bool | None = None,
    **options: Any,
) -> Topology:
    """:param caching: of the stores of both tables; ``None`` leaves them to the join."""
    builder = StreamsBuilder()
    stores = [None if caching is None else Materialized(name=name, caching=caching) for name in ("l", "s")]
    left: KTable[str, str] = builder.table("left", materialized=stores[0])
    right: KTable[str, str] = builder.table("right", materialized=stores[1])
    join = left.foreign_key_left_join if left_join else left.foreign_key_join
    below(join(right, fk, plus, materialized=result, **options)).to_stream().to("out")
    return builder.build()


def outputs(made: Topology, given_updates: Updates) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(made, SETTINGS) as driver:
        topics = {name: driver.create_input_topic(name) for name in ("left", "right")}
        for topic, key, value, timestamp in given_updates:
            topics[topic].pipe_input(key, value, timestamp=timestamp)
        return driver.create_output_topic("out").read_key_values()


def rows(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: value for key, value in dict(pairs).items() if value is not None}


def expected_rows(left_join: bool, given_updates: Updates) -> dict[str, str]:
    left = rows([(key, value) for topic, key, value, _ in given_updates if topic == "left"])
    right = rows([(key, value) for topic, key, value, _ in given_updates if topic == "right"])
    found = {
        key: plus(value, right.get(fk(value) or "")) for key, value in left.items() if left_join or fk(value) in right
    }
    return {key: value for key, value in found.items() if value is not None}


@settings(max_examples=60)
@given(updates, st.booleans(), results, st.sampled_from([None, True, False]))
def test_the_result_is_the_join_of_the_rows(
    given_updates: Updates, left_join: bool, result: Materialized[str, str] | None, caching: bool | None
) -> None:
    """Whether tables and result are cached or not, or the result is not stored at all."""
    made = topology(left_join, result, caching=caching)
    assert rows(outputs(made, given_updates)) == expected_rows(left_join, given_updates)


@settings(max_examples=30)
@given(updates, st.booleans())
def test_a_grouped_result_knows_its_old_values(given_updates: Updates, left_join: bool) -> None:
    made = topology(
        left_join,
        None,
        lambda table: table.group_by(lambda k, v: (v, v)).count().map_values(str, materialized=Materialized()),
    )
    counts = {group: int(count) for group, count in rows(outputs(made, given_updates)).items() if count != "0"}
    assert counts == Counter(expected_rows(left_join, given_updates).values())


def test_the_extractor_can_take_the_key_too() -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    right: KTable[str, str] = builder.table("right")
    left.foreign_key_join_with_key(right, lambda k, v: k + v, plus).to_stream().to("out")
    assert outputs(builder.build(), [("right", "ab1", "R", 0), ("left", "a", "b1", 1)]) == [("a", "b1+R")]


def test_a_table_joined_with_itself() -> None:
    """A row that refers to another one of its table."""
    builder = StreamsBuilder()
    people: KTable[str, str] = builder.table("left")
    builder.stream("right")
    people.foreign_key_left_join(people, fk, lambda person, boss: f"{person}<{boss}").to_stream().to("out")
    found = outputs(builder.build(), [("left", "a", "-", 0), ("left", "b", "a", 1), ("left", "a", "b", 2)])
    assert rows(found) == {"a": "b<a", "b": "a<b"}


def test_a_right_row_with_many_left_rows_answers_each_in_the_order_of_their_keys() -> None:
    many: Updates = [("left", key, "x1", 1) for key in ("c", "a", "b")]
    found = outputs(topology(False), [*many, ("right", "x", "R", 2)])
    assert found == [("a", "x1+R"), ("b", "x1+R"), ("c", "x1+R")]


@pytest.mark.parametrize("store", ["in_memory", "rocksDB"])
def test_the_answers_of_a_right_row_are_sent_as_they_are_read(store: str) -> None:
    """All subscriptions and all answers were lists first: 0.7 GB where a million left rows refer to one right row."""
    steps: list[str] = []

    def read(data: bytes) -> str:
        steps.append("read")
        return data.decode()

    def write(key: str) -> bytes:
        steps.append("write")
        return key.encode()

    builder = StreamsBuilder()
    keys = Serde(write, read, name="noted")
    left = builder.table("left", Consumed(key_serde=keys, value_serde=Serdes.STRING))
    right = builder.table("right", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    left.foreign_key_join(right, fk, plus).to_stream().foreach(lambda key, value: None)
    with TopologyTestDriver(builder.build(), {**SETTINGS, "default.dsl.store": store}) as driver:
        lefts = driver.create_input_topic("left", Serdes.STRING, Serdes.STRING)
        for number in range(20):
            lefts.pipe_input(f"order-{number}", "x1", timestamp=1)
        del steps[:]
        driver.create_input_topic("right", Serdes.STRING, Serdes.STRING).pipe_input("x", "R", timestamp=2)
    answers = steps[: 2 * 20]
    assert answers == ["read", "write"] * 20


def test_foreign_keys_of_which_one_begins_with_another_are_told_apart() -> None:
    """The length in front of the foreign key sees to that."""
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    right: KTable[str, str] = builder.table("right")
    left.foreign_key_join(right, lambda v: v, lambda x, y: f"{x}+{y}").to_stream().to("out")
    found = outputs(builder.build(), [("left", "1", "a", 0), ("left", "1", "ab", 1), ("right", "a", "R", 2)])
    assert found == [("1", None)]


def test_an_empty_right_value_is_taken_for_none() -> None:
    """Formats 12: Kafka Streams' answers cannot tell the two apart."""
    found = outputs(topology(True), [("left", "a", "x1", 0), ("right", "x", "", 1)])
    assert found == [("a", "x1+None"), ("a", "x1+None")]


# ------------------------------------------------------------------ partitions


@pytest.mark.parametrize("left_join", [False, True])
def test_tables_with_different_numbers_of_partitions_are_joined_after_a_restart_too(
    tmp_path: Path, left_join: bool
) -> None:
    """Subscriptions go to the partition of the foreign key, and answers back to where they came from."""
    with Cluster(tmp_path, topics={"left": 3, "right": 2, "out": 1}) as cluster:
        made = topology(left_join, Materialized(name="r"))
        app = cluster.start(made)
        for number in range(12):
            cluster.send("xyz"[number % 3] + "1", topic="left", key=f"k{number}", partition=number % 3)
        for number, key in enumerate("xy"):
            cluster.send("R", topic="right", key=key, partition=_partition(key, 2), timestamp=number)
        known = {f"k{n}": f"{'xyz'[n % 3]}1+R" for n in range(12) if n % 3 < 2}
        if left_join:
            known |= {f"k{n}": "z1+None" for n in range(2, 12, 3)}
        cluster.until(lambda: _last(cluster) == known)
        app.close(30)

        cluster.start(made)
        cluster.send("Q", topic="right", key="z", partition=_partition("z", 2), timestamp=50)
        cluster.send("x3", topic="left", key="k1", partition=1, timestamp=60)
        known |= {f"k{n}": "z1+Q" for n in range(2, 12, 3)} | {"k1": "x3+R"}
        cluster.until(lambda: _last(cluster) == known)


def _partition(key: str, count: int) -> int:
    from processor_api.topology.partitioner import partition_for_key

    return partition_for_key(key.encode(), count)


def _last(cluster: Cluster) -> dict[str, str]:
    found = [((record.key() or b"").decode(), record.value()) for record in cluster.broker.records("out")]
    return {key: value.decode() for key, value in dict(found).items() if value is not None}


def test_partitioners_of_the_user_choose_by_the_keys(tmp_path: Path) -> None:
    """For tables whose topics were not written with Kafka's default; they get no value."""
    asked: list[tuple[str, Any, Any]] = []

    def by_first_letter(topic: str, key: Any, value: Any, headers: Any, count: int) -> set[int]:
        asked.append((topic, key, value))
        return {ord(key[0]) % count}

    with Cluster(tmp_path, topics={"left": 2, "right": 2, "out": 1}) as cluster:
        joined: TableJoined[str, str] = TableJoined(
            name="j", partitioner=by_first_letter, other_partitioner=by_first_letter
        )
        cluster.start(topology(False, joined=joined))
        cluster.send("R", topic="right", key="x", partition=ord("x") % 2)
        cluster.send("x1", topic="left", key="a", partition=ord("a") % 2)
        cluster.until(lambda: _last(cluster) == {"a": "x1+R"})
    assert set(asked) == {
        ("app-j-subscription-registration-topic", "x", None),
        ("app-j-subscription-response-topic", "a", None),
    }


def test_a_partitioner_that_chooses_several_partitions_is_refused() -> None:
    joined: TableJoined[str, str] = TableJoined(other_partitioner=lambda *_: {0, 1})
    with pytest.raises(ProcessingError, match="must return exactly one partition"):
        outputs(topology(False, joined=joined), [("left", "a", "x1", 0)])


def test_each_internal_topic_is_copartitioned_with_its_table() -> None:
    made = topology(False, joined="j")
    groups = [
        {topic for source in group for topic in made.nodes[source].topics}  # type: ignore[union-attr]
        for group in made.copartition_groups
    ]
    assert {"right", "j-subscription-registration-topic"} in groups
    assert {"left", "j-subscription-response-topic"} in groups


# ------------------------------------------------------------------ bad input


def test_what_is_no_table_of_the_same_builder_is_refused() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("left")
    stream: Any = builder.stream("right")
    with pytest.raises(TopologyError, match=r"^a foreign-key join of a table needs another table, got KStream"):
        table.foreign_key_join(stream, fk, plus)
    other: KTable[str, str] = StreamsBuilder().table("right")
    with pytest.raises(TopologyError, match="come from different builders: use one StreamsBuilder"):
        table.foreign_key_left_join(other, fk, plus)


def test_options_and_functions_of_the_wrong_kind_are_refused() -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left")
    right: KTable[str, str] = builder.table("right")
    with pytest.raises(TopologyError, match=r"expected TableJoined\(...\), got Materialized"):
        left.foreign_key_join(right, fk, plus, joined=Materialized(name="m"))  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="extractor"):
        left.foreign_key_join(right, "key", plus)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="TableJoined takes a function as its other_partitioner, got 3"):
        TableJoined(other_partitioner=3)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="'a b' contains a character"):
        TableJoined(name="a b")


def test_a_failing_extractor_fails_the_node() -> None:
    with pytest.raises(ProcessingError, match="IndexError in node 'j-subscription-registration-processor'"):
        outputs(topology(False, joined="j"), [("left", "a", "", 0)])


def test_a_serde_that_is_nowhere_is_named() -> None:
    builder = StreamsBuilder()
    only_key: Consumed[str, str] = Consumed(key_serde=Serdes.STRING)
    left: KTable[str, str] = builder.table("left", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    left.foreign_key_join(builder.table("right", only_key), fk, plus).to_stream().to("out")
    with (
        pytest.raises(ConfigError, match=r"source '.*' of topic 'right' at .*: table\(right, value_serde"),
        TopologyTestDriver(builder.build(), {}),
    ):
        pass


def test_explicit_naming_wants_a_name_for_the_join() -> None:
    builder = StreamsBuilder({"ensure.explicit.internal.resource.naming": True})
    left: KTable[str, str] = builder.table("left", materialized="l")
    right: KTable[str, str] = builder.table("right", materialized="r")
    left.foreign_key_join(right, fk, plus)
    with pytest.raises(TopologyError, match=r"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000008 .*TableJoined"):
        builder.build()

    builder = StreamsBuilder({"ensure.explicit.internal.resource.naming": True})
    left, right = builder.table("left", materialized="l"), builder.table("right", materialized="r")
    left.foreign_key_join(right, fk, plus, joined="j")
    builder.build()


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x02\x00", b"\x00\x00" + bytes(15), b"\x01\x00" + bytes(19)])
def test_a_damaged_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="subscription"):
        read_subscription(data)


@pytest.mark.parametrize("data", [b"", b"\x01" + bytes(16), b"\x00" + bytes(15), b"\x81"])
def test_a_damaged_answer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not an answer of a foreign-key join"):
        read_response(data)


@given(st.integers(0, 3), st.none() | st.binary(min_size=16, max_size=16), st.binary(), st.none() | st.integers(0, 99))
def test_a_subscription_is_read_as_it_was_written(
    instruction: int, hash_: bytes | None, key: bytes, partition: int | None
) -> None:
    data = subscription(instruction, hash_, key, partition)
    assert read_subscription(data) == (instruction, hash_, key, partition)
