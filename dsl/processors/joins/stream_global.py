"""The operator that joins the records of a stream with the rows of a global table (semantics 11, 17, 25)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.joins.joiners import with_key
from dsl.processors.joins.stream_table import NULL
from dsl.user_functions import USER_FUNCTION
from processor_api.context import OperatorContext
from processor_api.record import Forward, HeaderList

__all__ = ["StreamGlobalJoin"]


@dataclass(frozen=True, kw_only=True)
class StreamGlobalJoin:
    """Joins each record with the row of the key that a function of the user selects; the record keeps its own key.

    Without a selected key or a row an inner join drops the record, and a left join calls the joiner with ``None``.
    """

    key_selector: Callable[[Any, Any], Any] = field(metadata=USER_FUNCTION)
    joiner: Callable[..., Any] = field(metadata=USER_FUNCTION)
    takes_key: bool
    left: bool
    store: str

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the records of one task."""
        get, select = context.store(self.store).get, self.key_selector
        joiner, left = with_key(self.joiner, self.takes_key), self.left
        forward, drop, fail = context.forward, context.drop, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if value is None:
                drop(NULL, key)
                return
            try:
                selected = select(key, value)
                if selected is None and not left:
                    drop(NULL, key)
                    return
                found = None if selected is None else get(selected)
                if found is None and not left:
                    return
                joined = joiner(key, value, None if found is None else found[0])
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return process
