"""The resources that the runners of one process share: topology, engines, global stores, a directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from processor_api.clock import Clock, ManualClock, SystemClock
from processor_api.errors import TopologyError
from processor_api.stores.builder import GlobalStore
from processor_api.task_id import TopicPartition
from processor_api.topology.data import TopologyData
from processor_api.topology.function import TopologyLike
from state.engine.port import Engine
from streams.config import StreamsConfig
from streams.platform import OpenEngine
from streams.runtime.engines.opener import Engines, rocksdb_memory, spilling
from streams.runtime.global_stores.readers import GlobalReaders, global_families
from streams.runtime.global_stores.task import NO_TASK, GlobalTask, global_assembly
from streams.runtime.processing.environment import GlobalStoreReader, TaskSettings, TaskThread, no_global_store
from streams.runtime.runner.columns import history_records
from streams.runtime.runner.options import HistoryRow, RunnerOptions
from streams.runtime.tasks.assembly import topology_to_run

GLOBAL_ROWS = 10_000
"""Rows that are written to global stores at once."""


class FilledGlobals(GlobalReaders):
    """Opens global stores for reading, each engine when a node asks for the first store on it.

    Another process has filled them, and no processor runs here.

    :param directory: where engines may make their databases.
    :param open_engine: opens an engine that has the rows already.
    """

    def __init__(
        self, topology: TopologyData, config: StreamsConfig, directory: Path, clock: Clock, open_engine: OpenEngine
    ) -> None:
        settings = TaskSettings.of(config, global_store=self.reader, is_global=True)
        assembly = global_assembly(config, settings, clock, open_engine, TaskThread())
        super().__init__(topology, assembly.environment(NO_TASK, topology, directory))
        self._families = global_families(topology)
        self._open_engine = open_engine
        self._directory = directory
        self._engines: dict[str, Engine] = {}

    def _engine(self, spec: GlobalStore) -> Engine:
        name = spec.builder.supplier.engine
        engine = self._engines.get(name)
        if engine is None:
            engine = self._engines[name] = self._open_engine(name, self._directory, self._families[name])
        return engine

    def close(self) -> None:
        """Closes the engines; tasks must no longer read the stores."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.close()


class RunnerResources:
    """Holds what the runners of one process share, and fills the global stores. Used by one thread.

    Of the options it uses the directory, the rows of global stores and how many of them stay in memory.

    :param topology: a topology, a builder, or a function that makes either.
    :raises TopologyError: if the topology cannot run, or there are global rows that it does not read.
    """

    def __init__(
        self, topology: TopologyLike, config: StreamsConfig | Mapping[str, Any], options: RunnerOptions | None = None
    ) -> None:
        options = options or RunnerOptions()
        self.config = config = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        self.topology = topology_to_run(topology, config)
        self.engines = Engines.of(config, SystemClock())
        self.capture_engines = self._without_setter(config)
        """Opens the databases of captured changelogs, which are not stores whose options a user may set."""
        self.global_store: GlobalStoreReader = no_global_store
        """Finds the global stores, for reading."""
        self._globals: GlobalTask | FilledGlobals | None = None
        if options.directory is not None:
            options.directory.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix="streams-task-", dir=options.directory))
        try:
            self._fill_globals(options)
        except BaseException:
            self.close()
            raise

    def _without_setter(self, config: StreamsConfig) -> Engines:
        if config.rocksdb_config_setter is None:
            return self.engines
        return Engines(SystemClock(), memory=rocksdb_memory(config))

    def _fill_globals(self, options: RunnerOptions) -> None:
        known = {store.topic for store in self.topology.global_stores.values()}
        if unknown := sorted(options.global_rows.keys() - known):
            raise TopologyError(
                f"no global store is filled from topic {unknown[0]!r}; the topics of global stores are"
                f" {', '.join(sorted(known)) or 'none'}",
                topic=unknown[0],
            )
        if not known:
            return
        clock, directory = ManualClock(options.start_ms), self.directory / "global"
        if options.filled_globals is not None:
            open_filled = options.filled_globals(self.engines.open)
            self._globals = filled = FilledGlobals(self.topology, self.config, directory, clock, open_filled)
            self.global_store = filled.reader
            return
        open_engine = spilling(self.engines.open, options.store_bytes)
        task = GlobalTask(self.topology, self.config, directory, clock, open_engine)
        self._globals = task
        task.start()
        for topic, rows in options.global_rows.items():
            _fill(task, topic, rows)
        task.apply()
        self.global_store = task.stores.reader

    @property
    def global_engines(self) -> Mapping[str, Engine]:
        """The engines of the global stores that were filled here, by name."""
        return self._globals.stores.engines if isinstance(self._globals, GlobalTask) else {}

    def close(self) -> None:
        """Closes the global stores and removes the directory; the runners must be closed before."""
        task, self._globals = self._globals, None
        try:
            if task is not None:
                task.close()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


def _fill(task: GlobalTask, topic: str, rows: Iterable[HistoryRow]) -> None:
    left = iter(rows)
    while some := list(islice(left, GLOBAL_ROWS)):
        keys, values, timestamps, headers, offsets = zip(*some, strict=True)
        task.process(TopicPartition(topic, 0), history_records(keys, values, timestamps, headers, offsets))
        task.apply()
