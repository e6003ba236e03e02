"""The global stores of a topology in the test driver: up to date as soon as a record was piped or written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from state.write_buffer.store_kind import OpenStore
from streams.config import StreamsConfig
from streams.runtime.global_stores.task import GlobalTask
from streams.runtime.processing.environment import GlobalStoreReader, no_global_store
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.probe import ProbeMaker
from streams.runtime.tasks.task_stores import EngineOpener


class DriverGlobals:
    """The global stores of a driver; empty for a topology without global stores."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        directory: Path,
        clock: Clock,
        open_engine: EngineOpener,
        probe: ProbeMaker | None = None,
    ) -> None:
        self.queues: dict[TopicPartition, InputQueue] = {}
        """The queues of the only partition of each topic, whose records wait for :meth:`run`."""
        self.stores: Mapping[str, OpenStore] = {}
        self.reader: GlobalStoreReader = no_global_store
        self._task: GlobalTask | None = None
        if topology.global_stores:
            task = self._task = GlobalTask(topology, config, directory, clock, open_engine, probe=probe)
            self.queues = {
                partition: task.queue(partition) for partition in (TopicPartition(topic, 0) for topic in task.specs)
            }
            self.stores, self.reader = task.stores.stores, task.stores.reader

    def start(self) -> None:
        """Initialises the processors."""
        if self._task is not None:
            self._task.start()

    def run(self) -> None:
        """Brings the stores up to date, also with what a test put into them."""
        task = self._task
        if task is None:
            return
        for queue in self.queues.values():
            if queue:
                task.run(queue)
        task.apply()

    @property
    def dropped_records(self) -> int:
        return 0 if self._task is None else self._task.environment.metrics.dropped_records

    def close(self) -> None:
        """Closes processors and stores."""
        task, self._task = self._task, None
        if task is not None:
            task.close()
