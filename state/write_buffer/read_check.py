"""Finds a read of a store that would forward: a drain that begins inside of one is an error.

Who reads is in the middle of its work. A join that looks at a row while the read sends a newer row of the same key on
would send the older result last. Reads make room by dropping rows that the engine has, and never by a drain
(:meth:`state.write_buffer.buffer.Rows.make_room`). The check costs two additions for each read, so it is made only
where the environment variable `STREAMS_TEST_READS` is set, as in the tests of this repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from state.write_buffer.memory_budget import Budget

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
