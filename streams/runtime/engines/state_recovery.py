"""What becomes of damaged state: it is taken out and restored from its changelog, or an error (``state.on.damage``).

An application takes the same state out once: what is damaged again is not mended by reading the changelog again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from traceback import clear_frames
from typing import Literal

from processor_api.errors import DamagedStateError, StreamsError
from processor_api.stores.factory import ROCKSDB
from processor_api.task_id import TaskId
from state.directory.inspect import StoredTask
from state.directory.state_directory import Slot, StateDirectory, TaskLock
from state.engine.repair_hints import without_advice
from streams.runtime.plan.task_plan import TaskPlan

__all__ = ["OnDamage", "Rebuilds", "let_go"]

log = logging.getLogger("streams.restore")

OnDamage = Literal["rebuild", "fail"]


class Rebuilds:
    """Of a process. May be used by any thread."""

    def __init__(self, application_id: str, directory: StateDirectory, on_damage: OnDamage) -> None:
        self._application_id = application_id
        self._directory = directory
        self._rebuilds = on_damage == "rebuild"
        self._done: set[tuple[str, str | None]] = set()
        self._damaged_globals: DamagedStateError | None = None

    # ------------------------------------------------------------------ tasks

    def refusal(self, error: DamagedStateError, plans: Mapping[int, TaskPlan]) -> DamagedStateError | None:
        """What to fail with where damage is not mended by :meth:`rebuild`; ``None`` where it is."""
        found = self._found(error)
        if not self._rebuilds or found is None:
            return error
        if found.task is None:
            self.after_closing(error)
            return _because(error, "it is taken out when the application closes, and filled anew by the next start")
        self._attribute(found, error)
        why = self._why_not(found, error.store, plans.get(found.task.subtopology))
        return None if why is None else _refused(error, why)

    def _why_not(self, found: StoredTask, store: str | None, plan: TaskPlan | None) -> str | None:
        if plan is None:
            return "the topology has no such task"
        own = [name for name in plan.stores if plan.topology.stores[name].supplier.engine == ROCKSDB]
        if store is not None and store not in own:
            return f"the topology has no store {store!r} there"
        for name in own if store is None else [store]:
            if name not in plan.changelogs:
                return f"store {name!r} has no changelog"
        return self._why_not_again(found, store)

    def _why_not_again(self, found: StoredTask, store: str | None) -> str | None:
        if self._done & {(found.name, store), (found.name, None)}:
            return "it was before, by this process, so that its disk wants looking at"
        return None

    def rebuild(self, error: DamagedStateError, plans: Mapping[int, TaskPlan]) -> None:
        """Takes damaged state of a task out, which must be closed; who opens it next restores it. Nothing is done if
        another one has opened it meanwhile.

        :raises StateError: it cannot be taken out.
        """
        let_go(error)
        found = self._found(error)
        assert found is not None
        assert found.task is not None
        lock = self._directory.try_lock_task(found.task)
        if lock is None:
            return
        with lock:
            self._take_out(found, lock, error, self._why_not(found, None, plans.get(found.task.subtopology)))

    # ------------------------------------------------------------------ global stores

    def rebuild_globals(self, error: DamagedStateError, slot: Slot) -> None:
        """Takes damaged global stores out, which must be closed; they are filled from their topics.

        :raises StateError: they are not to be taken out, or cannot be.
        """
        found = self._found(error)
        if not self._rebuilds or found is None:
            raise error
        let_go(error)
        self._attribute(found, error)
        if why := self._why_not_again(found, error.store):
            raise _refused(error, why)
        self._take_out(found, slot, error, self._why_not_again(found, None))

    def after_closing(self, error: DamagedStateError) -> None:
        """Global stores were found damaged while they are open, and read by every thread."""
        self._damaged_globals = error

    def globals_closed(self, slot: Slot) -> None:
        """Takes out what :meth:`after_closing` was told of."""
        error, self._damaged_globals = self._damaged_globals, None
        if error is None:
            return
        try:
            self.rebuild_globals(error, slot)
        except StreamsError as refused:
            log.error("damaged global stores stay: %s", refused.message)

    # ------------------------------------------------------------------ taking out

    def _found(self, error: DamagedStateError) -> StoredTask | None:
        """Whose database it is; ``None`` for engines that are not built in."""
        if error.path is None:
            return None
        path, root = Path(error.path).parent, self._directory.path
        if path.parent == root:
            return StoredTask(self._application_id, path, TaskId.parse(path.name))
        return StoredTask(self._application_id, path, None) if path.parent == root / "global" else None

    @staticmethod
    def _attribute(found: StoredTask, error: DamagedStateError) -> None:
        from state.offline.damage import damaged_store  # RocksDB: only applications that have it load it

        error.locate(store=damaged_store(found, error))

    def _take_out(
        self, found: StoredTask, held: TaskLock | Slot, error: DamagedStateError, why_not_all: str | None
    ) -> None:
        """:param why_not_all: why not everything there is taken out, where a store cannot be taken out alone."""
        from state.offline.damage import take_out_store

        if error.store is None:
            self._take_out_all(found, held, error)
            return
        told = {"task": found.name, "store": error.store, "error": without_advice(error.message)}
        log.error("store is rebuilt from its changelog: it is damaged on disk", extra=told)
        try:
            take_out_store(found, error.store)
        except DamagedStateError as more:
            if why_not_all is not None:
                raise _refused(more, why_not_all) from more
            self._take_out_all(found, held, more)
        else:
            self._done.add((found.name, error.store))

    def _take_out_all(self, found: StoredTask, held: TaskLock | Slot, error: DamagedStateError) -> None:
        told = {"task": found.name, "error": without_advice(error.message)}
        log.error("the stores of a task are rebuilt from their changelogs: what they share is damaged", extra=told)
        self._directory.remove_database(held)
        self._done.add((found.name, None))


def let_go(error: BaseException) -> None:
    """Forgets the variables of the functions that an error came through. Iterators of the binding among them would keep
    their database open, and locked, for as long as somebody keeps the error."""
    link: BaseException | None = error
    while link is not None:
        clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def _because(error: DamagedStateError, why: str) -> DamagedStateError:
    """The error with what it does not say."""
    return DamagedStateError(f"{error.message}; {why}", path=error.path, **error.place())


def _refused(error: DamagedStateError, why: str) -> DamagedStateError:
    return _because(error, f"it is not rebuilt by itself: {why}")
