"""The law of serdes holds wherever keys and values are: in joins, groupings, stores, windows, messages of foreign keys.

What goes in comes out equal, or was refused by an error that names the serde. With ids in headers, everything inside of
a message or a store has the very bytes that it has with ids in front.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry_server import KeptRegistry
from registry_support.drawn import Case, cases, good_records, same, serde
from serde_support.registry_values import BERLIN, NOON, Derived, DictKey, Key
from streams import (
    Avro,
    BufferConfig,
    Grouped,
    Headers,
    JoinWindows,
    JsonSchema,
    KStream,
    KTable,
    Materialized,
    Processor,
    Produced,
    Record,
    Repartitioned,
    SchemaRegistry,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    Window,
    Windowed,
    WindowedSerdes,
    list_serde,
)
from streams.serdes.model_forms import difference

FAR = 1_000_000
"""A time behind all windows: a record of then brings out all that waits."""
WINDOW = 10
ID_SIZE, GUID_SIZE = 5, 17
ROUNDS = 3 if settings.default.derandomize else 30
"""Draws of each place."""
LONG = 100


# ------------------------------------------------------------------------------ places


@dataclass
class House:
    """A topology with a place that is tried, and how its topics are filled."""

    key: Any
    value: Any
    records: list[tuple[Any, Any]]
    builder: Any = None
    tables: list[str] = field(default_factory=list)
    """Topics that are filled before the stream, in their order."""
    out_key: Any = None
    out_value: Any = None

    def __post_init__(self) -> None:
        self.builder = StreamsBuilder(key_serde=self.key, value_serde=self.value)

    def stream(self) -> KStream[Any, Any]:
        """Returns the records, each made of its number."""
        numbers = self.builder.stream("numbers", key_serde="integer", value_serde="integer")
        return numbers.map(lambda _, number: self.records[number])  # type: ignore[no-any-return]

    def table(self, topic: str, **options: Any) -> KTable[Any, Any]:
        self.tables.append(topic)
        return self.builder.table(topic, **options)  # type: ignore[no-any-return]

    def out(self, given: Any, key: Any = None, value: Any = None) -> None:
        self.out_key, self.out_value = key or self.key, value or self.value
        stream = given.to_stream() if isinstance(given, KTable) else given
        stream.to("out", Produced(key_serde=self.out_key, value_serde=self.out_value))


Shown = Callable[[Any, list[Any]], tuple[Any, Any]]
"""Takes a key with all its values, and returns the last record that comes out."""


def last(key: Any, values: list[Any]) -> tuple[Any, Any]:
    return key, values[-1]


def pair(key: Any, values: list[Any]) -> tuple[Any, Any]:
    return key, [values[-1], values[-1]]


def newest(old: Any, new: Any) -> Any:
    return new


def both(left: Any, right: Any) -> Any:
    return [left, right]


def sink(house: House) -> Shown:
    house.out(house.stream())
    return last


def source(house: House) -> Shown:
    house.tables.append("in")
    house.out(house.builder.stream("in"))
    return last


def lists(house: House) -> Shown:
    keys, values = list_serde(house.key), list_serde(house.value)
    listed = house.stream().map(lambda key, value: ([key], [value, None, value]))
    house.out(listed.repartition(Repartitioned(key_serde=keys, value_serde=values)), keys, values)
    return lambda key, values: ([key], [values[-1], None, values[-1]])


def repartition(house: House) -> Shown:
    house.out(house.stream().repartition(Repartitioned(name="moved")))
    return last


def reduction(house: House) -> Shown:
    house.out(house.stream().group_by_key().reduce(newest, materialized="sums"))
    return last


def aggregation(house: House) -> Shown:
    kept: Any = Materialized(name="lists", value_serde=list_serde(house.value))
    grouped = house.stream().group_by(lambda key, _: key)
    house.out(
        grouped.aggregate(list, lambda _, new, old: [*old, new], materialized=kept), value=list_serde(house.value)
    )
    return lambda key, values: (key, values)


def windows(house: House) -> Shown:
    windowed = house.stream().group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(WINDOW))
    house.out(windowed.reduce(newest), WindowedSerdes.time_windowed_serde_from(house.key, WINDOW))
    return lambda key, values: (Windowed(key, Window(0, WINDOW)), values[-1])


def sessions(house: House) -> Shown:
    windowed = house.stream().group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(WINDOW))
    house.out(windowed.reduce(newest), WindowedSerdes.session_windowed_serde_from(house.key))
    return lambda key, values: (Windowed(key, Window(0, 0)), values[-1])


def closed_windows(house: House) -> Shown:
    windowed = house.stream().group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(WINDOW))
    kept = windowed.reduce(newest).suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    house.out(kept, WindowedSerdes.time_windowed_serde_from(house.key, WINDOW))
    return lambda key, values: (Windowed(key, Window(0, WINDOW)), values[-1])


def suppression(house: House) -> Shown:
    sums = house.stream().group_by_key().reduce(newest)
    house.out(sums.suppress(Suppressed.until_time_limit(WINDOW, BufferConfig.unbounded())))
    return last


def versions(house: House) -> Shown:
    store = Stores.persistent_versioned_key_value_store("versions", 2 * FAR)
    house.out(house.stream().to_table(materialized=Materialized(supplier=store)))
    return last


def tables(house: House) -> Shown:
    house.out(house.table("in").filter(lambda *_: True, materialized="filtered"))
    return last


def stream_join(house: House) -> Shown:
    stream = house.stream()
    within = JoinWindows.of_time_difference_with_no_grace(WINDOW)
    house.out(stream.join(stream, both, windows=within, joined=StreamJoined(name="j")), value=list_serde(house.value))
    return pair


def left_stream_join(house: House) -> Shown:
    stream, none = house.stream(), house.stream().filter(lambda *_: False)
    within = JoinWindows.of_time_difference_with_no_grace(WINDOW)
    house.out(stream.left_join(none, both, windows=within), value=list_serde(house.value))
    return lambda key, values: (key, [values[-1], None])


def outer_stream_join(house: House) -> Shown:
    stream, none = house.stream(), house.stream().filter(lambda *_: False)
    within = JoinWindows.of_time_difference_with_no_grace(WINDOW)
    house.out(none.outer_join(stream, both, windows=within), value=list_serde(house.value))
    return lambda key, values: (key, [None, values[-1]])


def stream_table_join(house: House) -> Shown:
    house.out(house.stream().join(house.table("in"), both), value=list_serde(house.value))
    return pair


def repartitioned_join(house: House) -> Shown:
    moved = house.stream().select_key(lambda key, _: key)
    house.out(moved.left_join(house.table("in"), both), value=list_serde(house.value))
    return pair


def table_join(house: House) -> Shown:
    kept: Any = Materialized(name="joined", value_serde=list_serde(house.value))
    joined = house.table("in").join(house.table("more"), both, materialized=kept)
    house.out(joined, value=list_serde(house.value))
    return pair


def outer_table_join(house: House) -> Shown:
    joined = house.table("in").outer_join(house.table("more"), both)
    house.out(joined, value=list_serde(house.value))
    return pair


def foreign_key_join(house: House) -> Shown:
    left, right = house.table("in"), house.table("more")
    kept: Any = Materialized(name="joined", value_serde=list_serde(house.value))
    house.out(
        left.foreign_key_join_with_key(right, lambda key, _: key, both, materialized=kept),
        value=list_serde(house.value),
    )
    return pair


def foreign_left_join(house: House) -> Shown:
    """Rows refer to each other in a table that is made of a stream, and right rows come first."""
    right, left = house.table("more"), house.table("in")
    house.out(left.foreign_key_left_join_with_key(right, lambda key, _: key, both), value=list_serde(house.value))
    return pair


def grouped_table(house: House) -> Shown:
    grouped = house.table("in").group_by(lambda key, value: (key, value), Grouped(name="grouped"))
    house.out(grouped.reduce(newest, lambda old, gone: old, materialized="sums"))
    return last


def global_join(house: House) -> Shown:
    house.tables.append("shared")
    shared = house.builder.global_table("shared")
    house.out(house.stream().left_join(shared, both, key_selector=lambda key, _: key), value=list_serde(house.value))
    return pair


def cogroup(house: House) -> Shown:
    grouped = house.stream().group_by_key()
    kept: Any = Materialized(name="all", value_serde=list_serde(house.value))
    lists = grouped.cogroup(lambda _, new, old: [*old, new]).aggregate(list, materialized=kept)
    house.out(lists, value=list_serde(house.value))
    return lambda key, values: (key, values)


def deduplication(house: House) -> Shown:
    house.out(house.stream().deduplicate(within=WINDOW, id_selector=lambda _, value: "same"))
    return lambda key, values: (key, values[0])


class Keep(Processor[Any, Any, Any, Any]):
    """Puts each record into stores of each kind, and forwards what they have."""

    def process(self, record: Record[Any, Any]) -> None:
        found = []
        for name, put in KEPT.items():
            found.append(put(self.context.get_state_store(name), record.key, record.value))
        self.context.forward(record.with_value(found))


def _put(store: Any, key: Any, value: Any) -> Any:
    store.put(key, value)
    return store.get(key)


def _put_window(store: Any, key: Any, value: Any) -> Any:
    store.put(key, value, 0)
    with store.all() as rows:
        assert [row for row, _ in rows if difference(row.key, key) is None]
    return store.fetch(key, 0)


def _put_session(store: Any, key: Any, value: Any) -> Any:
    store.put(Windowed(key, Window(0, 0)), value)
    return store.fetch_session(key, 0, 0)


KEPT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "plain": _put,
    "in-memory": _put,
    "of-windows": _put_window,
    "of-sessions": _put_session,
}


def processor_stores(house: House) -> Shown:
    serdes = (house.key, house.value)
    suppliers = [
        Stores.key_value_store_builder(Stores.persistent_key_value_store("plain"), *serdes),
        Stores.key_value_store_builder(Stores.in_memory_key_value_store("in-memory"), *serdes),
        Stores.window_store_builder(Stores.persistent_window_store("of-windows", 2 * FAR, WINDOW), *serdes),
        Stores.session_store_builder(Stores.persistent_session_store("of-sessions", 2 * FAR), *serdes),
    ]
    for supplier in suppliers:
        house.builder.add_state_store(supplier)
    house.out(house.stream().process(Keep, *KEPT), value=list_serde(house.value))
    return lambda key, values: (key, [values[-1]] * len(KEPT))


PLACES: dict[str, Callable[[House], Shown]] = {
    place.__name__: place
    for place in (
        sink, source, lists, repartition, reduction, aggregation, windows, sessions, closed_windows, suppression,
        versions, tables, stream_join, left_stream_join, outer_stream_join, stream_table_join, repartitioned_join,
        table_join, outer_table_join, foreign_key_join, foreign_left_join, grouped_table, global_join, cogroup,
        deduplication, processor_stores,
    )
}  # fmt: skip
SETTINGS = st.fixed_dictionaries(
    {
        "dsl.store.format": st.sampled_from(["DEFAULT", "HEADERS"]),
        "statestore.cache.max.bytes": st.sampled_from([0, 1 << 20]),
        "topology.optimization": st.sampled_from(["none", "all"]),
    }
)

# ------------------------------------------------------------------------------ the law


class Seen(NamedTuple):
    house: House
    shown: Shown
    topics: dict[str, list[Any]]
    """Raw records by topic."""
    error: Exception | None
    """Of the refused record, which came last."""


def run(place: str, ids: str, case: Case, records: list[Any], refused: Any, config: dict[str, Any]) -> Seen:
    """Runs a topology on records, and then on one that is refused."""
    house = House(serde(case.key, ids), serde(case.value, ids), [*records, *filter(None, [refused])])
    shown = PLACES[place](house)
    error = None
    with TopologyTestDriver(house.builder.build(config), config) as driver:
        inputs = [driver.create_input_topic(topic) for topic in house.tables]
        has_numbers = "numbers" in driver_sources(house)
        numbers = driver.create_input_topic("numbers", "integer", "integer") if has_numbers else None
        for topic in inputs:
            for key, value in records:
                topic.pipe_input(key, value, 0)
        for number in range(len(records)) if numbers else ():
            numbers.pipe_input(0, number, 0)  # type: ignore[union-attr]
        if numbers and records:
            numbers.pipe_input(0, len(records) - 1, FAR)
        topics = driver.take_produced()
        if refused is not None:
            try:
                if numbers:
                    numbers.pipe_input(0, len(records), FAR)
                else:
                    inputs[0].pipe_input(*refused, FAR)
            except (StreamsError, TypeError, ValueError) as found:
                error = found
    return Seen(house, shown, topics, error)


def driver_sources(house: House) -> set[str]:
    return {one for node in house.builder.build().nodes.values() for one in getattr(node, "topics", ())}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=LONG, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), config=SETTINGS)
def test_what_goes_in_comes_out_or_was_refused_for_long(place: str, case: Case, config: dict[str, Any]) -> None:
    check_place(place, case, config)


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=ROUNDS, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(), config=SETTINGS)
def test_what_goes_in_comes_out_or_was_refused(place: str, case: Case, config: dict[str, Any]) -> None:
    check_place(place, case, config)


def check_place(place: str, case: Case, config: dict[str, Any]) -> None:
    key, value = serde(case.key, "prefix"), serde(case.value, "prefix")
    good = good_records(case)
    known = set(map(id, good))
    refused = next((one for one in case.records if id(one) not in known and None not in one), None)
    seen = {ids: run(place, ids, case, good, refused, config) for ids in ("prefix", "header")}
    for ids, each in seen.items():
        check_results(each, good, key.bind("reference", is_key=True))
        if refused is not None:
            assert each.error is not None, f"{ids}: {refused} was not refused"
            assert any(one.name in str(each.error) for one in (key, value)), each.error
    check_bytes(seen["prefix"].topics, seen["header"].topics)


def check_results(seen: Seen, records: list[Any], key_serde: Any) -> None:
    by_key: dict[bytes, list[Any]] = {}
    for record in records:
        by_key.setdefault(key_serde.serialize(record[0]), []).append(record)
    house = seen.house
    key_out, value_out = house.out_key.bind("out", is_key=True), house.out_value.bind("out", is_key=False)
    expected = {}
    for rows in by_key.values():
        key, value = seen.shown(rows[-1][0], [row[1] for row in rows])
        headers: Any = Headers()
        expected[key_out.with_headers(headers).serialize(key)] = key, value
    found = {}
    for raw in seen.topics.get("out", []):
        if raw.timestamp < FAR or raw.key not in found:
            found[raw.key] = raw
    keys = {key for key in found if not is_of_the_end(house, key_out, found[key])}
    assert keys == expected.keys()
    for data in keys:
        raw, (key, value) = found[data], expected[data]
        read_key = key_out.with_headers(Headers(raw.headers)).deserialize(raw.key)
        read_value = value_out.with_headers(Headers(raw.headers)).deserialize(raw.value)
        assert same(read_key, key)
        assert same(read_value, value)


def is_of_the_end(house: House, serde: Any, raw: Any) -> bool:
    """Whether a record is of the window of the last record, which only closes the others."""
    key = serde.with_headers(Headers(raw.headers)).deserialize(raw.key)
    return isinstance(key, Windowed) and key.window.start > 0


def check_bytes(prefix: dict[str, list[Any]], header: dict[str, list[Any]]) -> None:
    """Ids are in headers only of the whole key and value of a record of a sink or a repartition topic."""
    assert prefix.keys() == header.keys()
    for topic, records in prefix.items():
        assert len(records) == len(header[topic]), topic
        for one, other in zip(records, header[topic], strict=True):
            ids = {name: value for name, value in other.headers if name in ID_HEADERS.values()}
            for part, name in ID_HEADERS.items():
                before, after = getattr(one, part), getattr(other, part)
                if name in ids:
                    assert not topic.endswith("-changelog"), topic
                    # The place of a message in its file goes with the id.
                    assert after == before[ID_SIZE + len(ids[name]) - GUID_SIZE :], topic
                else:
                    assert after == before, topic
            assert [each for each in other.headers if each[0] not in ids] == one.headers, topic


ID_HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}


# ------------------------------------------------------------------------------ dead letters

CONTINUES = {
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "errors.dead.letter.queue.topic.name": "dead",
}


@pytest.mark.parametrize("ids", ["prefix", "header"])
@settings(max_examples=3 * ROUNDS)
@given(case=cases(), cut=st.integers(0, 3), fails=st.booleans())
def test_a_dead_letter_is_the_record_that_came(ids: str, case: Case, cut: int, fails: bool) -> None:
    """Whether its value cannot be read, since its end is missing, or a function fails behind the serdes."""
    key, value = serde(case.key, ids), serde(case.value, ids)

    def sent(record: tuple[Any, Any]) -> tuple[bytes, bytes, Headers]:
        headers = Headers([("trace", b"7")])
        written = [
            one.bind("in", is_key=is_key).with_headers(headers).serialize(part)
            for one, part, is_key in zip((key, value), record, (True, False), strict=True)
        ]
        return written[0], written[1][: len(written[1]) - cut], headers

    def passed(given_value: Any) -> Any:
        if fails:
            raise LookupError("as the test wants it")
        return given_value

    house = House(key, value, [])
    house.builder.stream("in").map_values(passed).to("out")
    records = [sent(one) for one in good_records(case)]
    with TopologyTestDriver(house.builder.build(CONTINUES), CONTINUES) as driver:
        for data, body, headers in records:
            driver.pipe_raw("in", data, body, 0, list(headers))
        topics = driver.take_produced()
    out, dead = topics.get("out", []), topics.get("dead", [])
    letters = [(one.key, one.value, [each for each in one.headers if not each[0].startswith(ERRORS)]) for one in dead]
    came = [(data, body, list(headers)) for data, body, headers in records]
    assert len(out) + len(letters) == len(came)
    assert [one for one in came if one in letters] == letters
    assert not (fails and out), "the function fails for all"
    assert cut or fails or not letters, "whole records are read"


ERRORS = "__streams.errors."

# ------------------------------------------------------------------------------ other processes

KEYS_ELSEWHERE = """
import sys
from serde_support.registry_values import NOON, Derived, DictKey, Key
from streams import Avro, JsonSchema, SchemaRegistry

registry = SchemaRegistry(sys.argv[1], subject_name_strategy="topic")
for make, key in ((Avro, Key), (JsonSchema, Key), (JsonSchema, DictKey)):
    value = DictKey(more={"b": 1, "a": 2}, tags=frozenset("gh")) if key is DictKey else Key(
        price="1.50", at=NOON, tags=frozenset("abcdef"), choice=Derived(a=1, b=2)
    )
    print(make(key, registry=registry).bind("elsewhere", is_key=True).serialize(value).hex())
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_keys_that_another_process_has_written_join(seed: int) -> None:
    """With times in another zone here, and sets and dicts that were filled in another order."""
    noon = NOON.astimezone(BERLIN)
    keys = [
        (make, Key(price=Decimal("1.5"), at=noon, tags=frozenset("fedcba"), choice=Derived(a=1, b=2)))
        for make in (Avro, JsonSchema)
    ]
    keys.append((JsonSchema, DictKey(more={"a": 2, "b": 1}, tags=frozenset("hg"))))
    root = Path(__file__).parents[2]
    with KeptRegistry([]) as server:
        folders = map(str, (root, root / "tests/support"))
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(folders)}
        command = [sys.executable, "-c", KEYS_ELSEWHERE, server.url]
        written = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout.split()
        registry = SchemaRegistry(server.url, subject_name_strategy="topic")
        for (make, key), data in zip(keys, written, strict=True):
            builder = StreamsBuilder(key_serde=make(type(key), registry=registry), value_serde="string")
            table = builder.table("table", materialized="table")
            builder.stream("elsewhere").join(table, lambda left, right: f"{left} {right}").to("out")
            with TopologyTestDriver(builder) as driver:
                driver.create_input_topic("table").pipe_input(key, "here")
                driver.pipe_raw("elsewhere", bytes.fromhex(data), b"there", 0)
                assert driver.create_output_topic("out").read_values() == ["there here"]
