"""Describes groups of the consumer protocol (KIP-848): those of other applications.

No member of ours speaks that protocol, but each protocol has a request of its own, which finds no groups of others.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import GroupMember
from streams.kafka.streams_group import STATIC_LEAVE_EPOCH
from streams.kafka.wire import error_codes
from streams.kafka.wire.api import Api
from streams.kafka.wire.codec import AtMost, Int8, Int16, Int32, Since, Uuid
from streams.kafka.wire.connection import UnsupportedRequest
from streams.kafka.wire.coordinator import Coordinator

_CLASSIC = 0
"""The type of a member that speaks the classic protocol in a group of the consumer protocol."""


class ConsumerGroupDescribeRequest(NamedTuple):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


class PartitionsOfName(NamedTuple):
    topic_id: Uuid
    topic_name: str
    partitions: Annotated[tuple[Int32, ...], AtMost(100_000)]


class MemberAssignment(NamedTuple):
    topic_partitions: Annotated[tuple[PartitionsOfName, ...], AtMost(100_000)]


class DescribedConsumer(NamedTuple):
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


class DescribedConsumerGroup(NamedTuple):
    error_code: Int16
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: str
    members: Annotated[tuple[DescribedConsumer, ...], AtMost(10_000)]
    authorized_operations: Int32


class ConsumerGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32
    groups: Annotated[tuple[DescribedConsumerGroup, ...], AtMost(1)]

    @property
    def error_code(self) -> int:
        return next((group.error_code for group in self.groups if group.error_code != error_codes.NONE), 0)


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


def described(coordinator: Coordinator, group: str, timeout_s: float) -> DescribedConsumerGroup | None:
    """Returns the group if it is one of the consumer protocol.

    :raises RetryableError: if the coordinator does not answer within the time.
    :raises StreamsError: if it refuses.
    """
    request = ConsumerGroupDescribeRequest((group,), include_authorized_operations=True)
    try:
        answer = coordinator.call(CONSUMER_GROUP_DESCRIBE, request, timeout_s)
    except UnsupportedRequest:
        return None
    if answer.error_code in (error_codes.GROUP_ID_NOT_FOUND, error_codes.UNSUPPORTED_VERSION):
        return None
    if answer.error_code != error_codes.NONE or len(answer.groups) != 1:
        raise StreamsError(f"group {group!r} is not described: {error_codes.described(answer.error_code)}")
    return answer.groups[0]
