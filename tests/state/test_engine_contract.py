"""Every engine passes the public contract of engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from state.memory_engine import MemoryEngine
from state.rocksdb_engine import RocksEngine
from streams.testing.contracts.engines import FAMILIES, EngineContract


class TestMemoryEngine(EngineContract):
    def open_engine(self, path: Path) -> Any:
        return MemoryEngine()


class TestRocksEngine(EngineContract):
    def open_engine(self, path: Path) -> Any:
        return RocksEngine(path, FAMILIES)
