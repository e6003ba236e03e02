"""Durations and points in time: standard types or integer milliseconds, wherever one is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["Duration", "Timestamp", "to_ms", "to_timestamp_ms"]

Duration = timedelta | int
"""A span of time: a ``timedelta``, or an integer number of milliseconds."""

Timestamp = int | datetime
"""A point in time: whole milliseconds since 1970, or a ``datetime`` with a time zone."""


def to_ms(duration: Duration, name: str) -> int:
    """Returns the whole milliseconds of a duration.

    :param name: the name of the argument, for the error's text.
    :raises TypeError: if it is neither a timedelta nor an int (a bool is none).
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    if isinstance(duration, bool) or not isinstance(duration, int):
        raise TypeError(f"{name} must be a timedelta or integer milliseconds, got {duration!r}")
    return duration


def to_timestamp_ms(timestamp: Timestamp, name: str) -> int:
    """Returns the milliseconds since 1970 of a point in time.

    :param name: the name of the argument, for the error's text.
    :raises TypeError: if it is neither an int nor a datetime with a time zone.
    """
    if isinstance(timestamp, datetime) and timestamp.tzinfo is not None:
        since = timestamp - datetime(1970, 1, 1, tzinfo=UTC)
        return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise TypeError(f"{name} must be integer milliseconds or a datetime with a time zone, got {timestamp!r}")
    return timestamp
