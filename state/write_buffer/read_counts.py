"""Counts the reads of a store's rows, and those that memory could not answer.

It stands in the way of each read, so it is there only where somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
