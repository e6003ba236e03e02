"""Callbacks that do not keep the objects they belong to.

A client holds a key of the process for thread-local data, of which there are 1,024. So it has to be freed when nothing
uses it any more, not when the garbage collector finds a cycle, which in a large process may be much later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Returns a function that calls a method while its object exists, and does nothing afterwards."""
    reference = WeakMethod(method)

    def call(*arguments: Any) -> None:
        found = reference()
        if found is not None:
            found(*arguments)

    return call
