"""The operator that joins the records of a stream with the rows of a table (semantics 17, 25, 40, 64)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.ending import in_parts
from dsl.processors.tables.view import TableView
from dsl.processors.user_functions import user_function, with_key
from dsl.processors.windows.emission import rows_of_part
from processor_api.context import HeldBack, OperatorContext
from processor_api.record import DropReason, Forward, HeaderList


@dataclass(frozen=True, kw_only=True)
class StreamTableJoin:
    """Joins each record with the row of its key: the latest, or in a versioned table that of the record's time.

    Without a row an inner join drops the record, and a left join calls the joiner with ``None``. With a buffer, records
    wait in it until stream time has passed them by its grace period (semantics 65).
    """

    joiner: Callable[..., Any] = field(metadata=user_function("value", "other", key_if="takes_key"))
    takes_key: bool
    left: bool
    views: tuple[TableView, ...] = ()
    """The table's; set by the compiler."""
    buffer: str | None = None
    """The store in which records wait."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        view = self.views[0]
        as_of = view.bind_as_of(context)
        join = self._latest(context, view) if as_of is None else self._as_of(context, as_of)
        return self._at_once(context, join) if self.buffer is None else self._buffered(context, join, self.buffer)

    def _at_once(self, context: OperatorContext, join: Forward) -> Forward:
        drop, left = context.drop, self.left

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if value is None or (key is None and not left):
                drop(DropReason.NULL_KEY_OR_VALUE)
            else:
                join(key, value, timestamp, headers)

        return process

    def _buffered(self, context: OperatorContext, join: Forward, name: str) -> Forward:
        """A record without a key has no row to wait for, and is joined at once."""
        buffer = context.store(name)
        put, evict_while = buffer.put, buffer.evict_while
        drop, fail, left = context.drop, context.fail, self.left
        part_rows = rows_of_part(context)

        def look(most: int | None) -> HeldBack | None:
            names = "record that waits for rows of the table", "records that wait for rows of the table"
            if not buffer.num_records:
                return None
            return HeldBack(names=names, count=buffer.num_records, due_ms=buffer.due_from)

        def send_part() -> bool:
            rest = buffer.num_records - part_rows
            evict_while(lambda: buffer.num_records > rest, join)
            return bool(buffer.due)

        context.report_held(name, look)
        send_due = context.in_parts(send_part, left=buffer.due)
        context.on_end(in_parts(lambda wanted: evict_while(wanted, join, early=True), lambda: int(buffer.num_records)))

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if value is None or (key is None and not left):
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            if buffer.due and (key is None or timestamp <= buffer.due_until):  # a part is sent, in the same call
                evict_while(_always, join)  # before a record that does not wait
            waits = False
            if key is not None:
                try:
                    waits = put(key, value, timestamp, headers)
                except Exception as error:
                    fail(error, key, value, timestamp, headers)
                    return
            if not waits:
                join(key, value, timestamp, headers)
            if buffer.due:
                send_due()

        return process

    def _latest(self, context: OperatorContext, view: TableView) -> Forward:
        get, forward, fail = view.bind(context), context.forward, context.fail
        joiner, left = with_key(self.joiner, self.takes_key), self.left
        alone = context.counting(DropReason.NO_PARTNER)

        def join(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                found = None if key is None else get(key)
                if found is None:
                    if not left:
                        alone()
                        return
                    joined = joiner(key, value, None)
                else:
                    joined = joiner(key, value, found[0])
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return join

    def _as_of(self, context: OperatorContext, get: Callable[[Any, int], tuple[Any, int] | None]) -> Forward:
        forward, fail = context.forward, context.fail
        joiner, left = with_key(self.joiner, self.takes_key), self.left
        alone = context.counting(DropReason.NO_PARTNER)

        def join(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                found = None if key is None else get(key, timestamp)
                if found is None:
                    if not left:
                        alone()
                        return
                    joined = joiner(key, value, None)
                else:
                    joined = joiner(key, value, found[0])
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return join


def _always() -> bool:
    return True
