"""Compares the serdes of a task's stores with those by which the rows were written, before the task runs.

The schemas of the serdes are noted with the rows. Where nothing was noted, or nothing is known of a serde, some rows
are read, and all of them where some may be of a version before the last one: what cannot be read is better found here
than by the first record that needs it.

Rows also come out of a changelog, a snapshot or a copy of the application, and may have been written by any version.
So marks of what is noted are committed with the offsets of the inputs. A note that is not the one whose mark was
committed last does not speak for the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any
from zlib import crc32

from processor_api.clock import Clock
from processor_api.stores.builder import StoreBuilder
from processor_api.task_id import TaskId, TopicPartition
from state.read_views.view import why_unreadable
from streams.kafka.offset_metadata import SchemaMark, TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.start.refusals import rows_of_another_form
from streams.runtime.start.start_offsets import Starts
from streams.runtime.start.waiting_records import compare_forms
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
    """Compares the schemas of the stores of a stream thread's tasks, some rows at a time: the thread has to poll.

    :param commit: commits offsets of inputs, with their metadata.
    :param ends: returns the ends of partitions, behind open transactions.
    """

    def __init__(
        self,
        clock: Clock,
        commit: Callable[[Starts], None],
        ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> None:
        self._clock = clock
        self._commit = commit
        self._ends = ends
        self._going_on: dict[TaskId, Generator[None]] = {}

    def passed(self, task: Task, starts: Starts, until: float) -> bool:
        """Continues the check of a task whose stores are restored, and stores the current schemas.

        :param starts: the committed offsets of its inputs; with other marks, they are changed and committed.
        :param until: the time in seconds of the clock to stop at.
        :returns: whether the check is over: the task may run.
        :raises StateError: if this version cannot read the rows of a store, or records that wait in a repartition
            topic, unless ``state.on.schema.change`` is ``warn``.
        :raises RetryableError: if the offsets cannot be committed now, or no broker answers.
        """
        check = self._going_on.get(task.id)
        if check is None:
            check = self._going_on[task.id] = _checked(task, _committed_marks(starts))
        try:
            for _ in check:
                if self._clock.monotonic() >= until:
                    return False
        except BaseException:
            self.stop(task.id)
            raise
        self.stop(task.id)
        compare_forms(task, starts, self._ends)
        self._commit_marks(task, starts)
        return True

    def _commit_marks(self, task: Task, starts: Starts) -> None:
        """Commits the marks of what is noted now, if others are: before any row is written by this version."""
        marks = task.stores.changelogs.schemas = frozenset(_marks_of(task))
        found = {name: TopicPartitionMetadata.decode(one.metadata) for name, one in starts.items()}
        changed = {
            name: OffsetAndMetadata(starts[name].offset, replace(metadata, schemas=marks).encode())
            for name, metadata in found.items()
            if metadata.schemas and metadata.schemas != marks
        }
        if changed:
            self._commit(changed)
            starts.update(changed)

    def stop(self, id_: TaskId) -> None:
        """Gives up the check of a task."""
        check = self._going_on.pop(id_, None)
        if check is not None:
            check.close()  # with its iterator of the engine, which may be closed next


def _marks_of(task: Task) -> Iterator[SchemaMark]:
    for name in task.plan.changelogs.keys() - task.plan.source_changelogs:  # others write source topics
        kept = None
        if why_unreadable(task.plan.topology.stores[name]) is None:
            kept = read_kept(task.stores.progress.schemas(name))
        if kept is not None:
            yield SchemaMark(crc32(name.encode()), *kept.marks)


def _committed_marks(starts: Starts) -> Mapping[int, Collection[SchemaMark]]:
    """Returns the marks of stores as of the last commit of each input; there are several if one has not moved since."""
    found: dict[int, set[SchemaMark]] = {}
    for one in starts.values():
        for mark in TopicPartitionMetadata.decode(one.metadata).schemas:
            found.setdefault(mark.store, set()).add(mark)
    return found


def _checked(task: Task, marks: Mapping[int, Collection[SchemaMark]]) -> Generator[None]:
    """Compares the schemas of all stores of a task, and yields now and then."""
    for name in task.plan.stores:
        builder = task.plan.topology.stores[name]
        if why_unreadable(builder) is None:
            yield from _check_store(task, builder, marks.get(crc32(name.encode()), ()))


def _check_store(task: Task, builder: StoreBuilder[Any, Any], marks: Collection[SchemaMark]) -> Generator[None]:
    name, progress = builder.name, task.stores.progress
    serdes = task.stores.serdes_of(builder)
    key, value = serdes["key_serde"], serdes["value_serde"]
    row, now = progress.schemas(name), kept_by(key, value)
    kept = _with_marks(read_kept(row), now, marks)
    if kept == now or (row is None and not progress.has_rows(name)):
        if row != now.write():
            progress.note_schemas(name, now.write())
        return
    found = compare(kept, key, value)
    wrong: dict[str, tuple[str, ...]] = {one.part: one.problems for one in found if one.fit is Fit.INCOMPATIBLE}
    fits, reading = {one.fit for one in found}, None
    if not wrong and fits & {Fit.OLDER, Fit.UNKNOWN}:
        reading = RowReading(
            progress.rows(name),
            key,
            value,
            None if Fit.OLDER in fits else ROWS_TRIED,
            foreign_keys=name in task.plan.source_changelogs,
        )
        if Fit.OLDER in fits:
            _say_reading(task, name, found)
        while not reading.read(ROWS_AT_A_TIME):
            yield
        wrong = {} if reading.problem is None else {"row": (reading.problem,)}
    noted = (kept or KeptSchemas(now.key, None)).followed_by(now, read=reading is not None)
    if reading is not None and Fit.OLDER in fits and not reading.others:
        noted = now  # all rows are what this version would have written
    if wrong:
        _refuse(task, name, wrong)
        noted = (kept or KeptSchemas(None, None)).with_unknown_rows()  # the next start, by any version, finds it again
    else:
        _report(task, name, found, reading if Fit.OLDER in fits else None)
    if noted.write() != row:
        progress.note_schemas(name, noted.write())


def _with_marks(kept: KeptSchemas | None, now: KeptSchemas, marks: Collection[SchemaMark]) -> KeptSchemas | None:
    """Returns what is known of the rows of a store, which may have come from elsewhere.

    :param kept: the note in the store.
    :param marks: those of the last commits; nothing if none are known.
    """
    if not marks or (kept is not None and all(kept.marks == (one.last, one.kept) for one in marks)):
        return kept
    if any(one.last != now.marks[0] for one in marks):
        return (kept or KeptSchemas(now.key, now.value)).with_unknown_rows()
    if kept is None and all(one.kept == one.last for one in marks):
        return now
    # The same version has been writing, and knew of older rows, which it has read.
    return (kept or now).followed_by(now, read=False).with_unknown_rows()._replace(read=True)


def _refuse(task: Task, store: str, wrong: Mapping[str, Collection[str]]) -> None:
    """Refuses a task, or logs it."""
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
