"""Serdes get the headers that Kafka Streams 4.4.0 gives them (``header_serdes``, recorded by
``tools/golden/header_serdes.py``).

A recording has each call of a serde: whether it writes or reads, the topic for which it is bound, the text and the
headers. Stores here keep values as they are where Java reads and writes them again, so what is compared of a store is
that each call here is one of Java's, and of a topic that all calls are the same.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Repartitioned,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
)
from processor_api.processor import Processor
from processor_api.record import Headers
from processor_api.serde import HeadersSerde, Serde
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from state.formats.windowed_serdes import TimeWindowedSerde
from streams.testing import TopologyTestDriver

RUNS = json.loads(gzip.decompress((Path(__file__).parent / "header_serdes" / "recorded.json.gz").read_bytes()))
Call = tuple[str, str, str, tuple[str, ...]]


def texts(headers: Any) -> tuple[str, ...]:
    return tuple(f"{name}={(value or b'null').decode(errors='backslashreplace')}" for name, value in headers or ())


class Noted(Serde[str]):
    """Text in UTF-8, which notes each call, and may add a header when it writes."""

    def __init__(self, calls: list[Call], adds: bool) -> None:
        super().__init__(str.encode, bytes.decode, name="noted")
        self.calls, self.adds = calls, adds

    def bind(self, topic: str, *, is_key: bool) -> Serde[str]:
        def write(text: str, headers: Headers) -> bytes:
            self.calls.append(("write", topic, text, texts(headers)))
            if self.adds:
                headers.add("w", text.encode())
            return text.encode()

        def read(data: bytes, headers: Headers) -> str:
            self.calls.append(("read", topic, data.decode(), texts(headers)))
            return data.decode()

        return HeadersSerde(write, read, name="noted")


# ----------------------------------------------------------------- the topologies of the recording


def plus(x: Any, y: Any) -> str:
    return f"{'null' if x is None else x}{'null' if y is None else y}"


def minus(x: str, y: str) -> str:
    return f"{x}-{y}"


def windowed(b: StreamsBuilder, s: Serde[str]) -> Any:
    found: Any = source(b, s).group_by_key(Grouped(key_serde=s, value_serde=s))
    found = found.windowed_by(TimeWindows.of_size_with_no_grace(10))
    return found.reduce(plus, materialized=kept("store", s)).to_stream()


def source(b: StreamsBuilder, s: Serde[str], topic: str = "left") -> Any:
    return b.stream(topic, Consumed(key_serde=s, value_serde=s))


def table(b: StreamsBuilder, s: Serde[str], topic: str, store: str) -> Any:
    return b.table(topic, Consumed(key_serde=s, value_serde=s), materialized=kept(store, s))


def kept(store: str, s: Serde[str]) -> Materialized[str, str]:
    return Materialized(name=store, key_serde=s, value_serde=s)


def grouped(found: Any, s: Serde[str]) -> Any:
    return found.group_by_key(Grouped(key_serde=s, value_serde=s)).reduce(plus, materialized=kept("store", s))


def waiting() -> Any:
    return Suppressed.until_time_limit(10, BufferConfig.unbounded()).with_name("wait")


def sinks(b: StreamsBuilder, s: Serde[str]) -> None:
    stream = source(b, s)
    stream.to("one", Produced(key_serde=s, value_serde=s))
    stream.map_values(lambda value: value + "!").to("two", Produced(key_serde=s, value_serde=s))


def out(found: Any, s: Serde[str], key_serde: Serde[Any] | None = None) -> None:
    found.to("out", Produced(key_serde=key_serde or s, value_serde=s))


def by_key(found: Any) -> Any:
    return found.select_key(lambda key, value: key.key)


def sums(found: Any, s: Serde[str]) -> Any:
    groups = found.group_by(lambda key, value: ("g", value), Grouped(key_serde=s, value_serde=s))
    return groups.reduce(plus, minus, materialized=kept("sum", s)).to_stream()


def versioned(b: StreamsBuilder, s: Serde[str]) -> Any:
    supplier = Stores.persistent_versioned_key_value_store("store", 100)
    given: Any = Materialized(supplier=supplier, key_serde=s, value_serde=s)
    return b.table("right", Consumed(key_serde=s, value_serde=s), materialized=given)


def streams(b: StreamsBuilder, s: Serde[str]) -> Any:
    joined: Any = StreamJoined(name="join", store_name="join", key_serde=s, value_serde=s, other_value_serde=s)
    windows = JoinWindows.of_time_difference_and_grace(10, 10)
    return source(b, s).outer_join(source(b, s, "right"), plus, windows=windows, joined=joined)


def foreign(b: StreamsBuilder, s: Serde[str]) -> Any:
    left, right = table(b, s, "left", "one"), table(b, s, "right", "two")
    joined: Any = TableJoined(name="fk")
    return left.foreign_key_left_join(
        right, lambda value: value, plus, joined=joined, materialized=kept("store", s)
    ).to_stream()


def everywhere(b: StreamsBuilder, s: Serde[str]) -> Any:
    right = b.global_table("right", Consumed(key_serde=s, value_serde=s), materialized=kept("store", s))
    return source(b, s).left_join(right, plus, key_selector=lambda key, value: key)


def processed(store: Any, does: Callable[[Any, Any], None]) -> Callable[[StreamsBuilder, Serde[str]], None]:
    class Does(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            self.context = context
            self.store = context.get_state_store("store")

        def process(self, record: Any) -> None:
            does(self.store, record)
            self.context.forward(record)

    def build(b: StreamsBuilder, s: Serde[str]) -> None:
        b.add_state_store(store(s))
        out(source(b, s).process(Does, "store"), s)

    return build


def all_of(rows: Any) -> None:
    with rows:
        list(rows)


def plain(store: Any, r: Any) -> None:
    store.put(r.key, r.value)
    store.get(r.key)
    all_of(store.range("a", "b"))


def timestamped(store: Any, r: Any) -> None:
    store.put(r.key, ValueAndTimestamp(r.value, r.timestamp))
    store.get(r.key)
    all_of(store.all())
    store.delete("b")


def with_headers(store: Any, r: Any) -> None:
    store.put(r.key, ValueTimestampHeaders(r.value, r.timestamp, [("row", r.value.encode())]))
    store.get(r.key)
    all_of(store.all())
    store.delete("b")


def versions(store: Any, r: Any) -> None:
    store.put(r.key, r.value, r.timestamp)
    store.get(r.key)
    store.get(r.key, 1)


def windows(store: Any, r: Any) -> None:
    store.put(r.key, r.value, r.timestamp)
    store.fetch(r.key, r.timestamp)
    all_of(store.fetch_range(r.key, 0, 100))
    all_of(store.all())


def sessions(store: Any, r: Any) -> None:
    store.put(Windowed(r.key, Window(r.timestamp, r.timestamp)), r.value)
    store.fetch_session(r.key, r.timestamp, r.timestamp)
    all_of(store.fetch(r.key))


def with_default_windows(b: StreamsBuilder, s: Serde[str]) -> Any:
    groups: Any = source(b, s).group_by_key(Grouped(key_serde=s, value_serde=s))
    groups = groups.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
    return by_key(groups.reduce(plus, materialized=kept("store", s)).to_stream())


def repartitioned(b: StreamsBuilder, s: Serde[str]) -> None:
    stream = source(b, s).select_key(lambda key, value: value)
    out(stream.repartition(Repartitioned(name="r", key_serde=s, value_serde=s)), s)


def filtered(b: StreamsBuilder, s: Serde[str]) -> None:
    found = table(b, s, "left", "store").filter(lambda key, value: value != "v3", materialized=kept("kept", s))
    out(found.to_stream(), s)


def with_table(b: StreamsBuilder, s: Serde[str]) -> None:
    joined: Any = Joined(key_serde=s, value_serde=s, other_value_serde=s)
    out(source(b, s).left_join(table(b, s, "right", "store"), plus, joined=joined), s)


def with_grace(b: StreamsBuilder, s: Serde[str]) -> None:
    joined: Any = Joined(key_serde=s, value_serde=s, other_value_serde=s, name="join", grace=10)
    out(source(b, s).left_join(versioned(b, s), plus, joined=joined), s)


def tables(b: StreamsBuilder, s: Serde[str]) -> None:
    left, right = table(b, s, "left", "one"), table(b, s, "right", "two")
    out(left.outer_join(right, plus, materialized=kept("store", s)).to_stream(), s)


CASES: dict[str, Callable[[StreamsBuilder, Serde[str]], None]] = {
    "sinks": sinks,
    "repartition": repartitioned,
    "table": lambda b, s: out(table(b, s, "left", "store").to_stream(), s),
    "table-filter": filtered,
    "reduce": lambda b, s: out(grouped(source(b, s), s).to_stream(), s),
    "table-reduce": lambda b, s: out(sums(table(b, s, "left", "store"), s), s),
    "windows": lambda b, s: out(by_key(windowed(b, s)), s),
    "windowed-keys": lambda b, s: out(windowed(b, s), s, TimeWindowedSerde(s, 10)),
    "sessions": lambda b, s: out(with_default_windows(b, s), s),
    "stream-table": with_table,
    "stream-table-grace": with_grace,
    "streams": lambda b, s: out(streams(b, s), s),
    "tables": tables,
    "foreign-key": lambda b, s: out(foreign(b, s), s),
    "suppress": lambda b, s: out(grouped(source(b, s), s).suppress(waiting()).to_stream(), s),
    "suppress-twice": lambda b, s: out(sums(table(b, s, "left", "store").suppress(waiting()), s), s),
    "global": lambda b, s: out(everywhere(b, s), s),
    "key-value-store": processed(
        lambda s: Stores.key_value_store_builder(Stores.persistent_key_value_store("store"), s, s), plain
    ),
    "timestamped-store": processed(
        lambda s: Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("store"), s, s
        ),
        timestamped,
    ),
    "headers-store": processed(
        lambda s: Stores.timestamped_key_value_store_with_headers_builder(
            Stores.persistent_timestamped_key_value_store_with_headers("store"), s, s
        ),
        with_headers,
    ),
    "versioned-store": processed(
        lambda s: Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("store", 100), s, s
        ),
        versions,
    ),
    "window-store": processed(
        lambda s: Stores.window_store_builder(Stores.persistent_window_store("store", 100, 10, False), s, s), windows
    ),
    "session-store": processed(
        lambda s: Stores.session_store_builder(Stores.persistent_session_store("store", 100), s, s), sessions
    ),
}


# ----------------------------------------------------------------- the comparison


def replayed(run: dict[str, Any], engine: str) -> list[tuple[list[Call], list[Any]]]:
    """The calls and the records sent, of each input."""
    config = {
        "application.id": "app",
        "dsl.java.defects": "keep",
        "dsl.store.format": run["format"],
        "default.dsl.store": engine,
        "statestore.cache.max.bytes": 10_000_000 if run["cached"] else 0,
    }
    calls: list[Call] = []

    def topology(given: Any) -> Any:
        builder = StreamsBuilder(given)
        CASES[run["case"]](builder, Noted(calls, run["adds"]))
        return builder.build(given)

    found = []
    with TopologyTestDriver(topology, config) as driver:
        for step in run["steps"]:
            topic, key, value, timestamp, number = step["input"]
            calls.clear()
            data = None if value == "null" else value.encode()
            driver.pipe_raw(topic, key.encode(), data, timestamp, [("n", str(number).encode())])
            sent = [
                (name, record.key, record.value, record.timestamp, texts(record.headers))
                for name in sorted(driver.produced_topic_names())
                for record in driver.create_output_topic(name, "bytes", "bytes").read_records()
            ]
            found.append((list(calls), sent))
    return found


def java_calls(run: dict[str, Any], step: int) -> list[Call]:
    return [(call, topic, text, tuple(headers)) for call, topic, text, headers in run["steps"][step]["calls"]]


def of_topics(calls: list[Call]) -> list[Call]:
    """The calls for topics whose records a source reads or a sink writes; the driver has another order of topics."""
    names = ("left", "right", "out", "one", "two")
    ends = ("-repartition", "-response-topic", "-registration-topic")
    return sorted(call for call in calls if call[1] in names or call[1].endswith(ends))


def differences(run: dict[str, Any], step: int, java: list[Call]) -> set[Call]:
    """The calls that Java does not make so, each with its reason (semantics 193)."""
    number, found = run["steps"][step]["input"][-1], set[Call]()
    plain = next(
        one for one in RUNS if {**one, "steps": 0, "after": 0} == {**run, "format": "DEFAULT", "steps": 0, "after": 0}
    )
    for call, topic, text, headers in java_calls(plain, step):
        if text in ("a", "b", "g", "x", "y"):
            found.add((call, topic, text, headers))  # keys in stores with headers, as in all others
    for call, topic, text, headers in java:
        if topic.endswith("-join-store-changelog") and call == "read":
            found.add((call, topic, text, (f"n={number}",)))  # Java gives none where it reads windows of a key
        if topic == "right" and run["case"] == "global":
            found.add((call, topic, text, ()))  # Java gives those of the last record of the global topic
        if topic == "join":
            found.add((call, "app-join-Buffer-changelog", text, headers))  # the store's topic, not its name
        if run["case"] == "headers-store" and text in ("a", "b"):
            found.add((call, topic, text, (f"n={number}",)))  # keys in stores with headers, as in all others
    return found


@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("case", CASES)
def test_serdes_get_the_headers_that_java_gives_them(case: str, engine: str) -> None:
    for run in RUNS:
        if run["case"] != case or run["adds"]:
            continue
        name = f"{case}, {'cached' if run['cached'] else 'not cached'}, {run['format']}"
        for step, (calls, _) in enumerate(replayed(run, engine)):
            java = java_calls(run, step)
            if case != "global":  # whose store is bound to the topic
                assert of_topics(calls) == of_topics(java), name
            unknown = set(calls) - set(java) - differences(run, step, java)
            assert not unknown, (
                name,
                run["steps"][step]["input"],
                sorted(unknown),
                [c for c in java if c[1] == min(unknown)[1]],
            )


@pytest.mark.parametrize("case", ["sinks", "repartition", "table", "reduce", "sessions", "streams"])
def test_what_serdes_add_is_written_with_their_record_alone(case: str) -> None:
    """Kafka Streams adds it to the headers that all later nodes and stores see too."""
    for run in RUNS:
        if run["case"] != case or not run["adds"]:
            continue
        with_header, without = replayed(run, "in_memory"), replayed({**run, "adds": False}, "in_memory")
        for (_, sent), (_, plain) in zip(with_header, without, strict=True):
            for (topic, key, value, _, headers), (*_, before) in zip(sent, plain, strict=True):
                if topic in ("one", "two", "out", "app-r-repartition"):
                    added = [f"w={text.decode()}" for text in (key, value) if text is not None]
                    twice = topic == "out" and case == "repartition"  # written for both topics
                    assert headers == (*before, *added, *(added if twice else ()))
                elif run["format"] == "HEADERS" and value is not None and topic == "app-store-changelog":
                    assert headers == (*before, f"w={value.decode()}")
                else:
                    assert headers == before


def test_a_subscription_has_the_headers_with_which_the_key_in_it_is_read() -> None:
    """As in Kafka Streams, where each serde adds to the headers of the record."""
    for run in RUNS:
        if run["case"] != "foreign-key" or not run["adds"]:
            continue
        for step, (_, sent) in zip(run["steps"], replayed(run, "in_memory"), strict=True):
            topic, key = step["input"][:2]
            for name, _, value, _, headers in sent:
                if topic == "left" and name == "app-fk-subscription-registration-topic" and value is not None:
                    assert f"w={key}" in headers
