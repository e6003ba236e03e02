"""Durations and points in time: standard types or integer milliseconds, wherever one is given."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from typing import Any

from processor_api.texts import repr_of

LAST_MS = (1 << 63) - 1
"""The longest duration and the last point in time that Kafka has, in ms."""

Duration = timedelta | int
"""A span of time: a ``timedelta``, or an integer number of milliseconds."""

Timestamp = int | datetime
"""A point in time: whole milliseconds since 1970, or a ``datetime`` with a time zone."""


def whole_number(given: Any) -> int | None:
    """Returns a whole number as a plain int: also one of another type of integers, such as numpy's; ``None`` for
    anything else, such as a truth value or a float without a fraction."""
    if type(given) is int:
        return given
    if isinstance(given, bool):
        return None
    try:
        return int(operator.index(given))
    except Exception:  # also whatever its own __index__ raises
        return None


def to_ms(duration: Duration, name: str) -> int:
    """Returns the whole milliseconds of a duration.

    :param name: the name of the argument, for the error's text.
    :raises TypeError: if it is neither a timedelta nor a whole number of at most 64 bits (a bool is none).
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    found = whole_number(duration)
    if found is None or not -LAST_MS <= found <= LAST_MS:
        kind = "integer milliseconds" if found is None else "integer milliseconds of at most 64 bits"
        raise TypeError(f"{name} must be a timedelta or {kind}, got {repr_of(duration)}")
    return found


def to_timestamp_ms(timestamp: Timestamp, name: str) -> int:
    """Returns the milliseconds since 1970 of a point in time.

    :param name: the name of the argument, for the error's text.
    :raises TypeError: if it is neither a whole number of at most 64 bits nor a datetime with a time zone.
    """
    if isinstance(timestamp, datetime) and timestamp.tzinfo is not None:
        since = timestamp - datetime(1970, 1, 1, tzinfo=UTC)
        return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    found = whole_number(timestamp)
    if found is None or not -LAST_MS <= found <= LAST_MS:
        given = repr_of(timestamp)
        raise TypeError(f"{name} must be integer milliseconds or a datetime with a time zone, got {given}")
    return found
