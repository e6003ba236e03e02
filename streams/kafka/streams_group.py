"""The requests of a member of a group of the streams protocol (KIP-1071), as a port.

The broker gives each member its tasks in answers to heartbeats. `streams.kafka.confluent` implements the port by the
wire client, `streams.testing.broker` in memory; `streams.kafka.membership.streams_group_membership` is what uses it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from processor_api.errors import RetryableError, TaskMigratedError, TopologyError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.ports import OffsetAndMetadata

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The epoch by which a static member says that it comes back within its session."""


class MemberFenced(TaskMigratedError):
    """The group does not have this member, or not at this epoch: it owns nothing, and may join again."""


class GroupOfOtherProtocol(RetryableError):
    """The group has members of another protocol; it can be joined when they have left."""


class TopologyRefused(TopologyError):
    """The group was made for another topology, which only an administrator can replace."""


class StaticMembersRefused(RetryableError):
    """The brokers take no static members in groups of this protocol; a dynamic one may join."""


class InstanceHeld(RetryableError):
    """The group has the instance id for a member, which may be the very one that joins: its join was taken, and the
    answer lost."""


class GroupStatus(enum.IntEnum):
    """A status that the group has for a member; one that is not known here is `UNKNOWN`."""

    UNKNOWN = -1
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5

    @classmethod
    def _missing_(cls, value: object) -> GroupStatus:
        return cls.UNKNOWN


@dataclass(frozen=True)
class GroupTopic:
    """An internal topic that the group makes if it is not there."""

    name: str
    partitions: int = 0
    """0 if the number follows from the source topics."""
    replication_factor: int = 0
    """0 for the default of the brokers."""
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class GroupSubtopology:
    """A subtopology with its topics, as the group has to know it. All members give the same, sorted by name."""

    id: int
    sources: tuple[str, ...]
    changelogs: tuple[GroupTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[GroupTopic, ...] = ()
    copartitions: tuple[tuple[str, ...], ...] = ()
    """Topics among the sources and repartition sources that must have as many partitions as each other."""


def as_described(part: GroupSubtopology) -> GroupSubtopology:
    """Returns a subtopology as the description of a group has it, as far as that is what a member has given: the group
    fills in partitions and replicas that a member leaves open, and does not tell which topics go together."""

    def topics(given: tuple[GroupTopic, ...]) -> tuple[GroupTopic, ...]:
        return tuple(GroupTopic(topic.name, configs=topic.configs) for topic in given)

    return replace(
        part,
        changelogs=topics(part.changelogs),
        repartition_sources=topics(part.repartition_sources),
        copartitions=(),
    )


class TaskLists(NamedTuple):
    """The tasks of a member, by what it does with them."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    @property
    def copies(self) -> frozenset[TaskId]:
        """The tasks of which a copy is kept: one that warms up becomes active when it is near."""
        return self.standby | self.warmup


@dataclass(frozen=True, kw_only=True)
class JoiningMember:
    """All that a member says of itself when it joins."""

    topology: tuple[GroupSubtopology, ...]
    rebalance_timeout_ms: int
    """The time within which it gives up a task that it is to give up."""
    process_id: str
    """Members with the same id are threads of one process, which gets no standby of a task beside the task."""
    endpoint: tuple[str, int] | None = None
    """The address at which it answers queries, which the group hands on to other members and to Kafka's tools."""
    rack_id: str | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


class GroupMemberIdentity(NamedTuple):
    """The member that a commit is of."""

    member_id: str
    epoch: int
    instance_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """A heartbeat of a member."""

    member: GroupMemberIdentity
    """Its epoch is that of the last answer, or one of `JOIN_EPOCH`, `LEAVE_EPOCH` and `STATIC_LEAVE_EPOCH`."""
    joining: JoiningMember | None = None
    owned: TaskLists | None = None
    """The tasks that it owns; ``None`` if the group knows."""
    asks_for_shutdown: bool = False
    """Whether every member is to shut down (KIP-671)."""
    endpoint_epoch: int = -1
    """The epoch of the endpoint information of the last answer, so that the group does not send it again."""


@dataclass(frozen=True, kw_only=True)
class HeartbeatAnswer:
    """The group's answer to a heartbeat."""

    epoch: int
    interval_s: float
    """The group expects the next heartbeat within this time."""
    tasks: TaskLists | None = None
    """The tasks that the member is to own now; ``None`` if these have not changed since the answer before."""
    statuses: tuple[tuple[GroupStatus, str], ...] = ()
    """The group's statuses for this member, each with its text; empty if all is well."""
    endpoint_epoch: int = -1


class StreamsGroupRequests(Protocol):
    """Sends the requests of one member. `heartbeat` and `assigned` are called by one thread, the others by another, and
    `topology` before the first heartbeat."""

    def new_member_id(self) -> str:
        """Returns an id that no member has had."""
        ...

    def topology(self, timeout_s: float) -> tuple[GroupSubtopology, ...] | None:
        """Returns the topology that the group has, each subtopology as `as_described`; ``None`` if it has none.

        :raises StreamsError: if the group cannot be described.
        """
        ...

    def heartbeat(self, beat: Heartbeat, timeout_s: float) -> HeartbeatAnswer:
        """Sends one heartbeat, once.

        :raises MemberFenced: if the group does not have the member at this epoch.
        :raises GroupOfOtherProtocol: if members of another protocol are in the group.
        :raises StaticMembersRefused: if the member has an instance id, and the brokers take none.
        :raises TopologyRefused: if the group was made for another topology.
        :raises InstanceFenced: if another member has taken the instance id.
        :raises InstanceHeld: if the member joins, and the group still has the instance id for a member.
        :raises RetryableError: if there was no answer: it is not known whether the group has got it.
        :raises StreamsError: for all else, such as a right that is missing.
        """
        ...

    def assigned(self, member_id: str, timeout_s: float) -> TaskLists | None:
        """Returns the tasks that a member is to own now, for one that may have missed an answer; ``None`` if the group
        does not have it.

        :raises StreamsError: if the group cannot be described.
        """
        ...

    def commit(self, member: GroupMemberIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits offsets.

        :raises CommitAgain: if the group has moved on to another epoch.
        :raises TaskMigratedError: if the group does not have the member.
        :raises ClientUnusable: if there was no answer, so that the commit may still arrive.
        """
        ...

    def identity(self, member: GroupMemberIdentity) -> Any:
        """Returns what `streams.kafka.ports.Producer.send_offsets` takes as the group's metadata."""
        ...

    def close_heartbeats(self) -> None:
        """Closes what the heartbeats use; may be called again, and the next heartbeat opens it again."""
        ...

    def close(self) -> None:
        """Closes everything; may be called again."""
        ...
