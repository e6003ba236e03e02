"""An engine that passes every call on to another: for engines that change one thing about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any

from state.engine.port import Batch, Engine, Family, Snapshot


class PassingEngine:
    """Implements `state.engine.port.Engine` by another engine."""

    def __init__(self, engine: Engine) -> None:
        self.persistent = engine.persistent
        self._engine = engine

    @property
    def lock(self) -> AbstractContextManager[Any]:
        return self._engine.lock

    def family(self, name: str) -> Family:
        return self._engine.family(name)

    def holds(self, name: str) -> bool:
        return self._engine.holds(name)

    def snapshot(self, families: Collection[str]) -> Snapshot:
        return self._engine.snapshot(families)

    def batch(self) -> Batch:
        return self._engine.batch()

    def write(self, batch: Batch) -> None:
        self._engine.write(batch)

    def load(self, batch: Batch) -> None:
        self._engine.load(batch)

    def flush(self) -> None:
        self._engine.flush()

    def clear(self, families: Collection[str]) -> None:
        self._engine.clear(families)

    def close(self) -> None:
        self._engine.close()


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
    """Reads an engine from any thread. What it is asked to write goes to the engine.

    A database keeps an iterator for the seeks of the thread that writes, which is taken from it at each write. Two
    threads that moved it would read each other's rows.
    """

    def family(self, name: str) -> _ReadFamily:
        """Returns a family, for reading."""
        return _ReadFamily(self._engine.family(name))

    def close(self) -> None:
        """Does nothing: the engine belongs to the thread that writes."""
