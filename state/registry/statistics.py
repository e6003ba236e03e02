"""Figures of a store and its engine, to be read by any thread at any time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from state.registry.kinds import families_of
from state.write_buffer.store_kind import OpenStore

ROCKSDB_PROPERTIES = {
    "num-immutable-mem-table": "memtables that are not flushed yet, except the active one",
    "cur-size-active-mem-table": "bytes of the active memtable",
    "cur-size-all-mem-tables": "bytes of the active memtable and of memtables that are not flushed yet",
    "size-all-mem-tables": "bytes of all memtables, including those held by iterators",
    "num-entries-active-mem-table": "entries in the active memtable",
    "num-entries-imm-mem-tables": "entries in memtables that are not flushed yet",
    "num-deletes-active-mem-table": "deletions in the active memtable",
    "num-deletes-imm-mem-tables": "deletions in memtables that are not flushed yet",
    "mem-table-flush-pending": "1 if a flush is due, otherwise 0",
    "num-running-flushes": "running flushes",
    "compaction-pending": "1 if a compaction is due, otherwise 0",
    "num-running-compactions": "running compactions",
    "estimate-pending-compaction-bytes": "estimated bytes that compactions must rewrite",
    "total-sst-files-size": "bytes of all files",
    "live-sst-files-size": "bytes of the files of the newest version",
    "num-live-versions": "versions of the files that are in use",
    "block-cache-capacity": "capacity of the block cache of the process, in bytes",
    "block-cache-usage": "bytes in the block cache of the process",
    "block-cache-pinned-usage": "bytes in the block cache of the process that cannot be evicted",
    "estimate-num-keys": "estimated number of keys",
    "estimate-table-readers-mem": "estimated bytes of indexes and filters outside of the block cache",
    "background-errors": "errors of flushes and compactions",
}
"""RocksDB's own properties that are metrics (KIP-607), and what they mean."""

_OF_THE_DATABASE = {"num-running-flushes", "num-running-compactions", "background-errors"}
_OF_THE_PROCESS = {"block-cache-capacity", "block-cache-usage", "block-cache-pinned-usage"}


_US_PER_MS = 1000


def _count(found: Mapping[str, float], name: str) -> float:
    return found[name]


def _ms(found: Mapping[str, float], name: str) -> float:
    return found[name] / _US_PER_MS


def _hits(found: Mapping[str, float], name: str) -> float:
    asked = found[f"{name}.hit"] + found[f"{name}.miss"]
    return found[f"{name}.hit"] / asked if asked else math.nan


def _mean_ms(found: Mapping[str, float], name: str) -> float:
    return found[f"{name} SUM"] / found[name] / _US_PER_MS if found[name] else math.nan


def _most_ms(found: Mapping[str, float], name: str) -> float:
    return found[f"{name} P100"] / _US_PER_MS if found[name] else math.nan


ROCKSDB_STATISTICS = {
    "bytes-written-total": ("bytes written", _count, "bytes.written"),
    "bytes-read-total": ("bytes read", _count, "bytes.read"),
    "memtable-bytes-flushed-total": ("bytes that flushes have written", _count, "flush.write.bytes"),
    "memtable-hit-ratio": ("share of reads served from a memtable", _hits, "memtable"),
    "memtable-flush-time-avg": ("mean time of a flush, in ms", _mean_ms, "db.flush.micros"),
    "memtable-flush-time-max": ("longest time of a flush, in ms", _most_ms, "db.flush.micros"),
    "write-stall-duration-total": ("time that writes had to wait, in ms", _ms, "stall.micros"),
    "block-cache-data-hit-ratio": ("share of row blocks found in the cache", _hits, "block.cache.data"),
    "block-cache-index-hit-ratio": ("share of index blocks found in the cache", _hits, "block.cache.index"),
    "block-cache-filter-hit-ratio": ("share of filter blocks found in the cache", _hits, "block.cache.filter"),
    "bytes-read-compaction-total": ("bytes that compactions have read", _count, "compact.read.bytes"),
    "bytes-written-compaction-total": ("bytes that compactions have written", _count, "compact.write.bytes"),
    "compaction-time-avg": ("mean time of a compaction, in ms", _mean_ms, "compaction.times.micros"),
    "compaction-time-max": ("longest time of a compaction, in ms", _most_ms, "compaction.times.micros"),
    "number-file-errors-total": ("files that could not be opened", _count, "no.file.errors"),
}
"""RocksDB's statistics that are metrics (KIP-471): what they mean, and what they are made of."""


class HasStatistics(Protocol):
    """An engine that keeps RocksDB's statistics."""

    def statistics(self) -> str: ...


class DatabaseStatistics:
    """Reads the statistics of a database, for all of its metrics at once; any thread may ask."""

    def __init__(self, engine: HasStatistics) -> None:
        self._engine = engine
        self._found: dict[str, float] = {}

    def read(self) -> bool:
        """Reads them as they are now; returns whether there are any."""
        for line in self._engine.statistics().splitlines():
            name, *rest = line.removeprefix("rocksdb.").split()
            for what, value in zip(rest[::3], rest[2::3], strict=False):
                self._found[name if what == "COUNT" else f"{name} {what}"] = float(value)
        return bool(self._found)

    def value(self, metric: str) -> float:
        """Returns one of `ROCKSDB_STATISTICS`, as it was when they were read."""
        _, made, name = ROCKSDB_STATISTICS[metric]
        try:
            return made(self._found, name)
        except KeyError:  # RocksDB has no such statistic
            return math.nan


class HasProperties(Protocol):
    """An engine whose families have properties, as RocksDB's do."""

    def property(self, family: str, name: str) -> int: ...


def rocksdb_property(store: OpenStore, engine: HasProperties, name: str) -> int:
    """Returns one of `ROCKSDB_PROPERTIES`, of all families of the store; 0 when it is closed.

    Properties that RocksDB has only for a whole database are the task's, and those of the block cache the process's.
    """
    families = families_of(store.builder)
    if name in _OF_THE_DATABASE or name in _OF_THE_PROCESS:
        families = families[:1]
    return sum(engine.property(family, f"rocksdb.{name}") for family in families)


def uncommitted(store: OpenStore) -> tuple[int, int]:
    """Returns the entries and the bytes that wait for a commit.

    A row that was put again while its last value waits counts twice. The bytes of rows that a cache holds back are
    added up when this is called.
    """
    rows = store.rows
    dirty, drained = rows.dirty.copy(), rows.drained.copy()  # each in one step: the stream thread keeps writing
    entries = len(dirty) + len(drained)
    cost = rows.format.cost
    size = sum(cost(key, entry[0]) for key, entry in dirty.items())
    size += sum(cost(key, row[1]) for key, row in drained.items())
    for one in store.participants:
        more, bytes_more = one.waiting
        entries += more
        size += bytes_more
    return entries, size
