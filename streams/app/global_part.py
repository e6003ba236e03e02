"""The global stores of an application, as its client starts and ends them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import DamagedStateError, MissingTopicError
from processor_api.topology import Topology
from state.directory.state_directory import Slot, StateDirectory
from state.registry.kinds import OpenStore
from streams.config import StreamsConfig
from streams.kafka.ports import Admin, KafkaClients
from streams.metrics.registry import Metrics
from streams.restore.restorer import StateRestoreListener
from streams.runtime.engines.opener import Engines
from streams.runtime.engines.state_recovery import Rebuilds
from streams.runtime.global_stores.task import GlobalTask, TracedGlobalTask
from streams.runtime.global_stores.thread import GlobalStreamThread, GlobalThreadState
from streams.runtime.processing.environment import no_global_store
from streams.runtime.tracing.tracer import Tracer
from streams.threads import SYSTEM_THREADS, Threads

__all__ = ["GlobalPart"]


class GlobalPart:
    """Nothing at all for a topology without global stores.

    :param on_failure: told, on the global thread, that it dies of an error after the stores were filled.
    """

    def __init__(self, on_failure: Callable[[Exception], None], threads: Threads = SYSTEM_THREADS) -> None:
        self._on_failure = on_failure
        self._threads = threads
        self._settled = threads.event()
        self._filled = False
        self._given_up = False
        self._make: Callable[[], None] = lambda: None
        self._task: GlobalTask | None = None
        self._thread: GlobalStreamThread | None = None
        self._admin: Admin | None = None
        self._rebuilds: Rebuilds | None = None
        self._slot: Slot | None = None

    def open(
        self,
        topology: Topology,
        config: StreamsConfig,
        settings: Mapping[str, Any],
        *,
        client_id: str,
        clients: KafkaClients,
        admin: Admin,
        engines: Engines,
        directory: StateDirectory,
        slot: Slot,
        clock: Clock,
        listeners: Collection[StateRestoreListener],
        metrics: Metrics,
        rebuilds: Rebuilds,
    ) -> None:
        """Opens the stores in the directory of this process.

        :raises StateError: if they cannot be opened.
        """
        if not topology.global_stores:
            return
        self._admin, self._rebuilds, self._slot = admin, rebuilds, slot
        path, name = directory.global_directory(slot), f"{client_id}-GlobalStreamThread"

        def make() -> None:
            tracer = Tracer.of(config, clock)
            kind = GlobalTask if tracer is None else TracedGlobalTask
            task = self._task = kind(topology, config, settings, path, clock, engines.open, metrics, tracer)
            counts, ids = _partitions(task, admin), admin.topic_ids(list(task.specs))
            self._thread = GlobalStreamThread(
                name, task, counts, config, clients, clock, listeners, self._changed, ids, self._threads
            )

        self._make = make
        try:
            make()
        except DamagedStateError as error:
            rebuilds.rebuild_globals(error, slot)
            make()

    def _changed(self, thread: GlobalStreamThread, state: GlobalThreadState) -> None:
        if state is GlobalThreadState.RUNNING:
            self._filled = True
        if state is GlobalThreadState.DEAD and self._filled and thread.failure is not None:
            if self._rebuilds is not None and isinstance(thread.failure, DamagedStateError):
                self._rebuilds.after_closing(thread.failure)
            self._on_failure(thread.failure)
        if state in (GlobalThreadState.RUNNING, GlobalThreadState.DEAD):
            self._settled.set()

    def fill(self) -> None:
        """Fills the stores, on their own thread; returns when they are, or when :meth:`give_up` was called.

        :raises StreamsError: if they cannot be filled.
        """
        while self._thread is not None and not self._given_up:
            self._thread.start()
            self._settled.wait()
            if self._filled or self._thread.failure is None:
                return
            self._mend(self._thread.failure)

    def _mend(self, failure: Exception) -> None:
        """Opens them anew after damage that filling them met."""
        task, rebuilds, slot = self._task, self._rebuilds, self._slot
        if not isinstance(failure, DamagedStateError) or task is None or rebuilds is None or slot is None:
            raise failure
        self._task = None
        task.close()
        rebuilds.rebuild_globals(failure, slot)
        self._settled.clear()
        self._make()

    @property
    def exists(self) -> bool:
        """Whether the topology has global stores."""
        return self._thread is not None

    def look(self) -> None:
        """Lets the thread read partitions that their topics were given meanwhile.

        :raises StreamsError: if the cluster does not tell.
        """
        if self._task is not None and self._thread is not None and self._admin is not None:
            topics = self._admin.topics(list(self._task.specs))
            self._thread.grow({name: info.partitions for name, info in topics.items()})

    def give_up(self) -> None:
        """Ends the waiting in :meth:`fill`."""
        self._given_up = True
        self._settled.set()

    @property
    def reader(self) -> Callable[[str, str], OpenStore | None]:
        """``(store, node)`` to a global store that the node may read."""
        return no_global_store if self._task is None else self._read

    def _read(self, store: str, node: str) -> OpenStore | None:
        """Of the task as it is now: filling it may have opened another."""
        task = self._task
        return None if task is None else task.stores.reader(store, node)

    @property
    def thread(self) -> GlobalStreamThread | None:
        """The thread that fills them, while they are open."""
        return None if self._task is None else self._thread

    @property
    def stores(self) -> Mapping[str, OpenStore]:
        """The global stores, for queries: as their thread has them, once they are filled."""
        task = self._task
        return {} if task is None or not self._filled else task.stores.stores

    def close(self) -> None:
        """Ends the thread and closes the stores, which nobody may read any more."""
        thread, task = self._thread, self._task
        if thread is not None:
            thread.stop()
            thread.join(None)
        if task is not None:
            self._task = None
            task.close()
        if self._rebuilds is not None and self._slot is not None:
            self._rebuilds.globals_closed(self._slot)


def _partitions(task: GlobalTask, admin: Admin) -> dict[str, int]:
    """How many each topic has."""
    counts = {name: info.partitions for name, info in admin.topics(list(task.specs)).items()}
    for topic, spec in task.specs.items():
        if not counts.get(topic):
            raise MissingTopicError(
                f"the topic of global store {spec.name!r} does not exist: create it, then start again", topic=topic
            )
    return counts
