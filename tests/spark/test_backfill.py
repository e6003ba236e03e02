"""A backfill in Spark writes what the test driver writes, over the same records."""

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_kit import SETTINGS, Row, Rows, results_of, run_driver, write_history
from processor_api.punctuation import PunctuationType
from processor_api.serde import Serdes
from streams import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    Record,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)

pytestmark = pytest.mark.spark


def texts() -> Consumed:
    return Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)


def counts(name: str) -> Materialized:
    return Materialized(name=name, key_serde=Serdes.STRING, value_serde=Serdes.LONG)


def strings(name: str) -> Materialized:
    return Materialized(name=name, key_serde=Serdes.STRING, value_serde=Serdes.STRING)


def text_out() -> Produced:
    return Produced(key_serde=Serdes.STRING, value_serde=Serdes.STRING)


def count_by_value() -> StreamsBuilder:
    """A count behind a repartition topic: two subtopologies."""
    builder = StreamsBuilder()
    grouped = builder.stream("events", texts()).group_by(
        lambda key, value: value, Grouped(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    )
    grouped.count(materialized=counts("by-value")).to_stream().to(
        "out", Produced(key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    )
    return builder


def some_rows(count: int, *, partitions: int = 1, seed: int = 7, begin: int = 1_000) -> list[Row]:
    """Records with times that go back now and then, null and empty values, and headers."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        key = rng.randrange(40)
        value = rng.choice([None, b"", *(b"v%d" % one for one in range(8))])
        headers = [("id", b"%d" % number), ("empty", None)] if number % 5 == 0 else None
        rows.append(Row(b"k%d" % key, value, begin + 10 * number + rng.randrange(-200, 200), headers, key % partitions))
    return rows


def windowed_join() -> StreamsBuilder:
    builder = StreamsBuilder()
    left, right = builder.stream("left", texts()), builder.stream("right", texts())
    joined = StreamJoined(key_serde=Serdes.STRING, value_serde=Serdes.STRING, other_value_serde=Serdes.STRING)
    windows = JoinWindows.of_time_difference_and_grace(timedelta(milliseconds=300), timedelta(milliseconds=100))
    left.left_join(right, lambda one, other: f"{one}|{other}", windows=windows, joined=joined).to("out", text_out())
    return builder


def windowed_count() -> StreamsBuilder:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(timedelta(milliseconds=500), timedelta(milliseconds=150))
    counted = (
        builder.stream("events", texts()).group_by_key().windowed_by(windows).count(materialized=counts("windows"))
    )
    counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().map(
        lambda key, value: (f"{key.key}@{key.window.start}", str(value))
    ).to("out", text_out())
    return builder


def foreign_key_join() -> StreamsBuilder:
    """Its two subtopologies feed each other."""
    builder = StreamsBuilder()
    orders = builder.table("orders", texts(), materialized=strings("orders-store"))
    customers = builder.table("customers", texts(), materialized=strings("customers-store"))
    joined = orders.foreign_key_join(
        customers, lambda value: value, lambda one, other: f"{one}|{other}", materialized=strings("joined")
    )
    joined.to_stream().to("out", text_out())
    return builder


class EachStore(Processor[Any, Any, Any, Any]):
    """Writes to a key-value, a window and a versioned store, reads a global one, and punctuates by stream time."""

    def init(self, context: Any) -> None:
        self.context = context
        self.plain, self.windows, self.versions = (context.get_state_store(name) for name in ("kv", "win", "ver"))
        self.names = context.get_state_store("names")
        context.schedule(1_000, PunctuationType.STREAM_TIME, self.punctuate)

    def punctuate(self, now: int) -> None:
        self.context.forward(Record("tick", str(now), now))

    def process(self, record: Record[Any, Any]) -> None:
        key, now = record.key, record.timestamp
        count = (self.plain.get(key) or 0) + 1
        self.plain.put(key, count if count % 7 else None)
        self.windows.put(key, count, now - now % 500)
        self.versions.put(key, count, now)
        place = self.context.record_metadata
        self.context.forward(record.with_value(f"{self.names.get(key)}:{count}:{place.topic}:{place.offset}"))


class KeepNames(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.store = context.get_state_store("names")

    def process(self, record: Record[Any, Any]) -> None:
        self.store.put(record.key, record.value)


def each_store() -> Topology:
    text, number = Serdes.STRING, Serdes.LONG
    topology = Topology().add_source("source", "events", key_serde=text, value_serde=text)
    topology.add_processor("each", EachStore, "source")
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("kv"), text, number)
    windows = Stores.window_store_builder(Stores.persistent_window_store("win", 100_000, 500), text, number)
    versions = Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("ver", 100_000), text, number
    )
    for builder in (plain, windows, versions):
        topology.add_state_store(builder, "each")
    names = Stores.key_value_store_builder(Stores.in_memory_key_value_store("names"), text, text)
    topology.add_global_store(
        names.with_logging_disabled(),
        "names-source",
        "names",
        "names-processor",
        KeepNames,
        key_serde=text,
        value_serde=text,
    )
    return topology.add_sink("sink", "out", "each", key_serde=text, value_serde=text)


def orders_and_customers() -> Rows:
    rng = random.Random(3)
    orders = [
        Row(b"o%d" % rng.randrange(30), rng.choice([None, *(b"c%d" % one for one in range(6))]), 1_000 + 7 * number)
        for number in range(300)
    ]
    customers = [
        Row(b"c%d" % rng.randrange(6), rng.choice([None, b"", b"Ann", b"Ben"]), 1_003 + 40 * number)
        for number in range(50)
    ]
    return {"orders": orders, "customers": customers}


NAMES: Rows = {"names": [Row(b"k%d" % number, b"name %d" % number, 5) for number in range(20)]}

EVENTS: Rows = {"events": some_rows(3_000)}

CASES: dict[str, tuple[Callable[[], Any], Rows, Rows, tuple[str, ...], tuple[str, ...]]] = {
    "count behind a repartition": (count_by_value, EVENTS, {}, ("by-value",), ()),
    "windowed join": (windowed_join, {"left": some_rows(800), "right": some_rows(800, seed=8)}, {}, (), ()),
    "suppressed windows": (
        windowed_count, {"events": some_rows(1_500, begin=300)}, {}, ("windows",), (),
    ),
    "foreign-key join": (
        foreign_key_join, orders_and_customers(), {}, ("orders-store", "customers-store", "joined"), (),
    ),
    "stores, punctuations and a global table": (each_store, EVENTS, NAMES, ("kv", "win", "ver"), ("ver",)),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["spark", "local[1]"])
@pytest.mark.parametrize("case", CASES)
def test_outputs_and_tables_are_those_of_the_test_driver_byte_for_byte(
    spark: Any, tmp_path: Path, case: str, engine: str
) -> None:
    from streams.spark.backfill.history import History
    from streams.spark.backfill.run import Backfill

    topology, rows, first, stores, versioned = CASES[case]
    expected = run_driver(topology, rows, first=first, versioned=[f"app-{store}-changelog" for store in versioned])
    session = spark if engine == "spark" else None
    inputs = {
        topic: History.parquet(session, write_history(tmp_path / topic, some), headers="headers")
        for topic, some in {**rows, **first}.items()
    }
    backfill = Backfill(
        session,
        topology,
        inputs,
        engine=engine,
        application_id="app",
        run_dir=tmp_path / "run",
        config=SETTINGS,
        partitions={**dict.fromkeys(rows, 1), "out": 1},
    )
    result = backfill.run()
    found = results_of(result, ["out"], stores, versioned=versioned)
    assert len(found.outputs["out"]) > 100
    assert found.outputs["out"] == expected.outputs["out"]
    for store in stores:
        assert found.tables[f"app-{store}-changelog"] == expected.tables[f"app-{store}-changelog"]
        assert found.tables[f"app-{store}-changelog"]
