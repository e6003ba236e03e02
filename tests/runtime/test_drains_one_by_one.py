"""A full cache that is drained while another table sends its changes on: joins of both, with small caches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dsl import Grouped, KTable, Materialized, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit

S, L = Serdes.STRING, Serdes.LONG
REMOVED, ADDED = 0, 1
"""The last byte of a change in a repartition topic that takes a value out of a group, or brings one in."""


def plus(one: int | None, other: int | None) -> int:
    return (one or 0) * 7 + (other or 0) * 3 + 1


def built(config: dict[str, Any], *, caching: bool) -> Topology:
    """A table, joins of it with and without a store, and a join and groups of what they give."""
    builder = StreamsBuilder(key_serde=S, value_serde=L)
    table: KTable[str, int] = builder.table("in", materialized=Materialized(name="t", caching=caching))
    passed = table.left_join(table, plus)
    kept = table.left_join(table, plus, materialized=Materialized(name="kept", store_type="memory"))
    both = passed.outer_join(kept, plus)
    both.to_stream().to("both")
    kept.join(both, plus).to_stream().to("out")
    grouped = kept.outer_join(table, plus)
    grouped.to_stream().to("grouped")
    grouped.group_by(lambda key, value: (f"{value}", key), Grouped(key_serde=S, value_serde=S, name="g")).count()
    return builder.build(config)


def pipe(kit: TaskKit, key: str, value: int | None, time: int) -> None:
    kit.pipe("in", key.encode(), None if value is None else L.serialize(value), time)


def last_rows(kit: TaskKit, topic: str) -> dict[bytes | None, int]:
    rows = {key: value for key, value, _ in kit.sent(topic)}
    return {key: L.deserialize(value) for key, value in rows.items() if value is not None}


def in_groups(kit: TaskKit) -> Counter[bytes | None]:
    """How many rows are in each group, by what was brought in and taken out."""
    found: Counter[bytes | None] = Counter()
    for group, value, _ in kit.sent("app-g-repartition"):
        found[group] += {ADDED: 1, REMOVED: -1}.get(value[-1], 0) if value else 0
    return +found if min(found.values(), default=0) >= 0 else found


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_joins_of_what_is_made_of_one_table_are_those_of_its_last_rows(
    seed: int, caching: bool, tmp_path: Path
) -> None:
    """A table below was drained in the middle: its changes met rows that were on their way, or were taken for the
    change that was sent on at that moment. A deleted row stayed, and a group lost a row that it never had."""
    config = {"statestore.cache.max.bytes": 400, "topology.optimization": "all"}
    random, rows = Random(seed), dict[str, int]()
    with TaskKit(built(config, caching=caching), tmp_path, config) as kit:
        for time in range(60):
            key, value = f"k{random.randrange(5)}", None if random.random() < 0.3 else random.randrange(1, 60)
            pipe(kit, key, value, time)
            rows.pop(key, None)
            if value is not None:
                rows[key] = value
            if random.random() < 0.1:
                kit.commit()
        kit.commit()
        kit.commit()
        joined = {key: plus(value, value) for key, value in rows.items()}
        both = {key: plus(value, value) for key, value in joined.items()}
        assert last_rows(kit, "both") == {key.encode(): value for key, value in both.items()}
        assert last_rows(kit, "out") == {key.encode(): plus(joined[key], value) for key, value in both.items()}
        grouped = {key: plus(joined[key], value) for key, value in rows.items()}
        assert last_rows(kit, "grouped") == {key.encode(): value for key, value in grouped.items()}
        assert in_groups(kit) == Counter(f"{value}".encode() for value in grouped.values())
