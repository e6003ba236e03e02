"""Compares the serdes of a task's stores with those by which the rows were written, before the task runs.

The schemas of the serdes are noted with the rows. Where nothing was noted, or nothing is known of a serde, some rows
are read: what cannot be read is better found here than by the first record that needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from itertools import islice
from typing import Any

from processor_api.errors import DamagedStateError, StreamsError
from processor_api.stores.builder import StoreBuilder
from processor_api.texts import kind_and_text
from state.read_views.queryable import why_unreadable
from streams.runtime.start.refusals import rows_of_another_form
from streams.runtime.tasks.task import Task
from streams.schemas.store_schemas import Comparison, Fit, compare, kept_by, read_kept

log = logging.getLogger("streams.restore")

ROWS = 20
"""How many rows are read where only they can tell."""


def check_schemas(task: Task) -> None:
    """Compares the schemas of all stores of a task whose stores are restored, and notes those of now.

    :raises StateError: if this version cannot read the rows of a store, unless ``state.on.schema.change`` is ``warn``.
    """
    for name in task.plan.stores:
        builder = task.plan.topology.stores[name]
        if why_unreadable(builder) is None:
            _check_store(task, builder)


def _check_store(task: Task, builder: StoreBuilder[Any, Any]) -> None:
    name, progress = builder.name, task.stores.progress
    serdes = task.stores.serdes_of(builder)
    key, value = serdes["key_serde"], serdes["value_serde"]
    row, now = progress.schemas(name), kept_by(key, value)
    if row == now.write():
        return
    if row is not None or progress.has_rows(name):
        _report(task, name, compare(read_kept(row), key, value))
    progress.note_schemas(name, now.write())


def _report(task: Task, store: str, found: Collection[Comparison]) -> None:
    wrong = {one.part: one.problems for one in found if one.fit is Fit.INCOMPATIBLE}
    if not wrong and any(one.fit is Fit.UNKNOWN for one in found):
        unread = _unread(task, store)
        wrong = {} if unread is None else {"row": (unread,)}
    if wrong:
        refusal = rows_of_another_form(task.id, store, wrong)
        if not task.environment.settings.warns_of_schemas:
            raise refusal
        log.warning("store has rows that cannot be read", extra={"task": str(task.id), "error": refusal.message})
        return
    if changed := [one.part for one in found if one.fit is Fit.COMPATIBLE]:
        log.info(
            "store has rows of another form, which this version reads",
            extra={"task": str(task.id), "store": store, "parts": ", ".join(changed)},
        )


def _unread(task: Task, store: str) -> str | None:
    """Returns in words what is wrong with one of the first rows of a store; ``None`` if they can be read."""
    reader = task.stores.open_reader(store)
    if reader is None:
        return None
    every = getattr(reader.facade, "all", None)
    try:
        if every is not None:
            for _ in islice(every(), ROWS):
                pass
    except DamagedStateError:
        raise
    except StreamsError as error:
        return error.message
    except Exception as error:  # of a serde of the user
        return kind_and_text(error)
    finally:
        reader.close()
    return None
