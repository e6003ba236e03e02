"""Rows of a store: as they are on disk, read without a topology, and those that its engine does not have yet.

Only a topology knows the sizes of windows and the serdes: here a window has its start and no end, and keys and values
are bytes. A kind says how each of its families is read (:class:`StoredFamily`); readers that several kinds share are
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sortedcontainers import SortedDict

from processor_api.record import HeaderList
from state.formats.values import read_session_with_headers, read_value_and_timestamp
from state.row_format.codec import access_of, without_access
from state.write_buffer.shared_rows import Uncommitted


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


LEAST_GROWTH_BYTES = 64 << 10
"""The least growth, between two tries to evict, of a cache that is full of uncommitted rows."""


class WaitingRows:
    """The size, the deletions and the order of rows that wait for the commit."""

    __slots__ = ("_index", "_indexed", "_key_bytes", "_uncommitted", "bytes", "deleted")

    def __init__(self, uncommitted: Uncommitted, key_bytes: Callable[[Any], bytes]) -> None:
        self._uncommitted = uncommitted
        self._key_bytes = key_bytes
        self.bytes = 0
        """Bytes of the rows that are logged."""
        self.deleted: list[Any] = []
        """Row keys of those of them that are deletions, and perhaps of some that were put again."""
        self._index: SortedDict[bytes, Any] | None = None
        """Row keys in order of their bytes: while the task reads ranges."""
        self._indexed = 0
        """How many of the new keys the index has."""

    def between(
        self, low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> tuple[Mapping[bytes, Any], Iterable[bytes]]:
        """Returns the row keys by their bytes, and these bytes in a range: by an index that is kept up to date while
        the task reads ranges."""
        uncommitted, key_bytes = self._uncommitted, self._key_bytes
        dirty, drained = uncommitted.dirty, uncommitted.drained
        if (not dirty and not drained) or (low is not None and high is not None and low >= high):
            return {}, ()
        index = self._index
        # The list of now is asked for before the rows are, as every reader does.
        fresh = uncommitted.watch() if index is None or uncommitted.fresh is None else uncommitted.fresh
        if index is None:
            index = self._index = SortedDict({key_bytes(key): key for rows in (dirty, drained) for key in rows})
        elif self._indexed < len(fresh):
            index.update({key_bytes(key): key for key in islice(fresh, self._indexed, None)})
        self._indexed = len(fresh)
        return index, index.irange(low, high, inclusive=(True, False), reverse=reverse)

    def forget(self) -> None:
        """No row waits for the commit, except rows that were put in the middle of it."""
        self.bytes = 0
        self.deleted.clear()
        self._index = None
        self._indexed = 0


class NextTry:
    """The next try to make room in a cache in which rows that wait for the commit are too many.

    They cannot go, and each try passes all of them. So it is tried again only when the cache has grown by a part of its
    size.
    """

    __slots__ = ("least",)

    def __init__(self) -> None:
        self.least = 0
        """The size of the cache from which on it is tried."""

    def put_off(self, cached: int) -> None:
        """Waits until a cache that has ``cached`` bytes has grown."""
        self.least = cached + (cached >> 3) + LEAST_GROWTH_BYTES
