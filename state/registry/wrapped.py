"""Stores that stand before another: what all of them show of it."""

from __future__ import annotations

from typing import Any

__all__ = ["WrappedStore"]


class WrappedStore:
    """Shows what ``_store`` has, but for what a subclass changes.

    What every store has is there for all to see: ``isinstance(store, StateStore)`` looks at classes and instances
    without asking them (``inspect.getattr_static``, since Python 3.12), so that ``__getattr__`` alone does not make a
    store of anything.
    """

    _store: Any

    @property
    def name(self) -> str:
        return str(self._wrapped().name)

    @property
    def persistent(self) -> bool:
        return bool(self._wrapped().persistent)

    @property
    def is_open(self) -> bool:
        return bool(self._wrapped().is_open)

    def __getattr__(self, name: str) -> Any:
        if name == "_store":
            raise AttributeError(f"{type(self).__name__} has no store yet")
        return getattr(self._wrapped(), name)

    def _wrapped(self) -> Any:
        return self._store
