"""Global stores that another process has filled, for reading: no processor runs here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from processor_api.clock import Clock
from processor_api.stores.global_store import GlobalStore
from processor_api.topology.data import TopologyData
from state.engine.port import Engine
from streams.platform import OpenEngine
from streams.runtime.global_stores.readers import GlobalReaders, global_families
from streams.runtime.global_stores.task import NO_TASK, global_assembly
from streams.runtime.processing.environment import TaskSettings, TaskThread

if TYPE_CHECKING:
    from streams.config import StreamsConfig


class FilledGlobals(GlobalReaders):
    """Opens global stores for reading, each engine when a node asks for the first store on it.

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
        """Closes the engines; no task may read the stores any more."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.close()
