"""Opens the storage engine that a store supplier names, or that of a store which users write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from processor_api.clock import Clock
from processor_api.errors import ConfigError, StreamsError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import MEMORY, ROCKSDB, CustomStoreSupplier
from processor_api.task_id import TopicPartition
from processor_api.texts import kind_and_text
from processor_api.topology.data import TopologyData
from state.custom.context import StoreContext, StoreEnvironment
from state.custom.engine import DIRECTORY
from state.directory.metadata import DATABASE
from state.engine.memory import MemoryEngine
from state.engine.port import Engine, store_of
from state.engine.registry import check_engine, open_registered
from state.engine.spilling import ROWS_IN_MEMORY_BYTES, SpillingEngine
from state.registry.kinds import custom_engine
from streams.platform import OpenEngine
from streams.runtime.processing.environment import Environment

if TYPE_CHECKING:
    from state.rocksdb.options import SharedMemory
    from streams.config import StreamsConfig


def rocksdb_memory(config: StreamsConfig) -> dict[str, Any]:
    """Returns the settings of RocksDB's memory and log."""
    return {
        "profile": config.rocksdb_profile,
        "block_cache_bytes": config.rocksdb_block_cache_bytes,
        "write_buffers_bytes": config.rocksdb_write_buffers_bytes,
        "sync_commits": config.rocksdb_sync_commits,
        "statistics": config.metrics_recording_level != "INFO",
    }


def check_engines(topology: TopologyData) -> None:
    """Makes sure that there is an engine for each store.

    :raises TopologyError: if there is none, with the names there are.
    """
    builders = [*topology.stores.values(), *(spec.builder for spec in topology.global_stores.values())]
    for builder in builders:
        if not isinstance(builder.supplier, CustomStoreSupplier):
            check_engine(builder.supplier.engine, builder.name)


def spilling(open_engine: OpenEngine, most_bytes: int = ROWS_IN_MEMORY_BYTES, *, is_filled: bool = False) -> OpenEngine:
    """Returns a function that opens engines for state that ends with its process: what is to be on RocksDB stays in
    memory until it exceeds this many bytes.

    :param open_engine: opens all other engines, and RocksDB for the rows that are too many.
    :param is_filled: whether the directory has a database of RocksDB with rows.
    """

    def opened(name: str, directory: Path, families: Sequence[str]) -> Engine:
        if name != ROCKSDB:
            return open_engine(name, directory, families)
        return cast(
            Engine, SpillingEngine(lambda: open_engine(name, directory, families), most_bytes, is_filled=is_filled)
        )

    return opened


class Engines:
    """Opens the engines of a process; RocksDB's databases share one cache and one write-buffer budget.

    :param rocksdb_config: changes the options of a store (``rocksdb.config.setter``): a function of its name and its
        options, or values by names of options.
    :param memory: keywords of :func:`state.rocksdb.options.rocks_settings` (:func:`rocksdb_memory`).
    :param config: the application's settings, for engines that are not built in (:mod:`state.engine.registry`).
    :param replaced: functions that open the engines of these names instead.
    :raises ConfigError: if there is no such option, or it cannot have the value.
    """

    def __init__(
        self,
        clock: Clock,
        rocksdb_config: Callable[[str, Any], None] | Mapping[str, Any] | None = None,
        memory: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        replaced: Mapping[str, OpenEngine] = MappingProxyType({}),
    ) -> None:
        self._clock = clock
        self._replaced = replaced
        self._sizes = memory or {}
        self._config = config or {}
        self._memory: SharedMemory | None = None
        self._setter: Callable[[str, Any], None] | None = None
        if isinstance(rocksdb_config, Mapping):
            from state.rocksdb.options import check_options, set_options

            values = dict(rocksdb_config)
            check_options(values)
            self._setter = lambda store, options: set_options(options, values)
        elif rocksdb_config is not None:
            self._setter = rocksdb_config

    @classmethod
    def of(
        cls, config: StreamsConfig, clock: Clock, replaced: Mapping[str, OpenEngine] = MappingProxyType({})
    ) -> Engines:
        """Returns the engines under a configuration.

        :raises ConfigError: if an option of RocksDB is wrong.
        """
        return cls(clock, config.rocksdb_config_setter, rocksdb_memory(config), config.dotted(), replaced)

    def open(self, name: str, directory: Path, families: Sequence[str]) -> Engine:
        """Opens an engine in a task's directory.

        :raises RetryableError: another process has not closed it yet.
        :raises StateError: it is damaged or cannot be opened.
        :raises TopologyError: there is no such engine.
        """
        if name in self._replaced:
            return self._replaced[name](name, directory, families)
        if name == MEMORY:
            return cast(Engine, MemoryEngine())
        if name == ROCKSDB:
            return self._open_rocksdb(directory, families)
        directory.mkdir(parents=True, exist_ok=True)
        return open_registered(name, directory / name, families, self._config)

    def _open_rocksdb(self, directory: Path, families: Sequence[str]) -> Engine:
        from state.rocksdb.engine import RocksEngine  # only applications with such a store pay for loading it
        from state.rocksdb.options import SharedMemory, rocks_settings

        if self._memory is None:
            self._memory = SharedMemory(rocks_settings(**self._sizes))
        configure = self._configure if self._setter is not None else None
        engine: Any = RocksEngine(directory / DATABASE, families, self._memory, self._clock, configure)
        return cast(Engine, engine)

    def _configure(self, family: str, options: Any) -> None:
        store = store_of(family)
        try:
            self._setter(store, options)  # type: ignore[misc]
        except StreamsError:
            raise
        except Exception as error:
            raise ConfigError(
                f"rocksdb.config.setter failed for store {store!r}: {kind_and_text(error)}", store=store
            ) from error


def open_custom_store(
    builder: StoreBuilder[Any, Any],
    environment: Environment,
    changelog: str | None,
    inputs: Sequence[TopicPartition] = (),
) -> Engine:
    """Returns the engine that a custom store, opened, is behind.

    :param changelog: the real name of its changelog topic.
    :param inputs: the input partitions of the task.
    :raises StateError: if it cannot be opened.
    """

    settings = environment.settings

    def context() -> StoreContext:
        return StoreContext(
            StoreEnvironment(
                store=builder.name,
                application_id=settings.application_id,
                task_id=environment.task_id,
                state_dir=environment.state_dir / DIRECTORY / builder.name,
                changelog_topic=changelog,
                key_serde=settings.default_key_serde,
                value_serde=settings.default_value_serde,
                cursor=environment.cursor,
                settings=lambda: settings.app_configs,
                make_metrics=environment.users.metrics,
                time_ms=environment.clock.time_ms,
                request_commit=environment.users.request_commit,
            )
        )

    engine: Any = custom_engine(
        builder,
        context,
        inputs=[partition for partition in inputs if partition.topic != changelog],
        undoes=settings.exactly_once,
    )
    return cast(Engine, engine)
