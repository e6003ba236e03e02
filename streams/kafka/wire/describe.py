"""Describes a cluster and a group without a client that keeps trying: the result is an answer or a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError
from streams.kafka.wire import consumer_groups, error_codes, messages
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.connection import Connection, Deadline, UnsupportedRequest
from streams.kafka.wire.coordinator import LATER, Coordinator, through_any_server
from streams.kafka.wire.streams_groups.heartbeats import described

_RELEASES = {
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
    33: "4.4",
}
"""The highest level of the feature ``metadata.version`` that each release of Kafka has."""

_PAUSE_S = 0.1
_READ = 3
"""The number of the operation READ in Kafka's ``AclOperation``."""


@dataclass(frozen=True)
class ClusterDescription:
    """The description that a broker gives of its cluster."""

    address: Address
    """The address of the broker that was asked."""
    release: str
    """Kafka's, as far as the broker's features tell."""
    cluster_id: str
    brokers: tuple[Address, ...]
    """The brokers by the addresses of this listener, which clients connect to."""


@dataclass(frozen=True)
class GroupDescription:
    """The description that the coordinator gives of a group."""

    state: str
    protocol: str
    """The assignor of its members; empty if it has none, or several while they agree."""
    members: int
    may_read: bool | None
    """Whether we may join it; ``None`` if the coordinator does not report them."""
    kind: str = "classic"
    """The protocol of the group: ``classic``, ``consumer`` or ``streams``."""
    knows_streams: bool = True
    """Whether the coordinator takes part in the streams protocol (KIP-1071)."""


def describe_cluster(
    settings: Mapping[str, Any], *, timeout_s: float = 10.0, clock: Clock | None = None
) -> ClusterDescription:
    """Asks the first bootstrap server that can be asked for a description of the cluster.

    :param settings: of a client, under librdkafka's names.
    :raises StreamsError: if none can.
    """

    def ask(connection: Connection, deadline: Deadline) -> ClusterDescription:
        answer = connection.call(messages.DESCRIBE_CLUSTER, messages.DescribeClusterRequest(False), deadline)
        if answer.error_code != error_codes.NONE:
            reason = error_codes.described(answer.error_code, answer.error_message)
            raise StreamsError(f"{connection.address} does not describe its cluster: {reason}")
        brokers = tuple(Address(broker.host, broker.port) for broker in answer.brokers)
        return ClusterDescription(connection.address, release_of(connection.features), answer.cluster_id, brokers)

    deadline = Deadline(timeout_s, clock or SystemClock())
    return through_any_server(ClientSettings.of(settings), deadline, ask)


def release_of(features: Mapping[str, int]) -> str:
    """Returns Kafka's release, by the levels that a broker has of its features."""
    level = features.get("metadata.version")
    if level is None:
        return f"{_RELEASES[min(_RELEASES)]} or older, or with ZooKeeper"
    for highest, release in _RELEASES.items():
        if level <= highest:
            return release
    return f"newer than {_RELEASES[max(_RELEASES)]}"


def describe_group(
    settings: Mapping[str, Any], group: str, *, timeout_s: float = 10.0, clock: Clock | None = None
) -> GroupDescription:
    """Asks the group's coordinator; a group that is not there yet is one without members.

    :param settings: of a client, under librdkafka's names.
    :raises StreamsError: if it cannot be asked, or refuses.
    """
    request = messages.DescribeGroupsRequest((group,), include_authorized_operations=True)
    with Coordinator(ClientSettings.of(settings), group, clock) as coordinator:
        answer = coordinator.call(messages.DESCRIBE_GROUPS, request, timeout_s)
        refused = answer.error_code not in (error_codes.NONE, error_codes.GROUP_ID_NOT_FOUND)
        if refused or len(answer.groups) != 1:
            raise StreamsError(f"group {group!r} is not described: {error_codes.described(answer.error_code)}")
        try:
            streams, knows_streams = described(coordinator, group, timeout_s), True
        except UnsupportedRequest:
            streams, knows_streams = None, False
        consumers = consumer_groups.described(coordinator, group, timeout_s)
    if streams is not None:
        return GroupDescription(streams.group_state, "", len(streams.members), None, "streams")
    if consumers is not None:
        may_read = _may_read(consumers.authorized_operations)
        members = len(consumers.members)
        return GroupDescription(consumers.group_state, consumers.assignor_name, members, may_read, "consumer")
    (found,) = answer.groups
    return GroupDescription(
        found.group_state,
        found.protocol_data,
        len(found.members),
        _may_read(found.authorized_operations),
        knows_streams=knows_streams,
    )


def _may_read(operations: int) -> bool | None:
    return None if operations == messages.UNKNOWN_OPERATIONS else bool(operations & 1 << _READ)


def find_transaction_coordinator(
    settings: Mapping[str, Any], transactional_id: str, *, timeout_s: float = 10.0, clock: Clock | None = None
) -> Address:
    """Asks which broker coordinates a producer's transactions; none is begun.

    :param settings: of a client, under librdkafka's names.
    :raises StreamsError: if no broker can be asked, or the id may not be used.
    """

    def ask(connection: Connection, deadline: Deadline) -> Address:
        request = messages.FindCoordinatorRequest(messages.TRANSACTION_KEY, (transactional_id,))
        while True:
            (found,) = connection.call(messages.FIND_COORDINATOR, request, deadline).coordinators
            if found.error_code == error_codes.NONE:
                return Address(found.host, found.port)
            later = found.error_code in LATER and deadline.wait(_PAUSE_S)
            if not later:  # a new cluster creates the topic of transactions first
                reason = error_codes.described(found.error_code, found.error_message)
                raise StreamsError(
                    f"the coordinator of transactional id {transactional_id!r} cannot be found: {reason}"
                )

    deadline = Deadline(timeout_s, clock or SystemClock())
    return through_any_server(ClientSettings.of(settings), deadline, ask)
