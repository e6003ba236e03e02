"""How the test driver shows stores of each kind to a test that asks for one kind: a new one is a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.errors import TopologyError
from state.key_value import KeyValueFacade
from state.kinds import OpenStore

__all__ = ["KEY_VALUE", "TIMESTAMPED_KEY_VALUE", "StoreView"]


@dataclass(frozen=True)
class StoreView:
    """What is asked for, and what makes it of a store of each kind that can be shown so."""

    what: str
    of_kind: Mapping[str, Callable[[OpenStore], Any]]

    def of(self, store: OpenStore) -> Any:
        """A store in this view.

        :raises TopologyError: if stores of its kind cannot be shown so.
        """
        name, kind = store.builder.name, store.builder.kind
        shown = self.of_kind.get(kind)
        if shown is None:
            raise TopologyError(f"store {name!r} is a {kind} store and cannot be read as a {self.what} one", store=name)
        return shown(store)


def _itself(store: OpenStore) -> Any:
    return store.facade


class _WithoutTimestamps(KeyValueFacade):
    """A timestamped key-value store as a plain one."""

    def __init__(self, store: OpenStore) -> None:
        super().__init__(store.rows)
        self._store = store

    @property
    def is_open(self) -> bool:
        return self._store.facade.is_open

    def _parts(self, value: Any) -> tuple[Any, int]:
        value, timestamp = super()._parts(value)
        return value, max(timestamp, 0)  # between records there is none, and the row must have one

    def _check(self) -> None:
        self._store.facade._check()


KEY_VALUE = StoreView("key-value", {"key-value": _itself, "timestamped-key-value": _WithoutTimestamps})
TIMESTAMPED_KEY_VALUE = StoreView("timestamped-key-value", {"timestamped-key-value": _itself})
