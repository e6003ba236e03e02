"""The last rows of tables of each shape, and of what follows them, are those of a recomputation."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl_support.table_laws import END, FOLLOWERS, SHAPES, STYLES, Record, expected_rows, followed_rows

BORDERS = (0, 0, 1, 4, 5, 6, 7, 10, 12, 13, 17, 19)
"""Distances in time at which windows, gaps, grace periods and retentions end."""
CACHES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "cache": ({}, {}),
    "full cache": ({"statestore.cache.max.bytes": 300}, {}),
    "no cache": ({"statestore.cache.max.bytes": 0}, {}),
    "store without a cache": ({}, {"caching": False}),
    "no cache in memory": ({"statestore.cache.max.bytes": 0, "default.dsl.store": "in_memory"}, {}),
}
"""Settings, and options of the store."""


def drawn(shape: str, chance: Random) -> list[Record]:
    """Draws records, of streams at the borders of windows, and of tables in order of time."""
    of_tables, now, found = SHAPES[shape].of_tables, 100, list[Record]()
    for turn in range(chance.randint(1, 30)):
        topic, deleted = chance.choice(SHAPES[shape].topics * 3 + "t"), chance.random() < 0.25
        step = chance.choice(BORDERS) + chance.choice((-1, 0, 0, 1))
        time = max(0, now + (step if chance.random() < 0.4 else -step))
        if of_tables or topic == "t":
            time, number = 200 + turn, None if deleted else chance.randrange(6)
        else:
            now, number = max(now, time), chance.randrange(6)
        found.append(Record(topic, chance.choice("xyz"), number, time))
    return [
        *found,
        *(Record(topic, f"end{time}", 1, time) for time in (END, 2 * END) for topic in SHAPES[shape].topics),
    ]


def check(shape: str, style: str, followers: list[str], records: list[Record]) -> None:
    expected = expected_rows(SHAPES[shape], followers, records)
    for cache, (config, options) in CACHES.items():
        found = followed_rows(SHAPES[shape], followers, STYLES[style], records, config, options)
        expected = expected or found
        assert found == expected, (shape, style, cache, records)


@pytest.mark.parametrize("shape", SHAPES)
@given(
    seed=st.integers(0, 2**32),
    style=st.sampled_from(sorted(STYLES)),
    followers=st.lists(st.sampled_from(sorted(FOLLOWERS)), min_size=1, max_size=4, unique=True),
)
@settings(max_examples=4, deadline=None)
def test_the_last_rows_follow_from_the_records(shape: str, seed: int, style: str, followers: list[str]) -> None:
    check(shape, style, followers, drawn(shape, Random(seed)))


KEEP = {"dsl.java.defects": "keep", "statestore.cache.max.bytes": 0}


@pytest.mark.parametrize("shape", ["sessions, count", "sessions, aggregate", "cogrouped sessions"])
def test_a_session_of_one_moment_is_taken_out_of_its_former_group(shape: str) -> None:
    """A grouping counted it twice without a cache, and a filter kept it."""
    records = [Record("a", "x", 1, 100), Record("a", "x", 1, 100), Record("a", "y", 1, 100)]
    check(shape, "new", ["filter", "group count", "itself join"], records)


def test_a_new_sliding_window_is_taken_out_of_no_group() -> None:
    """It was taken out of that of the window before it, and the one that ends with a record was counted twice."""
    for times in ((100, 103, 105, 130), (119, 124, 131)):
        for shape in ("sliding, count", "sliding, aggregate", "cogrouped sliding"):
            check(shape, "new", ["filter", "group count"], [Record("a", "x", 1, time) for time in times])


def test_a_suppressed_change_takes_out_what_was_sent_before() -> None:
    """It took out what had waited, which no group had."""
    ends = [Record("a", f"end{time}", 1, time) for time in (END, 2 * END)]
    for shape, records in (
        ("suppressed", [Record("a", "x", number, 200 + number) for number in (1, 2, 3)]),
        ("suppressed hopping", [Record("a", "x", number, 128) for number in (1, 5)]),
    ):
        check(shape, "in place", ["group count", "group aggregate", "itself join"], [*records, *ends])


@pytest.mark.parametrize(
    ("shape", "records"),
    [
        ("sessions, count", [("x", 100), ("x", 100)]),
        ("sliding, count", [("x", 100), ("x", 103), ("x", 105)]),
        ("plain, count", [("y", 1), ("y", 2), ("y", 3), ("x", 4)]),
        ("suppressed hopping", [("y", 90), ("y", 90), ("x", 128), ("x", 128), ("end", END)]),
    ],
)
def test_with_javas_defects_the_groups_are_those_of_kafka_streams(shape: str, records: list[tuple[str, int]]) -> None:
    given_records = [Record("a", key, 3 if key == "x" else 1, time) for key, time in records]
    found = followed_rows(SHAPES[shape], ["group count"], STYLES["new"], given_records, KEEP, {})
    assert found != expected_rows(SHAPES[shape], ["group count"], given_records)
