"""The members of an application with the addresses at which they answer queries, and the tasks that they own.

A member tells its address in its client id, where it also has the hash of its topology: the group's description has
both, together with what each member is assigned (docs/decisions/tasks-and-membership.md, "Members tell their addresses
in their client ids").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from processor_api.task_id import TaskId
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.task_slots import SlotPlan
from streams.kafka.ports import Admin

_THREAD = re.compile(
    r"@(?P<endpoint>(?:[a-zA-Z0-9_.\-]+|\[[0-9a-fA-F:.%]+\]):\d{1,5}(?:/\d+)?)-StreamThread-\d+-consumer-topology-"
)


def thread_name_at(thread: str, endpoint: str | None) -> str:
    """Returns the start of the client id of a member, with the address at which it answers.

    :param thread: the name of its stream thread.
    """
    if endpoint is None:
        return thread
    process, dash, number = thread.rpartition("-StreamThread-")
    return f"{process}@{endpoint}{dash}{number}"


def endpoint_of(client_id: str) -> str | None:
    """Returns the address that a member's client id tells, as ``host:port``, perhaps with the number of a process
    behind that port, ``host:port/2``."""
    found = _THREAD.search(client_id)
    return None if found is None else found["endpoint"]


@dataclass(frozen=True)
class OwnerMap:
    """Holds the owners of tasks, as the group described them at one moment."""

    endpoints: Mapping[TaskId, str | None] = field(default_factory=dict)
    """The address of the owner of each task that has one; ``None`` of an owner that tells none."""
    members: frozenset[str] = frozenset()
    """The addresses of all members."""


def read_owners(admin: Admin, topology: GroupTopology) -> OwnerMap:
    """Asks the group which member owns which task; during a rebalance some tasks have no owner.

    :raises RetryableError: if the coordinator does not answer.
    """
    topics = ControlTopics(admin, topology)
    members = admin.group_members(topology.application_id)
    plan = SlotPlan() if any(member.tasks is not None for member in members) else _plan(admin, topics)
    endpoints: dict[TaskId, str | None] = {}
    for member in members:
        if not member.client_id.endswith(topology.hash):
            continue  # the numbers of another topology mean other tasks
        slots = topics.tasks(member.partitions) if member.tasks is None else member.tasks
        for slot in slots:
            endpoints[plan.task(slot)] = endpoint_of(member.client_id)
    if plan.digest not in ("-", topology.hash) and plan.tasks:
        endpoints = {}  # nobody has opened a task by such a plan
    addresses = (endpoint_of(member.client_id) for member in members)
    return OwnerMap(endpoints, frozenset(one for one in addresses if one is not None))


def _plan(admin: Admin, topics: ControlTopics) -> SlotPlan:
    """Returns the plan by which members have exchanged tasks; one subtopology needs none."""
    counts = topics.topology.task_counts
    if len([count for count in counts.values() if count]) < 2:
        return SlotPlan()
    slots = [TaskId(part, number) for part, count in counts.items() for number in range(count)]
    first = topics.partition(min(slots))
    found = admin.group_offsets(topics.topology.application_id, [first])
    return SlotPlan.decode(found[first].metadata) if first in found else SlotPlan()
