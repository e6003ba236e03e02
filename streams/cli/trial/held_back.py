"""Finds the results that a topology still holds back: windows that are open, and records that wait for a partner.

Stream time moves only with records, so at the end of the input they are still there, as they would be in a running
application.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dsl.processors.announced import AnnouncedTable
from dsl.processors.joins.stream_stream import StreamJoinSide
from dsl.processors.joins.unmatched import Unmatched
from dsl.processors.suppress import Suppress
from dsl.processors.windows.session_windows import SessionAggregate
from dsl.processors.windows.sliding_windows import SlidingAggregate
from dsl.processors.windows.time_windows import TimeWindowedAggregate
from processor_api.topology.nodes import ProcessorNode
from processor_api.topology.topology import Topology
from state.formats.keys import MAX_TIME

WINDOW = ("result of an open window", "results of open windows")
SUPPRESSED = ("suppressed result", "suppressed results")
ALONE = ("record without a partner", "records without a partner")
_WINDOWED = (TimeWindowedAggregate, SlidingAggregate, SessionAggregate)


@dataclass(frozen=True)
class HeldBack:
    """Results of one node that wait for stream time."""

    node: str
    count: int
    names: tuple[str, str]
    """The words for one of them, and for several."""
    due_ms: int
    """The stream time at which the first of them is sent on."""

    @property
    def what(self) -> str:
        """Returns how many there are of what."""
        return f"{self.count} {self.names[self.count > 1]}"


def held_back(topology: Topology, stores: Mapping[str, Any]) -> list[HeldBack]:
    """Returns what each node holds back; nodes that hold back nothing, and those without their stores, are left out."""
    found: dict[str, HeldBack] = {}
    for node in topology.nodes.values():
        if isinstance(node, ProcessorNode) and stores.keys() >= set(topology.stores_of(node.name)):
            for store, held in _of_node(node, stores):
                found.setdefault(store, held)
    return list(found.values())


def _of_node(node: ProcessorNode, stores: Mapping[str, Any]) -> Iterator[tuple[str, HeldBack]]:
    """Yields the store that holds results back, and how many."""
    operator = node.supplier.announced if isinstance(node.supplier, AnnouncedTable) else node.supplier
    if isinstance(operator, Suppress):
        store = stores[operator.buffer]
        if store.num_records():
            names, due = WINDOW if operator.by_window else SUPPRESSED, store.min_timestamp() + operator.open_ms
            yield operator.buffer, HeldBack(node.name, store.num_records(), names, due)
    elif isinstance(operator, StreamJoinSide) and operator.unmatched is not None:
        waits = operator.unmatched
        found = list(_unmatched(stores[waits.store], waits))
        if found:
            yield waits.store, HeldBack(node.name, len(found), ALONE, min(found))
    elif isinstance(operator, _WINDOWED) and operator.final:
        found = list(_open_windows(operator, stores[str(operator.store)]))
        if found:
            yield str(operator.store), HeldBack(node.name, len(found), WINDOW, min(found))


def _unmatched(store: Any, waits: Unmatched) -> Iterator[int]:
    with store.all() as rows:
        for key, _ in rows:
            yield key.timestamp + (waits.left_wait_ms if key.left else waits.right_wait_ms) + 1


def _open_windows(operator: Any, store: Any) -> Iterator[int]:
    """Yields the stream time at which each window closes that is still open."""
    of_sessions = isinstance(operator, SessionAggregate)
    with store.find_sessions_by_end(0, MAX_TIME) if of_sessions else store.all() as rows:
        entries = [(windowed.window, value) for windowed, value in rows]
    stream_time = max((int(getattr(value, "timestamp", window.end)) for window, value in entries), default=0)
    for window, _ in entries:
        due = int(window.end) + _wait_ms(operator)
        if due > stream_time:
            yield due


def _wait_ms(operator: Any) -> int:
    """Returns how far stream time has to be past the end of a window for its result."""
    if isinstance(operator, SessionAggregate):
        return operator.gap_ms + operator.grace_ms + 1
    return int(operator.grace_ms) + isinstance(operator, SlidingAggregate)
