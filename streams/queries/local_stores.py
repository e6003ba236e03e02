"""The stores of this process, as queries find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from processor_api.errors import StateStoreMigratedError, StoreError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.queries import IsolationLevel
from processor_api.task_id import TopicPartition
from processor_api.topology.data import TopologyData
from state.read_views.view import StoreView, open_view
from state.write_buffer.store_kind import OpenStore
from streams.queries.position import Position
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.start.standby_tasks import StandbyCopy
from streams.runtime.tasks.task import Task, TaskState
from streams.runtime.threads.task_manager import OwnedTask
from streams.runtime.threads.thread_state import ThreadState


class LocalThread(Protocol):
    """The part of a stream thread that queries use."""

    name: str
    state: ThreadState

    def list_tasks(self, partition: int | None = None) -> list[OwnedTask]: ...

    def list_standbys(self) -> list[StandbyCopy]: ...


class ReadableStore(Protocol):
    """A store that can be read now."""

    @property
    def store(self) -> OpenStore: ...

    @property
    def builder(self) -> StoreBuilder[Any, Any]: ...

    def view(self, level: IsolationLevel) -> StoreView:
        """Opens a view of the store.

        :raises StateStoreMigratedError: if it has been closed."""
        ...

    def gone(self) -> bool:
        """Whether it has been closed."""
        ...


@dataclass(frozen=True)
class LocalStore:
    """The store of one task."""

    task: Task
    store: OpenStore
    runs: bool
    """Whether the task runs; otherwise the store is being restored or follows another process, and is read from its
    engine."""
    followed: Mapping[TopicPartition, int] | None = None
    """The input offsets before which a standby copy holds everything; ``None`` if it is none."""

    @property
    def partition(self) -> int:
        return self.task.id.partition

    @property
    def builder(self) -> StoreBuilder[Any, Any]:
        return self.store.builder

    def position(self, level: IsolationLevel) -> Position:
        """Returns the position in the inputs that a view opened after this call has at least. Nothing is known of a
        store that is being restored."""
        if self.followed is not None:
            return _position(self.followed)
        if not self.runs:
            return Position()
        name, positions = self.store.builder.name, self.task.stores.positions
        if level is IsolationLevel.READ_COMMITTED:
            return _position(positions.committed(name))
        return _position(positions.uncommitted(name, self.task.inputs.queues))

    def view(self, level: IsolationLevel) -> StoreView:
        """Opens a view of the store; see :class:`ReadableStore`."""
        try:
            return open_view(self.store, level if self.runs else IsolationLevel.READ_COMMITTED)
        except StoreError as error:
            if self.gone():
                raise migrated(self.store) from error
            raise

    def gone(self) -> bool:
        """Whether the store has been closed; see :class:`ReadableStore`."""
        return self.store.views.closed


def migrated(store: OpenStore) -> StateStoreMigratedError:
    """Returns the error to raise instead of the one of a store that was closed while it was read."""
    name = store.builder.name
    return StateStoreMigratedError(
        f"store {name!r} was closed during the read because its task may have moved to another thread or process: try"
        " again",
        store=name,
    )


def _position(offsets: Mapping[TopicPartition, int]) -> Position:
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        if offset > 0:
            found.setdefault(topic, {})[partition] = offset - 1
    return Position(found)


@dataclass(frozen=True)
class ReadableGlobalStore:
    """A global store of the process. Rows that its thread has not written to the engine yet are of an incomplete poll,
    and are shown at no level of isolation."""

    store: OpenStore
    is_open: Callable[[], bool]

    @property
    def builder(self) -> StoreBuilder[Any, Any]:
        return self.store.builder

    def view(self, level: IsolationLevel) -> StoreView:
        """Opens a view of the store; see :class:`ReadableStore`."""
        return open_view(self.store, IsolationLevel.READ_COMMITTED)

    def gone(self) -> bool:
        """Whether the store has been closed; see :class:`ReadableStore`."""
        return not self.is_open()


class LocalStores:
    """The stores that the threads of a process have. Any thread may ask.

    :param topology: what runs.
    :param plans: the plans in force, by subtopology.
    :param threads: the stream threads there are.
    :param global_stores: the global stores, by name; empty until they are filled.
    """

    def __init__(
        self,
        topology: TopologyData,
        plans: Callable[[], Mapping[int, TaskPlan]],
        threads: Callable[[], Iterable[LocalThread]],
        global_stores: Callable[[], Mapping[str, OpenStore]],
    ) -> None:
        self.topology = topology
        self._plans = plans
        self._threads = threads
        self._global_stores = global_stores

    def builder(self, name: str) -> StoreBuilder[Any, Any] | None:
        """Returns the builder of a store, which may be a global one, from the topology."""
        spec = self.topology.global_stores.get(name)
        return spec.builder if spec is not None else self.topology.stores.get(name)

    @property
    def names(self) -> list[str]:
        return sorted({*self.topology.stores, *self.topology.global_stores})

    def is_global(self, name: str) -> bool:
        return name in self.topology.global_stores

    def global_store(self, name: str) -> ReadableGlobalStore | None:
        """Returns a global store; ``None`` until it is filled."""
        store = self._global_stores().get(name)
        if store is None:
            return None
        return ReadableGlobalStore(store, lambda: self._global_stores().get(name) is store)

    def partitions(self, name: str) -> int:
        """Returns the number of partitions of a store, in this process and elsewhere."""
        return max((plan.tasks for plan in self._plans().values() if name in plan.stores), default=0)

    def tasks(self, name: str, partition: int | None = None) -> Iterator[tuple[LocalThread, OwnedTask]]:
        """Returns the tasks of this process that have a store, in the order of threads and tasks; each once, the one
        that runs if it moves from one thread to another.

        :param partition: only the task of this one.
        """
        found: dict[Any, tuple[LocalThread, OwnedTask]] = {}
        for thread in self._threads():
            if thread.state is ThreadState.DEAD:
                continue
            for owned in thread.list_tasks(partition):
                if name in owned.plan.stores and (owned.id not in found or _runs(owned)):
                    found[owned.id] = thread, owned
        yield from found.values()

    def copies(self, name: str) -> Iterator[StandbyCopy]:
        """Returns the standby copies of this process that have a store, without those of tasks that it has as well."""
        found: dict[Any, StandbyCopy] = {}
        for thread in self._threads():
            if thread.state is not ThreadState.DEAD:
                copies = (copy for copy in thread.list_standbys() if not copy.is_warm_up)  # those are far behind, or go
                found.update((copy.id, copy) for copy in copies if name in copy.plan.changelogs)
        for _, owned in self.tasks(name):
            found.pop(owned.id, None)
        yield from found.values()

    @staticmethod
    def open_copy(copy: StandbyCopy, name: str) -> LocalStore | None:
        """Returns the store of a standby copy, if it can be read."""
        positions = copy.positions  # before the engine is read, which may continue in the meantime
        reader = copy.task.stores.open_reader(name) if copy.changelogs else None
        return None if reader is None else LocalStore(copy.task, reader, runs=False, followed=positions)

    @staticmethod
    def open(owned: OwnedTask, name: str, *, restoring: bool) -> LocalStore | None:
        """Returns the store of a task, if it can be read.

        :param restoring: also while the task restores it.
        """
        task = owned.task
        if task is None:
            return None
        if task.state is TaskState.RUNNING:
            store = task.stores.stores.get(name)
            return None if store is None else LocalStore(task, store, runs=True)
        if restoring and task.state is TaskState.RESTORING:
            reader = task.stores.open_reader(name)
            return None if reader is None else LocalStore(task, reader, runs=False)
        return None


def _runs(owned: OwnedTask) -> bool:
    return owned.task is not None and owned.task.state is TaskState.RUNNING
