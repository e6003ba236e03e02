"""Policies of guards: read-only stores, and stores for one thread."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from processor_api.errors import StoreError
from state.guards.guard import Policy


class RefusesWrites(ABC):
    """A store whose every write fails."""

    @abstractmethod
    def _refusal(self) -> StoreError:
        """Returns the error that says why."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise self._refusal()

    put = put_if_absent = put_all = delete = remove = _refuse


WRITES = frozenset(name for name, call in vars(RefusesWrites).items() if call is RefusesWrites.put) - {"_refuse"}
"""The calls that change a store of one of the kinds of Kafka Streams."""


class ReadOnly(Policy):
    """Refuses the calls that change a store.

    :param writes: their names.
    :param refusal: makes the error that says why.
    """

    def __init__(self, store: Any, writes: Collection[str], refusal: Callable[[], StoreError]) -> None:
        super().__init__(store)
        self._writes = writes
        self._refusal = refusal

    def over(self, store: Any) -> ReadOnly:
        return ReadOnly(store, self._writes, self._refusal)

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        return self._refuse if name in self._writes else call

    def attribute(self, name: str) -> Any:
        """Refuses writes also where the store has no such call, being itself read-only."""
        return self._refuse if name in self._writes else super().attribute(name)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise self._refusal()


class OneThread(Policy):
    """Refuses the calls of every other thread than the one that runs the store's task.

    A write by another thread could run between two steps of a call or of a commit, and damage the store; a read could
    see half of a change. Writes are always checked. Reads are checked only in Python's development mode, since the
    check costs time in each call.

    :param owner: the thread, by ``threading.get_ident``.
    :param checked: the names of the calls that are checked; ``None`` checks all.
    """

    def __init__(self, store: Any, owner: int, checked: Collection[str] | None = None) -> None:
        super().__init__(store)
        self._owner = owner
        self._checked = checked

    def over(self, store: Any) -> OneThread:
        return OneThread(store, self._owner, self._checked)

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        if self._checked is not None and name not in self._checked:
            return call
        this_thread, owner, store = threading.get_ident, self._owner, self.name

        def checked(*args: Any, **kwargs: Any) -> Any:
            if this_thread() != owner:
                raise StoreError(
                    f"store {store!r} is used by thread {threading.current_thread().name!r}, which does not run its"
                    " task: a processor must not pass its stores to other threads",
                    store=store,
                )
            return call(*args, **kwargs)

        return checked
