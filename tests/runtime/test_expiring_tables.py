"""A table with a time to live comes to the same with a cache and without: itself, what is derived from it, and what is
aggregated over it; whatever expires between two commits."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.change import ChangeSerde
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.time_to_live import TimeToLive
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams import Consumed, Grouped, Materialized, StreamsBuilder

S = Serdes.STRING
LENGTH = 20
CHANGES: Any = ChangeSerde(S)
SUPPLIERS = {"memory": Stores.in_memory_key_value_store, "rocksdb": Stores.persistent_key_value_store}
Record = tuple[str, str | None, int]


def lives(name: str, engine: str, by: str | None, caching: bool) -> Any:
    return Materialized(
        supplier=SUPPLIERS[engine](name),
        key_serde=S,
        value_serde=S,
        caching=caching,
        time_to_live=None if by is None else TimeToLive(LENGTH, by=by),
    )


def topology(engine: str, by: str | None, caching: bool) -> Topology:
    """A table of records and one of their concatenations, both with a time to live; a filter that keeps all it is told,
    and changes on their way to aggregations."""
    builder = StreamsBuilder()
    table = builder.table("in", Consumed(key_serde=S, value_serde=S), materialized=lives("table", engine, by, caching))
    kept: Any = Materialized(supplier=SUPPLIERS[engine]("kept"), key_serde=S, value_serde=S, caching=caching)
    table.filter(lambda key, value: value != "no", materialized=kept)
    table.group_by(lambda key, value: (key, value), Grouped(name="table", key_serde=S, value_serde=S)).reduce(
        lambda one, other: one, lambda one, other: one
    )
    words = builder.stream("words", Consumed(key_serde=S, value_serde=S)).group_by_key()
    joined = words.reduce(lambda one, other: one + other, materialized=lives("joined", engine, by, caching))
    joined.group_by(lambda key, value: (key, value), Grouped(name="joined", key_serde=S, value_serde=S)).reduce(
        lambda one, other: one, lambda one, other: one
    )
    return builder.build()


def aggregated(kit: TaskKit, name: str) -> Counter[tuple[bytes | None, str]]:
    """What an aggregation over the table has: how often each value of a key."""
    counts: Counter[tuple[bytes | None, str]] = Counter()
    for key, data, _ in kit.sent(f"app-{name}-repartition"):
        new, old = CHANGES.deserialize(data)[:2]
        counts[key, old] -= old is not None
        counts[key, new] += new is not None
    return Counter({row: count for row, count in counts.items() if count})


def results(
    engine: str, by: str | None, caching: bool, records: Sequence[Record | None], cache_bytes: int
) -> tuple[Any, ...]:
    """Tables, what was kept of them, and what is aggregated over them.

    :param records: ``None`` is a commit.
    """
    with tempfile.TemporaryDirectory() as directory:
        config = {"statestore.cache.max.bytes": cache_bytes}
        with TaskKit(topology(engine, by, caching), Path(directory), config) as kit:
            for record in [*records, None]:
                if record is None:
                    kit.commit()
                    continue
                key, value, time = record
                kit.pipe("in", key.encode(), None if value is None else value.encode(), time)
                if value is not None:
                    kit.pipe("words", key.encode(), value.encode(), time)
            kit.environment.cursor.leave()
            tables = []
            for name in ("table", "joined", "kept"):
                with kit.store(name).all() as rows:
                    tables.append(list(rows))
            return *tables, aggregated(kit, "table"), aggregated(kit, "joined")


def check(engine: str, by: str | None, records: Sequence[Record | None], cache_bytes: int = 1 << 20) -> tuple[Any, ...]:
    plain = results(engine, by, False, records, cache_bytes)
    assert results(engine, by, True, records, cache_bytes) == plain
    return plain


BY = pytest.mark.parametrize("by", ["record_time", "access"])
ENGINES = pytest.mark.parametrize("engine", sorted(SUPPLIERS))


@BY
@ENGINES
@pytest.mark.parametrize("second", [None, "2"])
def test_a_change_is_judged_when_it_is_made(engine: str, by: str, second: str | None) -> None:
    """A row that was alive when its key was put again, and had expired when the cache was drained, was no old value: a
    deletion was not forwarded, and aggregations counted the row for ever."""
    records = [("k", "1", 1), None, ("k", second, 15), ("z", "9", 30)]
    aggregate = check(engine, by, records)[3]
    assert aggregate == Counter({(b"z", "9"): 1} if second is None else {(b"z", "9"): 1, (b"k", "2"): 1})


@BY
@ENGINES
@pytest.mark.parametrize("second", [None, "2"])
def test_what_expired_in_the_cache_is_forwarded_before_it_is_replaced(engine: str, by: str, second: str | None) -> None:
    """Without a cache it was, and is no old value of what replaces it."""
    records = [("k", "0", 0), None, ("k", "1", 1), ("z", "9", 30), ("k", second, 30)]
    aggregate = check(engine, by, records)[3]
    assert aggregate[b"k", "1"] == 1
    assert aggregate[b"k", "0"] == 0


@BY
@ENGINES
@pytest.mark.parametrize("removed", [False, True])
def test_a_deletion_of_what_has_expired_is_forwarded(engine: str, by: str, removed: bool) -> None:
    """With a cache it was not, and a table downstream that has no time to live kept the key."""
    commits = [None] * (3 if removed else 0)
    records = [("k", "1", 1), None, ("z", "9", 31), *commits, ("k", None, 31)]
    assert [key for key, _ in check(engine, by, records)[2]] == ["z"]


@BY
@ENGINES
def test_a_drained_row_that_expired_is_no_old_value(engine: str, by: str) -> None:
    """By access it was, as long as its commit was not over."""
    records: list[Record | None] = [("k", "1", 0), ("z", "9" * 60, 0), ("z", "9", 30), ("k", "2", 30)]
    for cache_bytes in (1, 100, 1 << 20):
        assert check(engine, by, records, cache_bytes)[3][b"k", "1"] == 1


RECORDS = st.lists(
    st.one_of(
        st.none(),
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from([None, "1", "2", "no"]),
            st.sampled_from([0, 0, 0, 1, 10, LENGTH - 1, LENGTH, 50, -1, -10, -LENGTH]),
        ),
    ),
    max_size=16,
)


def at_times(steps: Sequence[tuple[str, str | None, int] | None]) -> list[Record | None]:
    latest, records = 0, []
    for step in steps:
        if step is None:
            records.append(None)
            continue
        time = max(latest + step[2], 0)
        latest = max(latest, time)
        records.append((step[0], step[1], time))
    return records


@settings(max_examples=60)
@given(
    by=st.sampled_from(["record_time", "access", None]),
    engine=st.sampled_from(["memory", "memory", "memory", "rocksdb"]),
    steps=RECORDS,
    cache_bytes=st.sampled_from([1, 150, 1 << 20]),
)
def test_a_cache_changes_nothing(by: str | None, engine: str, steps: Any, cache_bytes: int) -> None:
    check(engine, by, at_times(steps), cache_bytes)


@pytest.mark.slow
@settings(max_examples=3000)
@given(
    by=st.sampled_from(["record_time", "access"]),
    engine=st.sampled_from(["memory"] * 9 + ["rocksdb"]),
    steps=RECORDS,
    cache_bytes=st.sampled_from([1, 150, 1 << 20]),
)
def test_a_cache_changes_nothing_for_long(by: str, engine: str, steps: Any, cache_bytes: int) -> None:
    check(engine, by, at_times(steps), cache_bytes)
