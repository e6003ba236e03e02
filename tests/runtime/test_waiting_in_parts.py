"""Changes that waited for a time, and records that waited for a table, leave in parts like final results."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl.processors.windows.emission import PART_ROWS
from processor_api.topology.topology import Topology
from runtime_support.parts_kit import Case, Given, PartsKit, all_at_once, killed_after_each_commit, same_in_parts
from streams import (
    BufferConfig,
    Joined,
    Materialized,
    Produced,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)

WAIT = 60_000
DAY = 86_400_000
PART = 3
OUT: Produced[str, str] = Produced(key_serde="string", value_serde="string")
KEYS = [f"key-{number}".encode() for number in range(11)]
WAITING: list[Given] = [("in", key, 10 + number % 3, None) for number, key in enumerate(KEYS)]
FAR: Given = ("in", b"far", DAY, None)


def builder() -> StreamsBuilder:
    return StreamsBuilder(key_serde="string", value_serde="string")


def suppressed() -> Topology:
    made = builder()
    made.table("in").suppress(Suppressed.until_time_limit(WAIT, BufferConfig.unbounded())).to_stream().to("out", OUT)
    return made.build()


def joined(grace: int = WAIT) -> Topology:
    """Records that wait for the rows of their times in a table that keeps them."""
    made = builder()
    versioned = Materialized(supplier=Stores.persistent_versioned_key_value_store("rows", 10 * DAY))
    table = made.table("rows", materialized=versioned)
    how: Joined[str, str, str] = Joined(name="j", grace=grace)
    made.stream("in").left_join(table, lambda value, row: f"{value} {row}", joined=how).to("out", OUT)
    return made.build()


ROWS: list[Given] = [("rows", key, time, None) for key in KEYS for time in (5, 11)]
CASES = {
    "suppressed": (suppressed(), [*WAITING, FAR, ("in", KEYS[-1], DAY + 1, None), ("in", b"behind", 2 * DAY, None)]),
    "joined": (
        joined(),
        # a row of the past comes when its record is due and has not left: it is behind the record that made it so
        [*ROWS, *WAITING, *WAITING[:4], FAR, ("rows", KEYS[-1], DAY + 1, None), ("in", b"behind", 2 * DAY, None)],
    ),
    "joined at once": (joined(0), [*ROWS, *WAITING, FAR, FAR, ("in", b"behind", 2 * DAY, None)]),
}


def case(name: str, engine: str = "rocksDB", **settings: object) -> Case:
    made, records = CASES[name]
    given = {"statestore.cache.max.bytes": 0, PART_ROWS: PART, "default.dsl.store": engine, **settings}
    return Case(topology=made, settings=given, records=records)


@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("name", CASES)
def test_the_parts_are_the_same_results_in_the_same_order(name: str, engine: str, tmp_path: Path) -> None:
    """All that waited was sent in the call for the record whose time let it go."""
    assert len(same_in_parts(tmp_path, case(name, engine), PART)) > len(KEYS)


@pytest.mark.parametrize("name", ["suppressed", "joined"])
def test_each_commit_between_two_parts_is_where_the_next_life_goes_on(name: str, tmp_path: Path) -> None:
    expected = all_at_once(tmp_path / "at-once", case(name))
    lives = killed_after_each_commit(tmp_path, case(name))
    assert lives == [expected] * len(lives)


@pytest.mark.parametrize("late", [KEYS[9], b"new"])
def test_a_change_of_the_same_call_that_goes_before_the_rest_waits_for_it(late: bytes, tmp_path: Path) -> None:
    """A drain of a cache brings many changes: here a key whose former change is due and has not left, or a change that
    is due itself. It would take the place of the former one, or leave before others that were due earlier."""
    cached = {**case("suppressed").settings, "statestore.cache.max.bytes": 1 << 20}
    changes = [*WAITING, FAR, ("in", late, DAY + 5 if late in KEYS else 11, None)]
    made = Case(topology=suppressed(), settings=cached, records=changes)
    sent = []
    for in_parts in (False, True):
        with PartsKit(tmp_path / str(in_parts), made, in_parts=in_parts) as kit:
            kit.feed()
            for number in range(len(changes)):
                kit.turn()
                if number == len(WAITING) - 1:
                    kit.commit()
            kit.commit()
            kit.turns()
            sent.append(kit.sent("out"))
    assert sent[0] == sent[1] != []


def test_what_meets_its_record_again_is_sent_at_once(tmp_path: Path) -> None:
    """Another branch takes the same record, and counts it beside what had waited: that would be late behind it."""
    made = builder()
    table = made.table("in")
    waited = table.suppress(Suppressed.until_time_limit(WAIT, BufferConfig.unbounded())).to_stream()
    windows = TimeWindows.of_size_with_no_grace(WAIT)
    counts = waited.merge(table.to_stream()).group_by_key().windowed_by(windows).count()
    counts.to_stream().map(lambda key, count: (key.key, f"{key.window.start} {count}")).to("out", OUT)
    meeting = Case(topology=made.build(), settings=case("suppressed").settings, records=[*WAITING, FAR])
    expected = all_at_once(tmp_path / "at-once", meeting)
    with PartsKit(tmp_path / "parts", meeting) as kit:
        kit.feed()
        kit.turns()
        assert kit.sent("out") == expected
        assert kit.dropped == 0
