"""Puts a policy before a store: it decides what happens with each of the store's calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMS = ("without_timestamps", "without_headers")
"""Calls that give the same store in another form: the policy stands before that one too."""

OPERATORS = ("__len__", "__contains__", "__iter__", "__getitem__", "__setitem__", "__delitem__")
"""Operators that a custom store may have, for ``len``, ``in`` and ``[]``: Python looks for these in the class."""


class Policy:
    """Decides what happens with the calls of a store. This one lets all of them through; others override a part.

    :param store: a store as processors get it.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def store(self) -> Any:
        """Returns the store that calls go to, at each call."""
        return self._store

    def over(self, store: Any) -> Policy:
        """Returns the same policy for another form of the store."""
        return Policy(store)

    @property
    def name(self) -> str:
        """The name of the store, which it has also when it is closed."""
        return str(self.store().name)

    @property
    def persistent(self) -> bool:
        """Whether its rows are on disk."""
        return bool(self.store().persistent)

    @property
    def is_open(self) -> bool:
        """Whether it can be called."""
        return bool(self.store().is_open)

    def close(self, *arguments: Any) -> None:
        """Closes the store."""
        self.store().close(*arguments)

    def calls(self) -> list[str]:
        """Returns the names of the calls that are found once, when the store gets its guard; others are found when they
        are made."""
        return [name for name in dir(self.store()) if not name.startswith("_")]

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function that replaces a call of the store."""
        return call

    def attribute(self, name: str) -> Any:
        """Returns the attribute of a store under a name that is not among the :meth:`calls`."""
        return getattr(self.store(), name)


class GuardedStore:
    """A store behind a policy. Its calls are found at once, as attributes, since they run for every record.

    `name`, `persistent` and `is_open` are properties of the class: ``isinstance(store, StateStore)`` looks at classes
    and instances without asking them (``inspect.getattr_static``, since Python 3.12).
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        store = policy.store()
        for name in policy.calls():
            found = None if hasattr(GuardedStore, name) else getattr(store, name)
            if callable(found):
                setattr(self, name, _guarded_call(policy, name, found))

    @property
    def name(self) -> str:
        return self._policy.name

    @property
    def persistent(self) -> bool:
        return self._policy.persistent

    @property
    def is_open(self) -> bool:
        return self._policy.is_open

    def close(self, *arguments: Any) -> None:
        self._policy.close(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name == "_policy":
            raise AttributeError("the store does not have a policy yet")
        if name.startswith("_"):
            raise AttributeError(f"store {self._policy.name!r} does not show {name!r}")
        found = self._policy.attribute(name)
        return _guarded_call(self._policy, name, found) if callable(found) else found


def guarded(policy: Policy) -> GuardedStore:
    """Returns a store behind a policy, with the operators (``in``, ``[]``, ...) that it has."""
    of = type(policy.store())
    has = {name: _operator(policy, name) for name in OPERATORS if getattr(of, name, None) is not None}
    made: GuardedStore = (type("GuardedStore", (GuardedStore,), has) if has else GuardedStore)(policy)
    return made


def _guarded_call(policy: Policy, name: str, found: Callable[..., Any]) -> Callable[..., Any]:
    call = policy.call(name, found)
    if name not in FORMS:
        return call

    def form() -> GuardedStore:
        return guarded(policy.over(call()))

    return form


def _operator(policy: Policy, name: str) -> Callable[..., Any]:
    def found(*arguments: Any) -> Any:
        store = policy.store()
        return getattr(type(store), name)(store, *arguments)

    call = policy.call(name, found)

    def operate(self: GuardedStore, *arguments: Any) -> Any:
        return call(*arguments)

    return operate
