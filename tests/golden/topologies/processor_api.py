"""Topologies with users' processors, by hand and below streams, beside the Java text in the recordings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dsl import Materialized, Produced, StreamsBuilder
from golden_support.calls import call
from golden_support.user_code import StringProcessor, StringRecord, Twice
from processor_api.context import ProcessorContext
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

COUNTS: Materialized[str, int] = Materialized(name="n", key_serde=S, value_serde=L)
TO_LONGS: Produced[str, int] = Produced(key_serde=S, value_serde=L)


class Route(StringProcessor):
    """Chooses children by the value."""

    def process(self, record: StringRecord) -> None:
        forward = self.context.forward
        if record.value is None:
            forward(record.with_value("none"), "rest")
        elif record.value == "p":
            forward(record.with_timestamp(record.timestamp + 100), "ps")
        elif record.value == "q":
            forward(record.with_key("Q").with_headers([("new", b"1")]))
        else:
            forward(record, "rest")
            forward(record.with_value(record.value + "2"), "ps")


def papi_forward_named_children(config: Any) -> Topology:
    return (
        Topology()
        .add_source("src", "input", key_serde=S, value_serde=S)
        .add_processor("route", Route, "src")
        .add_sink("ps", "out-p", "route", key_serde=S, value_serde=S)
        .add_sink("rest", "out-rest", "route", key_serde=S, value_serde=S)
    )


class PutShared(StringProcessor):
    """Stores values, and asks for a commit each time."""

    def process(self, record: StringRecord) -> None:
        if record.key is not None:
            self.context.get_state_store("shared").put(record.key, record.value)
        self.context.commit()


class GetShared(StringProcessor):
    """Appends what is stored for the key."""

    def process(self, record: StringRecord) -> None:
        if record.key is None:
            self.context.forward(record.with_value("no-key"))
        else:
            found = self.context.get_state_store("shared").get(record.key)
            self.context.forward(record.with_value(f"{_java(record.value)}/{_java(found)}"))


def _java(value: str | None) -> str:
    """A value as Java joins it into a string."""
    return "null" if value is None else value


def papi_shared_store(config: Any) -> Topology:
    return (
        Topology()
        .add_source("s1", "left", key_serde=S, value_serde=S)
        .add_source("s2", "right", key_serde=S, value_serde=S)
        .add_processor("put", PutShared, "s1")
        .add_processor("get", GetShared, "s2")
        .add_state_store(
            Stores.key_value_store_builder(Stores.persistent_key_value_store("shared"), S, S), "put", "get"
        )
        .add_sink("sink", "output", "get", key_serde=S, value_serde=S)
    )


class Pass(Processor[Any, Any, Any, Any]):
    """Forwards what it gets."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def describe_papi(config: Any) -> Topology:
    return (
        Topology()
        .add_source("s1", "b", "a")
        .add_source("s2", re.compile("x-[0-9]+"))
        .add_processor("p1", Pass, "s1", "s2")
        .add_processor("p2", Pass, "p1")
        .add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("st"), S, S), "p1", "p2")
        .add_sink("k1", "out", "p1", "p2")
        .add_sink("k2", lambda key, value, context: "x", "p2")
    )


# --------------------------------------------------------- below streams of the DSL


def kv(name: str) -> StoreBuilder[str, str]:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), S, S)


def shared_store_dsl(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(kv("shared"))
    builder.stream("left").process(PutShared, "shared", name="put")
    right = builder.stream("right").filter(lambda k, v: k is not None)
    right.process(GetShared, "shared", name="get").to("output")
    return builder.build(config)


def sharing(processor: type[Any], store: StoreBuilder[Any, Any]) -> Any:
    """A supplier whose ``stores()`` gives a builder that it shares with others."""
    return type(f"Sharing{processor.__name__}", (processor,), {"stores": staticmethod(lambda: [store])})


def shared_builder(config: Any) -> Topology:
    builder, store = StreamsBuilder(), kv("shared")
    builder.stream("left").process(sharing(PutShared, store), name="put")
    builder.stream("right").process(sharing(GetShared, store), name="get").to("output")
    return builder.build(config)


def shared_builder_topology(config: Any) -> Topology:
    store = kv("shared")
    return (
        Topology()
        .add_source("s1", "left", key_serde=S, value_serde=S)
        .add_source("s2", "right", key_serde=S, value_serde=S)
        .add_processor("put", sharing(PutShared, store), "s1")
        .add_processor("get", sharing(GetShared, store), "s2")
        .add_sink("sink", "output", "get", key_serde=S, value_serde=S)
    )


class Scans(StringProcessor):
    """Reads ranges of a store, forwards and backwards, and what starts with a prefix."""

    def process(self, record: StringRecord) -> None:
        if record.key is None:
            return
        store = self.context.get_state_store("kv")
        key = record.key + (record.value or "")
        text = f"old={_java(store.put_if_absent(key, record.value))}"
        text += f" range={_keys(store.range('a', 'bq'))}"
        text += f" reverse={_keys(store.reverse_range('aq', None))}"
        text += f" prefix={_keys(store.prefix_scan('b', S))}"
        text += f" all={_keys(store.reverse_all())}"
        if record.value == "t":
            text += f" deleted={_java(store.delete(record.key + 'p'))}"
        self.context.forward(record.with_value(text))


def _keys(rows: Any) -> str:
    with rows:
        return "".join(f"{key}," for key, _ in rows)


def scans(store: StoreBuilder[str, str]) -> Callable[[Any], Topology]:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        builder.add_state_store(store)
        builder.stream("input").process(Scans, "kv").to("output")
        return builder.build(config)

    return build


def process_marks_repartition(config: Any) -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("input").process(Twice).group_by_key().count(materialized=COUNTS)
    counts.to_stream().to("output", TO_LONGS)
    return builder.build(config)


def timestamps_headers(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").process(Twice, name="twice").to("output")
    return builder.build(config)


class Dedup(FixedKeyProcessor[str | None, str | None, str]):
    """Tells changes of value, with the value before and its time."""

    @classmethod
    def stores(cls) -> list[StoreBuilder[str, str]]:
        supplier = Stores.persistent_timestamped_key_value_store("last")
        return [Stores.timestamped_key_value_store_builder(supplier, S, S)]

    def process(self, record: FixedKeyRecord[str | None, str | None]) -> None:
        if record.key is None or record.value is None:
            self.context.forward(record.with_value("?").with_timestamp(record.timestamp + 1))
            return
        store = self.context.get_state_store("last")
        old = store.get(record.key)
        store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))
        if old is None or old.value != record.value:
            before = "null" if old is None else f"{old.value}@{old.timestamp}"
            self.context.forward(record.with_value(f"{before}->{record.value}"))


def process_values(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input").process_values(Dedup)
    stream.to("changes")
    stream.group_by_key().count(materialized=COUNTS).to_stream().to("output", TO_LONGS)
    return builder.build(config)


# ------------------------------------------------------------------- punctuations


class Punctuating(Processor[str | None, str | None, str, int]):
    """Counts per key, and forwards all counts by both kinds of time."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.store = context.get_state_store("n")
        context.schedule(20, PunctuationType.STREAM_TIME, lambda now: self.punctuate("stream", now))
        context.schedule(500, PunctuationType.WALL_CLOCK_TIME, lambda now: self.punctuate("wall", now))

    def punctuate(self, kind: str, now: int) -> None:
        there = _java_bool(self.context.record_metadata is not None)
        call(f"{kind} {now} streamTime={self.context.current_stream_time_ms()} meta={there}")
        with self.store.all() as rows:
            for key, count in rows:
                self.context.forward(Record(f"{kind}-{key}", count, now))

    def process(self, record: StringRecord) -> None:
        if record.key is None:
            return
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)
        if record.value == "t":
            self.store.delete(record.key)


def _java_bool(value: bool) -> str:
    return "true" if value else "false"


def punctuate(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("n"), S, L))
    builder.stream("input").process(Punctuating, "n").to("output", TO_LONGS)
    return builder.build(config)


class Anchored(StringProcessor):
    """Punctuations on grids that start at a given time."""

    def init(self, context: ProcessorContext[str | None, str | None]) -> None:
        super().init(context)
        stream, wall = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME
        context.schedule(10, stream, lambda now: call(f"stream13 {now}"), start_time=13)
        context.schedule(100, wall, lambda now: call(f"wall100250 {now}"), start_time=100_250)
        context.schedule(100, wall, lambda now: call(f"wall99930 {now}"), start_time=99_930)

    def process(self, record: StringRecord) -> None:
        self.context.forward(record)


class Cancelling(StringProcessor):
    """The first punctuation ends itself at its third call, and starts another one."""

    def init(self, context: ProcessorContext[str | None, str | None]) -> None:
        super().init(context)
        self.calls = 0
        self.handle = context.schedule(10, PunctuationType.STREAM_TIME, self.first)
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda now: call(f"wall10 {now}"))
        context.schedule(15, PunctuationType.WALL_CLOCK_TIME, lambda now: call(f"wall15 {now}"))

    def first(self, now: int) -> None:
        self.calls += 1
        call(f"first {now}")
        if self.calls == 3:
            self.handle.cancel()
            self.context.schedule(7, PunctuationType.STREAM_TIME, lambda then: call(f"second {then}"))

    def process(self, record: StringRecord) -> None:
        self.context.forward(record)


def processed_by(processor: type[StringProcessor]) -> Callable[[Any], Topology]:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        builder.stream("input").process(processor).to("output")
        return builder.build(config)

    return build


CASES: dict[str, Callable[[Any], Topology]] = {
    "papi-forward-named-children": papi_forward_named_children,
    "papi-shared-store": papi_shared_store,
    "describe-papi": describe_papi,
    "papi-kv-scans": scans(kv("kv").with_caching_enabled()),
    "papi-kv-scans-in-memory": scans(Stores.key_value_store_builder(Stores.in_memory_key_value_store("kv"), S, S)),
    "papi-process-marks-repartition": process_marks_repartition,
    "papi-processvalues": process_values,
    "papi-punctuate": punctuate,
    "papi-punctuate-anchored": processed_by(Anchored),
    "papi-punctuate-cancel": processed_by(Cancelling),
    "papi-shared-store-dsl": shared_store_dsl,
    "papi-shared-builder": shared_builder,
    "papi-shared-builder-topology": shared_builder_topology,
    "papi-timestamps-headers": timestamps_headers,
}
