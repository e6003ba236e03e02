"""An engine as a thread reads it that is not the one which writes.

A database keeps an iterator for the seeks of the thread that writes, which is taken from it at each write. Two threads
that moved it would read each other's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from state.engine.passing_on import PassingEngine
from state.engine.port import Family


class _ReadFamily:
    """A family without anything that is kept between two reads."""

    def __init__(self, family: Family) -> None:
        self.name = family.name
        self.get: Callable[[bytes], bytes | None] = family.get
        self._family = family

    @property
    def handle(self) -> Any:
        return self._family.handle

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._family.range(low, high, reverse=reverse)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        return next(self._family.range(key), None)

    def approximate_count(self) -> int:
        return self._family.approximate_count()


class ReadEngine(PassingEngine):
    """Reads an engine from any thread. What it is asked to write goes to the engine."""

    def family(self, name: str) -> _ReadFamily:
        """Returns a family, for reading."""
        return _ReadFamily(self._engine.family(name))

    def close(self) -> None:
        """Does nothing: the engine belongs to the thread that writes."""
