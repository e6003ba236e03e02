"""The global stores of an application, as its client starts and ends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import MissingTopicError
from processor_api.topology import Topology
from state.directory import Slot, StateDirectory
from state.kinds import OpenStore
from streams.config import StreamsConfig
from streams.kafka.ports import Admin, KafkaClients
from streams.metrics.registry import Metrics
from streams.restore.restorer import StateRestoreListener
from streams.runtime.engines import Engines
from streams.runtime.environment import no_global_store
from streams.runtime.global_task import GlobalTask
from streams.runtime.global_thread import GlobalStreamThread, GlobalThreadState

__all__ = ["GlobalPart"]


class GlobalPart:
    """Nothing at all for a topology without global stores.

    :param on_failure: told, on the global thread, that it dies of an error after the stores were filled.
    """

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self._settled = threading.Event()
        self._filled = False
        self._task: GlobalTask | None = None
        self._thread: GlobalStreamThread | None = None
        self._admin: Admin | None = None

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
    ) -> None:
        """Opens the stores in the directory of this process.

        :raises StateError: if they cannot be opened.
        """
        if not topology.global_stores:
            return
        path = directory.global_directory(slot)
        task = self._task = GlobalTask(topology, config, settings, path, clock, engines.open, metrics)
        counts = {name: info.partitions for name, info in admin.topics(list(task.specs)).items()}
        for topic, spec in task.specs.items():
            if not counts.get(topic):
                raise MissingTopicError(
                    f"the topic of global store {spec.name!r} does not exist: create it, then start again", topic=topic
                )
        name = f"{client_id}-GlobalStreamThread"
        self._admin = admin
        self._thread = GlobalStreamThread(name, task, counts, config, clients, clock, listeners, self._changed)

    def _changed(self, thread: GlobalStreamThread, state: GlobalThreadState) -> None:
        if state is GlobalThreadState.RUNNING:
            self._filled = True
        if state is GlobalThreadState.DEAD and self._filled and thread.failure is not None:
            self._on_failure(thread.failure)
        if state in (GlobalThreadState.RUNNING, GlobalThreadState.DEAD):
            self._settled.set()

    def fill(self) -> None:
        """Fills the stores, on their own thread; returns when they are, or when :meth:`give_up` was called.

        :raises StreamsError: if they cannot be filled.
        """
        if self._thread is None:
            return
        self._thread.start()
        self._settled.wait()
        if not self._filled and self._thread.failure is not None:
            raise self._thread.failure

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
        self._settled.set()

    @property
    def reader(self) -> Callable[[str, str], OpenStore | None]:
        """``(store, node)`` to a global store that the node may read."""
        return no_global_store if self._task is None else self._task.stores.reader

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
