"""Compares the serdes of a task's stores with those by which the rows were written, before the task runs.

The schemas of the serdes are noted with the rows. Where nothing was noted, or nothing is known of a serde, some rows
are read, and all of them where some may be of a version before the last one: what cannot be read is better found here
than by the first record that needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.stores.builder import StoreBuilder
from processor_api.task_id import TaskId
from state.read_views.view import why_unreadable
from streams.runtime.start.refusals import rows_of_another_form
from streams.runtime.tasks.task import Task
from streams.schemas.store_schemas import (
    ROWS_TRIED,
    Comparison,
    Fit,
    KeptSchemas,
    RowReading,
    compare,
    kept_by,
    read_kept,
)

log = logging.getLogger("streams.restore")

ROWS_AT_A_TIME = 1000
"""How many rows are read between two looks at the clock."""


class SchemaChecks:
    """Compares the schemas of the stores of a stream thread's tasks, some rows at a time: the thread has to poll."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._going_on: dict[TaskId, Generator[None]] = {}

    def passed(self, task: Task, until: float) -> bool:
        """Goes on with the check of a task whose stores are restored, and notes the schemas of now.

        :param until: the time in seconds of the clock to stop at.
        :returns: whether the check is over: the task may run.
        :raises StateError: if this version cannot read the rows of a store, unless ``state.on.schema.change`` is
            ``warn``.
        """
        check = self._going_on.get(task.id)
        if check is None:
            check = self._going_on[task.id] = _checked(task)
        try:
            for _ in check:
                if self._clock.monotonic() >= until:
                    return False
        except BaseException:
            self.stop(task.id)
            raise
        self.stop(task.id)
        return True

    def stop(self, id_: TaskId) -> None:
        """Gives up the check of a task."""
        check = self._going_on.pop(id_, None)
        if check is not None:
            check.close()  # with its iterator of the engine, which may be closed next


def _checked(task: Task) -> Generator[None]:
    """Compares the schemas of all stores of a task, and yields now and then."""
    for name in task.plan.stores:
        builder = task.plan.topology.stores[name]
        if why_unreadable(builder) is None:
            yield from _check_store(task, builder)


def _check_store(task: Task, builder: StoreBuilder[Any, Any]) -> Generator[None]:
    name, progress = builder.name, task.stores.progress
    serdes = task.stores.serdes_of(builder)
    key, value = serdes["key_serde"], serdes["value_serde"]
    row, now = progress.schemas(name), kept_by(key, value)
    if row == now.write():
        return
    if row is None and not progress.has_rows(name):
        progress.note_schemas(name, now.write())
        return
    kept = read_kept(row)
    found = compare(kept, key, value)
    wrong: dict[str, tuple[str, ...]] = {one.part: one.problems for one in found if one.fit is Fit.INCOMPATIBLE}
    fits, reading = {one.fit for one in found}, None
    if not wrong and fits & {Fit.OLDER, Fit.UNKNOWN}:
        reading = RowReading(progress.rows(name), key, value, None if Fit.OLDER in fits else ROWS_TRIED)
        if Fit.OLDER in fits:
            _say_reading(task, name, found)
        while not reading.read(ROWS_AT_A_TIME):
            yield
        wrong = {} if reading.problem is None else {"row": (reading.problem,)}
    if wrong:
        _refuse(task, name, wrong)
        return
    noted = (kept or KeptSchemas(now.key, None)).followed_by(now, read=reading is not None)
    if reading is not None and Fit.OLDER in fits and not reading.others:
        noted = now  # all rows are what this version would have written
    _report(task, name, found, reading if Fit.OLDER in fits else None)
    if noted.write() != row:
        progress.note_schemas(name, noted.write())


def _refuse(task: Task, store: str, wrong: Mapping[str, Collection[str]]) -> None:
    """Refuses a task, or logs it.

    Nothing is noted in the second case: the next start finds it again.
    """
    refusal = rows_of_another_form(task.id, store, wrong)
    if not task.environment.settings.warns_of_schemas:
        raise refusal
    log.warning("store has rows that cannot be read", extra={"task": str(task.id), "error": refusal.message})


def _say_reading(task: Task, store: str, found: Collection[Comparison]) -> None:
    problems = [problem for one in found if one.fit is Fit.OLDER for problem in one.problems]
    log.info(
        "all rows of a store are read before its task runs: some may be of a version before the last one",
        extra={"task": str(task.id), "store": store, "unlike": "; ".join(problems) or "not known"},
    )


def _report(task: Task, store: str, found: Collection[Comparison], reading: RowReading | None) -> None:
    if reading is not None:
        log.info(
            "all rows of a store can be read",
            extra={"task": str(task.id), "store": store, "rows": reading.count, "of_older_forms": reading.others},
        )
    elif changed := [one.part for one in found if one.fit is Fit.COMPATIBLE]:
        log.info(
            "store has rows of another form, which this version reads",
            extra={"task": str(task.id), "store": store, "parts": ", ".join(changed)},
        )
