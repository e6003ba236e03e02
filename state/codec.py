"""How rows of key-value kinds are written: to the engine, and to the changelog."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from processor_api.record import NO_TIMESTAMP

__all__ = ["PLAIN", "TIMESTAMPED", "RowCodec"]

_TIMESTAMP = struct.Struct(">q")
_pack, _unpack_from = _TIMESTAMP.pack, _TIMESTAMP.unpack_from


@dataclass(frozen=True)
class RowCodec:
    """A row of the engine from a value's bytes and its timestamp, and back. Frozen on disk."""

    family_suffix: str
    """What distinguishes this format's column family from a store's others (KIP-258)."""
    write: Callable[[bytes, int], bytes]
    read: Callable[[bytes], tuple[bytes, int]]
    keeps_timestamp: bool


def _write_timestamped(value: bytes, timestamp: int) -> bytes:
    return _pack(timestamp) + value


def _read_timestamped(row: bytes) -> tuple[bytes, int]:
    return row[8:], _unpack_from(row)[0]


PLAIN = RowCodec("plain", lambda value, timestamp: value, lambda row: (row, NO_TIMESTAMP), False)
"""The value alone."""

TIMESTAMPED = RowCodec("timestamped", _write_timestamped, _read_timestamped, True)
"""Eight bytes of timestamp, then the value (reference 3.1)."""
