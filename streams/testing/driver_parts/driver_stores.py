"""The stores of the test driver: their queries, as of an application with one thread, and their views for a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import TopologyError
from processor_api.stores.queries import IsolationLevel
from state.write_buffer.store_kind import OpenStore
from streams.queries.local_stores import LocalStores
from streams.queries.queries import Queries
from streams.runtime.start.standby_tasks import StandbyCopy
from streams.runtime.tasks.task import Task
from streams.runtime.threads.task_manager import OwnedTask
from streams.runtime.threads.thread_state import ThreadState


class _Driver:
    """Stands for the stream thread."""

    name = "driver"
    state = ThreadState.RUNNING

    def __init__(self, task: Task) -> None:
        self._task = task

    def list_tasks(self, partition: int | None = None) -> list[OwnedTask]:
        task = self._task
        if partition not in (None, task.id.partition):
            return []
        task.stores.positions.note_commit(task.inputs.positions())  # there is a commit after each record
        return [OwnedTask(task.id, task.plan, task, {}, {})]

    @staticmethod
    def list_standbys() -> list[StandbyCopy]:
        return []


def driver_queries(
    task: Task, global_stores: Mapping[str, OpenStore], clock: Clock, check: Callable[[], None]
) -> Queries:
    """Returns the queries of a driver's stores.

    :param check: raises if the driver is closed."""
    stores = LocalStores(
        task.plan.topology, lambda: {task.id.subtopology: task.plan}, lambda: [_Driver(task)], lambda: global_stores
    )
    return Queries(stores, IsolationLevel.READ_UNCOMMITTED, clock, check)


@dataclass(frozen=True)
class DriverStoreView:
    """A form in which a test asks for a store."""

    form: str

    def of(self, store: OpenStore) -> Any:
        """Returns a store in this form.

        :raises TopologyError: if stores of its kind cannot be shown so.
        """
        name, kind = store.builder.name, store.builder.kind
        form = store.kind.forms.get(self.form)
        if form is None:
            raise TopologyError(
                f"store {name!r} is a {kind} store and cannot be read as a {self.form} store", store=name
            )
        return form.facade(store.facade)


KEY_VALUE = DriverStoreView("key-value")
TIMESTAMPED_KEY_VALUE = DriverStoreView("timestamped-key-value")
HEADERS_KEY_VALUE = DriverStoreView("headers-key-value")
VERSIONED_KEY_VALUE = DriverStoreView("versioned-key-value")
WINDOW = DriverStoreView("window")
TIMESTAMPED_WINDOW = DriverStoreView("timestamped-window")
HEADERS_WINDOW = DriverStoreView("headers-window")
SESSION = DriverStoreView("session")
TIMESTAMPED_SESSION = DriverStoreView("timestamped-session")
HEADERS_SESSION = DriverStoreView("headers-session")
