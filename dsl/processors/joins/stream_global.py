"""The operators that join the records of a stream with the rows of a global table (semantics 11, 17, 25)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.user_functions import user_function
from processor_api.context import OperatorContext
from processor_api.record import DropReason, Forward, HeaderList


@dataclass(frozen=True, kw_only=True)
class StreamGlobalJoin:
    """Joins each record with the row of the key that a function of the user selects; the record keeps its own key.

    Without a selected key or a row an inner join drops the record, and a left join calls the joiner with ``None``.
    """

    key_selector: Callable[[Any, Any], Any] = field(metadata=user_function("key", "value"))
    joiner: Callable[..., Any] = field(metadata=user_function("value", "other", key_if="takes_key"))
    takes_key: bool
    left: bool
    store: str

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        get, select = context.store(self.store).get, self.key_selector
        joiner, left = self.four(), self.left
        forward, drop, fail = context.forward, context.drop, context.fail
        alone = context.counting(DropReason.NO_PARTNER)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if value is None:
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            try:
                selected = select(key, value)
                if selected is None and not left:
                    drop(DropReason.NULL_KEY_OR_VALUE)
                    return
                found = None if selected is None else get(selected)
                if found is None and not left:
                    alone()
                    return
                joined = joiner(key, selected, value, None if found is None else found[0])
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return process

    def four(self) -> Callable[[Any, Any, Any, Any], Any]:
        """Returns the joiner as a function ``(key, mapped_key, value, other)``."""
        joiner = self.joiner

        def with_key(key: Any, selected: Any, value: Any, other: Any) -> Any:
            return joiner(key, value, other)

        def without_key(key: Any, selected: Any, value: Any, other: Any) -> Any:
            return joiner(value, other)

        return with_key if self.takes_key else without_key


@dataclass(frozen=True, kw_only=True)
class StreamGlobalMappedJoin(StreamGlobalJoin):
    """Joins as its base does; the joiner takes the record's key, the selected one, and both values (KIP-1340)."""

    joiner: Callable[..., Any] = field(metadata=user_function("key", "mapped_key", "value", "other"))

    def four(self) -> Callable[[Any, Any, Any, Any], Any]:
        """Returns the user's joiner as it is."""
        return self.joiner
