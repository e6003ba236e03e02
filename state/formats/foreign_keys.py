"""Messages and rows of foreign-key joins of tables (formats 12).

A left row subscribes at the task of its foreign key, and gets an answer with the value of the right row. Both carry the
hash of the left value, which shows whether an answer belongs to an older value.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mmh3 import mmh3_x64_128_digest

__all__ = [
    "Subscription",
    "murmur3_128",
    "read_response",
    "read_subscription",
    "response",
    "subscription",
    "subscription_key",
    "subscription_prefix",
]

NEWEST_VERSION = 1
HASH_BYTES = 16

_I32 = struct.Struct(">i")
_NO_HASH = 0x80
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
        raise ValueError(f"a subscription of version {version}; this library reads versions 0 and 1")
    end = len(data) - (4 if version else 0)
    if end < start:
        raise ValueError(f"not a subscription of a foreign-key join: {data!r}")
    return Subscription(
        instruction=data[1],
        hash=None if start == 2 else data[2:start],
        key=data[start:end],
        partition=_I32.unpack_from(data, end)[0] if version else None,
    )


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
