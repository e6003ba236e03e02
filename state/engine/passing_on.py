"""An engine that passes every call on to another: for engines that change one thing about it."""

from __future__ import annotations

from collections.abc import Collection
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
