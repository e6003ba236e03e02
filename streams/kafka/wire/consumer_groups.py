"""Describes groups of the consumer protocol (KIP-848), and takes members out of them.

librdkafka sends the heartbeats of its own member. These requests are about others: who is in the group, and a member
whose process has ended without a word, or for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import GroupMember
from streams.kafka.streams_group import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from streams.kafka.wire import error_codes
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.codec import AtMost, Int8, Int16, Int32, Since, Uuid
from streams.kafka.wire.connection import UnsupportedRequest
from streams.kafka.wire.coordinator import Coordinator

_SAME = -1
"""The time-out of a rebalance in a heartbeat that does not change it."""
_CLASSIC = 0
"""The type of a member that speaks the classic protocol in a group of the consumer protocol."""


@dataclass(frozen=True)
class PartitionsOfId:
    """The partitions of a topic that is named by its id."""

    topic_id: Uuid
    partitions: Annotated[tuple[Int32, ...], AtMost(100_000)]


@dataclass(frozen=True)
class ConsumerGroupHeartbeatRequest:
    """Fields that are ``None`` have not changed since the heartbeat before."""

    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: Int32
    subscribed_topic_names: tuple[str, ...] | None
    server_assignor: str | None
    topic_partitions: tuple[PartitionsOfId, ...] | None


@dataclass(frozen=True)
class AssignedByHeartbeat:
    topic_partitions: Annotated[tuple[PartitionsOfId, ...], AtMost(100_000)]


@dataclass(frozen=True)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32
    error_code: Int16
    error_message: str | None
    member_id: str | None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: AssignedByHeartbeat | None


@dataclass(frozen=True)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


@dataclass(frozen=True)
class PartitionsOfName:
    topic_id: Uuid
    topic_name: str
    partitions: Annotated[tuple[Int32, ...], AtMost(100_000)]


@dataclass(frozen=True)
class MemberAssignment:
    topic_partitions: Annotated[tuple[PartitionsOfName, ...], AtMost(100_000)]


@dataclass(frozen=True)
class DescribedConsumer:
    """A member. What it owns is ``assignment``; partitions that it is giving up are in that of no member."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: Annotated[tuple[str, ...], AtMost(100_000)]
    subscribed_topic_regex: str | None
    assignment: MemberAssignment
    target_assignment: MemberAssignment
    member_type: Annotated[Int8, Since(1)] = 1


@dataclass(frozen=True)
class DescribedConsumerGroup:
    error_code: Int16
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: str
    members: Annotated[tuple[DescribedConsumer, ...], AtMost(10_000)]
    authorized_operations: Int32


@dataclass(frozen=True)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32
    groups: Annotated[tuple[DescribedConsumerGroup, ...], AtMost(1)]

    @property
    def error_code(self) -> int:
        return next((group.error_code for group in self.groups if group.error_code != error_codes.NONE), 0)


CONSUMER_GROUP_HEARTBEAT = Api(
    name="ConsumerGroupHeartbeat",
    key=68,
    lowest=0,
    highest=0,
    flexible_from=0,
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    needs="4.0, with the feature group.version,",
    most_answer_bytes=16 * 1024 * 1024,
)
CONSUMER_GROUP_DESCRIBE = Api(
    name="ConsumerGroupDescribe",
    key=69,
    lowest=0,
    highest=1,
    flexible_from=0,
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    needs="4.0, with the feature group.version,",
    most_answer_bytes=16 * 1024 * 1024,
)


def consumer_member(found: DescribedConsumer) -> GroupMember:
    """Returns a member as the port has it."""
    return GroupMember(
        client_id=found.client_id,
        member_id=found.member_id,
        instance_id=found.instance_id,
        partitions=frozenset(
            TopicPartition(topic.topic_name, number)
            for topic in found.assignment.topic_partitions
            for number in topic.partitions
        ),
        host=found.client_host.lstrip("/"),
        has_left=found.member_epoch == STATIC_LEAVE_EPOCH,
        protocol="classic" if found.member_type == _CLASSIC else "consumer",
    )


def end_member(coordinator: Coordinator, group: str, member: GroupMember, timeout_s: float, *, returns: bool) -> int:
    """Sends the last heartbeat of a member on its behalf; returns the error code of the answer.

    :param returns: whether its instance id is to join again: until then, and for a session at most, the group keeps
        what the member has.
    """
    epoch = STATIC_LEAVE_EPOCH if returns else LEAVE_EPOCH
    request = ConsumerGroupHeartbeatRequest(
        group, member.member_id, epoch, member.instance_id, None, _SAME, None, None, None
    )
    return coordinator.call(CONSUMER_GROUP_HEARTBEAT, request, timeout_s).error_code


@dataclass(frozen=True)
class MemberPlace:
    """The place that the coordinator has for a member."""

    member: GroupMember
    epoch: int
    is_behind: bool
    """Whether the group waits until it has given up partitions, and has said so."""


def described(coordinator: Coordinator, group: str, timeout_s: float) -> tuple[DescribedConsumerGroup | None, bool]:
    """Returns the group if it is one of the consumer protocol, and whether the coordinator takes part in that.

    :raises RetryableError: if the coordinator does not answer within the time.
    :raises StreamsError: if it refuses.
    """
    request = ConsumerGroupDescribeRequest((group,), include_authorized_operations=True)
    try:
        answer = coordinator.call(CONSUMER_GROUP_DESCRIBE, request, timeout_s)
    except UnsupportedRequest:
        return None, False
    if answer.error_code in (error_codes.GROUP_ID_NOT_FOUND, error_codes.UNSUPPORTED_VERSION):
        return None, answer.error_code == error_codes.GROUP_ID_NOT_FOUND
    if answer.error_code != error_codes.NONE or len(answer.groups) != 1:
        raise StreamsError(f"group {group!r} is not described: {error_codes.described(answer.error_code)}")
    return answer.groups[0], True


def member_place(settings: Mapping[str, Any], group: str, member_id: str, timeout_s: float) -> MemberPlace | None:
    """Asks the coordinator for the place of a member; returns ``None`` if the group has no such member.

    :param settings: of a client, under librdkafka's names.
    :raises RetryableError: if no coordinator answers within the time.
    :raises StreamsError: if it cannot be asked, or refuses.
    """
    with Coordinator(ClientSettings.of(settings), group) as coordinator:
        found, _ = described(coordinator, group, timeout_s)
    if found is None:
        return None
    for one in found.members:
        if one.member_id == member_id:
            return MemberPlace(consumer_member(one), one.member_epoch, one.member_epoch < found.assignment_epoch)
    return None
