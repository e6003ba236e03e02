"""The members of an application with the addresses at which they answer queries, and the tasks that they own.

A member tells its address in its client id, where it also has the hash of its topology: the group's description has
both, together with what each member is assigned (docs/decisions/tasks-and-membership.md, "Members tell their addresses
in their client ids").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from processor_api.task_id import TaskId
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.standby_places import read_picture, standbys_of, with_tags
from streams.kafka.ports import Admin

_THREAD = re.compile(
    r"@(?P<endpoint>(?:[a-zA-Z0-9_.\-]+|\[[0-9a-fA-F:.%]+\]):\d{1,5}(?:/\d+)?)-StreamThread-\d+-consumer-topology-"
)


def thread_name_at(thread: str, endpoint: str | None, tags: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns the start of the client id of a member, with its tags and the address at which it answers.

    :param thread: the name of its stream thread.
    """
    process, dash, number = thread.rpartition("-StreamThread-")
    return f"{with_tags(process, tags)}{'' if endpoint is None else f'@{endpoint}'}{dash}{number}"


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
    standbys: Mapping[TaskId, frozenset[str]] = field(default_factory=dict)
    """The addresses of the members that keep a standby copy of a task, of those that tell one."""


def read_owners(admin: Admin, topology: GroupTopology, replicas: int = 0, tags: Sequence[str] = ()) -> OwnerMap:
    """Asks the group which member owns which task; during a rebalance some tasks have no owner.

    :param replicas: the number of copies that members keep of each task (``num.standby.replicas``).
    :param tags: the names of the tags by which these are spread.
    :raises RetryableError: if the coordinator does not answer.
    """
    picture = read_picture(admin, ControlTopics(admin, topology))
    addresses = {name: endpoint_of(client_id) for name, client_id in picture.client_ids.items()}
    kept = standbys_of(picture, topology, replicas, tags) if replicas or picture.copies else {}
    return OwnerMap(
        {task: addresses[name] for name, tasks in picture.held.items() for task in tasks},
        frozenset(one for one in addresses.values() if one is not None),
        {task: frozenset(one for name in names if (one := addresses[name])) for task, names in kept.items()},
    )
