"""How rows of key-value kinds are written: to the engine, and to the changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from processor_api.record import NO_TIMESTAMP
from state.engine import Batch
from state.formats.value_and_timestamp import pack_timestamp, read_value_and_timestamp

__all__ = ["PLAIN", "TIMESTAMPED", "RowCodec", "without_rows"]

Logged = tuple[bytes, bytes | None, int]


@dataclass(frozen=True)
class RowCodec:
    """A row of the engine from a value's bytes and its timestamp, and back. Frozen on disk."""

    family_suffix: str
    """What distinguishes this format's column family from a store's others (KIP-258)."""
    write: Callable[[bytes, int], bytes]
    read: Callable[[bytes], tuple[bytes, int]]
    fill: Callable[[Batch, Any, Iterable[Logged]], None]
    """Puts logged rows, as ``(key, value's bytes or None, timestamp)``, into a batch of the engine for a family's
    handle: the loop over `write` that runs at every commit."""


def _fill_plain(batch: Batch, handle: Any, rows: Iterable[Logged]) -> None:
    put, delete = batch.put, batch.delete
    for key, data, _ in rows:
        if data is None:
            delete(key, handle)
        else:
            put(key, data, handle)


def _fill_timestamped(batch: Batch, handle: Any, rows: Iterable[Logged]) -> None:
    put, delete, pack = batch.put, batch.delete, pack_timestamp
    for key, data, timestamp in rows:
        if data is None:
            delete(key, handle)
        else:
            put(key, pack(timestamp) + data, handle)


def _write_timestamped(value: bytes, timestamp: int) -> bytes:
    return pack_timestamp(timestamp) + value


PLAIN = RowCodec("plain", lambda value, timestamp: value, lambda row: (row, NO_TIMESTAMP), _fill_plain)
"""The value alone."""

TIMESTAMPED = RowCodec("timestamped", _write_timestamped, read_value_and_timestamp, _fill_timestamped)
"""Eight bytes of timestamp, then the value (reference 3.1)."""


def without_rows(family_suffix: str) -> RowCodec:
    """Of a kind of store that has no rows in the engine."""
    return replace(PLAIN, family_suffix=family_suffix)
