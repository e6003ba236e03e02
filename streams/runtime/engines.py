"""Opens the storage engine that a store supplier names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from processor_api.clock import Clock
from processor_api.errors import TopologyError
from processor_api.store_spec import MEMORY, ROCKSDB
from state.engine import Engine
from state.memory_engine import MemoryEngine

if TYPE_CHECKING:
    from state.rocksdb_options import SharedMemory

__all__ = ["Engines"]

ROCKSDB_DIRECTORY = "rocksdb"


class Engines:
    """The engines of a process; RocksDB's databases share one cache and one write-buffer budget."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._memory: SharedMemory | None = None

    def open(self, name: str, directory: Path, families: Sequence[str]) -> Engine:
        """Opens an engine in a task's directory.

        :raises RetryableError: another process has not let go of it yet.
        :raises StateError: it is damaged or cannot be opened.
        """
        if name == MEMORY:
            return cast(Engine, MemoryEngine())
        if name == ROCKSDB:
            return self._open_rocksdb(directory, families)
        raise TopologyError(f"there is no storage engine named {name!r}")

    def _open_rocksdb(self, directory: Path, families: Sequence[str]) -> Engine:
        from state.rocksdb_engine import RocksEngine  # only applications with such a store pay for loading it
        from state.rocksdb_options import SharedMemory

        if self._memory is None:
            self._memory = SharedMemory()
        engine: Any = RocksEngine(directory / ROCKSDB_DIRECTORY, families, self._memory, self._clock)
        return cast(Engine, engine)
