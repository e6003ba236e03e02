"""Points in time and durations as a person types them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from processor_api.texts import shown

__all__ = ["duration_ms", "iso", "time_ms"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = re.compile(r"([0-9]{1,19})(ms|s|m|h|d)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MOST_MS = (1 << 63) - 1
"""The largest time and duration: those of Kafka are 64 bits."""
MOST_DIGITS = 19


def duration_ms(text: str) -> int:
    """Returns the milliseconds of a duration such as ``5m`` or ``1h30m``.

    :raises ValueError: if it is none; the text is a sentence.
    """
    parts = _PART.findall(text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text:
        raise ValueError(
            f"{shown(repr(text), 80)} is no duration: write a number with ms, s, m, h or d, such as 5m or 1h30m"
        )
    total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if total > MOST_MS:
        raise ValueError(f"{text!r} is too long: a duration has 64 bits of milliseconds")
    return total


def time_ms(given: Any) -> int:
    """Returns a point in time in ms since 1970: from such a number, or from ISO 8601, in UTC where no zone is given.

    :raises ValueError: if it is none; the text is a sentence.
    """
    if isinstance(given, str) and given.isdecimal() and len(given) <= MOST_DIGITS:
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        if 0 <= given <= MOST_MS:
            return given
    elif isinstance(given, str):
        try:
            found = datetime.fromisoformat(given)
        except ValueError:
            pass
        else:
            since = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)) - _EPOCH
            if since >= timedelta():
                return since // timedelta(milliseconds=1)
    raise ValueError(f"{given!r} is no time: write milliseconds since 1970, or ISO 8601 such as 2025-01-01T12:00:00Z")


def iso(ms: int) -> str | int:
    """Returns a time in ISO 8601 and UTC; milliseconds beyond the year 9999, which ISO 8601 does not have."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ms
