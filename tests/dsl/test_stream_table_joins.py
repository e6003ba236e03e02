"""Joins of a stream with tables: against a recomputation from scratch, with late and null records; and errors."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import Joined, KStream, KTable, Materialized, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams import log_and_continue_processing
from streams.kafka.topics.internal import repartition_counts
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
HISTORY = 30


class Given(NamedTuple):
    """A record of the stream or an update of the table."""

    stream: bool
    key: str | None
    value: str | None
    timestamp: int


Results = list[tuple[str | None, str, int]]

records = st.lists(
    st.builds(
        Given,
        stream=st.booleans(),
        key=st.sampled_from(["a", "b", None]),
        value=st.sampled_from(["x", "y", None]),
        timestamp=st.integers(0, 60),
    ),
    max_size=25,
)


def numbered(given_records: list[Given]) -> list[Given]:
    return [r._replace(value=None if r.value is None else f"{r.value}{i}") for i, r in enumerate(given_records)]


def told(value: str, row: str | None) -> str:
    return f"{value}|{row}"


def versioned(history: int = HISTORY) -> Materialized[str, str]:
    return Materialized(supplier=Stores.persistent_versioned_key_value_store("t", history))


def topology(
    kind: str, store: Materialized[str, str], joined: Joined[str, str, str] | None = None, *, mapped: bool = False
) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    table: KTable[str, str] = builder.table("right", materialized=store)
    if mapped:
        table = table.filter(lambda key, value: value[0] == "x").map_values(str.upper)
    join: Callable[..., KStream[str, str]] = getattr(stream, kind)
    join(table, told, joined=joined).to("out")
    return builder.build(CONFIG)


def results(made: Topology, given_records: list[Given]) -> Results:
    with TopologyTestDriver(made, CONFIG) as driver:
        inputs = {True: driver.create_input_topic("left", S, S), False: driver.create_input_topic("right", S, S)}
        for record in given_records:
            inputs[record.stream].pipe_input(record.key, record.value, timestamp=record.timestamp)
        found = driver.create_output_topic("out", S, S).read_records()
        return [(record.key, record.value, record.timestamp) for record in found]


class Table:
    """The versions of a table as they come: the latest is the last to come, or the one of the latest time."""

    def __init__(self, history: int | None) -> None:
        self.history = history
        self.time = -1
        self.versions: dict[str, dict[int, str | None]] = {}
        self.last: dict[str, str | None] = {}

    def put(self, record: Given) -> None:
        if record.key is None:
            return
        self.last[record.key] = record.value
        if self.history is not None:
            self.time = max(self.time, record.timestamp)
            if record.timestamp >= self.time - self.history:
                self.versions.setdefault(record.key, {})[record.timestamp] = record.value

    def row(self, key: str | None, as_of: int) -> str | None:
        if key is None:
            return None
        if self.history is None:
            return self.last.get(key)
        versions = self.versions.get(key, {})
        newest = max(versions, default=None)
        if as_of < self.time - self.history and newest is not None and newest > as_of:
            return None
        return versions[max(times)] if (times := [time for time in versions if time <= as_of]) else None


def expected(
    given_records: list[Given], kind: str, history: int | None, change: Callable[[str], str | None]
) -> Results:
    table, found = Table(history), []
    for record in given_records:
        if not record.stream:
            table.put(record)
        else:
            found += joined(table, record, kind, change)
    return found


def joined(table: Table, record: Given, kind: str, change: Callable[[str], str | None]) -> Results:
    if record.value is None or (record.key is None and kind == "join"):
        return []
    row = table.row(record.key, record.timestamp)
    row = None if row is None else change(row)
    if row is None and kind == "join":
        return []
    return [(record.key, told(record.value, row), record.timestamp)]


def same(value: str) -> str:
    return value


def upper_x(value: str) -> str | None:
    return value.upper() if value[0] == "x" else None


KINDS = st.sampled_from(["join", "left_join"])


@settings(max_examples=60, deadline=None)
@given(records, KINDS, st.booleans(), st.booleans())
def test_a_record_meets_the_row_of_the_moment(
    given_records: list[Given], kind: str, mapped: bool, caching: bool
) -> None:
    """Also through a filter and a mapping that have no stores, and with a cache before the table's store."""
    given_records = numbered(given_records)
    made = topology(kind, Materialized(name="t", caching=caching), mapped=mapped)
    assert results(made, given_records) == expected(given_records, kind, None, upper_x if mapped else same)


@settings(max_examples=60, deadline=None)
@given(records, KINDS, st.booleans())
def test_a_record_meets_the_version_of_its_time(given_records: list[Given], kind: str, mapped: bool) -> None:
    given_records = numbered(given_records)
    found = results(topology(kind, versioned(), mapped=mapped), given_records)
    assert found == expected(given_records, kind, HISTORY, upper_x if mapped else same)


@settings(max_examples=60, deadline=None)
@given(records, KINDS, st.integers(0, HISTORY))
def test_with_grace_a_record_waits_for_its_time(given_records: list[Given], kind: str, grace: int) -> None:
    """Semantics 65: what is late, or has no key, does not wait; all others leave in order of time, then key."""
    given_records = numbered(given_records)
    made = topology(kind, versioned(), Joined(name="j", grace=grace))
    table, wanted, waiting = Table(HISTORY), [], []
    time = -1
    for number, record in enumerate(given_records):
        if not record.stream:
            table.put(record)
            continue
        if record.value is None or (record.key is None and kind == "join"):
            continue
        if record.key is None or record.timestamp < time - grace:
            wanted += joined(table, record, kind, same)
        else:
            time = max(time, record.timestamp)
            heapq.heappush(waiting, (record.timestamp, record.key, number, record))
        while waiting and waiting[0][0] <= time - grace:
            wanted += joined(table, heapq.heappop(waiting)[3], kind, same)
    assert results(made, given_records) == wanted


@settings(max_examples=40, deadline=None)
@given(records, KINDS)
def test_a_record_meets_the_row_of_the_selected_key_in_a_global_table(given_records: list[Given], kind: str) -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    join: Callable[..., KStream[str, str]] = getattr(stream, kind)
    join(builder.global_table("right"), told, key_selector=lambda key, value: value[0]).to("out")
    given_records = [
        record if record.stream else record._replace(key=record.key and {"a": "x", "b": "y"}[record.key])
        for record in numbered(given_records)
    ]
    table, wanted = Table(None), []
    for record in given_records:
        if not record.stream:
            table.put(record)
        elif record.value is not None:
            row = table.row(record.value[0], 0)
            if row is not None or kind == "left_join":
                wanted.append((record.key, told(record.value, row), record.timestamp))
    assert results(builder.build(CONFIG), given_records) == wanted


def test_a_joiner_that_raises_drops_the_record_where_the_handler_says_so() -> None:
    def joiner(value: str, row: str | None) -> str:
        raise ValueError(value)

    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    stream.left_join(builder.table("right"), joiner).to("out")
    stream.left_join(builder.global_table("all"), told, key_selector=lambda key, value: value).to("out")
    config = {**CONFIG, "processing.exception.handler": log_and_continue_processing}
    with TopologyTestDriver(builder.build(config), config) as driver:
        driver.create_input_topic("left", S, S).pipe_input("a", "x", timestamp=0)
        assert driver.create_output_topic("out", S, S).read_values() == ["x|None"]


def test_the_joiner_with_the_key_gets_the_stream_s_key_first() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    stream.join_with_key(builder.table("right"), lambda key, x, y: key + x + y).to("out")
    rows = builder.global_table("all")
    stream.left_join_with_key(rows, lambda key, x, y: f"{key}{x}{y}", key_selector=lambda key, value: value).to("out")
    with TopologyTestDriver(builder.build(CONFIG), CONFIG) as driver:
        driver.create_input_topic("right", S, S).pipe_input("k", "r", timestamp=0)
        driver.create_input_topic("left", S, S).pipe_input("k", "l", timestamp=0)
        assert driver.create_output_topic("out", S, S).read_values() == ["klr", "klNone"]


def both() -> tuple[StreamsBuilder, KStream[str, str]]:
    builder = StreamsBuilder()
    return builder, builder.stream("left")


@pytest.mark.parametrize(
    ("join", "words"),
    [
        (
            lambda b, s: s.join(b.table("t"), told, joined=Joined(grace=1)),
            "but 'KTABLE-SOURCE-.*' at .* does not keep them",
        ),
        (
            lambda b, s: s.join(b.table("t", materialized=versioned(9)), told, joined=Joined(grace=10)),
            "grace period of 10 ms needs a table that keeps its versions as long, but the history retention"
            " of .* is 9 ms",
        ),
        (
            lambda b, s: s.join(b.table("t"), told, windows=5),
            "a join with a table has the options joined; windows is for other joins",
        ),
        (lambda b, s: s.join(b.table("t"), told, key_selector=str), "key_selector is for other joins"),
        (lambda b, s: s.join(b.table("t"), 5), "takes a function as its joiner, got 5"),
        (lambda b, s: s.join(b.table("t"), told, joined=5), "expected Joined"),
        (lambda b, s: s.join(StreamsBuilder().table("t"), told), "come from different builders"),
        (lambda b, s: s.join(b.global_table("g"), told), "'KTABLE-SOURCE-.*' needs key_selector"),
        (lambda b, s: s.join(b.global_table("g"), told, key_selector=5), "a function as its key_selector, got 5"),
        (
            lambda b, s: s.join(b.global_table("g"), told, joined="j"),
            "has the options key_selector, name; joined is for other joins",
        ),
        (
            lambda b, s: s.join(StreamsBuilder().global_table("g"), told, key_selector=str),
            "come from different builders",
        ),
        (lambda b, s: Joined(grace=-1), "must not be negative, got -1"),
        (lambda b, s: Joined(name="a b"), "contains a character"),
        (lambda b, s: Joined(key_serde="strings"), r"got 'strings'; did you mean key_serde=.string."),
    ],
)
def test_what_cannot_be_joined_is_refused(join: Callable[[Any, Any], Any], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        join(*both())


def test_a_stream_and_a_table_that_are_not_copartitioned_are_told_with_their_counts() -> None:
    with pytest.raises(TopologyError, match="'left' has 2, 'right' has 3"):
        repartition_counts(topology("join", Materialized(name="t")), {"left": 2, "right": 3})


def test_generated_names_of_buffers_are_refused_where_names_must_be_given() -> None:
    """KIP-1111."""
    builder, stream = both()
    stream.join(builder.table("t", materialized=versioned()), told, joined=Joined(grace=1))
    with pytest.raises(
        TopologyError, match=r"KSTREAM-JOIN-0000000003-Buffer .*name them with StreamJoined, Joined or TableJoined"
    ):
        builder.build({**CONFIG, "ensure.explicit.internal.resource.naming": True})


def test_joins_of_one_stream_without_names_share_a_repartition_topic() -> None:
    """As in Kafka Streams: the topic is named after the stream, and numbers are used up for each join."""
    builder = StreamsBuilder()
    stream = builder.stream("left").select_key(lambda key, value: value)
    for number in range(2):
        stream.join(builder.table(f"t{number}"), told).to("out")
    stream.join(builder.table("t2"), told, joined="own").to("out")
    made = builder.build(CONFIG)
    assert list(made.repartition_topics) == ["KSTREAM-KEY-SELECT-0000000001-repartition", "own-repartition"]
