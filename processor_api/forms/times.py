"""Points in time and durations as a person writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from processor_api.texts import cut, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_PART = re.compile(r"([0-9]{1,19})(ms|s|m|h|d)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_ISO_DURATION = re.compile(
    r"P(?:([0-9]{1,19})D)?(?:T(?=[0-9])(?:([0-9]{1,19})H)?(?:([0-9]{1,19})M)?(?:([0-9]{1,19})(?:\.([0-9]{1,3}))?S)?)?",
    re.IGNORECASE,
)
MOST_MS = (1 << 63) - 1
"""The largest time and duration: those of Kafka are 64 bits."""
MOST_DIGITS = 19
MOST_SHOWN = 80
"""Characters of what was given, in the text of an error."""


def duration_ms(text: str) -> int:
    """Returns the milliseconds of a duration such as ``5m`` or ``1h30m``, or one of ISO 8601 such as ``PT5M``.

    :raises ValueError: if it is none; the text is a sentence.
    """
    total = _iso_duration_ms(text)
    if total is None:
        parts = _PART.findall(text)
        if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text:
            raise ValueError(
                f"{_quoted(text)} is not a duration: write a number with ms, s, m, h or d, such as 5m or 1h30m"
            )
        total = sum(int(number) * _UNITS[unit] for number, unit in parts)
    if total > MOST_MS:
        raise ValueError(f"{_quoted(text)} is too long: a duration must fit into 64 bits of milliseconds")
    return total


def _iso_duration_ms(text: str) -> int | None:
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    fraction = int((match[5] or "").ljust(3, "0"))
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction


def time_ms(given: Any) -> int:
    """Returns a point in time in ms since 1970: from such a number, from ISO 8601, or from a ``datetime``, in UTC where
    no zone is given.

    :raises ValueError: if it is none, or before 1970; the text is a sentence.
    """
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) <= MOST_DIGITS:
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        if 0 <= given <= MOST_MS:
            return given
    elif isinstance(given, (str, datetime)):
        try:
            found = datetime.fromisoformat(given) if isinstance(given, str) else given
        except ValueError:
            pass
        else:
            since = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)) - _EPOCH
            if since >= timedelta():
                return since // _MS
    raise ValueError(
        f"{_quoted(given)} is not a time: write milliseconds since 1970, or ISO 8601 such as 2025-01-01T12:00:00Z"
    )


def _quoted(given: Any) -> str:
    return repr(cut(given, MOST_SHOWN)) if isinstance(given, str) else shown(str(given), MOST_SHOWN)


def iso(ms: int) -> str | int:
    """Returns a time in ISO 8601 and UTC; the milliseconds themselves before 1970, and beyond the year 9999, which ISO
    8601 does not have."""
    if ms < 0:
        return ms
    try:
        return (_EPOCH + _MS * ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ms


def duration_text(ms: int) -> str:
    """Returns a duration as :func:`duration_ms` reads it, such as ``1h30m``."""
    parts, left = [], ms
    for unit, size in reversed(_UNITS.items()):
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def short_iso(ms: int) -> str:
    """Returns a time as :func:`iso` does, without milliseconds that are 0."""
    return str(iso(ms)).replace(".000Z", "Z")
