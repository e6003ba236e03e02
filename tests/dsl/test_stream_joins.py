"""Joins of two streams: against a recomputation from scratch, with late, null and repeated records; and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dsl import JoinWindows, KStream, StreamJoined, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.defaults import BuiltInDslStoreSuppliers
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams import log_and_continue_processing
from streams.kafka.topics.internal import repartition_counts
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
FAR = 1_000_000
"""A time behind all windows of the tests: a record of then brings out all that waits."""


class Given(NamedTuple):
    """A record of one of the two topics."""

    left: bool
    key: str | None
    value: str | None
    timestamp: int


Result = tuple[str | None, str | None]
"""The values of a result, left and right."""

records = st.lists(
    st.builds(
        Given,
        left=st.booleans(),
        key=st.sampled_from(["a", "b", None]),
        value=st.sampled_from(["x", "y", None]),
        timestamp=st.integers(0, 60),
    ),
    max_size=25,
)
windows = st.builds(
    lambda before, after, grace: JoinWindows(before_ms=before, after_ms=max(after, -before), grace_ms=grace),
    st.integers(-5, 12),
    st.integers(-5, 12),
    st.sampled_from([0, 7, 40]),
)


def numbered(given_records: list[Given]) -> list[Given]:
    """Gives each value a number, so that a result tells of which records it is."""
    return [r._replace(value=None if r.value is None else f"{r.value}{i}") for i, r in enumerate(given_records)]


def told(left: str | None, right: str | None) -> str:
    return f"{left}|{right}"


def topology(kind: str, over: JoinWindows, how: StreamJoined[Any, Any, Any] | None = None) -> Topology:
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    right: KStream[str, str] = builder.stream("right")
    join: Callable[..., KStream[str, str]] = getattr(left, kind)
    join(right, told, windows=over, joined=how).to("out")
    return builder.build(CONFIG)


def results(made: Topology, given_records: list[Given], *, end: bool = True) -> list[tuple[str | None, Result, int]]:
    """Key, values and timestamp of each result; with ``end`` after a last record on both sides."""
    with TopologyTestDriver(made, CONFIG) as driver:
        inputs = {side: driver.create_input_topic(topic, S, S) for side, topic in ((True, "left"), (False, "right"))}
        for record in given_records:
            inputs[record.left].pipe_input(record.key, record.value, timestamp=record.timestamp)
        if end:
            for i, side in enumerate((True, False, True, False)):
                inputs[side].pipe_input(f"end{i}", "end", timestamp=FAR + i * FAR)
        found = driver.create_output_topic("out", S, S).read_records()
    return [
        (r.key, (values[0], values[1]), r.timestamp)
        for r in found
        if "end" not in (values := tuple(None if v == "None" else v for v in r.value.split("|")))
    ]


def pairs(
    given_records: list[Given], over: JoinWindows, *, in_memory: bool = False
) -> Counter[tuple[str, Result, int]]:
    """All matches: each record with those of the other side that came before it and are still kept. A null value moves
    the time of a store in memory, as in Kafka Streams."""
    found: Counter[tuple[str, Result, int]] = Counter()
    kept: dict[bool, list[Given]] = {True: [], False: []}
    time = {True: -1, False: -1}
    for record in given_records:
        if record.key is None:
            continue
        if record.value is None:
            if in_memory:
                time[record.left] = max(time[record.left], record.timestamp)
            continue
        for other in kept[not record.left]:
            left, right = (record, other) if record.left else (other, record)
            near = -over.before_ms <= right.timestamp - left.timestamp <= over.after_ms
            alive = other.timestamp > time[not record.left] - over.retention_ms
            if near and alive and other.key == record.key:
                at = max(left.timestamp, right.timestamp)
                found[record.key, (left.value, right.value), at] += 1
        kept[record.left].append(record)
        time[record.left] = max(time[record.left], record.timestamp)
    return found


@settings(max_examples=60, deadline=None)
@given(records, windows)
def test_an_inner_join_is_every_pair_in_the_window(given_records: list[Given], over: JoinWindows) -> None:
    given_records = numbered(given_records)
    assert Counter(results(topology("join", over), given_records)) == pairs(given_records, over)


@settings(max_examples=80, deadline=None)
@given(records, windows, st.sampled_from(["left_join", "outer_join"]), st.booleans())
def test_a_left_or_outer_join_has_every_pair_and_loses_no_record(
    given_records: list[Given], over: JoinWindows, kind: str, in_memory: bool
) -> None:
    """The pairs are those of the inner join. A record of a kept side is in a pair, or alone, and alone at most once."""
    given_records = numbered(given_records)
    how: StreamJoined[Any, Any, Any] | None = None
    if in_memory:
        how = StreamJoined(store_type=BuiltInDslStoreSuppliers.IN_MEMORY)
    found = results(topology(kind, over, how), given_records)
    matched = [result for result in found if None not in result[1]]
    assert Counter(matched) == pairs(given_records, over, in_memory=in_memory)
    alone = Counter(result for result in found if None in result[1])
    assert set(alone.values()) <= {1}
    in_pairs = {value for _, values, _ in matched for value in values}
    for record in given_records:
        kept = record.value is not None and (record.left or kind == "outer_join")
        result = record.key, (record.value, None) if record.left else (None, record.value), record.timestamp
        if not kept:
            assert result not in alone
        elif record.value not in in_pairs:
            assert result in alone


@settings(max_examples=60, deadline=None)
@given(records, windows, st.sampled_from(["join", "left_join", "outer_join"]))
def test_one_store_for_a_self_join_gives_what_two_give(
    given_records: list[Given], over: JoinWindows, kind: str
) -> None:
    """Semantics 62. Of the left and outer join, matches alone: with two stores those so late that their windows are
    closed are also forwarded without their match with themselves, which comes right behind."""

    def made(config: dict[str, Any]) -> Topology:
        builder = StreamsBuilder()
        stream: KStream[str, str] = builder.stream("left")
        join: Callable[..., KStream[str, str]] = getattr(stream, kind)
        join(stream, told, windows=over).to("out")
        return builder.build(config)

    given_records = [record._replace(left=True) for record in numbered(given_records)]
    times = [record.timestamp for record in given_records]
    oldest_shown = {max(times[: number + 1]) - over.retention_ms for number in range(len(times))}
    assume(oldest_shown.isdisjoint(times))  # there, which of two stores has seen a record first decides
    two, one = ({**CONFIG, "topology.optimization": how} for how in ("none", "single.store.self.join"))
    found = []
    for config in (two, one):
        with TopologyTestDriver(made(config), config) as driver:
            topic = driver.create_input_topic("left", S, S)
            for record in given_records:
                topic.pipe_input(record.key, record.value, timestamp=record.timestamp)
            out = driver.create_output_topic("out", S, S).read_records()
        found.append([(r.key, r.value, r.timestamp) for r in out if kind == "join" or "None" not in r.value])
    assert found[0] == found[1]


@settings(max_examples=40, deadline=None)
@given(records, windows, st.sampled_from(["left_join", "outer_join"]))
def test_early_results_come_at_once_and_again_with_each_partner(
    given_records: list[Given], over: JoinWindows, kind: str
) -> None:
    """Each record of a kept side is forwarded alone unless one of its pairs is there when it comes."""
    given_records = numbered(given_records)
    found = results(topology(kind, over.emitting_early()), given_records)
    matched = pairs(given_records, over)
    assert Counter(result for result in found if None not in result[1]) == matched
    came = [record.value for record in given_records]
    alone = set()
    for record in given_records:
        if record.value is None or not (record.left or kind == "outer_join"):
            continue
        side = 0 if record.left else 1
        partners = [values[1 - side] for _, values, _ in matched if values[side] == record.value]
        if not any(came.index(other) < came.index(record.value) for other in partners):
            values = (record.value, None) if record.left else (None, record.value)
            alone.add((record.key, values, record.timestamp))
    assert Counter(result for result in found if None in result[1]) == Counter(alone)


def test_a_left_self_join_in_one_store_keeps_records_without_a_key() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    over = JoinWindows.of_time_difference_with_no_grace(5)
    stream.outer_join(stream, told, windows=over).to("out")
    config = {**CONFIG, "topology.optimization": "all"}
    made = builder.build(config)
    assert list(made.stores) == ["KSTREAM-OUTERTHIS-0000000003-store"]
    with TopologyTestDriver(made, config) as driver:
        driver.create_input_topic("left", S, S).pipe_input(None, "x", timestamp=0)
        assert driver.create_output_topic("out", S, S).read_values() == ["x|None", "None|x"]


# ----------------------------------------------------------------------------- time, headers, errors


def test_an_unmatched_record_has_its_own_time_and_the_headers_of_the_one_that_released_it() -> None:
    """Semantics 16."""
    made = topology("left_join", JoinWindows.of_time_difference_with_no_grace(5))
    with TopologyTestDriver(made, CONFIG) as driver:
        left = driver.create_input_topic("left", S, S)
        left.pipe_input("a", "x", timestamp=1, headers=[("mine", b"1")])
        left.pipe_input("b", "y", timestamp=9, headers=[("other", b"2")])
        (found,) = driver.create_output_topic("out", S, S).read_records()
    assert (found.key, found.value, found.timestamp, list(found.headers)) == ("a", "x|None", 1, [("other", b"2")])


def test_without_the_test_driver_unmatched_records_leave_at_most_once_a_second() -> None:
    """Semantics 57, 123: the interval is the setting's, and moves with the wall clock alone."""
    config = {**CONFIG, "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 1000}
    made = topology("left_join", JoinWindows.of_time_difference_with_no_grace(5))
    with TopologyTestDriver(made, config) as driver:
        left = driver.create_input_topic("left", S, S)
        out = driver.create_output_topic("out", S, S)
        left.pipe_input("a", "x", timestamp=0)  # looked: nothing waits
        left.pipe_input("b", "y", timestamp=10)
        assert out.is_empty
        driver.advance_wall_clock_time(999)
        left.pipe_input("b", "y", timestamp=11)
        assert out.is_empty
        driver.advance_wall_clock_time(1)
        left.pipe_input("b", "y", timestamp=12)
        assert out.read_values() == ["x|None"]


def test_a_joiner_that_raises_drops_the_record_where_the_handler_says_so() -> None:
    def joiner(left: str, right: str | None) -> str:
        if left == "bad":
            raise ValueError("no")
        return told(left, right)

    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    over = JoinWindows.of_time_difference_with_no_grace(5)
    left.left_join(builder.stream("right"), joiner, windows=over).to("out")
    config = {**CONFIG, "processing.exception.handler": log_and_continue_processing}
    with TopologyTestDriver(builder.build(config), config) as driver:
        inputs = [driver.create_input_topic(name, S, S) for name in ("left", "right")]
        inputs[0].pipe_input("a", "bad", timestamp=0)
        inputs[0].pipe_input("a", "good", timestamp=1)
        inputs[1].pipe_input("a", "r", timestamp=2)  # the first match fails, and with it the record
        inputs[0].pipe_input("c", "bad", timestamp=30)
        inputs[0].pipe_input("d", "bad", timestamp=30)
        inputs[0].pipe_input("e", "fine", timestamp=31)
        inputs[0].pipe_input("f", "late", timestamp=60)  # those that fail do not keep the others back
        assert driver.create_output_topic("out", S, S).read_values() == ["good|None", "fine|None"]


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join", "itself"])
@pytest.mark.parametrize("optimization", ["none", "all"])
def test_matches_before_one_that_fails_are_forwarded(kind: str, optimization: str) -> None:
    """Each is joined and forwarded before the next is joined, as Kafka Streams does."""
    order: list[str] = []

    def joiner(left: str, right: str) -> str:
        order.append(f"joined {left}{right}")
        if "bad" in (left, right) and left != right:
            raise ValueError("bad")
        return left + right

    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    right: KStream[str, str] = left if kind == "itself" else builder.stream("right")
    over = JoinWindows.of_time_difference_and_grace(10, 5)
    joined = getattr(left, "join" if kind == "itself" else kind)(right, joiner, windows=over)
    joined.peek(lambda key, value: order.append(f"forwarded {value}")).to("out")
    config = {
        **CONFIG,
        "processing.exception.handler": log_and_continue_processing,
        "topology.optimization": optimization,
    }
    with TopologyTestDriver(builder.build(config), config) as driver:
        partners = driver.create_input_topic("left", S, S)
        other = driver.create_input_topic("left" if kind == "itself" else "right", S, S)
        partners.pipe_input("a", "x", timestamp=1)
        partners.pipe_input("a", "bad", timestamp=2)
        partners.pipe_input("a", "z", timestamp=3)
        order.clear()
        other.pipe_input("a", "y", timestamp=4)
        first = ["joined yx", "forwarded yx"] if kind == "itself" else ["joined xy", "forwarded xy"]
        assert order[:3] == [*first, "joined ybad" if kind == "itself" else "joined bady"]
        assert not [one for one in order if one.startswith("forwarded") and "z" in one and kind != "itself"]


def test_the_joiner_with_the_key_gets_the_key_first() -> None:
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    right: KStream[str, str] = builder.stream("right")
    over = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
    left.join_with_key(right, lambda key, x, y: key + x + y, windows=over).to("out")
    left.outer_join_with_key(right, lambda key, x, y: f"{key}{x}{y}", windows=over).to("out")
    with TopologyTestDriver(builder.build(CONFIG), CONFIG) as driver:
        driver.create_input_topic("right", S, S).pipe_input("k", "r", timestamp=0)
        driver.create_input_topic("left", S, S).pipe_input("k", "l", timestamp=0)
        assert driver.create_output_topic("out", S, S).read_values() == ["klr", "klr"]


# ----------------------------------------------------------------------------- what is refused


def streams() -> tuple[KStream[str, str], KStream[str, str]]:
    builder = StreamsBuilder()
    return builder.stream("left"), builder.stream("right")


OVER = JoinWindows.of_time_difference_with_no_grace(5)
SUPPLIER = Stores.in_memory_window_store("mine", 10, 10, True)


@pytest.mark.parametrize(
    ("join", "words"),
    [
        (lambda a, b: a.join(b, told), "needs windows=JoinWindows.of_time_difference_with_no_grace"),
        (lambda a, b: a.join(b, told, windows=5), "needs windows=.* got 5"),
        (lambda a, b: a.join("right", told, windows=OVER), "joined with a stream, a table or a global table only, got"),
        (lambda a, b: a.outer_join(b.to_table(), told, windows=OVER), "joined with a stream only, got KTable"),
        (lambda a, b: a.join(b, "told", windows=OVER), "takes a function as its joiner, got 'told'"),
        (
            lambda a, b: a.join(b, told, windows=OVER, name="j"),
            "a join with a stream has the options windows, joined; name",
        ),
        (lambda a, b: a.join(b, told, windows=OVER, joined=5), "expected StreamJoined"),
        (lambda a, b: a.join(b, told, windows=OVER, joined="a b"), "contains a character"),
        (lambda a, b: a.join(StreamsBuilder().stream("x"), told, windows=OVER), "come from different builders"),
        (lambda a, b: JoinWindows.of_time_difference_with_no_grace(5).before(-6), "contains no time"),
        (lambda a, b: JoinWindows.of_time_difference_and_grace(5, -1), "must not be negative, got -1 ms"),
        (lambda a, b: StreamJoined(logging=False, topic_config={"a": "b"}), "but logging=False turns it off"),
        (lambda a, b: StreamJoined(store_type="nowhere"), "nowhere"),
        (
            lambda a, b: StreamJoined(this_store_supplier=SUPPLIER, other_store_supplier=SUPPLIER),
            "both suppliers of a join make a store named 'mine'",
        ),
        (
            lambda a, b: a.join(
                b,
                told,
                windows=OVER,
                joined=StreamJoined(this_store_supplier=Stores.in_memory_window_store("mine", 10, 10)),
            ),
            "must keep duplicates",
        ),
        (
            lambda a, b: a.join(b, told, windows=OVER.before(9), joined=StreamJoined(this_store_supplier=SUPPLIER)),
            "has windows of 10 ms with a retention of 10 ms, but the join needs 14 ms with a retention of 14 ms",
        ),
        (
            lambda a, b: a.join(
                b,
                told,
                windows=OVER,
                joined=StreamJoined(this_store_supplier=Stores.persistent_key_value_store("mine")),
            ),
            "must be a window store, not a key-value store",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(join: Callable[[Any, Any], Any], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        join(*streams())


def test_supplied_stores_are_used() -> None:
    other = Stores.persistent_window_store("theirs", 10, 10, True)
    how: StreamJoined[Any, Any, Any] = StreamJoined(this_store_supplier=SUPPLIER, other_store_supplier=other)
    made = topology("outer_join", OVER, how)
    assert {name: builder.supplier.engine for name, builder in made.stores.items()} == {
        "mine": "memory",
        "theirs": "rocksdb",
        "mine-outer-shared-join-store": "memory",
    }


def test_generated_names_of_stores_are_refused_where_names_must_be_given() -> None:
    """KIP-1111."""
    builder = StreamsBuilder()
    builder.stream("left").left_join(builder.stream("right"), told, windows=OVER)
    with pytest.raises(TopologyError, match=r"KSTREAM-OUTERSHARED-0000000004-store .*name them with StreamJoined"):
        builder.build({**CONFIG, "ensure.explicit.internal.resource.naming": True})


def test_streams_that_are_not_copartitioned_are_told_with_their_counts() -> None:
    """Semantics 103: known when the topics are, at the start."""
    with pytest.raises(TopologyError, match="'left' has 2, 'right' has 3"):
        repartition_counts(topology("join", OVER), {"left": 2, "right": 3})


def test_a_repartition_topic_takes_the_partitions_of_the_other_side() -> None:
    builder = StreamsBuilder()
    left = builder.stream("left").select_key(lambda k, v: v)
    left.join(builder.stream("right"), told, windows=OVER, joined="j").to("out")
    assert repartition_counts(builder.build(CONFIG), {"left": 2, "right": 3}) == {"j-left-repartition": 3}
