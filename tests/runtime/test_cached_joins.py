"""A join of tables whose changes wait in caches: each side is joined with what was forwarded of the other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dsl import KTable, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit

HEADERS: dict[str, Any] = {"dsl.store.format": "HEADERS"}
KINDS = ["timestamped", "plain", "headers", "memory", "computed"]


def stored(name: str, kind: str) -> Materialized[str, str]:
    if kind == "plain":
        return Materialized(supplier=Stores.persistent_key_value_store(name))
    return Materialized(name=name, store_type="memory" if kind == "memory" else None)


def topology(kind: str, config: dict[str, Any], *, groups: bool) -> Topology:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", materialized=stored("l", kind))
    right: KTable[str, str] = builder.table("right", materialized=stored("r", kind))
    if kind == "computed":
        left, right = (table.filter(lambda k, v: True).map_values(lambda v: v) for table in (left, right))
    joined = left.join(right, lambda one, other: f"{one}+{other}")
    changes: Any = joined.group_by(lambda k, v: (v, v), "g").count(materialized="n") if groups else joined
    changes.to_stream().map_values(str).to("out")
    return builder.build(config)


def commits(kit: TaskKit, *changes: tuple[str, str | None]) -> None:
    """Changes of the row of one key, which are forwarded together."""
    for topic, value in changes:
        kit.pipe(topic, b"k", None if value is None else value.encode())
    kit.commit()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")])
def test_a_row_that_loses_both_sides_at_once_is_deleted(kind: str, order: tuple[str, str], tmp_path: Path) -> None:
    """Each side found no row on the other, and left the deletion to it: the joined row stayed."""
    config = HEADERS if kind == "headers" else {}
    with TaskKit(topology(kind, config, groups=False), tmp_path, config) as kit:
        commits(kit, ("left", "a"), ("right", "b"))
        assert kit.sent("out")[-1][1] == b"a+b"
        commits(kit, *((topic, None) for topic in order))
        assert [value for _, value, _ in kit.sent("out")][1:] == [b"None"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_taken_out_of_the_group_that_it_is_in(kind: str, tmp_path: Path) -> None:
    """The old row was joined with the new one of the other side, and taken out of a group that it never was in."""
    config = HEADERS if kind == "headers" else {}
    with TaskKit(topology(kind, config, groups=True), tmp_path, config) as kit:
        commits(kit, ("left", "a"), ("right", "b"))
        commits(kit, ("left", "c"), ("right", "d"))
        sent = [(key, value) for key, value, _ in kit.sent("app-g-repartition")]
        assert [key for key, _ in sent] == [b"a+b", b"a+b", b"c+b", b"c+b", b"c+d"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_up_sends_no_newer_row_on(kind: str, tmp_path: Path) -> None:
    """A full cache made room for the row that a join looked up by sending on a newer one of the same key, and the
    result of the older one followed."""
    config: dict[str, Any] = {**(HEADERS if kind == "headers" else {}), "statestore.cache.max.bytes": 1 << 20}
    with TaskKit(topology(kind, config, groups=False), tmp_path, config) as kit:
        commits(kit, ("right", "old"))
        forget_clean_rows(kit)
        kit.pipe("right", b"k", b"new")
        kit.pipe("left", b"k", b"l")
        kit.budget.cache_limit = 1
        kit.commit()
        assert kit.sent("out")[-1][1] == b"l+new"


def forget_clean_rows(kit: TaskKit) -> None:
    """Makes the cache so small for a moment that it drops all rows which the engine has."""
    limit, kit.budget.cache_limit = kit.budget.cache_limit, 1
    for store in kit.task.stores.stores.values():
        store.rows.make_room(None)
    kit.budget.cache_limit = limit


@pytest.mark.parametrize("cache_bytes", [300, 500, 1_500])
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_results_are_those_of_the_last_rows(kind: str, cache_bytes: int, tmp_path: Path) -> None:
    """Whatever a full cache forwards, and when: compared with a join of the last rows alone."""
    config: dict[str, Any] = {**(HEADERS if kind == "headers" else {}), "statestore.cache.max.bytes": cache_bytes}
    random = Random(f"{kind} {cache_bytes}")
    tables: dict[str, dict[str, str | None]] = {"left": {}, "right": {}}
    with TaskKit(topology(kind, config, groups=False), tmp_path, config) as kit:
        for number in range(400):
            topic, key = random.choice(["left", "right"]), f"k{random.randrange(8)}"
            value = random.choice([None, f"v{random.randrange(3)}", f"v{number}"])
            kit.pipe(topic, key.encode(), None if value is None else value.encode(), number)
            tables[topic][key] = value
            if number % 50 == 49:
                kit.commit()
        sent = {key.decode(): value for key, value, _ in kit.sent("out") if key and value}
    for key, value in sent.items():
        one, other = tables["left"].get(key), tables["right"].get(key)
        assert value.decode() == ("None" if one is None or other is None else f"{one}+{other}")
    assert sent


# ------------------------------------------------------------------ windowed tables

TEN = timedelta(milliseconds=10)
WINDOWS: dict[str, Any] = {
    "time": TimeWindows.of_size_and_grace(TEN, TEN),
    "hopping": TimeWindows.of_size_and_grace(TEN, TEN).advance_by(timedelta(milliseconds=4)),
    "sliding": SlidingWindows.of_time_difference_and_grace(TEN, TEN),
    "session": SessionWindows.of_inactivity_gap_and_grace(TEN, TEN),
}


def windowed_joins(windows: Any, how: str, config: dict[str, Any]) -> Topology:
    """Two windowed counts, their join, and what each of them sends on, in a topic for each."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    tables = []
    for topic in ("left", "right"):
        table: KTable[Any, int] = builder.stream(topic).group_by_key().windowed_by(windows).count()
        table.to_stream().map_values(str).to(f"rows-{topic}")
        tables.append(table)
    joined = getattr(tables[0], how)(tables[1], lambda one, other: f"{one or 0}+{other or 0}")
    joined.to_stream().to("out")
    return builder.build(config)


def rows_in(kit: TaskKit, topic: str) -> dict[bytes | None, str]:
    """The rows of a table, by what it has sent on."""
    last = {key: value for key, value, _ in kit.sent(topic)}
    return {key: value.decode() for key, value in last.items() if value not in (None, b"None")}


@pytest.mark.parametrize("config", [{}, HEADERS], ids=["plain", "headers"])
@pytest.mark.parametrize("how", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("windows", WINDOWS)
def test_windowed_tables_are_joined_as_recomputed(
    windows: str, how: str, config: dict[str, Any], tmp_path: Path
) -> None:
    """From what both tables have sent on, whenever commits come; sessions that grow take their former rows away."""
    draw = Random(f"{windows} {how}")
    with TaskKit(windowed_joins(WINDOWS[windows], how, config), tmp_path, config) as kit:
        time = 0
        for _ in range(120):
            time += draw.randrange(-4, 8)
            key = draw.choice((b"a", b"b"))
            for topic in draw.choice((("left",), ("right",), ("left", "right"), ("right", "left"))):
                kit.pipe(topic, key, b"x", max(time, 0))
            if draw.random() < 0.2:
                kit.commit()
        kit.commit()
        left, right, found = (rows_in(kit, topic) for topic in ("rows-left", "rows-right", "out"))
    keys = {"join": left.keys() & right.keys(), "left_join": left.keys(), "outer_join": left.keys() | right.keys()}
    assert found == {key: f"{left.get(key, 0)}+{right.get(key, 0)}" for key in keys[how]}
    assert len(found) > 2
