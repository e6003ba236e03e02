"""Differences of tables: all of them, and nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from streams.spark import Position, PositionError, SparkBridgeError
from streams.spark.position import PartitionPosition, TopicPosition
from streams.spark.tables.diff import check_positions, diff_tables
from streams.spark.tables.known import remember

SCHEMA = "key string, n int, value double"


def test_differences_are_those_of_two_dictionaries(spark: Any) -> None:
    """Null keys and values, NaN, and keys that only one table has."""
    chance = random.Random(3)
    tables: list[dict[Any, Any]] = [{}, {}]
    for number in range(60):
        key = (chance.choice([None, "a", "b", "é", ""]), number % 20)
        for table in tables:
            if chance.random() < 0.8:
                table[key] = chance.choice([None, float("nan"), 0.5, 1.0])
    left, right = (spark.createDataFrame([(*key, value) for key, value in one.items()], SCHEMA) for one in tables)
    found = diff_tables(left, right, keys=("key", "n"), names=("expected", "live")).collect()
    rows = {(row["key"], row["n"]): row for row in found}
    assert len(rows) == len(found)

    def shown(value: Any) -> str:
        return repr(value)

    differing = {
        key for key in tables[0].keys() | tables[1].keys()
        if (key in tables[0]) != (key in tables[1]) or shown(tables[0][key]) != shown(tables[1][key])
    }  # fmt: skip
    assert set(rows) == differing
    for key, row in rows.items():
        for name, table in zip(("expected", "live"), tables, strict=True):
            assert (row[name] is None) == (key not in table)
            assert key not in table or shown(row[name]["value"]) == shown(table[key])
        expected = (
            "different" if all(key in one for one in tables) else f"only_{'expected' if key in tables[0] else 'live'}"
        )
        assert row["difference"] == expected
    assert {row["difference"] for row in found} == {"different", "only_expected", "only_live"}
    assert diff_tables(left, left, keys=("key", "n")).count() == 0


def test_tables_that_cannot_be_compared_are_refused(spark: Any) -> None:
    table = spark.createDataFrame([("a", 1, 0.5)], SCHEMA)
    with pytest.raises(SparkBridgeError, match="the table live has no column 'value', only: key, n"):
        diff_tables(table, table.drop("value"), names=("expected", "live"))
    with pytest.raises(
        SparkBridgeError, match="'value' is double in left and string in right: read both with the same"
    ):
        diff_tables(table, table.selectExpr("key", "string(value) as value"))
    with pytest.raises(SparkBridgeError, match="'key', 'right' and 'difference' are columns"):
        diff_tables(table, table, names=("key", "right"))


def stands(topic_id: str | None = "one", **partitions: tuple[int | None, int | None]) -> Position:
    found = {int(name[1:]): PartitionPosition(*one) for name, one in partitions.items()}
    return Position("shop", {"orders": TopicPosition(found, topic_id)})


@pytest.mark.parametrize(
    ("own", "live", "said"),
    [
        (stands(p0=(9, 9)), stands(p0=(9, 9)), None),
        (stands(p0=(9, 9)), stands(p0=(9, 7)), None),  # from 7 to 9 there are markers of transactions only
        (stands(p0=(9, 9)), stands(p0=(12, 8)), None),
        (stands(p0=(9, 5)), stands(p0=(7, 7)), None),
        (stands(p0=(9, 9)), stands(p0=(8, 7)), "orders-0 is in the result up to 9, and in the live table up to 8"),
        (stands(p0=(9, 9)), stands(p0=(30, 20)), "orders-0 is in the result up to 9, and in the live table up to 20"),
        (stands(p0=(1, 1), p1=(2, 2)), stands(p0=(1, 1), p1=(4, 4)), "orders-1 is in the result up to 2"),
        (stands(p0=(1, 1)), stands("two", p0=(1, 1)), "topic orders was made again in between"),
        (stands(p0=(None, None)), stands(p0=(5, 5)), None),  # a history without offsets
        (stands(p0=(1, 1)), Position("shop", {"users": TopicPosition({0: PartitionPosition(3, 3)})}), None),
    ],
)
def test_tables_of_other_records_are_told_by_their_positions(
    spark: Any, own: Position, live: Position, said: str | None
) -> None:
    frame = remember(spark.range(1), position=lambda: live)
    if said is None:
        check_positions(own, frame)
    else:
        with pytest.raises(PositionError, match=f"{said}.* positions='ignore' compares them all the same"):
            check_positions(own, frame)


def test_a_table_whose_position_is_not_known_is_compared(spark: Any) -> None:
    def unknown() -> Position:
        raise PositionError("the position is not known")

    check_positions(stands(p0=(1, 1)), remember(spark.range(1), position=unknown))
    check_positions(stands(p0=(1, 1)), spark.range(1))
