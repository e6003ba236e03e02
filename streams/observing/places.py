"""The places of nodes in the user's script, which are looked up once for each topology."""

from __future__ import annotations

from typing import TypedDict
from weakref import WeakKeyDictionary

from processor_api.topology.data import TopologyData


class NodePlace(TypedDict):
    """Says where a node was made, as the fields of a status have it."""

    call: str | None
    made_at: str | None


_PLACES: WeakKeyDictionary[TopologyData, dict[str, NodePlace]] = WeakKeyDictionary()


def place_of(topology: TopologyData, node: str) -> NodePlace:
    """Returns the call and the line that made a node of a topology to which nothing is added any more.

    It is kept: the names of a node's functions take longer to find than all else that a status says.
    """
    places = _PLACES.setdefault(topology, {})
    if node not in places:
        places[node] = NodePlace(call=topology.call_of(node), made_at=topology.line_of(node))
    return places[node]
