"""The base of operators that make a table, with the fields that the compiler sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.tables.view import TableView
from processor_api.context import OperatorContext
from processor_api.errors import InternalError
from processor_api.processor import Operator
from processor_api.record import DropReason, Forward, HeaderList
from processor_api.stores.contracts import PUT_RETURN_CODE_NOT_PUT, PUT_RETURN_CODE_VALID_TO_UNDEFINED

Process = Callable[[Any, Any, int, HeaderList | None], None]


@dataclass(frozen=True)
class ChangeReader(Operator):
    """The base of operators that read the changes of a table and are not the table below it."""

    versioned: bool = field(default=False, kw_only=True)
    """Whether the table is versioned: changes may be out of order (semantics 38). Set by the compiler."""


@dataclass(frozen=True, kw_only=True)
class TableOperator(ABC):
    """An operator whose results are changes (see :mod:`dsl.change`) of the table it stands for."""

    store: str | None = None
    """The table's own store; ``None`` if it is not materialized (semantics 109)."""
    part: str = ""
    """Tells apart the operators that share one store, as those of cogrouped streams do."""
    old_values: bool = False
    """Whether an operator downstream asked for old values (semantics 30)."""

    versioned: bool = False
    """Whether the table it reads is versioned: changes may be out of order (semantics 38)."""

    java_defects: bool = False
    """Whether it keeps the defects of Kafka Streams that are fixed otherwise (``dsl.java.defects``)."""

    @abstractmethod
    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task; see :class:`processor_api.processor.Operator`."""

    def view(self, above: Sequence[TableView]) -> TableView:
        """Returns the view of the table while it has no store, from the views of the tables above it.

        :raises InternalError: if tables of this operator always have a store.
        """
        raise InternalError(f"the table of a {type(self).__name__} has its own store: read that store")


@dataclass(frozen=True, kw_only=True)
class TableMerge(TableOperator):
    """Passes on the changes of several operators that write to one store: they are those of one table."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function that passes changes on."""
        return context.forward

    def view(self, above: Sequence[TableView]) -> TableView:
        """Returns the view of the store that all operators above share."""
        return above[0]


def send_on_flush(context: OperatorContext, store: Any, old_values: bool) -> bool:
    """Lets a cached store send its changes on when it flushes; returns whether it does.

    If it does, the operator only puts; if not, it forwards the change itself after each put (semantics 73).
    """
    if not store.cached:
        return False
    forward = context.forward

    def with_old(key: Any, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
        forward(key, (new, old), timestamp, headers)

    def without_old(key: Any, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
        forward(key, (new, None), timestamp, headers)

    store.on_flush(with_old if old_values else without_old, old_values=old_values)
    return True


UNCHANGEABLE = frozenset({type(None), bool, int, float, str, bytes})
"""The types of values that no function can change in place: such a value need not be read again."""


def is_versioned(store: Any) -> bool:
    """Whether a store keeps versions, among which a deletion has its place."""
    return bool(getattr(store, "versioned", False))


def marking_late_puts(store: Any, forward: Forward) -> tuple[Callable[..., None], Forward]:
    """Returns a put, and a function that sends the change on after it.

    A change is not sent on if a versioned store dropped it as too late, and marked if it is not the latest
    (semantics 38).
    """
    if not is_versioned(store):
        return store.put, forward
    write = store.put
    valid_to = PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def put(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        nonlocal valid_to
        valid_to = write(key, value, timestamp, headers)

    def send(key: Any, change: Any, timestamp: int, headers: HeaderList | None) -> None:
        if valid_to == PUT_RETURN_CODE_VALID_TO_UNDEFINED:
            forward(key, change, timestamp, headers)
        elif valid_to != PUT_RETURN_CODE_NOT_PUT:
            forward(key, (change[0], change[1], False), timestamp, headers)

    return put, send


def dropping_late_changes(context: OperatorContext, process: Process) -> Process:
    """Returns a process function that drops, and counts, changes of a versioned table that are not the latest."""
    drop = context.drop

    def latest_only(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        # A third part marks a change that is not the latest.
        if len(value) == 2:
            process(key, value, timestamp, headers)
        else:
            drop(DropReason.NOT_LATEST)

    return latest_only


def keeping_lateness(bind: Callable[[Forward], Process], forward: Forward) -> Process:
    """Returns a process function that sends on one change for each; one that is not the latest stays marked so."""
    late = False

    def send(key: Any, change: Any, timestamp: int, headers: HeaderList | None) -> None:
        forward(key, (change[0], change[1], False) if late else change, timestamp, headers)

    process = bind(send)

    def note(key: Any, change: Any, timestamp: int, headers: HeaderList | None) -> None:
        nonlocal late
        late = len(change) == 3
        process(key, change, timestamp, headers)

    return note
