"""An engine in memory that one thread writes while others read."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any

from state.engine.memory import MemoryEngine, MemoryFamily
from state.engine.port import Snapshot


class _Family:
    """A family of a shared engine. Single rows are read without the lock: a dictionary is consistent at any moment."""

    def __init__(self, family: MemoryFamily, lock: threading.Lock) -> None:
        self.name = family.name
        self.handle: Any = family
        self.get = family.get
        self._family = family
        self._lock = lock

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            return self._family.range(low, high, reverse=reverse)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        with self._lock:
            return self._family.seek(key)

    def approximate_count(self) -> int:
        return self._family.approximate_count()


class SharedMemoryEngine:
    """A :class:`~state.engine.memory.MemoryEngine` whose writes and ranges wait for each other."""

    persistent = False

    def __init__(self) -> None:
        self._engine = MemoryEngine()
        self._lock = threading.Lock()

    def family(self, name: str) -> _Family:
        """Returns a family of rows."""
        return _Family(self._engine.family(name), self._lock)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that keeps reads of several rows consistent."""
        return self._engine.lock

    def snapshot(self, families: Collection[str]) -> Snapshot:
        """Returns the rows of families as they are now."""
        return self._engine.snapshot(families)

    def holds(self, name: str) -> bool:
        """Whether a family has rows."""
        return self._engine.holds(name)

    def batch(self) -> Any:
        """Returns an empty batch of writes."""
        return self._engine.batch()

    def write(self, batch: Any) -> None:
        """Writes a batch."""
        with self._lock:
            self._engine.write(batch)

    load = write

    def flush(self) -> None:
        """Does nothing: there is no disk."""

    def clear(self, families: Collection[str]) -> None:
        """Removes the rows of families."""
        with self._lock:
            self._engine.clear(families)

    def close(self) -> None:
        """Closes the engine."""
        with self._lock:
            self._engine.close()
