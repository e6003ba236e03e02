"""A task that is killed behind the write of its stores, and before its offsets are committed, reads records again.

Stores whose rows expire, and which no windowed aggregation fills, are those of the offsets then (semantics 182): each
record finds what it found before, also where a record behind it has let that expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from state.registry.kinds import families_of, restore_of
from streams import (
    BufferConfig,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeToLive,
    Window,
    Windowed,
)
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.plan.task_plan import plan_all
from streams.runtime.start.task_restores import store_times
from streams.runtime.tasks.task import TaskState
from streams.runtime.tasks.task_stores import StoreTime

S = Serdes.STRING
MINUTE = 60_000
DAY = 86_400_000
Piped = Sequence[tuple[str, str, str, int]]


def dsl(build: Callable[[StreamsBuilder], Any]) -> Topology:
    builder = StreamsBuilder(key_serde=S, value_serde=S)
    build(builder).to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def joined(how: str) -> Topology:
    """Records of the left topic with those of the right one that came in the two minutes before."""
    windows = JoinWindows.of_time_difference_with_no_grace(2 * MINUTE)

    def build(builder: StreamsBuilder) -> Any:
        left, right = builder.stream("left"), builder.stream("right")
        return getattr(left, how)(right, lambda one, other: f"{one}+{other}", windows=windows)

    return dsl(build)


def waiting_for_grace() -> Topology:
    """The same as :func:`as_of`, each when its grace period is over: that of the first record ends with the next one,
    which sends it on in the commit that is not complete."""

    def build(builder: StreamsBuilder) -> Any:
        store = Stores.persistent_versioned_key_value_store("kept", timedelta(days=2))
        table = builder.table("right", materialized=Materialized(supplier=store))
        grace = Joined(grace=timedelta(minutes=1))
        return builder.stream("left").left_join(table, lambda one, other: f"{one}+{other}", joined=grace)

    return dsl(build)


def suppressed() -> Topology:
    """Rows of a table, each a minute after its first change."""
    late = Suppressed.until_time_limit(timedelta(minutes=1), BufferConfig.unbounded())
    return dsl(lambda builder: builder.table("left").suppress(late).to_stream())


def deduplicated() -> Topology:
    return dsl(lambda builder: builder.stream("left").deduplicate(within=timedelta(minutes=2)))


def as_of() -> Topology:
    """Records of the left topic with the version of the right one that was valid at their time."""

    def build(builder: StreamsBuilder) -> Any:
        store = Stores.persistent_versioned_key_value_store("kept", timedelta(minutes=2))
        table = builder.table("right", materialized=Materialized(supplier=store))
        return builder.stream("left").left_join(table, lambda one, other: f"{one}+{other}")

    return dsl(build)


def expiring(by: str, cache: int) -> Topology:
    """Records of the left topic with the row of a table whose rows expire."""

    def build(builder: StreamsBuilder) -> Any:
        lives = TimeToLive(timedelta(minutes=2), by=by)
        kept = Materialized(name="kept", caching=bool(cache), time_to_live=lives)
        table = builder.table("right", materialized=kept)
        return builder.stream("left").left_join(table, lambda one, other: f"{one}+{other}")

    return dsl(build)


class InWindows(Processor):
    """Puts the records of the right topic into a store; sends what those of the left one find in it."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.kept = context.get_state_store("kept")

    def process(self, record: Record[str, str]) -> None:
        if record.value == "r":
            self.put(record.key, record.timestamp)
            return
        with self.found(record.key, record.timestamp - 2 * MINUTE, record.timestamp) as rows:
            found = "".join(value for _, value in rows)
        self.context.forward(record.with_value(f"{record.value}+{found or None}"))

    def put(self, key: str, time: int) -> None:
        self.kept.put(key, "r", time)

    def found(self, key: str, first: int, last: int) -> Any:
        return self.kept.fetch_range(key, first, last)


class InSessions(InWindows):
    def put(self, key: str, time: int) -> None:
        self.kept.put(Windowed(key, Window(time, time)), "r")

    def found(self, key: str, first: int, last: int) -> Any:
        return self.kept.find_sessions(key, first, last)


def looked_up(processor: type[Processor], store: Any) -> Topology:
    return (
        Topology()
        .add_source("source", "left", "right", key_serde=S, value_serde=S)
        .add_processor("look", processor, "source")
        .add_state_store(store, "look")
        .add_sink("sink", "out", "look", key_serde=S, value_serde=S)
    )


def in_windows(cache: int) -> Topology:
    made = Stores.window_store("kept", timedelta(minutes=2), timedelta(minutes=1), S, S)
    return looked_up(InWindows, made.with_caching_enabled() if cache else made)


def in_sessions(cache: int) -> Topology:
    made = Stores.session_store("kept", timedelta(minutes=2), S, S)
    return looked_up(InSessions, made.with_caching_enabled() if cache else made)


TOPOLOGIES: dict[str, Callable[[], Topology]] = {
    "join": lambda: joined("join"),
    "left join": lambda: joined("left_join"),
    "outer join": lambda: joined("outer_join"),
    "deduplicate": deduplicated,
    "versioned": as_of,
    "versioned, with grace": waiting_for_grace,
    "suppress": suppressed,
    "time to live by record time": lambda: expiring("record_time", 0),
    "time to live by record time, cached": lambda: expiring("record_time", 1),
    "time to live by access": lambda: expiring("access", 0),
    "time to live by access, cached": lambda: expiring("access", 1),
    "window store": lambda: in_windows(0),
    "window store, cached": lambda: in_windows(1),
    "session store": lambda: in_sessions(0),
    "session store, cached": lambda: in_sessions(1),
}
WAITING = {"versioned, with grace", "suppress"}
"""Operators whose rows wait until they are sent on, and leave with that."""
BEFORE: Piped = [("right", "k", "r", MINUTE), ("left", "k", "first", MINUTE)]
NEAR = ("left", "k", "near", 2 * MINUTE)
FAR: Piped = [("right", "x", "r", DAY), ("left", "x", "far", DAY)]
"""They let all of the others expire."""
LATER = ("right", "k", "later", DAY)
"""A version behind that of the first record, which expires by it."""


def piped(kit: TaskKit, records: Piped) -> None:
    for topic, key, value, time in records:
        if topic in kit.task.plan.topics:
            kit.pipe(topic, key.encode(), value.encode(), time)


def results(kit: TaskKit) -> list[str]:
    """The values sent for the records near the first ones, in order."""
    return [value.decode() for key, value, _ in kit.sent("out") if key == b"k" and value is not None]


def begun(kit: TaskKit, starts: Mapping[TopicPartition, OffsetAndMetadata], restored: TaskKit | None = None) -> None:
    """Begins at offsets; on a disk without state, with the changelogs of another kit."""
    kit.task.become(TaskState.RESTORING)
    kit.task.stores.times = store_times(kit.task.plan, starts)
    if restored is not None:
        for name, topic in kit.task.plan.changelogs.items():
            records = restored.broker.records(topic, read_committed=False) if topic in restored.broker.topics else []
            builder, engine = kit.task.plan.topology.stores[name], kit.task.stores.progress.engine_of(name)
            known = kit.task.stores.times.get(name)
            restore, batch = restore_of(builder, engine, None if known is None else known.needed), engine.batch()
            columns = zip(*((r.key(), r.value(), r.timestamp()[1], r.headers()) for r in records), strict=True)
            if records:
                restore(batch, *columns)
                engine.write(batch)
    kit.task.start(kit.collector, starts)


def again(kind: str) -> Piped:
    """The records of a commit whose offsets are not committed."""
    return [NEAR, *([LATER] if kind.startswith("versioned") else []), *FAR]


def killed(kind: str, disk: str, folder: Path, made: list[TaskKit]) -> list[str]:
    """Makes a task that is killed between the stores and the offsets, and the one that begins after it; returns what
    the first one sent last."""
    settings = {"statestore.cache.max.bytes": 1 << 20 if "cached" in kind else 0}
    first = TaskKit(TOPOLOGIES[kind](), folder / "first", settings, start=False)
    made.append(first)
    begun(first, {})
    piped(first, BEFORE)
    first.commit()
    starts, before = first.task.inputs.known_offsets, len(results(first))
    piped(first, again(kind))
    first.commit()
    if disk == "kept":
        first.task.close(dirty=True)
    second = TaskKit(TOPOLOGIES[kind](), folder / ("first" if disk == "kept" else "second"), settings, start=False)
    made.append(second)
    begun(second, starts, first if disk == "empty" else None)
    return results(first)[before:]


@pytest.fixture
def kits() -> Iterator[list[TaskKit]]:
    made: list[TaskKit] = []
    yield made
    for kit in made:
        kit.task.close(dirty=True)


@pytest.mark.parametrize("disk", ["kept", "empty"])
@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_records_that_are_read_again_find_what_they_found(
    kind: str, disk: str, tmp_path: Path, kits: list[TaskKit]
) -> None:
    """What a later record of the same commit had let expire was gone: a left join gave a result without a partner."""
    found = killed(kind, disk, tmp_path, kits)
    piped(kits[1], again(kind))
    kits[1].commit()
    waited = found[:1] if kind == "versioned, with grace" else []
    assert waited + results(kits[1]) == found


@pytest.mark.parametrize("disk", ["kept", "empty"])
@pytest.mark.parametrize("kind", [kind for kind in TOPOLOGIES if kind not in WAITING])
def test_what_has_expired_is_deleted_in_the_end(kind: str, disk: str, tmp_path: Path, kits: list[TaskKit]) -> None:
    killed(kind, disk, tmp_path, kits)
    piped(kits[1], again(kind))
    kits[1].commit()
    assert rows_of_first_key(kits[1])
    for days in (2, 3, 4):
        piped(kits[1], [(topic, key, value, days * DAY) for topic, key, value, _ in FAR])
        kits[1].commit()
    assert not rows_of_first_key(kits[1])


def rows_of_first_key(kit: TaskKit) -> list[bytes]:
    """The rows that are in the engine, but for the latest versions."""
    [engine] = kit.task.stores.engines.values()
    stores = kit.task.plan.topology.stores.values()
    families = [name for store in stores for name in families_of(store) if not name.endswith((".latest", ".expiry"))]
    return [key for name in families for key, _ in engine.family(name).range() if b"k" in key]


def test_a_time_that_is_not_committed_was_at_most_that_of_the_task() -> None:
    """An earlier version committed none; and those of very many stores have no room."""
    plan = plan_all(joined("join"), {"application.id": "app"}, {})
    [one, other] = sorted(plan.expiring_stores)
    place = TopicPartition("left", 0)

    def times(metadata: TopicPartitionMetadata) -> Mapping[str, StoreTime]:
        return store_times(plan, {place: OffsetAndMetadata(5, metadata.encode())})

    known = {f"{one}/stream-time": 3}
    own = "AAAAAAAAAAAAAAAAAAAAAA"
    assert times(TopicPartitionMetadata(7, known, own)) == {one: StoreTime(3, 3), other: StoreTime(7, 7)}
    assert times(TopicPartitionMetadata(7, {}, own)) == {one: StoreTime(7, 7), other: StoreTime(7, 7)}
    assert times(TopicPartitionMetadata(7, known)) == {one: StoreTime(3, 3)}
    assert times(TopicPartitionMetadata(7)) == {}
