"""Stores that others write: the rows of an engine without a buffer, and the face of a store without its writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from processor_api.errors import StoreError
from state.registry.kinds import OpenStore
from state.registry.wrapped import WrappedStore
from state.registry.writes import RefusesWrites
from state.write_buffer.buffer import Entry, Rows

__all__ = ["EngineRows", "ReadOnlyStore", "read_only"]


class EngineRows(Rows):
    """Rows as the engine has them at the moment of each read. Nothing is kept in memory, since what is kept here would
    not see what somebody else writes to the engine."""

    def miss(self, key: Any) -> Entry | None:
        row = self.family.get(self.key_bytes(key))
        if row is None:
            return None
        data, timestamp = self.codec.read(row)
        return self.stored(data), timestamp


class ReadOnlyStore(RefusesWrites, WrappedStore):
    """A store as those see it who may not write to it.

    :param store: a store as processors see it.
    :param node: the node that has it.
    :param why: what to say when it is written to.
    """

    def __init__(self, store: Any, node: str, why: str) -> None:
        self._store = store
        self._node = node
        self._why = why
        for name in dir(type(store)):
            if not name.startswith("_") and not hasattr(type(self), name) and callable(getattr(type(store), name)):
                setattr(self, name, getattr(store, name))  # found at once: reads are on the hot path

    def _refusal(self) -> StoreError:
        return StoreError(
            f"node {self._node!r} writes to store {self._store.name!r}, which it can only read: {self._why}",
            node=self._node,
            store=self._store.name,
        )

    def without_timestamps(self) -> ReadOnlyStore:
        """The same window or session store, its values shown alone."""
        return ReadOnlyStore(self._store.without_timestamps(), self._node, self._why)

    def without_headers(self) -> ReadOnlyStore:
        """The same window store with headers, its values shown with timestamps."""
        return ReadOnlyStore(self._store.without_headers(), self._node, self._why)


def read_only(store: OpenStore, node: str, why: str) -> OpenStore:
    """A store as a node gets it that may not write to it; see :class:`ReadOnlyStore`."""
    return replace(store, facade=cast(Any, ReadOnlyStore(store.facade, node, why)))
