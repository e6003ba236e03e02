"""Figures of a store and its engine, to be read by any thread at any time."""

from __future__ import annotations

from typing import Protocol

from state.registry.kinds import families_of
from state.write_buffer.store_kind import OpenStore

ROCKSDB_PROPERTIES = {
    "num-immutable-mem-table": "memtables that are not flushed yet, but for the active one",
    "cur-size-active-mem-table": "bytes of the active memtable",
    "cur-size-all-mem-tables": "bytes of the active memtable and of those that are not flushed yet",
    "size-all-mem-tables": "bytes of all memtables, those held by iterators included",
    "num-entries-active-mem-table": "entries in the active memtable",
    "num-entries-imm-mem-tables": "entries in memtables that are not flushed yet",
    "num-deletes-active-mem-table": "deletions in the active memtable",
    "num-deletes-imm-mem-tables": "deletions in memtables that are not flushed yet",
    "mem-table-flush-pending": "1 if a flush is due, else 0",
    "num-running-flushes": "flushes that run",
    "compaction-pending": "1 if a compaction is due, else 0",
    "num-running-compactions": "compactions that run",
    "estimate-pending-compaction-bytes": "bytes that compactions have to rewrite, as estimated",
    "total-sst-files-size": "bytes of all files",
    "live-sst-files-size": "bytes of the files of the newest version",
    "num-live-versions": "versions of the files that somebody reads",
    "block-cache-capacity": "bytes that the block cache of the process may hold",
    "block-cache-usage": "bytes in the block cache of the process",
    "block-cache-pinned-usage": "bytes in the block cache of the process that cannot be evicted",
    "estimate-num-keys": "keys, as estimated",
    "estimate-table-readers-mem": "bytes of indexes and filters outside of the block cache, as estimated",
    "background-errors": "errors of flushes and compactions",
}
"""RocksDB's own properties that are metrics (KIP-607), and what they mean."""

_OF_THE_DATABASE = {"num-running-flushes", "num-running-compactions", "background-errors"}
_OF_THE_PROCESS = {"block-cache-capacity", "block-cache-usage", "block-cache-pinned-usage"}


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
    dirty, drained = rows.dirty.copy(), rows.drained.copy()  # each in one step: the stream thread goes on writing
    entries = len(dirty) + len(drained)
    cost = rows.format.cost
    size = sum(cost(key, entry[0]) for key, entry in dirty.items())
    size += sum(cost(key, row[1]) for key, row in drained.items())
    for one in store.participants:
        more, bytes_more = one.waiting
        entries += more
        size += bytes_more
    return entries, size
