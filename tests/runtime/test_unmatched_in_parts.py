"""Records of joins of streams that leave without a partner do so in parts, like final results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dsl.processors.joins.unmatched import EMIT_INTERVAL
from dsl.processors.windows.emission import PART_ROWS
from processor_api.topology.topology import Topology
from runtime_support.parts_kit import Case, Given, PartsKit, all_at_once, killed_after_each_commit, same_in_parts
from streams import JoinWindows, Produced, StreamJoined, StreamsBuilder

DAY = 86_400_000
PART = 3
OUT: Produced[str, str] = Produced(key_serde="string", value_serde="string")
NEAR = JoinWindows.of_time_difference_and_grace(20, 5)
KEYS = [f"key-{number}".encode() for number in range(11)]
LEFT: list[Given] = [("a", key, 10 + number % 3, None) for number, key in enumerate(KEYS)]
RIGHT: list[Given] = [("b", b"right-" + key, 12 + number % 3, None) for number, key in enumerate(KEYS)]
WAITING = [*LEFT, *RIGHT]


def joined(kind: str = "outer_join", windows: JoinWindows = NEAR) -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    left, right = builder.stream("a"), builder.stream("b")
    how: StreamJoined[str, str, str] = StreamJoined(name="j", store_name="j")
    getattr(left, kind)(right, lambda one, other: f"{one} {other}", windows=windows, joined=how).to("out", OUT)
    return builder.build()


ASYMMETRIC = JoinWindows.of_time_difference_and_grace(10, 5).after(300)
CASES: dict[str, tuple[Topology, list[Given]]] = {
    "outer": (joined(), [*WAITING, ("a", b"far", DAY, [("h", b"far")]), ("b", b"behind", 2 * DAY, None)]),
    "left": (joined("left_join"), [*WAITING, ("b", b"far", DAY, None), ("a", b"behind", 2 * DAY, None)]),
    # left records wait for longer, and some of them stay where all right ones leave
    "asymmetric": (
        joined(windows=ASYMMETRIC),
        [*WAITING, ("a", b"near", 60, None), ("a", b"far", 314, None), *(("a", b"end", 400 + n, None) for n in (0, 9))],
    ),
    # what the next look begins with is what the last one ended with, not the record that waits since
    "next look": (
        joined(windows=ASYMMETRIC),
        [*RIGHT, ("b", b"far", 300, None), ("a", b"looks", 320, None), ("a", b"far", 305, None)],
    ),
}


def case(name: str, engine: str = "rocksDB") -> Case:
    topology, records = CASES[name]
    settings = {PART_ROWS: PART, EMIT_INTERVAL: 0, "default.dsl.store": engine}
    return Case(topology=topology, settings=settings, records=records)


@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("name", CASES)
def test_the_parts_are_the_same_results_in_the_same_order(name: str, engine: str, tmp_path: Path) -> None:
    """All that waited was sent in the call for the record whose time let it go."""
    assert len(same_in_parts(tmp_path, case(name, engine), PART)) >= len(KEYS)


@pytest.mark.parametrize("name", ["outer", "left"])
def test_each_commit_between_two_parts_is_where_the_next_life_goes_on(name: str, tmp_path: Path) -> None:
    """With the next record whose time is that of the join, as Kafka Streams does after a restart."""
    expected = all_at_once(tmp_path / "at-once", case(name))
    lives = killed_after_each_commit(tmp_path, case(name))
    assert lives == [expected] * len(lives)


def has_a_partner() -> Topology:
    return joined(windows=JoinWindows.of_time_difference_and_grace(DAY, 0).before(20))


def does_not_wait() -> Topology:
    return joined(windows=JoinWindows.of_time_difference_and_grace(20, 0).after(-5))


@pytest.mark.parametrize(
    ("topology", "records"),
    [
        (has_a_partner, [("a", b"x", 13, None), *RIGHT, ("b", b"x", 40, None)]),
        (does_not_wait, [*RIGHT, ("a", b"x", DAY, None)]),
    ],
)
def test_results_of_the_record_itself_come_behind_all_that_it_lets_go(
    topology: Callable[[], Topology], records: list[Given], tmp_path: Path
) -> None:
    made = Case(topology=topology(), settings=case("outer").settings, records=records)
    expected = all_at_once(tmp_path / "at-once", made)
    with PartsKit(tmp_path / "parts", made) as kit:
        kit.feed()
        kit.turns()
        assert kit.sent("out") == expected
        assert expected[-1][0] == b"x"


def test_another_record_of_the_same_drain_waits_for_the_rest(tmp_path: Path) -> None:
    """It may be a partner of one that leaves, or move the time."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    left, right = builder.stream("a"), builder.table("b", materialized="kept").to_stream()
    how: StreamJoined[str, str, str] = StreamJoined(name="j", store_name="j")
    wide = JoinWindows.of_time_difference_and_grace(DAY, 0).before(20)
    left.outer_join(right, lambda one, other: f"{one} {other}", windows=wide, joined=how).to("out", OUT)
    drained: list[Given] = [("b", b"x", 33, [("h", b"x")]), ("b", b"y", 34, [("h", b"y")]), ("b", b"partner", 34, None)]
    records: list[Given] = [("a", b"partner", 12, None), *RIGHT, *drained]
    settings = {**case("outer").settings, "statestore.cache.max.bytes": 1 << 20}
    sent = []
    for in_parts in (False, True):
        made = Case(topology=builder.build(), settings=settings, records=records)
        with PartsKit(tmp_path / str(in_parts), made, in_parts=in_parts) as kit:
            kit.feed()
            for number in range(len(records)):
                kit.turn()
                if number == len(records) - len(drained) - 1:
                    kit.commit()
            kit.commit()
            kit.turns()
            found = kit.broker.records("out", read_committed=False)
            sent.append([(record.key(), record.value(), record.headers()) for record in found])
    assert sent[0] == sent[1]
    assert [headers for _, _, headers in sent[0]] == [[("h", b"x")]] * (PART + 1) + [[("h", b"y")]] * 4 + [None]


def test_a_part_has_the_headers_and_the_place_of_the_record_that_let_it_go(tmp_path: Path) -> None:
    with PartsKit(tmp_path, case("outer")) as kit:
        kit.feed()
        kit.turns()
        found = {record.key(): record.headers() for record in kit.broker.records("out", read_committed=False)}
    assert [found[key] for key in (*KEYS, *(b"right-" + key for key in KEYS))] == [[("h", b"far")]] * 2 * len(KEYS)


def test_a_stream_joined_with_itself_meets_its_results_and_sends_all_at_once(tmp_path: Path) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream("a")
    stream.outer_join(
        stream.filter(lambda key, value: False), lambda one, other: f"{one} {other}", windows=NEAR, joined="j"
    ).to("out", OUT)
    records: list[Given] = [*LEFT, ("a", b"far", DAY, None), ("a", b"behind", 2 * DAY, None)]
    made = Case(topology=builder.build(), settings=case("outer").settings, records=records)
    expected = all_at_once(tmp_path / "at-once", made)
    with PartsKit(tmp_path / "parts", made) as kit:
        kit.feed()
        kit.turns()
        assert kit.sent("out") == expected
    assert len(expected) > len(KEYS)
