"""The source and processor nodes that fill the global stores, outside of tasks (semantics 93)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock
from processor_api.errors import TopologyError
from processor_api.handlers import ProducerRecord, log_and_fail, log_and_fail_processing
from processor_api.punctuation import PunctuationType, Punctuator
from processor_api.record import DropReason
from processor_api.stores.builder import GlobalStore
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.data import TopologyData
from processor_api.user_code.durations import Timestamp
from state.write_buffer.store_kind import OpenStore
from streams.kafka.offset_metadata import LogPoint
from streams.metrics.registry import Metrics
from streams.runtime.global_stores.stores import GlobalStores, Reached
from streams.runtime.plan.task_plan import plan_globals
from streams.runtime.processing.environment import TaskSettings, TaskThread
from streams.runtime.processing.error_policy import ErrorPolicy, ExceptionHandlers
from streams.runtime.processing.inputs import BatchLoop, InputQueue
from streams.runtime.processing.node_chain import build_chain
from streams.runtime.processing.probe import ProbeMaker
from streams.runtime.processing.punctuations import Punctuations, Schedule
from streams.runtime.tasks.assembly import TaskAssembly
from streams.runtime.tasks.task_stores import EngineOpener

if TYPE_CHECKING:
    from streams.config import StreamsConfig

log = logging.getLogger("streams.global")

NO_TASK = TaskId(-1, -1)
"""The task id that the processors of global stores see, as in Kafka Streams."""


class _NoPunctuations(Punctuations):
    """Refuses punctuations: there is no stream time outside of tasks."""

    def __init__(self) -> None:
        super().__init__(lambda schedule, now: None)

    def schedule(
        self,
        node: str,
        interval_ms: int,
        kind: PunctuationType,
        callback: Punctuator,
        *,
        now_ms: int,
        start: Timestamp | None = None,
    ) -> Schedule:
        raise TopologyError(f"processor {node!r} fills a global store and cannot schedule punctuations", node=node)


def _no_dead_letters(records: Iterable[ProducerRecord], *, wait: bool = False) -> None:
    log.warning("dead letters of global stores are not sent (KIP-1034)", extra={"records": len(list(records))})


def _no_collector() -> Any:
    """Returns no collector: the nodes of global stores send nothing."""
    return None


def global_assembly(
    config: StreamsConfig, settings: TaskSettings, clock: Clock, open_engine: EngineOpener, thread: TaskThread
) -> TaskAssembly:
    """Returns what the environment of global stores is made with."""
    return TaskAssembly(
        settings=settings,
        error_policy=partial(ErrorPolicy, handlers=_handlers(config), send=_no_dead_letters),
        clock=clock,
        open_engine=open_engine,
        thread=thread,
    )


class GlobalTask:
    """Holds the global stores of a process with the nodes that fill them. Its owner gives it messages.

    :param directory: where the stores are.
    :param probe: makes what sees its records, if anything does.
    :raises RetryableError: if another process has the stores open.
    :raises StateError: if a store is damaged or cannot be opened.
    """

    def __init__(
        self,
        topology: TopologyData,
        config: StreamsConfig,
        directory: Path,
        clock: Clock,
        open_engine: EngineOpener,
        metrics: Metrics | None = None,
        probe: ProbeMaker | None = None,
    ) -> None:
        settings = TaskSettings.of(config, global_store=self._reader, registry=metrics, is_global=True)
        assembly = global_assembly(config, settings, clock, open_engine, TaskThread(probe=probe))
        self.environment = assembly.environment(NO_TASK, topology, directory)
        self.topology = topology
        self.specs = {spec.topic: spec for spec in topology.global_stores.values()}
        """Each store by its topic."""
        self.stores = GlobalStores(topology, self.environment, open_engine)
        self._queues: dict[TopicPartition, InputQueue] = {}
        self._moved: set[TopicPartition] = set()
        self._points: dict[TopicPartition, LogPoint] = {}
        self.failed_at: dict[str, Any] = {}
        """The place of the record whose processing failed."""
        self._punctuations = _NoPunctuations()
        plan = plan_globals(topology, self.environment.settings.app_configs)
        try:
            self._chain = build_chain(plan, self.environment, _no_collector(), self.stores.stores, self._punctuations)
        except BaseException:
            self.stores.close()
            raise

    def _reader(self, store: str, node: str) -> OpenStore | None:
        return self.stores.reader(store, node)

    def start(self) -> None:
        """Initialises the processors."""
        self.environment.users.initialised = False
        self._chain.init()
        self.environment.users.initialised = True

    def process(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        """Processes a run of records of one partition; the next :meth:`apply` writes the result."""
        self.note_read(partition, messages[-1])
        queue = self.queue(partition)
        queue.add(messages)
        self.run(queue)

    def run(self, queue: InputQueue) -> None:
        """Processes what is buffered of one partition; the next :meth:`apply` writes the result."""
        try:
            loop = BatchLoop(queue, self.environment)
            while queue:
                self.environment.metrics.records_processed += loop.run(len(queue), self._punctuations, _nothing)
        except BaseException:
            self.failed_at = self.environment.cursor.place()
            raise
        finally:
            self.environment.cursor.leave()
        self._moved.add(queue.partition)

    def note_read(self, partition: TopicPartition, message: Any) -> None:
        """Notes the last record that was read of a partition, with the epoch of its leader, if the broker gives one."""
        if (epoch := message.leader_epoch()) is not None:
            self._points[partition] = LogPoint(message.offset(), epoch)

    def move(self, partition: TopicPartition, position: int) -> None:
        """Notes that the records before ``position`` are in the stores."""
        self.queue(partition).position = position
        self._moved.add(partition)

    def apply(self) -> None:
        """Writes what was processed since the last time to the stores: one write for each engine."""
        moved = {partition: self._queues[partition].position for partition in self._moved}
        self.stores.apply(
            {
                partition: Reached(position, self._points.pop(partition, None))
                for partition, position in moved.items()
                if position is not None
            }
        )
        self._moved.clear()
        if self.environment.probe is not None:
            self.environment.probe.committed()

    def queue(self, partition: TopicPartition) -> InputQueue:
        """Returns the queue of a partition."""
        queue = self._queues.get(partition)
        if queue is None:
            source = self._chain.sources[partition.topic]
            queue = self._queues[partition] = InputQueue(partition, source, self.environment)
        return queue

    def list_queues(self) -> list[InputQueue]:
        """Lists the queues of the partitions that were read; any thread may call it."""
        return list(self._queues.values())

    def drop_unkeyed(self, spec: GlobalStore, count: int) -> None:
        """Counts records of a topic that have no key, and so are not put into the store."""
        if count:
            metrics = self.environment.metrics
            metrics.dropped_records += count
            metrics.drops.of(spec.processor).counts[DropReason.NULL_KEY] += count

    def sample(self) -> None:
        """Samples the counters, for rates."""
        self.environment.metrics.sample()
        self.stores.sample()

    def close(self) -> None:
        """Closes processors, stores and engines; tasks must no longer read the stores."""
        try:
            self._chain.close()
        finally:
            self.stores.close()


def _handlers(config: StreamsConfig) -> ExceptionHandlers:
    """Returns the handlers of global stores.

    There are no dead letters (KIP-1034), and the processing handler is used only if a setting says so (KIP-1270).
    """
    asked = config.processing_exception_handler_global_enabled
    return ExceptionHandlers(
        deserialization=config.deserialization_exception_handler or log_and_fail,
        processing=(asked and config.processing_exception_handler) or log_and_fail_processing,
    )


def _nothing() -> None:
    """Does nothing: there are no punctuations."""
