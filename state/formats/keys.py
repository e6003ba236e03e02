"""Keys of windows and sessions, on topics and in stores (formats 9). Times are never negative.

* window on a topic: key, ``start i64``; in a store and its changelog: key, ``start i64``, ``sequence number i32``;
* session, everywhere: key, ``end i64``, ``start i64``;
* indexed stores keep a row by time, ``0x00``, times, key (and sequence number), and one by key, ``0x01`` and the key as
  above.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

MAX_TIME = (1 << 63) - 1

_TIME = struct.Struct(">q")
_TIME_AND_SEQUENCE = struct.Struct(">qi")
_SEQUENCE = struct.Struct(">i")
_TWO_TIMES = struct.Struct(">qq")
_BY_TIME, _BY_KEY = b"\x00", b"\x01"


def ends_of(parameters: Mapping[str, Any]) -> Callable[[int], int] | None:
    """Returns the function from the start of a window to its end, by the parameters of its store's supplier; ``None``
    if they tell nothing about it."""
    end, size = parameters.get("window_end"), parameters.get("window_size_ms")
    if end is None and size is not None:
        return partial(window_end, window_size_ms=size)
    found: Callable[[int], int] | None = end
    return found


def window_end(start: int, window_size_ms: int) -> int:
    """The end of a window, cut at the largest time there is."""
    return min(start + window_size_ms, MAX_TIME)


# --------------------------------------------------------------------- windows


def window_topic_key(key: bytes, start: int) -> bytes:
    """Returns a window's key as a windowed serde writes it; the end is not written."""
    return key + _TIME.pack(start)


def read_window_topic_key(data: bytes) -> tuple[bytes, int]:
    """Key and window start.

    :raises ValueError: if the data is too short.
    """
    _check(data, 8)
    return data[:-8], _TIME.unpack_from(data, len(data) - 8)[0]


def window_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    """Returns a window's key as window stores and their changelogs have it.

    The sequence number is 0 unless duplicates are kept.
    """
    return key + _TIME_AND_SEQUENCE.pack(start, sequence)


def read_window_key(data: bytes) -> tuple[bytes, int, int]:
    """Key, window start and sequence number.

    :raises ValueError: if the data is too short.
    """
    _check(data, 12)
    start, sequence = _TIME_AND_SEQUENCE.unpack_from(data, len(data) - 12)
    return data[:-12], start, sequence


def window_start(data: bytes) -> int:
    """Returns the window start of a key that :func:`window_key` made."""
    start: int = _TIME.unpack_from(data, len(data) - 12)[0]
    return start


def window_key_by_time(key: bytes, start: int, sequence: int = 0) -> bytes:
    return _BY_TIME + _TIME.pack(start) + key + _SEQUENCE.pack(sequence)


def read_window_key_by_time(data: bytes) -> tuple[bytes, int, int]:
    """Key, window start and sequence number.

    :raises ValueError: if the data is too short.
    """
    _check(data, 13)
    return data[9:-4], _TIME.unpack_from(data, 1)[0], _SEQUENCE.unpack_from(data, len(data) - 4)[0]


def window_key_by_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    return _BY_KEY + key + _TIME_AND_SEQUENCE.pack(start, sequence)


# -------------------------------------------------------------------- sessions


def session_key(key: bytes, start: int, end: int) -> bytes:
    """Returns a session's key, the same on topics, in stores and on changelogs: the end stands first."""
    return key + _TWO_TIMES.pack(end, start)


def read_session_key(data: bytes) -> tuple[bytes, int, int]:
    """Key, session start and end.

    :raises ValueError: if the data is too short.
    """
    _check(data, 16)
    end, start = _TWO_TIMES.unpack_from(data, len(data) - 16)
    return data[:-16], start, end


def session_key_by_time(key: bytes, start: int, end: int) -> bytes:
    return _BY_TIME + _TWO_TIMES.pack(end, start) + key


def read_session_key_by_time(data: bytes) -> tuple[bytes, int, int]:
    """Key, session start and end.

    :raises ValueError: if the data is too short.
    """
    _check(data, 17)
    end, start = _TWO_TIMES.unpack_from(data, 1)
    return data[17:], start, end


def session_key_by_key(key: bytes, start: int, end: int) -> bytes:
    return _BY_KEY + key + _TWO_TIMES.pack(end, start)


def _check(data: bytes, least: int) -> None:
    if len(data) < least:
        raise ValueError(f"the key must have at least {least} bytes, got {len(data)}")


def after_prefix(prefix: bytes) -> bytes | None:
    """The smallest bytes after every key that starts with the prefix; ``None`` if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
