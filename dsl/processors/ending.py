"""Emits buffered records when no more records will arrive, a part at a time."""

from __future__ import annotations

from collections.abc import Callable

PART_ROWS = 10_000
"""Rows that are sent on at once: what they make is taken out of memory between two parts."""


def in_parts(evict_while: Callable[[Callable[[], bool]], None], rows: Callable[[], int]) -> Callable[[], bool]:
    """Returns the function of an operator for :meth:`processor_api.context.OperatorContext.on_end`.

    :param evict_while: sends rows on as long as a predicate holds.
    :param rows: returns the number of rows that wait.
    """

    def send() -> bool:
        left = max(0, rows() - PART_ROWS)
        evict_while(lambda: rows() > left)
        return left > 0

    return send
