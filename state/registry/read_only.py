"""Stores that nodes may read and not write."""

from __future__ import annotations

from dataclasses import replace

from processor_api.errors import StoreError
from state.guards.guard import guarded
from state.guards.policies import ReadOnly
from state.write_buffer.store_kind import OpenStore


def read_only(store: OpenStore, node: str, why: str) -> OpenStore:
    """Returns a store for a node that may not write to it.

    :param why: the text of the error when it is written to.
    """
    name = store.builder.name

    def refusal() -> StoreError:
        return StoreError(
            f"node {node!r} writes to store {name!r}, which it can only read: {why}", node=node, store=name
        )

    return replace(store, facade=guarded(ReadOnly(store.facade, store.kind.writes, refusal)))
