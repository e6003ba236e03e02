"""RocksDB's settings: one database per task, one block cache and one write-buffer budget per process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBRecoveryMode,
    MemtableFactory,
    Options,
    WriteBufferManager,
    WriteOptions,
)

from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from state.engine.port import OFFSETS, POSITIONS

BULK_BUFFER_BYTES = 4 << 20
"""One memtable while rows are loaded in bulk: small enough to be sorted and written while the next fills."""


@dataclass(frozen=True, kw_only=True)
class RocksSettings:
    """Sizes in bytes."""

    block_cache_bytes: int = 64 << 20
    """Blocks read from disk with their indexes and filters, all stores of the process together."""
    write_buffers_bytes: int = 64 << 20
    """Memtables of all stores of the process together; when it is full those of the database written to are flushed."""
    write_buffer_bytes: int = 16 << 20
    """One memtable."""
    arena_bytes: int = 64 << 10
    """The size of the blocks by which a memtable grows (RocksDB's ``arena_block_size``).

    A block counts against the budget even when it is nearly empty: with RocksDB's own size, 1 MiB, 64 stores with a row
    in each fill a budget of 64 MiB, and every commit flushes.
    """
    log_bytes: int = 2 << 20
    """A database's log; when it is longer, the oldest memtable is flushed. Bounds the time to open after a crash."""
    open_files: int = 64
    """Files that one database keeps open; -1 is all it has."""
    background_jobs: int = 2
    """Flushes and compactions of one database that run at the same time."""
    sync_commits: bool = False
    """Whether a commit is on the disk when its write returns, rather than with the system."""
    statistics: bool = False
    """Whether each database keeps RocksDB's statistics, which cost some percent of its time."""


PROFILES: Mapping[str, RocksSettings] = {
    "default": RocksSettings(),
    "many-small-stores": RocksSettings(
        write_buffers_bytes=32 << 20,
        write_buffer_bytes=1 << 20,
        arena_bytes=16 << 10,
        log_bytes=1 << 20,
        open_files=16,
        background_jobs=1,
    ),
    "large-store": RocksSettings(
        block_cache_bytes=512 << 20,
        write_buffers_bytes=256 << 20,
        write_buffer_bytes=64 << 20,
        arena_bytes=1 << 20,
        log_bytes=64 << 20,
        open_files=512,
        background_jobs=4,
    ),
    "low-memory": RocksSettings(
        block_cache_bytes=8 << 20,
        write_buffers_bytes=8 << 20,
        write_buffer_bytes=2 << 20,
        arena_bytes=16 << 10,
        log_bytes=1 << 20,
        open_files=16,
        background_jobs=1,
    ),
}
"""Settings by the name of ``rocksdb.profile``; docs/rocksdb.md says which is for what."""


def rocks_settings(
    profile: str = "default",
    block_cache_bytes: int | None = None,
    write_buffers_bytes: int | None = None,
    sync_commits: bool = False,
    statistics: bool = False,
) -> RocksSettings:
    """Returns the settings of a profile, with other sizes if given.

    :raises KeyError: if there is no such profile.
    """
    given = {"block_cache_bytes": block_cache_bytes, "write_buffers_bytes": write_buffers_bytes}
    sizes = {name: size for name, size in given.items() if size is not None}
    return replace(PROFILES[profile], sync_commits=sync_commits, statistics=statistics, **sizes)


class SharedMemory:
    """The cache and the budget that the databases of a process share."""

    def __init__(self, settings: RocksSettings | None = None) -> None:
        self.settings = settings or RocksSettings()
        # A cache by LRU has shards of a mebibyte at this size, too little for the filter of a file with a million keys,
        # which was read for each get. The shards of this kind have 32 MiB.
        self._cache = Cache.new_hyper_clock_cache(self.settings.block_cache_bytes, 0)
        self._buffers = WriteBufferManager(self.settings.write_buffers_bytes, False)

    @property
    def block_cache_usage(self) -> int:
        """Bytes in the block cache."""
        return self._cache.get_usage()

    @property
    def write_buffers_usage(self) -> int:
        """Bytes of all memtables."""
        return self._buffers.get_usage()

    def options(self, *, bulk: bool = False) -> Options:
        """Options of a database and of each of its families.

        :param bulk: for loading: memtables take rows as they come, and RocksDB sorts them when it flushes them.
        """
        settings = self.settings
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_atomic_flush(True)  # rows and the offset they stand for reach the disk together
        options.set_max_total_wal_size(settings.log_bytes)
        options.set_write_buffer_size(settings.write_buffer_bytes)
        if bulk:
            options.set_allow_concurrent_memtable_write(False)
            options.set_memtable_factory(MemtableFactory.vector())
            options.set_write_buffer_size(min(settings.write_buffer_bytes, BULK_BUFFER_BYTES))
        options.set_arena_block_size(settings.arena_bytes)
        options.set_write_buffer_manager(self._buffers)
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
        options.set_keep_log_file_num(2)
        options.set_max_background_jobs(settings.background_jobs)
        options.set_max_open_files(settings.open_files)
        table = BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options.set_block_based_table_factory(table)
        return options


class DatabaseOptions:
    """The options of one database: those with which it is opened, and those of its writes.

    :param families: the families that it has at least.
    :param configure: called with each of them that users name, and its options, which it may change.
    """

    def __init__(
        self,
        memory: SharedMemory,
        families: Collection[str],
        configure: Callable[[str, Options], None] | None,
    ) -> None:
        self._memory = memory
        self._named = tuple(families)
        self._of_database: Options | None = None
        self._configure = configure
        self.commit = WriteOptions()
        self.commit.sync = memory.settings.sync_commits
        self.load = WriteOptions()
        """Writes past the log: what is loaded is flushed, or loaded again."""
        self.load.disable_wal = True  # type: ignore[assignment,method-assign]

    @property
    def are_changed(self) -> bool:
        """Whether users may have changed them."""
        return self._configure is not None

    def plain(self, *, bulk: bool = False) -> Options:
        """Returns those of the database itself, and of families that are no longer named."""
        return self._memory.options(bulk=bulk)

    def of_database(self, *, bulk: bool = False) -> Options:
        """Returns those to open the database with, which keep its statistics if that is set."""
        self._of_database = self.plain(bulk=bulk)
        if self._memory.settings.statistics:
            self._of_database.enable_statistics()
        return self._of_database

    def statistics(self) -> str:
        """Returns RocksDB's statistics of the database as its text; empty where none are kept."""
        return (self._of_database and self._of_database.get_statistics()) or ""

    def of_families(self, *, bulk: bool = False) -> dict[str, Options]:
        """Returns those of each family that the database has at least."""
        found = {name: self.plain(bulk=bulk) for name in (*self._named, OFFSETS, POSITIONS, "default")}
        if self._configure is not None:
            for name in self._named:
                self._configure(name, found[name])
        return found


def set_options(options: Options, values: Mapping[str, Any]) -> None:
    """Sets options by their names.

    :raises ConfigError: if there is no such option, or it cannot have the value.
    """
    for name, value in values.items():
        change = getattr(options, f"set_{name}", None)
        if change is None:
            raise ConfigError(
                f"rocksdb.config.setter: RocksDB does not have option {repr_of(name)}; see rocksdict.Options"
            )
        try:
            change(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"rocksdb.config.setter: option {repr_of(name)} cannot be {repr_of(value)}: {error}"
            ) from error


def check_options(values: Mapping[str, Any]) -> None:
    """Checks options as :func:`set_options` does, without a store to set them for."""
    set_options(Options(raw_mode=True), values)
