"""Reads the rows of a store: those of a buffer, laid over those of a family of the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from state.row_format.row_format import Entry
from state.write_buffer.read_counts import ReadCounts
from state.write_buffer.shared_rows import SharedRows

Get = Callable[[Any], Entry | None]
"""Returns for a key a tuple that starts with (value, timestamp); ``None`` if there is none."""
Overlay = list[tuple[bytes, Entry]]
"""Rows of a buffer by their keys' bytes, in order."""


class ReadRule(ABC):
    """Decides which rows of a store are shown: a store with a time to live hides what has expired."""

    @abstractmethod
    def around_get(self, get: Get, rows: RowReader) -> Get:
        """Returns `get` of these rows with the rule applied."""

    @abstractmethod
    def shown(
        self, over: Overlay, below: Iterator[tuple[bytes, bytes]]
    ) -> tuple[Overlay, Iterator[tuple[bytes, bytes]]]:
        """Returns the rows of a buffer and of the engine with the rule applied, as of now."""


class RowReader:
    """The rows of one store, for reading. The base keeps nothing in memory of what it has read."""

    def __init__(self, shared: SharedRows, rule: ReadRule | None = None) -> None:
        self.shared = shared
        self.format = shared.format
        self.name = shared.format.store
        self.family = shared.family
        self.cursor = shared.cursor
        self.dirty, self.drained = shared.uncommitted.dirty, shared.uncommitted.drained
        self.clean: dict[Any, Entry] = {}
        """Rows that are known beside those that wait for the commit."""
        self.rule = rule
        self.reads: ReadCounts | None = None
        """Counts the reads, if anything does; set before `get` is made."""

    @property
    def persistent(self) -> bool:
        """Whether the engine keeps its rows on disk."""
        return self.shared.engine.persistent

    @property
    def read_through(self) -> Callable[[Any], Entry | None]:
        """The function that reads a row that is neither in `dirty` nor in `clean`, by its row key."""
        return self._read_family

    def _read_family(self, row_key: Any) -> Entry | None:
        row = self.family.get(self.format.keys.bytes_of(row_key))
        return None if row is None else self.format.entry_of(row)

    def around_get(self, get: Get) -> Get:
        """Returns `get` as users and operators get it: with the rule of the rows, if they have one."""
        return get if self.rule is None else self.rule.around_get(get, self)

    def approximate_count(self) -> int:
        """Returns about how many rows there are: those of the engine and those that wait for the commit."""
        return self.family.approximate_count() + len(self.dirty) + len(self.drained)

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Returns the live rows with ``low <= key < high`` in order, as they are now; values as they are kept."""
        over = self._overlay(low, high, reverse)
        # Both are taken now: the iterator shows rows as they are at this call.
        below = self.family.range(low, high, reverse=reverse)
        if self.rule is not None:
            over, below = self.rule.shown(over, below)
        return merged(over, below, self.format.entry_of, reverse)

    def _overlay(self, low: bytes | None, high: bytes | None, reverse: bool) -> Overlay:
        """Returns the rows of the buffer in a range. Compares all of them: an index would be read only once."""
        found: dict[bytes, Entry] = {}
        stored, key_bytes = self.format.values.stored, self.format.keys.bytes_of
        for raw, data, timestamp in self.drained.values():
            if (low is None or low <= raw) and (high is None or raw < high):
                found[raw] = None if data is None else stored(data), timestamp
        for key, entry in self.dirty.items():
            raw = key_bytes(key)
            if (low is None or low <= raw) and (high is None or raw < high):
                found[raw] = entry
        return sorted(found.items(), key=itemgetter(0), reverse=reverse)


def merged(
    over: Overlay, below: Iterator[tuple[bytes, bytes]], decode: Callable[[bytes], Entry], reverse: bool
) -> Iterator[tuple[bytes, Entry]]:
    """Yields the rows of a buffer and of the engine in the order of their keys.

    Where both have a key the buffer's row wins; a value of ``None`` there hides the engine's row.
    """
    if not over:
        for key, row in below:
            yield key, decode(row)
        return
    position, end = 0, len(over)
    for key, row in below:
        while position < end and (over[position][0] > key if reverse else over[position][0] < key):
            if over[position][1][0] is not None:
                yield over[position]
            position += 1
        if position < end and over[position][0] == key:
            continue
        yield key, decode(row)
    for key, entry in over[position:]:
        if entry[0] is not None:
            yield key, entry
