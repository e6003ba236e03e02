"""Holds the members of a group with their tasks, their places and their copies, as the coordinator describes them.

A member tells its address and its tags in its client id, where it also has the hash of its topology: the group's
description has all of this, together with what each member is assigned (docs/decisions/tasks-and-membership.md, "Client
ids carry the addresses of members").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote

from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.task_slots import SlotPlan, read_plan
from streams.kafka.ports import Admin, GroupMember

_PROCESS = re.compile(r"(?P<directory>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-(?P<slot>\d+)")
_THREAD = re.compile(r"^(?P<process>.*?)(?:#(?P<tags>[^@#]*))?(?:@[^@#]*)?-StreamThread-\d+-")

_ENDPOINT = re.compile(
    r"@(?P<endpoint>(?:[a-zA-Z0-9_.\-]+|\[[0-9a-fA-F:.%]+\]):\d{1,5}(?:/\d+)?)-StreamThread-\d+-consumer-topology-"
)


class Place(NamedTuple):
    """The place of a member: what it shares with others, and would be lost together with them."""

    directory: str
    """The state directory, which the processes of one machine may share."""
    process: str
    tags: tuple[tuple[str, str], ...] = ()
    """The tags of its process (``client.tag.*``)."""


class GroupProcess(NamedTuple):
    """A process of an application as the group has it."""

    client_id: str
    """Its client id, which its status has too."""
    endpoint: str | None
    """The address of its HTTP port; ``None`` if it tells none."""


def with_tags(process: str, tags: Mapping[str, str]) -> str:
    """Returns the name of a process for its clients, with its tags."""
    return f"{process}#{','.join(f'{quote(k)}={quote(v)}' for k, v in sorted(tags.items()))}" if tags else process


def place_of(member: GroupMember) -> Place:
    """Returns where a member is, as far as its names tell.

    They do not tell the state directory where an application was given both ``client.id`` and ``group.instance.id``:
    then each process counts as one of its own.
    """
    found = _PROCESS.search(member.client_id) or _PROCESS.search(member.instance_id or "")
    thread = _THREAD.search(member.client_id)
    process = member.client_id if thread is None else thread["process"]
    text = "" if thread is None else thread["tags"] or ""
    pairs = [one.partition("=") for one in text.split(",") if one]
    tags = tuple((unquote(name), unquote(value)) for name, _, value in pairs)
    return Place(process if found is None else found["directory"], process if found is None else found[0], tags)


def thread_name_at(thread: str, endpoint: str | None, tags: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns the start of the client id of a member, with its tags and the address at which it answers.

    :param thread: the name of its stream thread.
    """
    process, dash, number = thread.rpartition("-StreamThread-")
    return f"{with_tags(process, tags)}{'' if endpoint is None else f'@{endpoint}'}{dash}{number}"


def endpoint_of(client_id: str) -> str | None:
    """Returns the address that a member's client id tells, as ``host:port``, perhaps with the number of a process
    behind that port, ``host:port/2``."""
    found = _ENDPOINT.search(client_id)
    return None if found is None else found["endpoint"]


def process_of(client_id: str) -> GroupProcess:
    """Returns the process of a member, by the client id of the member."""
    thread = _THREAD.search(client_id)
    return GroupProcess(client_id if thread is None else thread["process"], endpoint_of(client_id))


@dataclass(frozen=True)
class GroupPicture:
    """The members of a group with the tasks that they run, under their lasting names, as of one moment."""

    held: Mapping[str, frozenset[TaskId]]
    client_ids: Mapping[str, str]
    places: Mapping[str, Place]
    others: tuple[str, ...] = ()
    """The client ids of the members that run another topology; the other fields leave these members out."""
    copies: Mapping[TaskId, tuple[str, ...]] | None = None
    """The members that have a copy of each task, where the brokers choose them; ``None`` where the members do."""
    is_at_rest: bool = True
    """Whether the group shows what members own: it does not while they join, or tasks move."""
    is_established: bool = False
    """Whether it has been at rest for a time, since when the member that made its plans is there."""
    exchanged: Mapping[TaskId, TaskId] = field(default_factory=dict)
    """The tasks of slots that do not stand for their own."""
    ends: Mapping[TaskId, int] = field(default_factory=dict)
    """The offsets of all changelogs of each task with some, if they were asked for."""

    @property
    def is_alone(self) -> bool:
        """Whether no member runs another topology."""
        return not self.others

    def is_complete(self, counts: Mapping[int, int]) -> bool:
        """Whether every task has an owner."""
        owned = frozenset[TaskId]().union(*self.held.values())
        return all(TaskId(part, number) in owned for part, count in counts.items() for number in range(count))


def read_picture(admin: Admin, topics: ControlTopics, *, with_ends: bool = False) -> GroupPicture:
    """Asks the coordinator for the members of a group that run a topology; during a rebalance some tasks have no owner.

    :param with_ends: whether the ends of the changelogs are asked for, too.
    :raises RetryableError: if the coordinator does not answer.
    """
    topology = topics.topology
    members = admin.group_members(topology.application_id)
    by_group = any(member.tasks is not None for member in members)  # brokers that assign tasks do not have slots
    is_at_rest = by_group or any(member.partitions for member in members)
    plan = SlotPlan() if by_group else read_plan(admin, topics)
    is_foreign = plan.digest not in ("-", topology.hash) and bool(plan.tasks)  # no one has opened a task by such a plan
    held: dict[str, frozenset[TaskId]] = {}
    own = {one.instance_id or one.member_id: one for one in members if one.client_id.endswith(topology.hash)}
    for name, member in own.items():
        slots = topics.tasks(member.partitions) if member.tasks is None else member.tasks
        held[name] = frozenset() if is_foreign else frozenset(map(plan.task, slots))
    copies: dict[TaskId, tuple[str, ...]] = {}
    for name, member in own.items():
        for task in member.standby:
            copies[task] = (*copies.get(task, ()), name)
    client_ids = {name: member.client_id for name, member in own.items()}
    places = {name: place_of(member) for name, member in own.items()}
    return GroupPicture(
        held,
        client_ids,
        places,
        tuple(one.client_id for one in members if (one.instance_id or one.member_id) not in own),
        copies if by_group else None,
        is_at_rest,
        plan.planner in {member.member_id for member in members},
        {} if is_foreign else plan.tasks,
        _ends(admin, topology) if with_ends else {},
    )


def _ends(admin: Admin, topology: GroupTopology) -> dict[TaskId, int]:
    """Returns the sum of the ends of the changelogs of each task: what a member without any state would lack."""
    names = {name for changelogs in topology.changelogs.values() for name in changelogs}
    partitions = {name: info.partitions for name, info in admin.topics(names).items()} if names else {}
    tasks = {
        TaskId(part, number): [TopicPartition(name, number) for name in changelogs if number < partitions.get(name, 0)]
        for part, changelogs in topology.changelogs.items()
        for number in range(topology.task_counts.get(part, 0))
    }
    ends = admin.log_ends([one for each in tasks.values() for one in each])
    return {task: sum(ends.get(one, 0) for one in each) for task, each in tasks.items()}
