"""Recovery of damaged state: it is removed and restored from its changelog, or it is an error (``state.on.damage``).

A process removes the same state once: if it is damaged again, to read the changelog again does not help.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from traceback import clear_frames
from typing import Literal

from processor_api.errors import DamagedStateError, StreamsError
from processor_api.stores.suppliers import ROCKSDB
from processor_api.task_id import TaskId
from state.directory.inspect import StoredTask
from state.directory.state_directory import Slot, StateDirectory, TaskLock
from state.engine.repair_hints import without_hint
from streams.runtime.plan.task_plan import TaskPlan

log = logging.getLogger("streams.restore")

OnDamage = Literal["rebuild", "fail"]


class StateRecovery:
    """Removes damaged state of a process, so that it is restored. May be used by any thread."""

    def __init__(self, application_id: str, directory: StateDirectory, on_damage: OnDamage) -> None:
        self._application_id = application_id
        self._directory = directory
        self._enabled = on_damage == "rebuild"
        self._removed: set[tuple[str, str | None]] = set()
        self._deferred: DamagedStateError | None = None
        """Damage of global stores that is repaired when they are closed."""

    # ------------------------------------------------------------------ tasks

    def refusal(self, error: DamagedStateError, plans: Mapping[int, TaskPlan]) -> DamagedStateError | None:
        """Returns the error to fail with if :meth:`recover` cannot help; ``None`` if it can."""
        found = self._locate(error)
        if not self._enabled or found is None:
            return error
        if found.task is None:
            self.defer_globals(error)
            return _with_reason(error, "it is removed when the application closes, and refilled at the next start")
        self._attribute(found, error)
        why = self._obstacle(found, error.store, plans.get(found.task.subtopology))
        return None if why is None else _refused(error, why)

    def _obstacle(self, found: StoredTask, store: str | None, plan: TaskPlan | None) -> str | None:
        if plan is None:
            return "the topology does not have this task"
        own = [name for name in plan.stores if plan.topology.stores[name].supplier.engine == ROCKSDB]
        if store is not None and store not in own:
            return f"the topology does not have store {store!r} there"
        for name in own if store is None else [store]:
            if name not in plan.changelogs:
                return f"store {name!r} does not have a changelog"
        return self._removed_before(found, store)

    def _removed_before(self, found: StoredTask, store: str | None) -> str | None:
        if self._removed & {(found.name, store), (found.name, None)}:
            return "this process has already rebuilt it once; check the disk"
        return None

    def recover(self, error: DamagedStateError, plans: Mapping[int, TaskPlan]) -> None:
        """Removes damaged state of a task, which must be closed; its next owner restores it.

        Does nothing if another process has opened the task meanwhile.

        :raises StateError: if it cannot be removed.
        """
        clear_tracebacks(error)
        found = self._locate(error)
        assert found is not None
        assert found.task is not None
        lock = self._directory.try_lock_task(found.task)
        if lock is None:
            return
        with lock:
            self._remove(found, lock, error, self._obstacle(found, None, plans.get(found.task.subtopology)))

    # ------------------------------------------------------------------ global stores

    def recover_globals(self, error: DamagedStateError, slot: Slot) -> None:
        """Removes damaged global stores, which must be closed; they are filled from their topics again.

        :raises StateError: if they are not to be removed, or cannot be.
        """
        found = self._locate(error)
        if not self._enabled or found is None:
            raise error
        clear_tracebacks(error)
        self._attribute(found, error)
        if why := self._removed_before(found, error.store):
            raise _refused(error, why)
        self._remove(found, slot, error, self._removed_before(found, None))

    def defer_globals(self, error: DamagedStateError) -> None:
        """Notes that global stores are damaged. They stay until :meth:`recover_deferred`: every thread reads them."""
        self._deferred = error

    def recover_deferred(self, slot: Slot) -> None:
        """Removes the damaged global stores that :meth:`defer_globals` noted; to be called when they are closed."""
        error, self._deferred = self._deferred, None
        if error is None:
            return
        try:
            self.recover_globals(error, slot)
        except StreamsError as refused:
            log.error("damaged global stores are kept: %s", refused.message)

    # ------------------------------------------------------------------ removal

    def _locate(self, error: DamagedStateError) -> StoredTask | None:
        """Returns the task whose database is damaged; ``None`` for engines that are not built in."""
        if error.path is None:
            return None
        path, root = Path(error.path).parent, self._directory.path
        if path.parent == root:
            return StoredTask(self._application_id, path, TaskId.parse(path.name))
        return StoredTask(self._application_id, path, None) if path.parent == root / "global" else None

    @staticmethod
    def _attribute(found: StoredTask, error: DamagedStateError) -> None:
        from state.offline.stores import damaged_store  # RocksDB: only applications that have it load it

        error.locate(store=damaged_store(found, error))

    def _remove(
        self, found: StoredTask, held: TaskLock | Slot, error: DamagedStateError, why_not_all: str | None
    ) -> None:
        """Removes a damaged store, or all stores of the task.

        :param why_not_all: the reason to keep the other stores, if the damaged one cannot be removed alone.
        """
        from state.offline.stores import take_out_store

        if error.store is None:
            self._remove_all(found, held, error)
            return
        place = {"task": found.name, "store": error.store, "error": without_hint(error.message)}
        log.error("store is rebuilt from its changelog: it is damaged on disk", extra=place)
        try:
            take_out_store(found, error.store)
        except DamagedStateError as more:
            if why_not_all is not None:
                raise _refused(more, why_not_all) from more
            self._remove_all(found, held, more)
        else:
            self._removed.add((found.name, error.store))

    def _remove_all(self, found: StoredTask, held: TaskLock | Slot, error: DamagedStateError) -> None:
        place = {"task": found.name, "error": without_hint(error.message)}
        log.error("the stores of a task are rebuilt from their changelogs: what they share is damaged", extra=place)
        self._directory.remove_database(held)
        self._removed.add((found.name, None))


def clear_tracebacks(error: BaseException) -> None:
    """Clears the local variables in the traceback of an error and of its causes.

    Iterators of RocksDB among them would keep their database open, and locked, for as long as the error is kept. Causes
    may go in a circle: a handler that raises the cause of the error that it is asked about makes one.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            clear_frames(link.__traceback__)
            waiting += (link.__cause__, link.__context__)


def _with_reason(error: DamagedStateError, why: str) -> DamagedStateError:
    return DamagedStateError(f"{error.message}; {why}", path=error.path, **error.place())


def _refused(error: DamagedStateError, why: str) -> DamagedStateError:
    return _with_reason(error, f"it is not rebuilt automatically: {why}")
