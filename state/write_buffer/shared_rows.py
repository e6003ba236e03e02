"""The rows of a store that its task's thread shares with readers in other threads, and the rules for both sides.

Readers see one moment of a store while the task's thread puts, drains, evicts, commits and aborts, and that thread does
nothing for them when a row is put. It rests on three rules (docs/decisions/stores.md has the
reasons and the alternatives):

1. **A row is put where it goes before it is taken from where it was**: `dirty`, `draining`, `drained`, then the engine.
   A reader that reads in this order finds it, without a lock or a counter. A put that replaces a dirty row takes it out
   and puts it in again: nothing is called between the two, so that no other thread runs there.
2. **One call of built-in functions is one moment.** CPython changes threads between instructions of Python code, not
   inside of a built-in function: ``tuple(map(call, reads))`` reads all dictionaries of a store at once, if each of
   ``reads`` is a built-in function bound to what it reads (an atomic read).
3. **A write holds the engine's lock**, once for each commit. The thread that has the lock takes copies and a snapshot
   that belong together.

The dictionaries are cleared, never replaced, since functions on the hot path hold them; `draining` and `fresh` are
replaced, so they are read through the object.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

from state.engine.port import Engine, Family
from state.row_format.record_context import Cursor
from state.row_format.row_format import Entry, RowFormat

Logged = tuple[bytes, bytes | None, int]
"""Key, value and timestamp of a row as they were logged."""

WATCHED_COMMITS = 100
"""Commits after the last read of a range during which new keys are still noted."""


class Uncommitted:
    """The rows of a store that the engine does not have yet."""

    __slots__ = ("_lock", "_watched_for", "dirty", "drained", "draining", "fresh")

    def __init__(self, dirty: dict[Any, Entry] | None = None, drained: dict[Any, Logged] | None = None) -> None:
        self.dirty: dict[Any, Entry] = {} if dirty is None else dirty
        """Rows put since the last drain, in order of last update; neither logged nor, with caching, forwarded."""
        self.draining: dict[Any, Entry] = {}
        """Rows that a drain is moving from `dirty` to `drained`."""
        self.drained: dict[Any, Logged] = {} if drained is None else drained
        """Rows that are logged and wait for the commit."""
        self.fresh: list[Any] | None = None
        """Keys put since the last commit, while ranges are read (:meth:`watch`); another list with each commit."""
        self._watched_for = 0
        self._lock = threading.Lock()

    def holds(self, key: Any) -> bool:
        """Whether a row waits, also while a drain moves it, when it is in neither `dirty` nor `drained`. For the task's
        own thread."""
        return key in self.dirty or key in self.draining or key in self.drained

    def watch(self) -> list[Any]:
        """Returns the list in which the keys that are put are noted until the next commit; then there is another, for
        some commits. Any thread may ask. Keys of rows that are there already are not in it."""
        with self._lock:
            self._watched_for = WATCHED_COMMITS
            if self.fresh is None:
                self.fresh = []
            return self.fresh

    def committed(self) -> None:
        """Begins another list of new keys: the rows of this one are in the engine."""
        with self._lock:
            self._watched_for = max(0, self._watched_for - 1)
            self.fresh = [] if self._watched_for else None

    def clear(self) -> None:
        """Forgets all rows, and that ranges are read: the store is closed."""
        self.dirty.clear()
        self.drained.clear()
        with self._lock:
            self._watched_for = 0
            self.fresh = None


@dataclass(frozen=True)
class SharedRows:
    """The parts of one store's rows that any thread may read."""

    format: RowFormat
    engine: Engine
    family: Family
    """The family of the engine that holds the rows."""
    cursor: Cursor
    uncommitted: Uncommitted

    def at(self, family: Family, uncommitted: Uncommitted) -> SharedRows:
        """Returns the same store with other rows, such as those of a snapshot."""
        return replace(self, family=family, uncommitted=uncommitted)
