"""The operators that make a table: what the compiler fills in before it hands them to the topology."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from processor_api.context import OperatorContext
from processor_api.record import Forward, HeaderList

__all__ = ["TableOperator", "send_on_flush"]


@dataclass(frozen=True, kw_only=True)
class TableOperator(ABC):
    """An operator whose results are changes (see :mod:`dsl.change`) of the table it stands for."""

    store: str | None = None
    """The table's own store; ``None`` if it is not materialized (conformance 109)."""
    old_values: bool = False
    """Whether somebody downstream asked for old values (conformance 30)."""

    @abstractmethod
    def bind(self, context: OperatorContext) -> Forward: ...


def send_on_flush(context: OperatorContext, store: Any, old_values: bool) -> bool:
    """Lets a cached store send its changes on when it flushes; returns whether it does.

    If it does, the operator only puts; if not, it forwards the change itself after each put (conformance 73).
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
