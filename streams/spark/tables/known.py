"""Keeps what is known of the DataFrames that this library made: offsets, position, versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from streams.spark.position import Position
from streams.spark.sources.ranges import OffsetRanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Known:
    """Holds the facts about one DataFrame."""

    offsets: OffsetRanges | None = None
    position: Callable[[], Position] | None = None
    """Determines the position in the inputs; raises `PositionError` if it is unknown."""
    versions: str | None = None
    """The versions that a table of a versioned store has, ``"latest"`` or ``"all"``."""


_known: WeakKeyDictionary[DataFrame, Known] = WeakKeyDictionary()


def remember(
    df: DataFrame,
    offsets: OffsetRanges | None = None,
    position: Callable[[], Position] | None = None,
    versions: str | None = None,
) -> DataFrame:
    """Returns the DataFrame, of which this is known from now on."""
    _known[df] = Known(offsets, position, versions)
    return df


def known_of(df: DataFrame) -> Known:
    """Returns what is known of a DataFrame; of one that was made of another, nothing is."""
    return _known.get(df, Known())
