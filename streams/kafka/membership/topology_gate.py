"""Keeps tasks closed while members of the group run another topology, the hash of whose layout their client ids carry.

Topologies of one layout (`processor_api.topology.layout`) may run side by side.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

from processor_api.clock import Clock
from processor_api.errors import RetryableError
from processor_api.task_id import TaskId
from streams.kafka.membership.port import GroupTopology
from streams.kafka.ports import Admin, GroupMember
from streams.log import RepeatedLines

log = logging.getLogger("streams.membership")

PAUSE_S = 1.0


_HASH = re.compile(r"-topology-([0-9a-f]{8})$")


def client_id_with_hash(client_id: str, digest: str) -> str:
    """Returns a consumer's client id that carries the hash of its topology."""
    return f"{client_id}-topology-{digest}"


def other_topologies(members: Collection[GroupMember], own: str) -> list[str]:
    """Returns the client ids of members that run another topology."""
    return sorted(
        member.client_id for member in members if (found := _HASH.search(member.client_id)) and found.group(1) != own
    )


class TopologyGate:
    """Says whether a worker may open its tasks; it may not beside workers of another topology.

    The group assigns partitions of control topics whatever its members run, so that each has to look for itself.
    """

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin, self._clock = admin, clock
        self._repeated = RepeatedLines(log, clock)
        self.is_blocked = False
        """Whether members of another topology were the reason of the last negative answer."""
        self._checked: frozenset[TaskId] = frozenset()
        """Tasks for which the group was looked at since the worker got them."""
        self._next_check = 0.0

    def owns(self, active: frozenset[TaskId]) -> None:
        """Takes the tasks that the worker owns now; those that it gets back later are checked again."""
        self._checked &= active

    def may_open(self, topology: GroupTopology, active: frozenset[TaskId]) -> bool:
        """Whether these tasks may be opened now. The group is asked once for tasks that are new, and at most once in a
        second."""
        if active <= self._checked:
            self.is_blocked = False
            return True
        now = self._clock.monotonic()
        if now < self._next_check:
            return False
        self._next_check = now + PAUSE_S
        try:
            members = self._admin.group_members(topology.application_id)
        except RetryableError as error:
            self._repeated.log("the group cannot be described; tasks stay closed", error=str(error))
            return False
        others = other_topologies(members, topology.hash)
        self.is_blocked = bool(others)
        if others:
            self._repeated.log(
                "tasks stay closed: members of the group run another topology; stop them, or this worker",
                level=logging.WARNING,
                members=", ".join(others),
            )
            return False
        self._checked = active
        return True
