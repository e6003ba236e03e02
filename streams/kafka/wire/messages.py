"""The requests we send and their answers, field by field as Kafka's protocol defines them."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from streams.kafka.wire.api import Api
from streams.kafka.wire.codec import AtMost, Int8, Int16, Int32, Int64, Since, Tag, Uuid
from streams.kafka.wire.error_codes import NONE

GROUP_KEY = 0
"""The kind of key by which FindCoordinator is asked for the coordinator of a group."""
TRANSACTION_KEY = 1
"""The same for a transactional id."""
LATEST = -1
"""Timestamp by which ListOffsets is asked for the end of a log."""
READ_UNCOMMITTED = 0
"""Isolation level by which that is the end of all records, those of open transactions too."""
READ_COMMITTED = 1
"""Isolation level by which that is the first record of an open transaction, if there is one."""
UNKNOWN_OPERATIONS = -(1 << 31)
"""Value instead of the allowed operations if the broker does not report them."""
FETCH_BYTES = 8 * 1024 * 1024
"""Bytes of a log that one answer to Fetch has; more if its first batch is larger."""
_FETCH_WAIT_MS = 500


class ApiVersionsRequest(NamedTuple):
    client_software_name: str
    client_software_version: str


class SupportedApi(NamedTuple):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeature(NamedTuple):
    name: str
    min_version: Int16
    max_version: Int16


class FinalizedFeature(NamedTuple):
    name: str
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(NamedTuple):
    error_code: Int16
    api_keys: tuple[SupportedApi, ...]
    throttle_time_ms: Int32
    supported_features: Annotated[tuple[SupportedFeature, ...], Tag(0)] = ()
    finalized_features_epoch: Annotated[Int64, Tag(1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeature, ...], Tag(2)] = ()


class SaslHandshakeRequest(NamedTuple):
    mechanism: str


class SaslHandshakeResponse(NamedTuple):
    error_code: Int16
    mechanisms: tuple[str, ...]


class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: bytes


class SaslAuthenticateResponse(NamedTuple):
    error_code: Int16
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: Int64


class FindCoordinatorRequest(NamedTuple):
    key_type: Int8
    coordinator_keys: tuple[str, ...]


class FoundCoordinator(NamedTuple):
    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: Int16
    error_message: str | None


class FindCoordinatorResponse(NamedTuple):
    throttle_time_ms: Int32
    coordinators: tuple[FoundCoordinator, ...]


class LeavingMember(NamedTuple):
    member_id: str
    """Empty when the member is named by its instance id alone."""
    group_instance_id: str | None
    reason: Annotated[str | None, Since(5)] = None
    """The reason, for the broker's log (KIP-800)."""


class LeaveGroupRequest(NamedTuple):
    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error_code: Int16


class LeaveGroupResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    members: tuple[LeftMember, ...]


class DescribeGroupsRequest(NamedTuple):
    groups: tuple[str, ...]
    include_authorized_operations: bool


class DescribedGroupMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(NamedTuple):
    error_code: Int16
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Annotated[tuple[DescribedGroupMember, ...], AtMost(10_000)]
    authorized_operations: Int32 = UNKNOWN_OPERATIONS
    """A bit for each operation that we may do, by the numbers of Kafka's ``AclOperation``: 3 is READ."""


class DescribeGroupsResponse(NamedTuple):
    throttle_time_ms: Int32
    groups: Annotated[tuple[DescribedGroup, ...], AtMost(1)]

    @property
    def error_code(self) -> int:
        return next((group.error_code for group in self.groups if group.error_code != NONE), NONE)


class ListGroupsRequest(NamedTuple):
    """Empty filters let everything pass."""

    states_filter: tuple[str, ...]
    types_filter: Annotated[tuple[str, ...], Since(5)] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: Annotated[str, Since(5)] = ""


class ListGroupsResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    groups: Annotated[tuple[ListedGroup, ...], AtMost(1_000_000)]


class DeleteGroupsRequest(NamedTuple):
    groups_names: tuple[str, ...]


class DeletedGroup(NamedTuple):
    group_id: str
    error_code: Int16


class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: Int32
    results: tuple[DeletedGroup, ...]

    @property
    def error_code(self) -> int:
        return next((group.error_code for group in self.results if group.error_code != NONE), NONE)


class DescribeClusterRequest(NamedTuple):
    include_cluster_authorized_operations: bool


class ClusterBroker(NamedTuple):
    broker_id: Int32
    host: str
    port: Int32
    rack: str | None


class DescribeClusterResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: str | None
    cluster_id: str
    controller_id: Int32
    brokers: Annotated[tuple[ClusterBroker, ...], AtMost(10_000)]
    cluster_authorized_operations: Int32


class OffsetFetchTopic(NamedTuple):
    name: str
    partition_indexes: tuple[Int32, ...]


class OffsetFetchGroup(NamedTuple):
    group_id: str
    topics: tuple[OffsetFetchTopic, ...]


class OffsetFetchRequest(NamedTuple):
    groups: tuple[OffsetFetchGroup, ...]
    require_stable: bool
    """Whether an offset is an error as long as a transaction may change it (KIP-447)."""


class FetchedOffset(NamedTuple):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32
    metadata: str | None
    error_code: Int16


class OffsetsOfTopic(NamedTuple):
    name: str
    partitions: Annotated[tuple[FetchedOffset, ...], AtMost(100_000)]


class OffsetsOfGroup(NamedTuple):
    group_id: str
    topics: Annotated[tuple[OffsetsOfTopic, ...], AtMost(100_000)]
    error_code: Int16


class OffsetFetchResponse(NamedTuple):
    throttle_time_ms: Int32
    groups: tuple[OffsetsOfGroup, ...]

    @property
    def error_code(self) -> int:
        return next((group.error_code for group in self.groups if group.error_code != NONE), NONE)


class NamedTopic(NamedTuple):
    topic_id: Uuid
    """All 0 where the topic is named."""
    name: str | None


class MetadataRequest(NamedTuple):
    topics: Annotated[tuple[NamedTopic, ...], AtMost(100_000)]
    allow_auto_topic_creation: bool
    include_topic_authorized_operations: bool


class PartitionMetadata(NamedTuple):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    """The broker that leads it; -1 if it has no leader now."""
    leader_epoch: Int32
    replica_nodes: tuple[Int32, ...]
    isr_nodes: tuple[Int32, ...]
    offline_replicas: tuple[Int32, ...]


class TopicMetadata(NamedTuple):
    error_code: Int16
    name: str | None
    topic_id: Uuid
    is_internal: bool
    partitions: Annotated[tuple[PartitionMetadata, ...], AtMost(100_000)]
    topic_authorized_operations: Int32


class MetadataResponse(NamedTuple):
    throttle_time_ms: Int32
    brokers: Annotated[tuple[ClusterBroker, ...], AtMost(10_000)]
    cluster_id: str | None
    controller_id: Int32
    topics: Annotated[tuple[TopicMetadata, ...], AtMost(100_000)]


class ListOffsetsPartition(NamedTuple):
    partition_index: Int32
    current_leader_epoch: Int32
    """The epoch of the leader that is known; -1 asks the one of now."""
    timestamp: Int64


class ListOffsetsTopic(NamedTuple):
    name: str
    partitions: Annotated[tuple[ListOffsetsPartition, ...], AtMost(100_000)]


class ListOffsetsRequest(NamedTuple):
    replica_id: Int32
    """-1 for a client."""
    isolation_level: Int8
    topics: Annotated[tuple[ListOffsetsTopic, ...], AtMost(100_000)]


class ListedOffset(NamedTuple):
    partition_index: Int32
    error_code: Int16
    timestamp: Int64
    offset: Int64
    leader_epoch: Int32


class ListedTopic(NamedTuple):
    name: str
    partitions: Annotated[tuple[ListedOffset, ...], AtMost(100_000)]


class ListOffsetsResponse(NamedTuple):
    throttle_time_ms: Int32
    topics: Annotated[tuple[ListedTopic, ...], AtMost(100_000)]


class EpochEndPartition(NamedTuple):
    partition: Int32
    current_leader_epoch: Int32
    """The epoch of the leader that is known; -1 asks the one of now."""
    leader_epoch: Int32
    """The epoch whose end is asked for."""


class EpochEndTopic(NamedTuple):
    topic: str
    partitions: tuple[EpochEndPartition, ...]


class OffsetForLeaderEpochRequest(NamedTuple):
    replica_id: Int32
    """-1 for a client."""
    topics: tuple[EpochEndTopic, ...]


class EpochEnd(NamedTuple):
    error_code: Int16
    partition: Int32
    leader_epoch: Int32
    """The largest epoch in the log up to the one that was asked for; -1 if the leader knows none."""
    end_offset: Int64
    """The offset after its last record."""


class EpochEndsOfTopic(NamedTuple):
    topic: str
    partitions: Annotated[tuple[EpochEnd, ...], AtMost(100_000)]


class OffsetForLeaderEpochResponse(NamedTuple):
    throttle_time_ms: Int32
    topics: Annotated[tuple[EpochEndsOfTopic, ...], AtMost(100_000)]


class ListTransactionsRequest(NamedTuple):
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[Int64, ...]


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: Int64
    transaction_state: str


class ListTransactionsResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    unknown_state_filters: tuple[str, ...]
    transaction_states: Annotated[tuple[ListedTransaction, ...], AtMost(100_000)]


class InitProducerIdRequest(NamedTuple):
    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Int64
    """-1: whatever producer has the id is fenced."""
    producer_epoch: Int16


class InitProducerIdResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64
    producer_epoch: Int16


class FetchPartition(NamedTuple):
    partition: Int32
    current_leader_epoch: Int32
    """-1 asks the leader of now, whatever its epoch."""
    fetch_offset: Int64
    last_fetched_epoch: Int32
    log_start_offset: Int64
    """-1 for a client."""
    partition_max_bytes: Int32


class FetchTopic(NamedTuple):
    topic: str
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(NamedTuple):
    topic: str
    partitions: tuple[Int32, ...]


class FetchRequest(NamedTuple):
    replica_id: Int32
    """-1 for a client."""
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32
    isolation_level: Int8
    session_id: Int32
    session_epoch: Int32
    """-1 with the session 0: the answer is to this request alone."""
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]
    rack_id: str


class AbortedTransaction(NamedTuple):
    producer_id: Int64
    first_offset: Int64


class FetchedPartition(NamedTuple):
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64
    log_start_offset: Int64
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, AtMost(1_000_000)]
    preferred_read_replica: Int32
    records: bytes | None


class FetchedTopic(NamedTuple):
    topic: str
    partitions: tuple[FetchedPartition, ...]


class FetchResponse(NamedTuple):
    throttle_time_ms: Int32
    error_code: Int16
    session_id: Int32
    responses: tuple[FetchedTopic, ...]


API_VERSIONS = Api(
    name="ApiVersions",
    key=18,
    lowest=3,
    highest=3,
    flexible_from=3,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    needs="2.4",
    old_response_header=True,
)
SASL_HANDSHAKE = Api(
    name="SaslHandshake",
    key=17,
    lowest=1,
    highest=1,
    flexible_from=None,
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    needs="1.0",
)
SASL_AUTHENTICATE = Api(
    name="SaslAuthenticate",
    key=36,
    lowest=1,
    highest=2,
    flexible_from=2,
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    needs="2.2",
)
FIND_COORDINATOR = Api(
    name="FindCoordinator",
    key=10,
    lowest=4,
    highest=4,
    flexible_from=3,
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    needs="3.0",
)
LEAVE_GROUP = Api(
    name="LeaveGroup",
    key=13,
    lowest=4,
    highest=5,
    flexible_from=4,
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    needs="2.4",
)
DESCRIBE_GROUPS = Api(
    name="DescribeGroups",
    key=15,
    lowest=5,
    highest=5,
    flexible_from=5,
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    needs="2.4",
    most_answer_bytes=16 * 1024 * 1024,  # metadata and assignments of all members
)
LIST_GROUPS = Api(
    name="ListGroups",
    key=16,
    lowest=4,
    highest=5,
    flexible_from=3,
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    needs="2.6",
    most_answer_bytes=64 * 1024 * 1024,
)
DELETE_GROUPS = Api(
    name="DeleteGroups",
    key=42,
    lowest=2,
    highest=2,
    flexible_from=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    needs="2.4",
)
OFFSET_FETCH = Api(
    name="OffsetFetch",
    key=9,
    lowest=8,
    highest=8,
    flexible_from=6,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    needs="3.0",
    most_answer_bytes=64 * 1024 * 1024,  # each partition with up to 4,096 bytes of metadata
)
DESCRIBE_CLUSTER = Api(
    name="DescribeCluster",
    key=60,
    lowest=0,
    highest=0,
    flexible_from=0,
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    needs="2.8",
    most_answer_bytes=4 * 1024 * 1024,  # each broker with host and rack
)
METADATA = Api(
    name="Metadata",
    key=3,
    lowest=12,
    highest=12,
    flexible_from=9,
    request=MetadataRequest,
    response=MetadataResponse,
    needs="3.1",
    most_answer_bytes=64 * 1024 * 1024,  # each partition with its replicas
    recurs=True,
)
LIST_OFFSETS = Api(
    name="ListOffsets",
    key=2,
    lowest=4,
    highest=7,
    flexible_from=6,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    needs="2.1",
    most_answer_bytes=16 * 1024 * 1024,
)
OFFSET_FOR_LEADER_EPOCH = Api(
    name="OffsetForLeaderEpoch",
    key=23,
    lowest=3,
    highest=4,
    flexible_from=4,
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    needs="2.3",
    most_answer_bytes=16 * 1024 * 1024,
)
LIST_TRANSACTIONS = Api(
    name="ListTransactions",
    key=66,
    lowest=0,
    highest=0,
    flexible_from=0,
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    needs="3.0",
    most_answer_bytes=16 * 1024 * 1024,
)
INIT_PRODUCER_ID = Api(
    name="InitProducerId",
    key=22,
    lowest=3,
    highest=4,
    flexible_from=2,
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    needs="2.5",
)
FETCH = Api(
    name="Fetch",
    key=1,
    lowest=12,
    highest=12,
    flexible_from=12,
    request=FetchRequest,
    response=FetchResponse,
    needs="2.7",
    most_answer_bytes=1024 * 1024 * 1024,  # its first batch, whatever the largest size of a batch is
)


def fetch_request(topic: str, partition: int, offset: int, max_bytes: int = FETCH_BYTES) -> FetchRequest:
    """Returns the request for batches from an offset on."""
    asked = FetchPartition(partition, -1, offset, -1, -1, max_bytes)
    return FetchRequest(-1, _FETCH_WAIT_MS, 1, max_bytes, 0, 0, -1, (FetchTopic(topic, (asked,)),), (), "")
