"""The operator that lets changes of a table wait in a buffer (KIP-328, semantics 70 to 72).

Stream time is the operator's own: the largest timestamp that reached it. It is committed with the offsets, so that it
continues where it was when the task starts again; in Kafka Streams it starts again too (semantics 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dsl.processors.ending import in_parts
from dsl.processors.tables.operator import TableOperator
from dsl.processors.tables.view import LookUp, LookUpAsOf, Row, TableView
from dsl.processors.windows.emission import OPEN_WINDOWS, kept_stream_time, rows_of_part
from processor_api.context import HeldBack, OperatorContext
from processor_api.errors import StateError, StoreError
from processor_api.record import NO_TIMESTAMP, Forward, HeaderList

NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class Suppress(TableOperator):
    """Holds changes back in a buffer: those of a key are one, the last, at the time of the first.

    With ``by_window`` keys are windowed and wait for the ends of their windows. Deletions are not sent on then: what
    they delete was never sent.
    """

    buffer: str
    wait_ms: int
    closes_after: bool = False
    """Whether a window still takes records at the very end of that wait, as sessions do: it is over 1 ms later."""
    by_window: bool = False
    record_limit: int = NO_LIMIT
    byte_limit: int = NO_LIMIT
    emits_early: bool = False

    @property
    def open_ms(self) -> int:
        """The time in ms, after a change's own time, for which it waits."""
        return self.wait_ms + (self.closes_after and not self.java_defects)

    def bind(self, context: OperatorContext) -> Forward:
        buffer, fail = context.store(self.buffer), context.fail
        put, evict_while = buffer.put, buffer.evict_while
        buffer.sends_prior = not self.java_defects
        wait, by_window = self.open_ms, self.by_window
        most_records, most_bytes, emits_early = self.record_limit, self.byte_limit, self.emits_early
        emit = _finals(context.forward) if by_window else context.forward
        part_rows = rows_of_part(context)
        stream_time = NO_TIMESTAMP
        stream_time = kept_stream_time(context, self.buffer, lambda: stream_time)

        def due() -> bool:
            return bool(buffer.min_timestamp <= stream_time - wait)

        def look(most: int | None) -> HeldBack | None:
            if not buffer.num_records:
                return None
            names = OPEN_WINDOWS if by_window else ("suppressed result", "suppressed results")
            return HeldBack(names=names, count=buffer.num_records, due_ms=buffer.min_timestamp + wait)

        def full() -> bool:
            return bool(buffer.num_records > most_records or buffer.buffer_size > most_bytes)

        def send_part() -> bool:
            left = buffer.num_records - part_rows
            evict_while(lambda: due() and buffer.num_records > left, emit)
            return due()

        def send_rest_before(key: Any, timestamp: int) -> None:
            """Sends what is left, if the change would take the place of some of it, or leave before it."""
            try:
                waits_from = buffer.waits_from(key)
            except StoreError:  # that of the put
                return
            if (timestamp if waits_from is None else waits_from) <= stream_time - wait:
                evict_while(due, emit)

        context.report_held(self.buffer, look)
        send_due = context.in_parts(send_part, left=due())
        context.on_end(in_parts(lambda wanted: evict_while(wanted, emit), lambda: int(buffer.num_records)))

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            nonlocal stream_time
            # `due()` without its call, here and below: it is asked for each record.
            if not by_window and buffer.min_timestamp <= stream_time - wait:
                send_rest_before(key, timestamp)  # a part was sent in the same call or drain
            if timestamp > stream_time:
                stream_time = timestamp
            try:
                put(key.window.end if by_window else timestamp, key, value, timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if buffer.min_timestamp <= stream_time - wait:
                send_due()
            # Of what is due a part may be left: it goes before a limit is exceeded by what is not.
            if full():
                evict_while(lambda: due() and full(), emit)
            if full():
                if not emits_early:
                    raise self._overflow(context.node, buffer)
                evict_while(full, emit)

        return process

    def view(self, above: Sequence[TableView]) -> TableView:
        """Returns a view of what those below know: the value before the buffered changes, otherwise the row above."""
        return SuppressedView(above[0], self.buffer)

    def _overflow(self, node: str, buffer: Any) -> StateError:
        return StateError(
            f"the buffer of node {node!r} is full: {buffer.num_records} of {_shown(self.record_limit)} records,"
            f" {buffer.buffer_size} of {_shown(self.byte_limit)} bytes. Make the buffer larger, or allow it to emit"
            " early",
            node=node,
            store=buffer.name,
        )


@dataclass(frozen=True)
class SuppressedView:
    """The view of a suppressed table: rows as they were before the changes that wait.

    :param buffer: the store of the changes that wait.
    """

    above: TableView
    buffer: str

    @property
    def stores(self) -> tuple[str, ...]:
        """The buffer, and those of the table above."""
        return (self.buffer, *self.above.stores)

    def bind(self, context: OperatorContext, *, forwarded: bool = False) -> LookUp:
        """Returns a look-up in the buffer and the table above; what was before a change has no known timestamp."""
        above = self.above.bind(context, forwarded=forwarded)
        prior = context.store(self.buffer).prior_value_for_buffered

        def look_up(key: Any) -> Row | None:
            waits, value = prior(key)
            if not waits:
                return above(key)
            return None if value is None else (value, NO_TIMESTAMP)

        return look_up

    def bind_as_of(self, context: OperatorContext) -> LookUpAsOf | None:
        """Returns ``None``: no versioned table is suppressed."""
        return None


def _shown(limit: int) -> str:
    return "any number of" if limit == NO_LIMIT else str(limit)


def _finals(forward: Forward) -> Callable[..., None]:
    def emit(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        if value[0] is not None:
            forward(key, value, timestamp, headers)

    return emit
