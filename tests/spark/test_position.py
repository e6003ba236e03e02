"""Where a result stands: positions as values, and the meeting of the end of one part with the begin of the next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from processor_api.task_id import TopicPartition
from streams.spark import Position, PositionError
from streams.spark.backfill.continuing import Reading, continuation
from streams.spark.position import HistoryBatch, PartitionPosition, TopicPosition, end_of_run

FRAME = {"kind": "frame", "plan": "a"}


def placed(begins: dict[int, int], ends: dict[int, int], source: dict[str, Any] = FRAME, **given: Any) -> Reading:
    return Reading(HistoryBatch(source, begins, ends), **{"is_placed": True, "count": 2, "topic_id": None, **given})


def unplaced(**source: Any) -> Reading:
    return Reading(HistoryBatch({"kind": "files", "plan": "a", **source}), is_placed=False, count=2, topic_id=None)


def stands(
    *partitions: tuple[int | None, int | None], batches: tuple[HistoryBatch, ...] = (), id_: str | None = None
) -> Any:
    found = {number: PartitionPosition(*one) for number, one in enumerate(partitions)}
    return Position("shop", {"orders": TopicPosition(found, id_, batches)})


FIRST = HistoryBatch(FRAME, {0: 0, 1: 0}, {0: 10, 1: 5})
AT = stands((10, 10), (7, 5), batches=(FIRST,), id_="one")
"""After offsets 0 to 9 of a partition, and 0 to 4 of another one that was cut at 7."""


def go_on(position: Position, *, allow_gaps: bool = False, global_: bool = False, **readings: Reading) -> Any:
    return continuation(position, readings, ["orders"] if global_ else [], allow_gaps=allow_gaps)


def test_a_position_is_read_back_from_its_text() -> None:
    assert Position.from_json(AT.to_json()) == AT
    assert AT.offsets() == {TopicPartition("orders", 0): 10, TopicPartition("orders", 1): 7}
    assert AT.read_to(TopicPartition("orders", 1)) == 5
    assert AT.read_to(TopicPartition("users", 0)) == 0


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "topics": {"a": 1}}', "null"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(PositionError, match="not the text of a position"):
        Position.from_json(text)


def test_the_position_of_a_newer_release_is_refused() -> None:
    newer = {**json.loads(AT.to_json()), "version": 2}
    with pytest.raises(PositionError, match="of version 2, and this release reads version 1"):
        Position.from_json(json.dumps(newer))


@pytest.mark.parametrize(
    "following",
    [
        placed({0: 10, 1: 7}, {0: 11, 1: 9}),
        placed({0: 10}, {0: 11}),
        placed({1: 5}, {1: 6}),
        placed({1: 6}, {1: 7}),
        placed({}, {}),
    ],
)
def test_what_begins_where_the_state_stands_comes_next(following: Reading) -> None:
    """Between the last record and the cut, which says that no other record is there, a history may begin anywhere."""
    assert go_on(AT, orders=following).applied == ()


@pytest.mark.parametrize(
    ("following", "match"),
    [
        (placed({0: 9}, {0: 12}), r"orders-0 begins at offset 9, and .* at 10: 1 offset \(9 to 9\) would be processed"),
        (placed({0: 2}, {0: 5}), r"3 offsets \(2 to 4\) would be processed twice"),
        (placed({0: 0}, {0: 30}), r"10 offsets \(0 to 9\) would be processed twice"),
        (placed({0: 0}, {0: 10}, {"kind": "frame", "plan": "b"}), "they were applied before, from other filter"),
        (placed({0: 11}, {0: 12}), r"orders-0 begins at offset 11, .* 1 offset \(10 to 10\) would be left out"),
        (placed({1: 9}, {1: 12}), r"orders-1 begins at offset 9, .* 2 offsets \(7 to 8\) would be left out"),
        (placed({0: 10}, {0: 12}, count=1), "stands in 2 partitions of topic 'orders', and the history has 1"),
        (placed({0: 10}, {0: 12}, topic_id="two"), r"deleted and made again .*its id was one, it is two"),
    ],
)
def test_what_does_not_meet_the_state_is_refused_by_how_much(following: Reading, match: str) -> None:
    with pytest.raises(PositionError, match=match):
        go_on(AT, orders=following)


def test_a_gap_is_allowed_if_that_is_said() -> None:
    assert go_on(AT, orders=placed({0: 12}, {0: 13}), allow_gaps=True).applied == ()
    with pytest.raises(PositionError, match="processed twice"):
        go_on(AT, orders=placed({0: 9}, {0: 13}), allow_gaps=True)


def test_a_batch_that_was_applied_is_not_applied_again() -> None:
    found = go_on(AT, orders=placed({0: 0, 1: 0}, {0: 10, 1: 5}))
    assert found.applied == ("orders",)
    assert found.notes == ("the records of topic 'orders' are in initial_state already, and are not read again",)
    both = Position("shop", {**AT.topics, "users": TopicPosition({0: PartitionPosition(3, 3)})})
    again = {"orders": placed({0: 0, 1: 0}, {0: 10, 1: 5}), "users": placed({0: 3}, {0: 4})}
    with pytest.raises(PositionError, match="'orders' are in initial_state already, and those of 'users' are not"):
        go_on(both, **again)
    assert go_on(both, **{**again, "users": placed({}, {})}).applied == ("orders",)


def test_batches_without_offsets_are_told_apart_by_their_files_or_names() -> None:
    was = stands((None, None), batches=(unplaced(files=["a", "b"]).batch, unplaced(name="monday").batch))
    assert go_on(was, orders=unplaced(files=["a", "b"])).applied == ("orders",)
    assert go_on(was, orders=unplaced(name="monday")).applied == ("orders",)
    assert go_on(was, orders=unplaced(files=["c"])).applied == ()
    assert go_on(was, orders=unplaced(name="tuesday")).notes == ()
    with pytest.raises(PositionError, match="1 of the 2 files of the history of topic 'orders' are in initial_state"):
        go_on(was, orders=unplaced(files=["b", "c"]))
    with pytest.raises(PositionError, match="the batch 'monday' of topic 'orders' is in initial_state, with other"):
        go_on(was, orders=unplaced(name="monday", files=["c"]))
    (note,) = go_on(was, orders=unplaced()).notes
    assert "say History(name=...)" in note


def test_a_global_table_may_be_given_as_a_whole_or_go_on() -> None:
    assert go_on(AT, global_=True, orders=placed({0: 0, 1: 0}, {0: 12, 1: 5})).whole == ("orders",)
    assert go_on(AT, global_=True, orders=placed({0: 10}, {0: 12})).whole == ()
    with pytest.raises(PositionError, match="processed twice"):
        go_on(AT, global_=True, orders=placed({0: 3}, {0: 12}))
    with pytest.raises(PositionError, match="processed twice"):
        go_on(AT, global_=True, orders=placed({0: 0, 1: 0}, {0: 9, 1: 5}))


def test_the_state_of_another_application_is_refused() -> None:
    with pytest.raises(PositionError, match="an application that reads 'orders', and this topology reads 'users'"):
        go_on(AT, users=placed({0: 0}, {0: 1}))


def test_a_run_ends_where_its_tasks_its_pins_and_its_cut_say() -> None:
    pins = {"ranges": [["users", 0, 3, 9], ["users", 1, 4, 4]], "topic_ids": {"users": "two"}}
    run = {
        "application_id": "shop",
        "begin": AT.data(),
        "options": {"order": "auto"},
        "cut": {"offsets": {"orders": {"0": 25}}, "topic_ids": {"orders": "one"}, "skip_before_ms": None},
        "inputs": {
            "orders": {"offset": "offset", "source": FRAME},
            "users": {"offset": "offset", "source": {"kind": "kafka", "offsets": pins}},
            "rates": {"offset": None, "source": {"kind": "files", "files": {"f": [1, 2]}}},
        },
    }
    reports = [
        {"partition": 0, "partition_times": {"orders": 50}, "positions": {"orders": 20}, "begins": {"orders": 10}},
        {"partition": 1, "partition_times": {"orders": -1, "users": 8}, "positions": {}, "begins": {}},
        {"partition": 0, "partition_times": {"rates": 7}, "positions": {"rates": 2}, "begins": {}},
    ]
    found = end_of_run(run, reports)
    assert found.topics["orders"].partitions == {0: (25, 20, 50), 1: (7, 5, -1)}
    assert found.topics["orders"].batches == (FIRST, HistoryBatch(FRAME, {0: 10}, {0: 20}))
    assert found.topics["users"].partitions == {0: (9, 9, -1), 1: (4, 4, 8)}
    assert found.topics["rates"].partitions == {0: (None, None, 7)}
    assert found.topic_ids() == {"orders": "one", "users": "two"}
    skipped = end_of_run({**run, "applied": ["orders"]}, reports[1:])
    assert skipped.topics["orders"].batches == (FIRST,)
