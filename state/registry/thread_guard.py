"""Stores that look who calls.

A store belongs to the thread that runs its task. Another thread that writes it gets in between two steps of a call, or
of a commit, and what becomes of it nobody knows; one that reads it may see half of a change. Writes are always looked
at, reads in Python's development mode only, since the check costs each call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from processor_api.errors import StoreError
from state.registry.wrapped import WrappedStore
from state.registry.writes import WRITES

__all__ = ["OwnedStore"]


class OwnedStore(WrappedStore):
    """A store as processors see it, whose calls fail in every other thread than its owner.

    :param owner: as ``threading.get_ident`` tells it.
    :param reads: whether reads are looked at too.
    """

    def __init__(self, store: Any, owner: int, *, reads: bool = True) -> None:
        self._store = store
        for name in dir(store):
            call = None if name.startswith("_") or name == "close" else getattr(store, name)
            if callable(call):
                setattr(self, name, self._checked(call, owner) if reads or name in WRITES else call)

    def _checked(self, call: Callable[..., Any], owner: int) -> Callable[..., Any]:
        this_thread, name = threading.get_ident, self._store.name

        def checked(*args: Any, **kwargs: Any) -> Any:
            if this_thread() != owner:
                raise StoreError(
                    f"store {name!r} is used by thread {threading.current_thread().name!r}, which does not run its"
                    " task: a processor must not hand its stores to other threads",
                    store=name,
                )
            return call(*args, **kwargs)

        return checked
