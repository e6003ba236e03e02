"""Looks at the reads of a store: counts them, and finds one that would forward.

A counter stands in the way of each read, so it is there only where somebody asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from state.write_buffer.memory_budget import Budget


class ReadCounts:
    """Counts the reads of one store. Written by its stream thread, read by any."""

    def __init__(self) -> None:
        self.reads = self.misses = 0
        """The reads of single rows, and those for which the engine was asked."""

    @property
    def hits(self) -> int:
        """The reads that memory has answered: the write buffer, which is the cache too."""
        return self.reads - self.misses

    def counting_read(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a read of a row that is counted."""

        def counted(*arguments: Any) -> Any:
            self.reads += 1
            return read(*arguments)

        return counted

    def counting_miss(self, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns a read of the engine that is counted."""

        def counted(row_key: Any) -> Any:
            self.misses += 1
            return read(row_key)

        return counted


CHECKED = bool(os.environ.get("STREAMS_TEST_READS"))


def checked_read(read: Callable[..., Any], budget: Budget) -> Callable[..., Any]:
    """Returns ``read``, inside of which no store of the budget may begin a drain; as it is where nothing is checked."""
    if not CHECKED:
        return read

    def read_inside(*arguments: Any, **options: Any) -> Any:
        budget.reading += 1
        try:
            return read(*arguments, **options)
        finally:
            budget.reading -= 1

    return read_inside
