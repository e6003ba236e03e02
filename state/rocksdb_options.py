"""RocksDB's settings: one database per task, one block cache and one write-buffer budget per process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocksdict import BlockBasedOptions, Cache, DBRecoveryMode, Options, WriteBufferManager

from processor_api.errors import ConfigError

__all__ = ["RocksSettings", "SharedMemory", "check_options", "set_options"]


@dataclass(frozen=True, kw_only=True)
class RocksSettings:
    """Sizes in bytes."""

    block_cache_bytes: int = 64 << 20
    """Blocks read from disk, all stores of the process together."""
    write_buffers_bytes: int = 64 << 20
    """Memtables of all stores of the process together; when it is full the largest is flushed."""
    write_buffer_bytes: int = 16 << 20
    """One memtable."""
    log_bytes: int = 2 << 20
    """A database's log; when it is longer, the oldest memtable is flushed. Bounds the time to open after a crash."""


class SharedMemory:
    """The cache and the budget that the databases of a process share."""

    def __init__(self, settings: RocksSettings | None = None) -> None:
        self.settings = settings or RocksSettings()
        self._cache = Cache(self.settings.block_cache_bytes)
        self._buffers = WriteBufferManager(self.settings.write_buffers_bytes, False)

    def options(self) -> Options:
        """Options of a database and of each of its families."""
        settings = self.settings
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_atomic_flush(True)  # rows and the offset they stand for reach the disk together
        options.set_max_total_wal_size(settings.log_bytes)
        options.set_write_buffer_size(settings.write_buffer_bytes)
        options.set_write_buffer_manager(self._buffers)
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
        options.set_keep_log_file_num(2)
        options.set_max_background_jobs(2)
        options.set_max_open_files(64)
        table = BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options.set_block_based_table_factory(table)
        return options


def set_options(options: Options, values: Mapping[str, Any]) -> None:
    """Sets options by their names.

    :raises ConfigError: if there is no such option, or it cannot have the value.
    """
    for name, value in values.items():
        change = getattr(options, f"set_{name}", None)
        if change is None:
            raise ConfigError(f"rocksdb.config.setter: RocksDB has no option {name!r}; see rocksdict.Options")
        try:
            change(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"rocksdb.config.setter: option {name!r} cannot be {value!r}: {error}") from error


def check_options(values: Mapping[str, Any]) -> None:
    """As :func:`set_options`, without a store to set them for."""
    set_options(Options(raw_mode=True), values)
