"""Accounts for the records of a task that have no result: they were dropped, or their results are held back.

Nodes are named with their places in the user's script.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict
from weakref import WeakKeyDictionary

from processor_api.context import HeldBack
from processor_api.topology.data import TopologyData
from streams.observing.status import ClosedTasksStatus, DropStatus, HeldStatus, summed
from streams.runtime.processing.drops import ClosedTaskCounts, Dropped, TaskDrops
from streams.runtime.tasks.task import Task


class NodePlace(TypedDict):
    """Says where a node was made, as the fields of a status have it."""

    call: str | None
    made_at: str | None


_PLACES: WeakKeyDictionary[TopologyData, dict[str, NodePlace]] = WeakKeyDictionary()


def place_of(topology: TopologyData, node: str) -> NodePlace:
    """Returns the call and the line that made a node of a topology that is complete.

    It is kept: the names of a node's functions take longer to find than all other parts of a status.
    """
    places = _PLACES.setdefault(topology, {})
    if node not in places:
        places[node] = NodePlace(call=topology.call_of(node), made_at=topology.line_of(node))
    return places[node]


def drops_of(task: Task) -> tuple[DropStatus, ...]:
    """Returns the records of a task without a result by node and reason; any thread may ask."""
    return dropped_by(task.environment.metrics.drops, task.plan.topology)


def closed_tasks(closed: Iterable[ClosedTaskCounts], topology: TopologyData) -> ClosedTasksStatus:
    """Returns what the threads of a worker have counted of tasks that they have closed; any thread may ask."""
    counts = list(closed)
    return ClosedTasksStatus(
        dropped=sum(count.dropped for count in counts),
        dead_letters=sum(count.dead_letters for count in counts),
        drops=summed(_dropped(one, topology) for count in counts for one in count.all()),
    )


def dropped_by(drops: TaskDrops, topology: TopologyData) -> tuple[DropStatus, ...]:
    """Returns what was counted of records without a result, with the places of the nodes; any thread may ask."""
    return tuple(_dropped(one, topology) for one in drops.all())


def _dropped(one: Dropped, topology: TopologyData) -> DropStatus:
    reason = one.reason
    return DropStatus(
        node=one.node,
        **place_of(topology, one.node),
        reason=reason.tag,
        text=reason.text,
        remedy=reason.remedy,
        count=one.count,
        dropped=reason.dropped,
        expected=reason.is_expected,
        late_by_ms=one.late_by_ms,
        setting=None if one.setting is None else str(one.setting),
    )


def held_by(task: Task) -> tuple[HeldStatus, ...]:
    """Returns what a task holds back, as its thread has found it last; any thread may ask."""
    return _held(task, task.environment.operators.held_results.latest)


def look_into(task: Task) -> tuple[HeldStatus, ...]:
    """Returns all that a task holds back now; for the thread of the task."""
    return _held(task, task.environment.operators.held_results.find())


def _held(task: Task, found: Iterable[tuple[str, HeldBack]]) -> tuple[HeldStatus, ...]:
    waits_for = task.inputs.holding_back()
    return tuple(
        HeldStatus(
            node=node,
            **place_of(task.plan.topology, node),
            what=held.names[held.count != 1],
            count=held.count,
            at_least=held.at_least,
            next_ms=held.due_ms,
            waits_for=None if waits_for is None else str(waits_for.partition),
        )
        for node, held in found
    )
