"""The kit of the contracts of stores: one custom store in a task, with the steps of a task, instead of the runtime."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from processor_api.clock import ManualClock
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.task_id import TaskId, TopicPartition
from state.custom.context import StoreContext, StoreEnvironment
from state.custom.engine import DIRECTORY
from state.engine.port import OFFSETS, POSITIONS
from state.formats.offsets import offset_key, write_offset
from state.registry.kinds import custom_engine, open_store, restore_of
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore
from streams.metrics.registry import Metrics, ThreadMetrics

__all__ = ["CHANGELOG", "INPUT", "StoreKit"]

CHANGELOG = TopicPartition("app-store-changelog", 0)
INPUT = TopicPartition("input", 0)


class StoreKit:
    """A custom store in the directory of a task. What it logs is kept in :attr:`logged`.

    :param exactly_once: whether uncommitted writes have to be undone.
    """

    def __init__(self, builder: StoreBuilder[Any, Any], directory: Path, *, exactly_once: bool = True) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.builder, self.directory = builder, directory
        self.cursor, self.budget, self.clock = Cursor(), Budget(1 << 20, 0), ManualClock(1_000)
        self.logged: list[ChangelogRecord] = []

        def context() -> StoreContext:
            return StoreContext(
                StoreEnvironment(
                    store=builder.name,
                    application_id="app",
                    task_id=TaskId(0, 0),
                    state_dir=directory / DIRECTORY / builder.name,
                    changelog_topic=CHANGELOG.topic if builder.logging else None,
                    key_serde=Serdes.BYTES,
                    value_serde=Serdes.BYTES,
                    cursor=self.cursor,
                    settings=lambda: {"application.id": "app"},
                    make_metrics=lambda: ThreadMetrics(Metrics(self.clock.time_ms), "thread"),
                    time_ms=self.clock.time_ms,
                    request_commit=lambda: None,
                )
            )

        self.engine: Any = custom_engine(builder, context, inputs=[INPUT], undoes=exactly_once)
        self._open: OpenStore | None = None

    @property
    def own(self) -> Any:
        """Returns the user's store itself."""
        return self.engine.store

    @property
    def offset(self) -> int | None:
        """Returns the offset of the last changelog record that the store is known to hold."""
        found: int | None = self.engine.offset(CHANGELOG)
        return found

    def start(self) -> Any:
        """Starts processing; returns the store as processors see it."""
        self._open = open_store(
            self.builder,
            engine=self.engine,
            cursor=self.cursor,
            budget=self.budget,
            log=self._log if self.builder.logging else None,
            key_serde=self.builder.key_serde or Serdes.BYTES,
            value_serde=self.builder.value_serde or Serdes.BYTES,
        )
        return self._open.facade

    def _log(self, key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
        self.logged.append(ChangelogRecord(key, value, timestamp, headers))

    def at(self, timestamp: int) -> None:
        """Sets the time of the current record, in ms."""
        self.cursor.timestamp = timestamp

    def commit(self, offset: int | None = None, position: int | None = None) -> None:
        """Commits the task.

        :param offset: of the changelog's last record; that of the last one logged if left out.
        :param position: the next offset of the input; none is given if left out.
        """
        assert self._open is not None
        self._open.drain()
        batch = self.engine.batch()
        self._open.apply(batch)
        last = len(self.logged) - 1 if offset is None else offset
        if last >= 0:
            batch.put(offset_key(*CHANGELOG), write_offset(last), self.engine.family(OFFSETS).handle)
        if position is not None:
            batch.put(offset_key(*INPUT), write_offset(position), self.engine.family(POSITIONS).handle)
        self.engine.write(batch)
        self._open.applied()

    def restore(self, records: Collection[ChangelogRecord], *, at_once: int = 3) -> None:
        """Restores the store, some records at a time, from behind the offset that it holds."""
        held = self.offset
        restore, first = restore_of(self.builder, self.engine), 0 if held is None else held + 1
        todo = list(records)[first:]
        for start in range(0, len(todo), at_once):
            part = todo[start : start + at_once]
            batch = self.engine.batch()
            columns: list[Any] = [[record[column] for record in part] for column in range(4)]
            restore(batch, *columns)
            last = first + start + len(part) - 1
            batch.put(offset_key(*CHANGELOG), write_offset(last), self.engine.family(OFFSETS).handle)
            self.engine.load(batch)
        self.engine.flush()

    def wipe(self) -> None:
        """Deletes the store, as before a restore from the changelog's start."""
        self.engine.clear([])

    def abort(self) -> None:
        """Drops everything that was not committed; :meth:`start` opens the store again."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def close(self) -> None:
        self.abort()
        self.engine.close()
