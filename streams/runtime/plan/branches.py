"""Finds whether a record may meet the results that it made due, by another branch of its topology."""

from __future__ import annotations

from collections import defaultdict

from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import SourceNode


class Branches:
    """The branches of a topology. The tasks of a plan share it: each node is looked at once."""

    def __init__(self, topology: TopologyData) -> None:
        self._topology = topology
        self._children: dict[str, set[str]] = defaultdict(set)
        for node in topology.nodes.values():
            for parent in node.parents:
                self._children[parent].add(node.name)
        self._found: dict[str, bool] = {}

    def meet_again(self, node: str) -> bool:
        """Returns whether a record that has come to a node may come, by another way, to a node below it, or to one that
        has a store together with the node or with one below it.

        What the node sends on has to be there before that. If nothing of this is so, it may come later: no node can
        tell.
        """
        if node not in self._found:
            self._found[node] = self._look(node)
        return self._found[node]

    def _look(self, node: str) -> bool:
        below = self._reached({node})
        others = self._reached(self._sources_above(node), without=node)
        if not below.isdisjoint(others):
            return True
        stores_of = self._topology.stores_of
        stores = {store for name in below for store in stores_of(name)}
        return bool(stores) and any(not stores.isdisjoint(stores_of(name)) for name in others)

    def _reached(self, starts: set[str], without: str | None = None) -> set[str]:
        """Returns some nodes and all below them that are reached without passing one."""
        found, new = set(starts), list(starts)
        while new:
            children = self._children.get(new.pop(), set()) - found - {without}
            found |= children
            new += children
        return found

    def _sources_above(self, node: str) -> set[str]:
        nodes = self._topology.nodes
        found, new = {node}, [node]
        while new:
            parents = set(nodes[new.pop()].parents) - found
            found |= parents
            new += parents
        return {name for name in found if isinstance(nodes[name], SourceNode)}
