"""Names for authors of storage engines: the port that an engine implements, and how it is registered.

    from streams.engines import Engine, register_engine

An engine keeps the rows of all stores of a task that are on it (docs/custom-stores.md). Applications that use the two
built-in engines, RocksDB and memory, need nothing from here.
"""

from __future__ import annotations

from state.engine.port import OFFSETS, POSITIONS, Batch, BulkLoading, Engine, Family, Snapshot
from state.engine.registry import EngineFactory, register_engine

__all__ = [
    "OFFSETS",
    "POSITIONS",
    "Batch",
    "BulkLoading",
    "Engine",
    "EngineFactory",
    "Family",
    "Snapshot",
    "register_engine",
]
