"""Durations: a timedelta or integer milliseconds, wherever one is given."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["Duration", "to_ms"]

Duration = timedelta | int
"""A span of time: a ``timedelta``, or an integer number of milliseconds."""


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
