"""The lifecycle of an application's global stores: opened, filled, followed, closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from processor_api.errors import DamagedStateError, MissingTopicError
from processor_api.topology.topology import Topology
from state.directory.state_directory import Slot
from state.write_buffer.store_kind import OpenStore
from streams.kafka.ports import Admin
from streams.runtime.engines.state_recovery import StateRecovery
from streams.runtime.global_stores.task import GlobalTask
from streams.runtime.global_stores.thread import GlobalStreamThread, GlobalThreadState, GlobalTopics
from streams.runtime.threads.process_resources import ProcessResources
from streams.runtime.tracing.task_trace import traced_by
from streams.runtime.tracing.tracer import Tracer


class GlobalStoresLifecycle:
    """Opens, fills and closes the global stores of a process. Does nothing for a topology without any.

    :param slot: the slot of the state directory that this process holds, and keeps its global stores in.
    :param client_id: the start of the name of their thread.
    :param on_failure: called on their thread when it dies of an error after the stores were filled.
    """

    def __init__(
        self,
        topology: Topology,
        process: ProcessResources,
        slot: Slot,
        client_id: str,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._topology = topology
        self._process = process
        self._slot = slot
        self._name = f"{client_id}-GlobalStreamThread"
        self._on_failure = on_failure
        self._settled = process.platform.threads.event()
        """Set when the stores are filled, or will not be."""
        self._filled = False
        self._given_up = False
        self._task: GlobalTask | None = None
        self._thread: GlobalStreamThread | None = None

    @property
    def exists(self) -> bool:
        """Whether the topology has global stores."""
        return bool(self._topology.global_stores)

    # ------------------------------------------------------------------ opening

    def open(self) -> None:
        """Opens the stores in the directory of this process; they are not filled yet.

        :raises MissingTopicError: if a topic does not exist.
        :raises StateError: if the stores cannot be opened.
        """
        if not self.exists:
            return
        try:
            self._open()
        except DamagedStateError as error:
            self._recovery.recover_globals(error, self._slot)
            self._open()

    def _open(self) -> None:
        process, admin = self._process, self._process.cluster.admin
        state, clock = process.state, process.platform.clock
        directory = state.directory.global_directory(self._slot)
        probe = traced_by(Tracer.of(process.config, clock))
        task = self._task = GlobalTask(
            self._topology, process.config, directory, clock, state.engines.open, process.metrics, probe
        )
        topics = GlobalTopics(_partitions(task, admin), admin.topic_ids(list(task.specs)))
        self._thread = GlobalStreamThread(self._name, task, topics, process, self._changed)

    @property
    def _recovery(self) -> StateRecovery:
        return self._process.state.recovery

    def _changed(self, thread: GlobalStreamThread, state: GlobalThreadState) -> None:
        if state is GlobalThreadState.RUNNING:
            self._filled = True
        if state is GlobalThreadState.DEAD and self._filled and thread.failure is not None:
            if isinstance(thread.failure, DamagedStateError):
                self._recovery.defer_globals(thread.failure)
            self._on_failure(thread.failure)
        if state in (GlobalThreadState.RUNNING, GlobalThreadState.DEAD):
            self._settled.set()

    # ------------------------------------------------------------------ filling

    def fill(self) -> None:
        """Fills the stores, on their own thread; returns when they are, or when :meth:`give_up` was called.

        :raises StreamsError: if they cannot be filled.
        """
        while self._thread is not None and not self._given_up:
            self._thread.start()
            self._settled.wait()
            if self._filled or self._thread.failure is None:
                return
            self._recover(self._thread.failure)

    def _recover(self, failure: Exception) -> None:
        """Removes stores that turned out to be damaged while they were filled, and opens them again."""
        task = self._task
        if not isinstance(failure, DamagedStateError) or task is None:
            raise failure
        self._task = None
        task.close()
        self._recovery.recover_globals(failure, self._slot)
        self._settled.clear()
        self._open()

    def give_up(self) -> None:
        """Ends the waiting in :meth:`fill`."""
        self._given_up = True
        self._settled.set()

    # ------------------------------------------------------------------ while the application runs

    def check_partitions(self) -> None:
        """Has the thread read partitions that were added to the topics.

        :raises StreamsError: if the cluster does not answer.
        """
        if self._task is not None and self._thread is not None:
            topics = self._process.cluster.admin.topics(list(self._task.specs))
            self._thread.grow({name: info.partitions for name, info in topics.items()})

    def reader(self, store: str, node: str) -> OpenStore | None:
        """Returns a global store that a node may read; ``None`` if there is no such store."""
        task = self._task  # as it is now: filling may have opened another one
        return None if task is None else task.stores.reader(store, node)

    @property
    def thread(self) -> GlobalStreamThread | None:
        """The thread that fills them, while they are open."""
        return None if self._task is None else self._thread

    @property
    def stores(self) -> Mapping[str, OpenStore]:
        """The global stores as their thread has them, for queries; none before they are filled."""
        task = self._task
        return {} if task is None or not self._filled else task.stores.stores

    def close(self) -> None:
        """Ends the thread and closes the stores, which must no longer have a reader."""
        thread, task = self._thread, self._task
        if thread is not None:
            thread.stop()
            thread.join(None)
        if task is not None:
            self._task = None
            task.close()
        self._recovery.recover_deferred(self._slot)


def _partitions(task: GlobalTask, admin: Admin) -> dict[str, int]:
    """Returns how many partitions each topic has."""
    counts = {name: info.partitions for name, info in admin.topics(list(task.specs)).items()}
    for topic, spec in task.specs.items():
        if not counts.get(topic):
            raise MissingTopicError(
                f"the topic of global store {spec.name!r} does not exist: create it, then start again", topic=topic
            )
    return counts
