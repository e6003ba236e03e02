"""Messages and rows of foreign-key joins of tables (formats 12).

A left row subscribes at the task of its foreign key, and gets an answer with the value of the right row. Both carry the
hash of the left value, which shows whether an answer belongs to an older value.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mmh3 import mmh3_x64_128_digest

from processor_api.record import HeaderList
from state.formats.values import read_headers, write_headers

NEWEST_VERSION = 1
HASH_BYTES = 16

UNANSWERED = b"\xff\xff\xff\xff"
"""The first bytes of the keys of changes without all answers: no key of a subscription begins with a length of -1."""

_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_NO_HASH = 0x80
_MARK = 0x40
"""Stands where a subscription has its version."""
_SEED = 104729
_WORDS = struct.Struct("<QQ")
_WRITTEN = struct.Struct(">QQ")


class Subscription(NamedTuple):
    """A subscription as it was read."""

    instruction: int
    hash: bytes | None
    """The hash of the left value; ``None`` if that is null."""
    key: bytes
    """The left row's."""
    partition: int | None
    """The partition of the left task, which gets the answer; ``None`` in version 0."""


def subscription_prefix(foreign_key: bytes) -> bytes:
    """Returns what the keys of all subscriptions of a foreign key begin with."""
    return _I32.pack(len(foreign_key)) + foreign_key


def subscription_key(foreign_key: bytes, key: bytes) -> bytes:
    """Returns the key of a subscription in its store."""
    return _I32.pack(len(foreign_key)) + foreign_key + key


def subscriptions_end(prefix: bytes) -> bytes:
    """Returns the smallest bytes that are greater than the keys of all subscriptions of a foreign key."""
    kept = prefix.rstrip(b"\xff")  # it begins with a length that is not negative
    return kept[:-1] + bytes((kept[-1] + 1,))


def subscription(instruction: int, hash_: bytes | None, key: bytes, partition: int | None) -> bytes:
    """Returns the bytes of a subscription.

    :param partition: the partition of the left task; ``None`` writes version 0, which has none, for older readers.
    """
    version = 0 if partition is None else NEWEST_VERSION
    front = bytes((version, instruction)) + hash_ if hash_ is not None else bytes((version | _NO_HASH, instruction))
    return front + key if partition is None else front + key + _I32.pack(partition)


def read_subscription(data: bytes) -> Subscription:
    """Reads a subscription.

    :raises ValueError: if the bytes are none, or are of a newer version.
    """
    start = 2 if data[:1] >= b"\x80" else 2 + HASH_BYTES
    version = data[0] & ~_NO_HASH if data else 0
    if version > NEWEST_VERSION:
        raise ValueError(f"a subscription of version {version}, but this library reads versions 0 and 1")
    end = len(data) - (4 if version else 0)
    if end < start:
        raise ValueError(f"not a subscription of a foreign-key join: {data!r}")
    return Subscription(
        instruction=data[1],
        hash=None if start == 2 else data[2:start],
        key=data[start:end],
        partition=_I32.unpack_from(data, end)[0] if version else None,
    )


class Unanswered(NamedTuple):
    """A change of a row of the right table of which some subscriptions may have no answer yet."""

    foreign_key: bytes
    headers: HeaderList
    value: bytes | None
    """The new right value; ``None`` if the row was deleted."""


def unanswered_key(number: int) -> bytes:
    """Returns the key of such a row, by the number of the change among those that were answered in parts."""
    return UNANSWERED + _I64.pack(number)


def unanswered(foreign_key: bytes, headers: HeaderList | None, value: bytes | None) -> bytes:
    """Returns the row of a change of which some subscriptions may have no answer yet."""
    front = b"".join(_I32.pack(len(piece)) + piece for piece in (foreign_key, write_headers(headers or ())))
    return bytes((_MARK,)) + front + (_I32.pack(-1) if value is None else _I32.pack(len(value)) + value)


def is_unanswered(data: bytes) -> bool:
    """Whether a row of the store of subscriptions is that of such a change."""
    return data[:1] == bytes((_MARK,))


def read_unanswered(data: bytes) -> Unanswered:
    """Reads the row of such a change.

    :raises ValueError: if the bytes are none.
    """
    pieces: list[bytes | None] = []
    end = 1
    try:
        while len(pieces) < 3:
            length, end = _I32.unpack_from(data, end)[0], end + _I32.size
            pieces.append(None if length < 0 else data[end : end + length])
            end += max(0, length)
    except struct.error:
        end = -1
    foreign_key, headers, value = (*pieces, None, None, None)[:3]
    if end != len(data) or not is_unanswered(data) or foreign_key is None or headers is None:
        raise ValueError(f"not a row of a change without all answers: {data!r}")
    return Unanswered(foreign_key, read_headers(headers), value)


def response(hash_: bytes | None, value: bytes | None) -> bytes:
    """Returns the bytes of an answer; a null value looks like an empty one (a defect of the format)."""
    front = b"\x80" if hash_ is None else b"\x00" + hash_
    return front if value is None else front + value


def read_response(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Reads the hash and the right value of an answer.

    :raises ValueError: if the bytes are none, or are of a newer version.
    """
    if data[:1] == b"\x80":
        return None, data[1:] or None
    if data[:1] != b"\x00" or len(data) <= HASH_BYTES:
        raise ValueError(f"not an answer of a foreign-key join, or one of a newer version: {data!r}")
    return data[1 : 1 + HASH_BYTES], data[1 + HASH_BYTES :] or None


def murmur3_128(data: bytes) -> bytes:
    """Returns Kafka's 128-bit murmur3 of the data, as it is written in messages."""
    return _WRITTEN.pack(*_WORDS.unpack(mmh3_x64_128_digest(data, _SEED)))
