"""Compares two tables as DataFrames: the keys whose rows differ, with both rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from processor_api.texts import repr_of
from state.write_buffer.changelog_form import ChangelogForm
from streams.spark.errors import PositionError, SparkBridgeError
from streams.spark.position import Position
from streams.spark.rows.columns import TEXT
from streams.spark.rows.table_layout import TableLayout
from streams.spark.tables.known import known_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


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
    and differ from everything else, in keys too; NaN is equal to NaN. Maps with the same entries are equal, whatever
    their order. Equal tables give no rows. Nothing is read before an action.

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
    kinds = [left.schema[key].dataType for key in keys]
    same_key = reduce(
        lambda both, each: both & each,
        (_comparable(a, kind).eqNullSafe(_comparable(b, kind)) for (a, b), kind in zip(pairs, kinds, strict=True)),
    )
    rows = [_comparable(col(name), df.schema[name].dataType) for name, df in zip(("_0", "_1"), sides, strict=True)]
    joined = sides[0].join(sides[1], same_key, "full_outer").where(~rows[0].eqNullSafe(rows[1]))
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


def _comparable(value: Column, kind: DataType) -> Column:
    """Returns a value with each map as a sorted array of its entries, because Spark does not compare maps."""
    from pyspark.sql.functions import array_sort, map_entries, struct, transform, transform_values, when
    from pyspark.sql.types import ArrayType, MapType, StructType

    if "map<" not in kind.simpleString():
        return value
    if isinstance(kind, MapType):
        entry = kind.valueType
        return array_sort(map_entries(transform_values(value, lambda _, one: _comparable(one, entry))))
    if isinstance(kind, ArrayType):
        item = kind.elementType
        return transform(value, lambda one: _comparable(one, item))
    if not isinstance(kind, StructType):
        return value
    fields = (_comparable(value.getField(one.name), one.dataType).alias(one.name) for one in kind)
    return when(value.isNotNull(), struct(*fields))


def has_structs(live: DataFrame, layout: TableLayout) -> bool:
    """Returns whether a table was read with structs.

    :param layout: that of the same table without them.
    """
    types = dict(live.dtypes)
    own = (("key", layout.key, 0), ("value", layout.value, 1 if layout.form is ChangelogForm.LISTS else 0))
    return any(column.kind == TEXT and types.get(name, "").count("<") > depth for name, column, depth in own)


def check_positions(own: Position, live: DataFrame) -> None:
    """Makes sure that a live table is of the same records as a result, as far as the positions of both are known.

    :raises PositionError: if one of them has processed more of an input, by how much.
    """
    known = known_of(live).position
    try:
        other = None if known is None else known()
    except PositionError:  # it is not known
        return
    differences = [] if other is None else list(_differences(own, other))
    if differences:
        raise PositionError(
            f"the result and the live table are not of the same records: {'; '.join(differences)}. Run the backfill up"
            " to where the live table is (position_of), or read the table again where it is behind; positions='ignore'"
            " compares them all the same",
        )


def _differences(own: Position, other: Position) -> Iterator[str]:
    for topic, found in sorted(own.topics.items()):
        live = other.topics.get(topic)
        if live is None:
            continue
        if None not in (found.topic_id, live.topic_id) and found.topic_id != live.topic_id:
            yield f"topic {topic} was made again in between"
            continue
        for number, one in sorted(found.partitions.items()):
            two = live.partitions.get(number)
            if two is None or None in (one.offset, one.read_to, two.offset, two.read_to):
                continue
            # From read_to to offset there are no records, so that both mean the same.
            if _end(one.offset) < _end(two.read_to):
                yield f"{topic}-{number} is in the result up to {one.offset}, and in the live table up to {two.read_to}"
            elif _end(two.offset) < _end(one.read_to):
                yield f"{topic}-{number} is in the result up to {one.read_to}, and in the live table up to {two.offset}"


def _end(offset: int | None) -> int:
    return offset or 0


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
