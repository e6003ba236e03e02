"""Rows of the buffer laid over rows of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def merged(
    over: list[tuple[bytes, tuple[Any, ...]]],
    below: Iterator[tuple[bytes, bytes]],
    decode: Callable[[bytes], tuple[Any, ...]],
    reverse: bool,
) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
    """Yields the rows of both in the order of their keys.

    Where both have a key the upper row wins; an upper value of ``None`` hides the lower row.
    """
    if not over:
        for key, row in below:
            yield key, decode(row)
        return
    position, end = 0, len(over)
    for key, row in below:
        while position < end and (over[position][0] > key if reverse else over[position][0] < key):
            if over[position][1][0] is not None:
                yield over[position]
            position += 1
        if position < end and over[position][0] == key:
            continue
        yield key, decode(row)
    for key, entry in over[position:]:
        if entry[0] is not None:
            yield key, entry
