"""Durations, points in time and timeouts: standard types or numbers, wherever one is given (semantics 192)."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from typing import Any

from processor_api.texts import repr_of

LAST_MS = (1 << 63) - 1
"""The longest duration and the last point in time that Kafka has, in ms."""

MOST_SECONDS = 3600
"""The longest timeout that may be a plain number: what is longer was mostly meant in milliseconds."""

Duration = timedelta | int
"""A span of time: a ``timedelta`` of whole milliseconds, or an integer number of milliseconds."""

Timestamp = int | datetime
"""A point in time: whole milliseconds since 1970, or a ``datetime`` with a time zone, which is the millisecond in which
it lies."""

Timeout = timedelta | float
"""How long a call may wait: a ``timedelta``, or seconds, as in Python's own calls."""

_MS = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def whole_ms(given: Any) -> int | None:
    """Returns the milliseconds since 1970 of a point in time, whole numbers among them; ``None`` for anything else,
    such as a datetime without a zone."""
    if isinstance(given, datetime):
        return None if given.utcoffset() is None else (given - _EPOCH) // _MS
    return whole_number(given)


def to_ms(duration: Duration, name: str) -> int:
    """Returns the milliseconds of a duration.

    :param name: the name of the argument, for the error's text.
    :raises TypeError: if it is neither a timedelta of whole milliseconds nor a whole number of at most 64 bits (a bool
        is none).
    """
    if isinstance(duration, timedelta):
        found, rest = divmod(duration, _MS)
        if rest:
            raise TypeError(f"{name} must be whole milliseconds, got {repr_of(duration)}, which has parts of one")
        return found
    number = whole_number(duration)
    if number is None or not -LAST_MS <= number <= LAST_MS:
        kind = "integer milliseconds" if number is None else "integer milliseconds of at most 64 bits"
        raise TypeError(f"{name} must be a timedelta or {kind}, got {repr_of(duration)}")
    return number


def to_timestamp_ms(timestamp: Timestamp, name: str) -> int:
    """Returns the milliseconds since 1970 of a point in time.

    :param name: the name of the argument, for the error's text.
    :raises TypeError: if it is neither a whole number of at most 64 bits nor a datetime with a time zone.
    """
    found = whole_ms(timestamp)
    if found is None or not -LAST_MS <= found <= LAST_MS:
        given = repr_of(timestamp)
        raise TypeError(f"{name} must be integer milliseconds or a datetime with a time zone, got {given}")
    return found


def to_seconds(timeout: Timeout, name: str) -> float:
    """Returns the seconds of a timeout.

    :param name: the name of the argument, for the error's text.
    :raises TypeError: if it is neither a timedelta nor a number.
    :raises ValueError: if it is negative, or a number above 3,600: that was mostly meant in milliseconds.
    """
    number: Any = whole_number(timeout)
    if isinstance(timeout, timedelta):
        found = timeout.total_seconds()
    elif number is None and not isinstance(timeout, float):
        raise TypeError(f"{name} must be a timedelta or seconds, got {repr_of(timeout)}")
    else:
        found = float(timeout if number is None else min(number, LAST_MS))
        if found > MOST_SECONDS or found != found:
            raise ValueError(
                f"{name} is in seconds, at most {MOST_SECONDS}, got {repr_of(timeout)}: where these are milliseconds,"
                " or for more than an hour, give a timedelta"
            )
    if found < 0:
        raise ValueError(f"{name} must not be negative, got {repr_of(timeout)}")
    return found
