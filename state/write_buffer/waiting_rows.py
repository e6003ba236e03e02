"""The rows of a task's store that its engine does not have yet, as the task's thread counts and orders them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from sortedcontainers import SortedDict

from state.write_buffer.shared_rows import Uncommitted

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
        """Nothing waits for the commit any more, or only what was put in the middle of it."""
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
