"""Rows on disk, read without a topology: key, value, times and headers.

Only a topology knows the sizes of windows and the serdes: here a window has its start and no end, and keys and values
are bytes. A kind says how each of its families is read (:class:`StoredFamily`); readers that several kinds share are
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from processor_api.record import HeaderList
from state.formats.headers_value import read_session_with_headers
from state.formats.value_and_timestamp import read_value_and_timestamp
from state.row_format.codec import access_of, without_access


@dataclass(frozen=True)
class StoredRow:
    """One entry of a store."""

    key: bytes
    value: bytes | list[bytes | None] | None
    """The value; a list in list stores, ``None`` in a version without a value."""
    timestamp: int | None = None
    """Milliseconds since the epoch; ``None`` where the kind keeps none."""
    headers: HeaderList | None = None
    """``None`` where the kind keeps none."""
    more: Mapping[str, int] = field(default_factory=dict)
    """Further times in ms and numbers of the kind: ``window_start``, ``session_end``, ``valid_from``..."""


Reader = Callable[[bytes, bytes], StoredRow | None]
"""``(key, value)`` of a row to what it says; ``None`` for rows that the store keeps for itself.

Raises ValueError or struct.error if the row is not one of the family."""

Bounds = tuple[bytes | None, bytes | None]
"""``low <= key < high``; ``None`` is open."""


def _key_of(row: StoredRow) -> Any:
    return row.key


def _same_bounds(low: bytes | None, high: bytes | None) -> Bounds:
    return low, high


@dataclass(frozen=True)
class StoredFamily:
    """The reader of one column family's rows."""

    read: Reader
    columns: tuple[str, ...] = ()
    """Columns of an entry besides its key and value: `timestamp`, `headers`, and those of :attr:`StoredRow.more`."""
    bounds: Callable[[bytes | None, bytes | None], Bounds] = _same_bounds
    """Converts bounds of the store's keys to bounds of the rows that may belong to them."""
    order: Callable[[StoredRow], Any] = _key_of
    """Returns the sort key of an entry, where a store has several families."""


def read_plain(key: bytes, row: bytes) -> StoredRow:
    """Reads a row that is only the value."""
    return StoredRow(key, row)


def read_timestamped(key: bytes, row: bytes) -> StoredRow:
    """A value with its timestamp (KIP-258)."""
    value, timestamp = read_value_and_timestamp(row)
    return StoredRow(key, value, timestamp)


def read_headers(key: bytes, row: bytes) -> StoredRow:
    """A value with its timestamp and headers (KIP-1271)."""
    rest, timestamp = read_value_and_timestamp(row)
    value, headers = read_session_with_headers(rest)
    return StoredRow(key, value, timestamp, headers)


def read_headers_alone(key: bytes, row: bytes) -> StoredRow:
    """An aggregate with its headers, without a timestamp."""
    value, headers = read_session_with_headers(row)
    return StoredRow(key, value, None, headers)


def _with_access(read: Reader) -> Reader:
    def read_accessed(key: bytes, row: bytes) -> StoredRow:
        found = read(key, without_access(row))
        assert found is not None
        return replace(found, more={"accessed": access_of(row)})

    return read_accessed


PLAIN_FAMILY = StoredFamily(read_plain)
TIMESTAMPED_FAMILY = StoredFamily(read_timestamped, ("timestamp",))
HEADERS_FAMILY = StoredFamily(read_headers, ("timestamp", "headers"))
ACCESSED_FAMILY = StoredFamily(_with_access(read_timestamped), ("timestamp", "accessed"))
HEADERS_ACCESSED_FAMILY = StoredFamily(_with_access(read_headers), ("timestamp", "headers", "accessed"))
