"""The requests of groups of the streams protocol (KIP-1071) and their answers, as Kafka's protocol defines them."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from streams.kafka.wire.api import Api
from streams.kafka.wire.codec import AtMost, Int8, Int16, Int32, Int64, UInt16
from streams.kafka.wire.error_codes import NONE


class KeyValue(NamedTuple):
    key: str
    value: str


class SentTopic(NamedTuple):
    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: tuple[KeyValue, ...]


class CopartitionGroup(NamedTuple):
    """Positions in the lists of the subtopology."""

    source_topics: Annotated[tuple[Int16, ...], AtMost(32_767)]
    source_topic_regex: tuple[Int16, ...]
    repartition_source_topics: Annotated[tuple[Int16, ...], AtMost(32_767)]


class SentSubtopology(NamedTuple):
    subtopology_id: str
    source_topics: Annotated[tuple[str, ...], AtMost(32_767)]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: Annotated[tuple[SentTopic, ...], AtMost(32_767)]
    repartition_sink_topics: Annotated[tuple[str, ...], AtMost(32_767)]
    repartition_source_topics: Annotated[tuple[SentTopic, ...], AtMost(32_767)]
    copartition_groups: Annotated[tuple[CopartitionGroup, ...], AtMost(32_767)]


class SentTopology(NamedTuple):
    epoch: Int32
    subtopologies: Annotated[tuple[SentSubtopology, ...], AtMost(32_767)]


class TaskIds(NamedTuple):
    subtopology_id: str
    partitions: Annotated[tuple[Int32, ...], AtMost(100_000)]


class Endpoint(NamedTuple):
    host: str
    port: UInt16


class TaskOffset(NamedTuple):
    subtopology_id: str
    partition: Int32
    offset: Int64


class StreamsGroupHeartbeatRequest(NamedTuple):
    """Fields that are ``None`` have not changed since the heartbeat before."""

    group_id: str
    member_id: str
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: Int32
    topology: SentTopology | None
    active_tasks: Annotated[tuple[TaskIds, ...] | None, AtMost(32_767)]
    standby_tasks: Annotated[tuple[TaskIds, ...] | None, AtMost(32_767)]
    warmup_tasks: Annotated[tuple[TaskIds, ...] | None, AtMost(32_767)]
    process_id: str | None
    user_endpoint: Endpoint | None
    client_tags: tuple[KeyValue, ...] | None
    task_offsets: tuple[TaskOffset, ...] | None
    task_end_offsets: tuple[TaskOffset, ...] | None
    shutdown_application: bool


class StatusOfMember(NamedTuple):
    status_code: Int8
    status_detail: str


class PartitionsOfTopic(NamedTuple):
    topic: str
    partitions: Annotated[tuple[Int32, ...], AtMost(100_000)]


class EndpointPartitions(NamedTuple):
    user_endpoint: Endpoint
    active_partitions: Annotated[tuple[PartitionsOfTopic, ...], AtMost(100_000)]
    standby_partitions: Annotated[tuple[PartitionsOfTopic, ...], AtMost(100_000)]


class StreamsGroupHeartbeatResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: str | None
    member_id: str
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: tuple[StatusOfMember, ...] | None
    active_tasks: Annotated[tuple[TaskIds, ...] | None, AtMost(32_767)]
    standby_tasks: Annotated[tuple[TaskIds, ...] | None, AtMost(32_767)]
    warmup_tasks: Annotated[tuple[TaskIds, ...] | None, AtMost(32_767)]
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: Annotated[tuple[EndpointPartitions, ...] | None, AtMost(100_000)]


class StreamsGroupDescribeRequest(NamedTuple):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


class DescribedSubtopology(NamedTuple):
    subtopology_id: str
    source_topics: Annotated[tuple[str, ...], AtMost(32_767)]
    repartition_sink_topics: Annotated[tuple[str, ...], AtMost(32_767)]
    state_changelog_topics: Annotated[tuple[SentTopic, ...], AtMost(32_767)]
    repartition_source_topics: Annotated[tuple[SentTopic, ...], AtMost(32_767)]


class DescribedTopology(NamedTuple):
    epoch: Int32
    subtopologies: Annotated[tuple[DescribedSubtopology, ...] | None, AtMost(32_767)]


class AssignedTasks(NamedTuple):
    active_tasks: Annotated[tuple[TaskIds, ...], AtMost(32_767)]
    standby_tasks: Annotated[tuple[TaskIds, ...], AtMost(32_767)]
    warmup_tasks: Annotated[tuple[TaskIds, ...], AtMost(32_767)]


class DescribedStreamsMember(NamedTuple):
    member_id: str
    member_epoch: Int32
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: Int32
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: tuple[KeyValue, ...]
    task_offsets: Annotated[tuple[TaskOffset, ...], AtMost(100_000)]
    task_end_offsets: Annotated[tuple[TaskOffset, ...], AtMost(100_000)]
    assignment: AssignedTasks
    target_assignment: AssignedTasks
    is_classic: bool


class DescribedStreamsGroup(NamedTuple):
    error_code: Int16
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    topology: DescribedTopology | None
    members: Annotated[tuple[DescribedStreamsMember, ...], AtMost(10_000)]
    authorized_operations: Int32


class StreamsGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Int32
    groups: Annotated[tuple[DescribedStreamsGroup, ...], AtMost(1)]

    @property
    def error_code(self) -> int:
        return next((group.error_code for group in self.groups if group.error_code != NONE), NONE)


STREAMS_GROUP_HEARTBEAT = Api(
    name="StreamsGroupHeartbeat",
    key=88,
    lowest=0,
    highest=0,
    flexible_from=0,
    request=StreamsGroupHeartbeatRequest,
    response=StreamsGroupHeartbeatResponse,
    needs="4.2, with the feature streams.version,",
    most_answer_bytes=16 * 1024 * 1024,  # the partitions of all members with an address
)
STREAMS_GROUP_DESCRIBE = Api(
    name="StreamsGroupDescribe",
    key=89,
    lowest=0,
    highest=0,
    flexible_from=0,
    request=StreamsGroupDescribeRequest,
    response=StreamsGroupDescribeResponse,
    needs="4.2, with the feature streams.version,",
    most_answer_bytes=16 * 1024 * 1024,
)
