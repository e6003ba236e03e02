"""Histories cut into runs that go on with each other, over topologies that have every operator between them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from backfill_kit import SETTINGS, Row, in_live_order
from processor_api.punctuation import PunctuationType
from streams import (
    BufferConfig,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeToLive,
    TimeWindows,
)
from streams.spark import Backfill, BackfillResult, History

TEXT = Serdes.STRING
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def texts(name: str) -> Materialized:
    return Materialized(name=name, key_serde=TEXT, value_serde=TEXT)


def longs(name: str) -> Materialized:
    return Materialized(name=name, key_serde=TEXT, value_serde=Serdes.LONG)


def made() -> StreamsBuilder:
    return StreamsBuilder(key_serde=TEXT, value_serde=TEXT)


def longer(one: str, other: str) -> str:
    return f"{one}{other}"[-20:]


# ---------------------------------------------------------------------- topologies


def counts() -> StreamsBuilder:
    builder = made()
    grouped = builder.stream("a").filter(lambda key, value: value is not None).group_by_key()
    grouped.count(materialized=longs("counts")).to_stream().map_values(str).to("out")
    grouped.reduce(longer, materialized=texts("reduced"))
    grouped.aggregate(lambda: "", lambda key, value, total: longer(total, value), materialized=texts("aggregated"))
    return builder


def windows() -> StreamsBuilder:
    builder = made()
    grouped = builder.stream("a").filter(lambda key, value: value is not None).group_by_key()
    tumbling = grouped.windowed_by(TimeWindows.of_size_and_grace(ms(40), ms(30)))
    closed = tumbling.count(materialized=longs("tumbling")).suppress(
        Suppressed.until_window_closes(BufferConfig.unbounded())
    )
    closed.to_stream(lambda window, count: f"{window.key}@{window.window.start}").map_values(str).to("out")
    hopping = grouped.windowed_by(TimeWindows.of_size_and_grace(ms(40), ms(10)).advance_by(ms(20)))
    hopping.reduce(longer, materialized=texts("hopping"))
    sliding = grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(ms(25), ms(20)))
    sliding.count(materialized=longs("sliding"))
    return builder


def sessions() -> StreamsBuilder:
    builder = made()
    grouped = builder.stream("a").filter(lambda key, value: value is not None).group_by_key()
    found = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(ms(15), ms(30)))
    counted = found.count(materialized=longs("sessions"))
    counted.to_stream(lambda window, count: f"{window.key}@{window.window.end}").map_values(str).to("out")
    return builder


def behind_a_repartition() -> StreamsBuilder:
    builder = made()
    grouped = builder.stream("a").group_by(
        lambda key, value: str(value)[-1:], Grouped(key_serde=TEXT, value_serde=TEXT)
    )
    grouped.count(materialized=longs("by-value")).to_stream().map_values(str).to("out")
    return builder


def joined_streams() -> StreamsBuilder:
    builder = made()
    within = JoinWindows.of_time_difference_and_grace(ms(20), ms(15))
    by = StreamJoined(key_serde=TEXT, value_serde=TEXT, other_value_serde=TEXT, name="pairs", store_name="pairs")
    pairs = lambda one, other: f"{one}|{other}"  # noqa: E731
    outer = builder.stream("a").outer_join(builder.stream("b"), pairs, windows=within, joined=by)
    outer.to("out")
    return builder


def with_a_table() -> StreamsBuilder:
    builder = made()
    users = builder.table("b", materialized=texts("users"))
    builder.stream("a").left_join(users, lambda one, user: f"{one} of {user}").to("out")
    return builder


def joined_tables() -> StreamsBuilder:
    builder = made()
    left, right = (builder.table(topic, materialized=texts(f"table-{topic}")) for topic in ("a", "b"))
    left.outer_join(right, lambda one, other: f"{one}|{other}", materialized=texts("both")).to_stream().to("out")
    grouped = left.group_by(lambda key, value: (value[-1:], value), Grouped(key_serde=TEXT, value_serde=TEXT))
    grouped.count(materialized=longs("by-last"))
    return builder


def foreign_keys() -> StreamsBuilder:
    builder = made()
    left, right = (builder.table(topic, materialized=texts(f"table-{topic}")) for topic in ("a", "b"))
    found = left.foreign_key_left_join(
        right, lambda value: f"k{value[-1:]}", lambda one, other: f"{one}|{other}", materialized=texts("joined")
    )
    found.to_stream().to("out")
    return builder


def with_a_global_table() -> StreamsBuilder:
    builder = made()
    rates = builder.global_table("g", materialized=texts("rates"))
    rated = lambda value, rate: f"{value}*{rate}"  # noqa: E731
    found = builder.stream("a").left_join(rates, rated, key_selector=lambda key, value: key)
    found.group_by_key().reduce(longer, materialized=texts("rated")).to_stream().to("out")
    return builder


class Ticking(Processor[Any, Any, Any, Any]):
    """Forwards the times of a punctuation by stream time, and a count that its store keeps."""

    def init(self, context: Any) -> None:
        self.context = context
        self.seen = context.get_state_store("seen")
        context.schedule(
            ms(30), PunctuationType.STREAM_TIME, lambda now: context.forward(Record("tick", str(now), now))
        )
        context.schedule(ms(50), PunctuationType.STREAM_TIME, self.tell)

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", str(now), now))

    def tell(self, now: int) -> None:
        with self.seen.all() as rows:
            self.context.forward(Record("seen", ",".join(f"{key}={value}" for key, value in rows), now))

    def process(self, record: Record[Any, Any]) -> None:
        self.seen.put(record.key, (self.seen.get(record.key) or 0) + 1)


def punctuated() -> StreamsBuilder:
    builder = made()
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"), TEXT, Serdes.LONG)
    builder.add_state_store(store.with_logging_disabled())
    builder.stream("a").process(Ticking, "seen").to("out")
    return builder


def other_stores() -> StreamsBuilder:
    """Versions, rows that expire, and rows in memory."""
    builder = made()
    versions = Materialized(
        supplier=Stores.persistent_versioned_key_value_store("versions", 100), key_serde=TEXT, value_serde=TEXT
    )
    found = builder.table("b", materialized=versions)
    joined = Joined(key_serde=TEXT, value_serde=TEXT, other_value_serde=TEXT, grace=ms(10))
    builder.stream("a").join(found, lambda one, other: f"{one}|{other}", joined=joined).to("out")
    grouped = builder.stream("a").filter(lambda key, value: value is not None).group_by_key()
    in_memory = Stores.in_memory_key_value_store("in-memory")
    grouped.count(materialized=Materialized(supplier=in_memory, key_serde=TEXT, value_serde=Serdes.LONG))
    expiring = Materialized(name="expiring", key_serde=TEXT, value_serde=TEXT, time_to_live=TimeToLive(ms(100)))
    grouped.reduce(longer, materialized=expiring).to_stream().to("out")
    return builder


class Shape(NamedTuple):
    """A topology with the topics and stores that are compared."""

    build: Callable[[], StreamsBuilder]
    topics: tuple[str, ...]
    stores: tuple[str, ...]
    global_topics: tuple[str, ...] = ()
    repartitions: bool = False
    """Whether tasks write a topic that others read. A record that is late, or from which nothing is written, is behind
    the border of its partition and not behind that of the topic: which of two writers comes first is left open then."""


OTHER_STORES = Shape(other_stores, ("a", "b"), ("versions", "in-memory", "expiring"))
SHAPES = {
    shape.build.__name__: shape
    for shape in (
        Shape(counts, ("a",), ("counts", "reduced", "aggregated")),
        Shape(windows, ("a",), ("tumbling", "hopping", "sliding")),
        Shape(sessions, ("a",), ("sessions",)),
        Shape(behind_a_repartition, ("a",), ("by-value",), repartitions=True),
        Shape(joined_streams, ("a", "b"), ()),
        Shape(with_a_table, ("a", "b"), ("users",)),
        Shape(joined_tables, ("a", "b"), ("table-a", "table-b", "both", "by-last"), repartitions=True),
        Shape(foreign_keys, ("a", "b"), ("table-a", "table-b", "joined")),
        Shape(with_a_global_table, ("a",), ("rated",), ("g",)),
        Shape(punctuated, ("a",), ()),
    )
}


# ---------------------------------------------------------------------- histories


class Drawn(NamedTuple):
    """A history, and the times at which it is cut."""

    shape: Shape
    optimization: str
    partitions: int
    rows: Mapping[str, Sequence[Row]]
    """The records of each topic with their partitions and offsets."""
    borders: tuple[int, ...]


def drawn(
    seed: int, shapes: Mapping[str, Shape] = SHAPES, *, keys_most: Sequence[int] = (2, 5), rows_most: int = 60
) -> Drawn:
    """Draws a history with late records, deletions and quiet partitions, and up to four borders."""
    chance = random.Random(seed)
    shape = shapes[chance.choice(sorted(shapes))]
    partitions = chance.choice((1, 2, 3))
    keys = [f"k{number}" for number in range(chance.choice(keys_most))]
    quiet = chance.choice((None, *range(partitions)))
    rows: dict[str, list[Row]] = {topic: [] for topic in (*shape.topics, *shape.global_topics)}
    ends: dict[tuple[str, int], int] = {}
    now = 1_000_000
    for number in range(chance.randrange(5, rows_most)):
        topic = chance.choice(sorted(rows))
        key = chance.choice(keys)
        partition = 0 if topic in shape.global_topics else hash_of(key) % partitions
        now += chance.choice((1, 3, 7, 30))
        if partition == quiet and number > 5:
            continue
        is_open = shape.repartitions and partitions > 1
        late = 0 if is_open else chance.choice((0, 0, 0, 11, 45))
        is_deletion = chance.random() < 0.1 and not is_open
        value = None if is_deletion else f"v{number % 7}"
        at = ends.get((topic, partition), 0)
        ends[topic, partition] = at + 1
        row = Row(key.encode(), None if value is None else value.encode(), now - late, None, partition, at)
        rows[topic].append(row)
    borders = sorted(chance.randrange(1_000_000, now + 40) for _ in range(chance.randrange(0, 5)))
    return Drawn(shape, chance.choice(("none", "all")), partitions, rows, tuple(borders))


def hash_of(key: str) -> int:
    return sum(key.encode())


def days(found: Drawn) -> list[dict[str, list[Row]]]:
    """Returns the records of each run: a record belongs to the first whose border is not before the largest timestamp
    so far of its partition."""
    runs: list[dict[str, list[Row]]] = [{topic: [] for topic in found.rows} for _ in range(len(found.borders) + 1)]
    for topic, rows in found.rows.items():
        highs: dict[int, int] = {}
        for row in rows:
            high = highs[row.partition] = max(row.ts, highs.get(row.partition, -1))
            day = next((number for number, border in enumerate(found.borders) if high <= border), len(found.borders))
            runs[day][topic].append(row)
    return runs


# ---------------------------------------------------------------------- runs


def history(rows: Sequence[Row], partitions: int, seed: int) -> History:
    """Returns the records of a topic as a table, in no order."""
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    columns = {
        "partition": pa.array([row.partition for row in shuffled], pa.int32()),
        "offset": pa.array([row.offset for row in shuffled], pa.int64()),
        "timestamp": pa.array([row.ts for row in shuffled], pa.int64()),
        "key": pa.array([row.key for row in shuffled], pa.binary()),
        "value": pa.array([row.value for row in shuffled], pa.binary()),
    }
    return History(pa.table(columns), partitions=partitions)


def run(
    found: Drawn, rows: Mapping[str, Sequence[Row]], path: Path, earlier: BackfillResult | None = None, **options: Any
) -> BackfillResult:
    """Runs a backfill over the records of some days."""
    shape = found.shape
    count = dict.fromkeys(shape.topics, found.partitions) | dict.fromkeys(shape.global_topics, 1)
    backfill = Backfill(
        None, shape.build, {topic: history(rows[topic], count[topic], 7) for topic in rows},
        application_id="shop", run_dir=path, partitions={"out": found.partitions}, initial_state=earlier,
        config={**SETTINGS, "topology.optimization": found.optimization}, engine="local[1]", **options,
    )  # fmt: skip
    return backfill.run()


def outputs(result: BackfillResult) -> dict[int, list[tuple[Any, ...]]]:
    """Returns the records of the output by the task that wrote them, in order."""
    written: dict[int, list[tuple[Any, ...]]] = {}
    for row in result.output("out").sort_by([("upstream", "ascending"), ("seq", "ascending")]).to_pylist():
        written.setdefault(row["upstream"], []).append((row["key"], row["value"], row["timestamp"]))
    return written


def tables(result: BackfillResult, stores: Sequence[str]) -> dict[str, Counter[tuple[Any, ...]]]:
    """Returns the rows of stores."""
    return {
        store: Counter((row["partition"], row["key"], row["value"], row["ts"]) for row in rows.to_pylist())
        for store in stores
        for rows in [result.changelog_rows(store)]
    }


def merged(rows: Mapping[str, Sequence[Row]]) -> list[tuple[str, Row]]:
    """Returns records in the order of live, of one partition."""
    return in_live_order(rows)
