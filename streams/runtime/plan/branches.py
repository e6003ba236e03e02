"""Finds whether a record may meet the results that it made due, by another branch of its topology."""

from __future__ import annotations

from processor_api.nodes import SourceNode
from processor_api.topology_data import TopologyData

__all__ = ["meets_again"]


def meets_again(topology: TopologyData, node: str) -> bool:
    """Returns whether a record that has come to a node may come, by another way, to a node below it, or to one that has
    a store together with the node or with one below it.

    What the node sends on has to be there before that. If nothing of this is so, it may come later: no node can tell.
    """
    below = _reached(topology, {node})
    others = _reached(topology, _sources_above(topology, node), without=node)
    if not below.isdisjoint(others):
        return True
    stores = {store for name in below for store in topology.stores_of(name)}
    return any(not stores.isdisjoint(topology.stores_of(name)) for name in others)


def _reached(topology: TopologyData, starts: set[str], without: str | None = None) -> set[str]:
    """Returns some nodes and all below them that are reached without passing one."""
    found, new = set(starts), list(starts)
    while new:
        children = set(topology.children_of(new.pop())) - found - {without}
        found |= children
        new += children
    return found


def _sources_above(topology: TopologyData, node: str) -> set[str]:
    found, new = {node}, [node]
    while new:
        parents = set(getattr(topology.nodes[new.pop()], "parents", ())) - found
        found |= parents
        new += parents
    return {name for name in found if isinstance(topology.nodes[name], SourceNode)}
