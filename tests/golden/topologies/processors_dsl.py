"""Users' processors between operators of the DSL, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dsl import Materialized, Produced, StreamsBuilder
from golden_support.calls import call
from processor_api.context import ProcessorContext
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.punctuation import Cancellable, PunctuationType
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serdes
from processor_api.store_spec import StoreBuilder, Stores
from processor_api.stores import ValueAndTimestamp
from processor_api.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME

TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)

Text = str | None
TextProcessor = Processor[Text, Text, Text, Text]
TextRecord = Record[Text, Text]


def java(value: Text) -> str:
    """A value as Java joins it into a string."""
    return "null" if value is None else value


def strings(name: str) -> StoreBuilder[str, str]:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), S, S)


def counts() -> Materialized[str, int]:
    return Materialized(name="n", key_serde=S, value_serde=L)


class Twice(TextProcessor):
    """Forwards a record twice, with one more header, and tells what the context says."""

    def process(self, record: TextRecord) -> None:
        context = self.context
        record.headers.add("seen", b"1")
        context.forward(record.with_timestamp(record.timestamp + 7).with_value("later"))
        context.forward(record)
        metadata = context.record_metadata
        place = "none" if metadata is None else f"{metadata.topic}/{metadata.partition}/{metadata.offset}"
        call(f"stream={context.current_stream_time_ms()} system={context.current_system_time_ms()} {place}")


class Dedup(FixedKeyProcessor[Text, Text, str]):
    """Forwards changes of values only, and how they came about."""

    def process(self, record: FixedKeyRecord[Text, Text]) -> None:
        if record.key is None or record.value is None:
            self.context.forward(record.with_value("?").with_timestamp(record.timestamp + 1))
            return
        store = self.context.get_state_store("last")
        old = store.get(record.key)
        store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))
        if old is None or old.value != record.value:
            shown = "null" if old is None else f"{old.value}@{old.timestamp}"
            self.context.forward(record.with_value(f"{shown}->{record.value}"))


class DedupSupplier:
    """Brings its store along."""

    def __call__(self) -> Dedup:
        return Dedup()

    def stores(self) -> Iterable[StoreBuilder[Any, Any]]:
        supplier = Stores.persistent_timestamped_key_value_store("last")
        return [Stores.timestamped_key_value_store_builder(supplier, S, S)]


class PutShared(TextProcessor):
    """Stores values, and asks for a commit each time."""

    def process(self, record: TextRecord) -> None:
        if record.key is not None:
            self.context.get_state_store("shared").put(record.key, record.value)
        self.context.commit()


class GetShared(TextProcessor):
    """Appends what is stored for the key."""

    def process(self, record: TextRecord) -> None:
        if record.key is None:
            self.context.forward(record.with_value("no-key"))
        else:
            found = self.context.get_state_store("shared").get(record.key)
            self.context.forward(record.with_value(f"{java(record.value)}/{java(found)}"))


class Scans(TextProcessor):
    """Tells what all kinds of range reads find."""

    def process(self, record: TextRecord) -> None:
        if record.key is None:
            return
        store = self.context.get_state_store("kv")
        old = store.put_if_absent(record.key + (record.value or ""), record.value)
        text = f"old={java(old)} range={_keys(store.range('a', 'bq'))} reverse={_keys(store.reverse_range('aq'))}"
        text += f" prefix={_keys(store.prefix_scan('b', S))} all={_keys(store.reverse_all())}"
        if record.value == "t":
            text += f" deleted={java(store.delete(record.key + 'p'))}"
        self.context.forward(record.with_value(text))


def _keys(iterator: Any) -> str:
    with iterator:
        return "".join(f"{key}," for key, _ in iterator)


class Punctuating(Processor[Text, Text, Text, int]):
    """Counts per key, and forwards all counts now and then."""

    def init(self, context: ProcessorContext[Text, int]) -> None:
        super().init(context)
        self.store = context.get_state_store("n")
        context.schedule(20, STREAM, lambda now: self.punctuate("stream", now))
        context.schedule(500, WALL, lambda now: self.punctuate("wall", now))

    def punctuate(self, kind: str, now: int) -> None:
        known = str(self.context.record_metadata is not None).lower()
        call(f"{kind} {now} streamTime={self.context.current_stream_time_ms()} meta={known}")
        with self.store.all() as rows:
            for key, count in rows:
                self.context.forward(Record(f"{kind}-{key}", count, now))

    def process(self, record: TextRecord) -> None:
        if record.key is None:
            return
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)
        if record.value == "t":
            self.store.delete(record.key)


class Anchored(TextProcessor):
    """Punctuations whose grids start at given times."""

    def init(self, context: ProcessorContext[Text, Text]) -> None:
        super().init(context)
        context.schedule(10, STREAM, lambda now: call(f"stream13 {now}"), start_time=13)
        context.schedule(100, WALL, lambda now: call(f"wall100250 {now}"), start_time=100_250)
        context.schedule(100, WALL, lambda now: call(f"wall99930 {now}"), start_time=99_930)

    def process(self, record: TextRecord) -> None:
        self.context.forward(record)


class Cancelling(TextProcessor):
    """A punctuation that replaces itself at its third call."""

    handle: Cancellable
    calls = 0

    def init(self, context: ProcessorContext[Text, Text]) -> None:
        super().init(context)
        self.handle = context.schedule(10, STREAM, self.first)
        context.schedule(10, WALL, lambda now: call(f"wall10 {now}"))
        context.schedule(15, WALL, lambda now: call(f"wall15 {now}"))

    def first(self, now: int) -> None:
        self.calls += 1
        call(f"first {now}")
        if self.calls == 3:
            self.handle.cancel()
            self.context.schedule(7, STREAM, lambda then: call(f"second {then}"))

    def process(self, record: TextRecord) -> None:
        self.context.forward(record)


def process_marks_repartition(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input").process(Twice)
    stream.group_by_key().count(materialized=counts()).to_stream().to("output", TO_LONGS)  # type: ignore[arg-type]
    return builder.build(config)


def process_values(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input").process_values(DedupSupplier())
    stream.to("changes")
    stream.group_by_key().count(materialized=counts()).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def shared_store(config: Any) -> Topology:
    builder = StreamsBuilder().add_state_store(strings("shared"))
    builder.stream("left").process(PutShared, "shared", name="put")
    right = builder.stream("right").filter(lambda k, v: k is not None)
    right.process(GetShared, "shared", name="get").to("output")
    return builder.build(config)


def processed(
    supplier: Callable[[], Processor[Any, Any, Any, Any]],
    store: StoreBuilder[Any, Any] | None = None,
    *,
    produced: Produced[Any, Any] | None = None,
    name: str | None = None,
) -> Callable[[Any], Topology]:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        stores = () if store is None else (store.name,)
        if store is not None:
            builder.add_state_store(store)
        builder.stream("input").process(supplier, *stores, name=name).to("output", produced)
        return builder.build(config)

    return build


IN_MEMORY = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kv"), S, S)
NUMBERS = Stores.key_value_store_builder(Stores.persistent_key_value_store("n"), S, L)

CASES: dict[str, Callable[[Any], Topology]] = {
    "papi-kv-scans": processed(Scans, strings("kv").with_caching_enabled()),
    "papi-kv-scans-in-memory": processed(Scans, IN_MEMORY),
    "papi-process-marks-repartition": process_marks_repartition,
    "papi-processvalues": process_values,
    "papi-punctuate": processed(Punctuating, NUMBERS, produced=TO_LONGS),
    "papi-punctuate-anchored": processed(Anchored),
    "papi-punctuate-cancel": processed(Cancelling),
    "papi-shared-store-dsl": shared_store,
    "papi-timestamps-headers": processed(Twice, name="twice"),
}
