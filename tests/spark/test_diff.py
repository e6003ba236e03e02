"""Differences of tables: all of them, and nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from streams.spark import SparkBridgeError
from streams.spark.tables.diff import diff_tables

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
