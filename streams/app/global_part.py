"""The global stores of an application, as its client starts and ends them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import MissingTopicError
from processor_api.topology import Topology
from state.directory import Slot, StateDirectory
from state.kinds import OpenStore
from streams.config import StreamsConfig
from streams.kafka.ports import Admin, KafkaClients
from streams.restore.restorer import RestoreListener
from streams.runtime.engines import Engines
from streams.runtime.environment import no_global_store
from streams.runtime.global_task import GlobalTask
from streams.runtime.global_thread import GlobalStreamThread, GlobalThreadState

__all__ = ["GlobalPart"]


class GlobalPart:
    """Nothing at all for a topology without global stores."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._task: GlobalTask | None = None
        self._thread: GlobalStreamThread | None = None

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
        listeners: Collection[RestoreListener],
    ) -> None:
        """Opens the stores in the directory of this process.

        :raises StateError: if they cannot be opened.
        """
        if not topology.global_stores:
            return
        path = directory.global_directory(slot)
        task = self._task = GlobalTask(topology, config, settings, path, clock, engines.open)
        counts = {name: info.partitions for name, info in admin.topics(list(task.specs)).items()}
        for topic, spec in task.specs.items():
            if not counts.get(topic):
                raise MissingTopicError(
                    f"the topic of global store {spec.name!r} does not exist: create it, then start again", topic=topic
                )
        name = f"{client_id}-GlobalStreamThread"
        self._thread = GlobalStreamThread(name, task, counts, config, clients, clock, listeners, self._changed)

    def _changed(self, thread: GlobalStreamThread, state: GlobalThreadState) -> None:
        self._on_change()

    def start(self) -> None:
        """Starts to fill the stores, on their own thread."""
        if self._thread is not None:
            self._thread.start()

    @property
    def reader(self) -> Callable[[str, str], OpenStore | None]:
        """``(store, node)`` to a global store that the node may read."""
        return no_global_store if self._task is None else self._task.stores.reader

    @property
    def filled(self) -> bool:
        """Whether the stores are filled and followed, if there are any."""
        return self._thread is None or self._thread.state is GlobalThreadState.RUNNING

    @property
    def dead(self) -> bool:
        """Whether the thread has ended."""
        return self._thread is not None and self._thread.state is GlobalThreadState.DEAD

    @property
    def failure(self) -> Exception | None:
        """What the thread died of."""
        return None if self._thread is None else self._thread.failure

    def close(self) -> None:
        """Ends the thread and closes the stores, which nobody may read any more."""
        thread, task = self._thread, self._task
        if thread is not None:
            thread.stop()
            thread.join(None)
        if task is not None:
            self._task = None
            task.close()
