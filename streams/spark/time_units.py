"""Times as integers: the unit that they are in, and what shows that it is another one than was thought.

Kafka's times are ms since 1970. A column of seconds or microseconds has the same type, and every record of it would be
of January 1970, or of a year far ahead that closes all windows for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.spark.errors import SparkBridgeError, TimestampRangeError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

UNITS = {"s": 1_000, "ms": 1, "us": -1_000, "ns": -1_000_000}
"""The units by name: the factor to ms, negative for a divisor."""

SECONDS = range(1_000_000_000, 5_000_000_000)
"""Seconds of the years 2001 to 2128; as ms they are of January and February 1970."""
FAR = 100_000_000_000_000
"""Microseconds of 1973; as ms it is the year 5138."""


def check_time_unit(unit: str | None) -> None:
    """Makes sure that there is such a unit of times; ``None`` stands for ms that look like ms.

    :raises SparkBridgeError: if there is none.
    """
    if unit is not None and unit not in UNITS:
        raise SparkBridgeError(f"time_unit={unit!r}: it must be {', '.join(map(repr, UNITS))}")


def seems_another_unit(number: int) -> str | None:
    """Returns what an integer time seems to be if not ms: ``"seconds"``, or ``"microseconds or nanoseconds"``."""
    if number in SECONDS:
        return "seconds"
    return "microseconds or nanoseconds" if number >= FAR else None


def another_unit_row(times: pa.Array) -> int | None:
    """Returns the place of the first of some integer times that seems to be in another unit than ms."""
    import pyarrow.compute as pc

    bounds = pc.min_max(times).as_py()
    low, high = bounds["min"], bounds["max"]
    if low is None or (high < FAR and (high < SECONDS.start or low >= SECONDS.stop)):
        return None
    seconds = pc.and_(pc.greater_equal(times, SECONDS.start), pc.less(times, SECONDS.stop))
    row: int = pc.index(pc.or_(seconds, pc.greater_equal(times, FAR)), True).as_py()
    return None if row < 0 else row


def refuse_other_unit(
    number: int, what: str, say: str = "say time_unit='s', 'us' or 'ns', or 'ms' if it is right", **place: str
) -> None:
    """Refuses an integer time that seems to be in another unit than ms.

    :param what: what has this time, for the error.
    :param say: what to do if it is in that unit.
    :param place: fields of the error.
    :raises TimestampRangeError: if it seems so.
    """
    seems = seems_another_unit(number)
    if seems is not None:
        text = f"{what} {number}, which is taken for ms since 1970 and seems to be {seems}: {say}"
        raise TimestampRangeError(text, **place)


def as_ms(column: Column, unit: str | None) -> Column:
    """Returns a column of integers as ms since 1970, rounded towards the past."""
    from pyspark.sql import functions

    factor, number = UNITS[unit or "ms"], column.cast("long")
    if factor > 0:
        return number if factor == 1 else number * functions.lit(factor)
    parts = functions.lit(-factor).cast("long")
    return functions.call_function("div", number - functions.call_function("pmod", number, parts), parts)
