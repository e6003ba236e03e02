"""Compares two tables as DataFrames: the keys whose rows differ, with both rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from processor_api.texts import repr_of
from streams.spark.errors import SparkBridgeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def diff_tables(
    left: DataFrame,
    right: DataFrame,
    *,
    keys: Sequence[str] = ("key",),
    values: Sequence[str] = ("value",),
    names: tuple[str, str] = ("left", "right"),
) -> DataFrame:
    """Returns the keys whose rows differ: the key columns, ``difference``, and a struct of the value columns of each
    table, which is null where the table has no such key.

    ``difference`` is ``only_left``, ``only_right`` (with the names given) or ``different``. Nulls are equal to nulls
    and differ from everything else, in keys too; NaN is equal to NaN. Equal tables give no rows. Nothing is read before
    an action.

    :param keys: the columns that name a row; no two rows of one table have the same ones.
    :param values: the columns that are compared.
    :param names: the names of the two tables in the result.
    :raises SparkBridgeError: if a column is missing in one of the tables, or has another type there.
    """
    from pyspark.sql.functions import col, lit, struct, when

    _check(left, right, [*keys, *values], names)
    one, other = names
    if len({*keys, "difference", *names}) != len(keys) + 3:
        raise SparkBridgeError(
            f"the names {repr_of(one)}, {repr_of(other)} and 'difference' are columns of the result: give others"
        )
    sides = [
        df.select(
            *(col(f"`{key}`").alias(f"_{side}_{number}") for number, key in enumerate(keys)),
            struct(*(col(f"`{value}`") for value in values)).alias(f"_{side}"),
        )
        for side, df in enumerate((left, right))
    ]
    pairs = [(col(f"_0_{number}"), col(f"_1_{number}")) for number in range(len(keys))]
    same_key = reduce(lambda both, each: both & each, (a.eqNullSafe(b) for a, b in pairs))
    joined = sides[0].join(sides[1], same_key, "full_outer").where(~col("_0").eqNullSafe(col("_1")))
    difference = when(col("_1").isNull(), lit(f"only_{one}")).when(col("_0").isNull(), lit(f"only_{other}"))
    return joined.select(
        *(
            when(col("_0").isNull(), right_key).otherwise(left_key).alias(key)
            for key, (left_key, right_key) in zip(keys, pairs, strict=True)
        ),
        difference.otherwise(lit("different")).alias("difference"),
        col("_0").alias(one),
        col("_1").alias(other),
    )


def _check(left: DataFrame, right: DataFrame, columns: Sequence[str], names: tuple[str, str]) -> None:
    types = [dict(df.dtypes) for df in (left, right)]
    for column in columns:
        for name, found in zip(names, types, strict=True):
            if column not in found:
                raise SparkBridgeError(f"the table {name} has no column {column!r}, only: {', '.join(found)}")
        first, second = (found[column] for found in types)
        if first != second:
            raise SparkBridgeError(
                f"the column {column!r} is {first} in {names[0]} and {second} in {names[1]}: read both with the same"
                " serdes, or both raw"
            )
