"""What a cluster says of itself and of a group."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import ConfigError, RetryableError, StreamsError
from streams.kafka.wire.client_settings import Address
from streams.kafka.wire.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from streams.kafka.wire.describe import (
    ClusterDescription,
    GroupDescription,
    describe_cluster,
    describe_group,
    release_of,
)
from streams.kafka.wire.messages import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    UNKNOWN_OPERATIONS,
    ApiVersionsResponse,
    ClusterBroker,
    DescribeClusterResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    SupportedApi,
    SupportedFeature,
)
from streams.kafka.wire.streams_groups.messages import (
    STREAMS_GROUP_DESCRIBE,
    DescribedStreamsGroup,
    StreamsGroupDescribeResponse,
)
from wire_support.fake_broker import CONSUMER_VERSIONS, STREAMS_VERSIONS, VERSIONS, FakeBroker, coordinator_at, here


def settings(broker: FakeBroker) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap}


def test_a_cluster_describes_itself() -> None:
    """Its brokers under the addresses that its clients connect to."""
    features = (SupportedFeature("group.version", 0, 1), SupportedFeature("metadata.version", 7, 30))
    versions = ApiVersionsResponse(0, VERSIONS.api_keys, 0, features)
    brokers = (ClusterBroker(1, "one", 9092, None), ClusterBroker(2, "two", 9093, "r"))
    answer = DescribeClusterResponse(0, 0, None, "the-id", 1, brokers, UNKNOWN_OPERATIONS)
    with FakeBroker({API_VERSIONS: versions, DESCRIBE_CLUSTER: answer}) as broker:
        assert describe_cluster(settings(broker)) == ClusterDescription(
            broker.address, "4.3", "the-id", (Address("one", 9092), Address("two", 9093))
        )


@pytest.mark.parametrize(
    ("levels", "release"),
    [
        ((1, 7), "3.3"),
        ((8,), "3.4"),
        ((9, 11), "3.5"),
        ((12, 14), "3.6"),
        ((15, 19), "3.7"),
        ((20,), "3.8"),
        ((21,), "3.9"),
        ((22, 25), "4.0"),
        ((26, 27), "4.1"),
        ((28, 29), "4.2"),
        ((30,), "4.3"),
        ((31, 33), "4.4"),
        ((34, 1000), "newer than 4.4"),
    ],
)
def test_the_release_follows_from_a_feature(levels: tuple[int, ...], release: str) -> None:
    """Kafka tells no version of its own; the levels are those of its ``MetadataVersion``."""
    assert {release_of({"metadata.version": level}) for level in levels} == {release}


def test_a_broker_without_the_feature_is_an_old_one() -> None:
    assert release_of({"group.version": 1}) == "3.3 or older, or with ZooKeeper"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (
            {DESCRIBE_CLUSTER: DescribeClusterResponse(0, 31, "no", "", -1, (), 0)},
            r"does not describe its cluster: CLUSTER_AUTHORIZATION_FAILED \(31\): no",
        ),
        (
            {API_VERSIONS: ApiVersionsResponse(0, (SupportedApi(DESCRIBE_GROUPS.key, 0, 5),), 0)},
            r"does not have a version of DescribeCluster from 0 to 0: it must be Kafka 2\.8",
        ),
    ],
)
def test_a_cluster_that_does_not_describe_itself_is_told(answers: Any, reason: str) -> None:
    with FakeBroker(answers) as broker, pytest.raises(StreamsError, match=reason):
        describe_cluster(settings(broker))


def described(**given: Any) -> DescribeGroupsResponse:
    fields = {
        "error_code": 0,
        "group_id": "g",
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "cooperative-sticky",
        "members": (DescribedGroupMember("m", None, "c", "h", b"", b""),),
    }
    return DescribeGroupsResponse(0, (DescribedGroup(**(fields | given)),))


@pytest.mark.parametrize(
    ("operations", "may_read"),
    [(UNKNOWN_OPERATIONS, None), (1 << 3, True), (1 << 8, False), (1 << 3 | 1 << 8, True), (0, False)],
)
def test_a_group_is_described(operations: int, may_read: bool | None) -> None:
    """With whether we may join it, if the coordinator tells: READ is bit 3."""
    answer = described(authorized_operations=operations)
    with FakeBroker({FIND_COORDINATOR: here, DESCRIBE_GROUPS: answer}) as broker:
        found = describe_group(settings(broker), "g", clock=ManualClock())
        assert found == GroupDescription("Stable", "cooperative-sticky", 1, may_read, "classic", False)
        assert broker.asked(DESCRIBE_GROUPS)[0].groups == ("g",)
        assert broker.asked(DESCRIBE_GROUPS)[0].include_authorized_operations


def test_a_group_of_the_streams_protocol_is_described() -> None:
    """To a request for classic groups it is dead."""
    group = DescribedStreamsGroup(0, None, "g", "NotReady", 3, 2, None, (), 0)
    answers = {
        API_VERSIONS: STREAMS_VERSIONS,
        FIND_COORDINATOR: here,
        DESCRIBE_GROUPS: described(group_state="Dead", members=()),
        STREAMS_GROUP_DESCRIBE: StreamsGroupDescribeResponse(0, (group,)),
    }
    with FakeBroker(answers) as broker:
        found = describe_group(settings(broker), "g", clock=ManualClock())
        assert found == GroupDescription("NotReady", "", 0, None, "streams")


@pytest.mark.parametrize("code", [0, 69, 35])
def test_a_group_of_the_consumer_protocol_is_described(code: int) -> None:
    """A broker whose feature is off knows the request, and answers that it does not."""
    group = DescribedConsumerGroup(code, None, "g", "Stable", 3, 2, "uniform", (), 1 << 3)
    answers = {
        API_VERSIONS: CONSUMER_VERSIONS,
        FIND_COORDINATOR: here,
        DESCRIBE_GROUPS: described(group_state="Dead", members=()),
        CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeResponse(0, (group,)),
    }
    with FakeBroker(answers) as broker:
        found = describe_group(settings(broker), "g", clock=ManualClock())
    if code == 0:
        assert found == GroupDescription("Stable", "uniform", 0, True, "consumer")
    else:
        assert (found.kind, found.state) == ("classic", "Dead")


def test_a_group_that_may_not_be_described_is_told() -> None:
    told = pytest.raises(StreamsError, match=r"group 'g' is not described: GROUP_AUTHORIZATION_FAILED \(30\)")
    with FakeBroker({FIND_COORDINATOR: here, DESCRIBE_GROUPS: described(error_code=30)}) as broker, told:
        describe_group(settings(broker), "g", clock=ManualClock())


def test_a_coordinator_that_is_not_ready_is_asked_again() -> None:
    """Its error is that of the group here."""
    answers = [described(error_code=16), described()]
    with FakeBroker({FIND_COORDINATOR: here, DESCRIBE_GROUPS: answers}) as broker:
        assert describe_group(settings(broker), "g", clock=ManualClock()).members == 1
        assert len(broker.asked(DESCRIBE_GROUPS)) == 2


def test_the_time_ends() -> None:
    told = pytest.raises(RetryableError, match="COORDINATOR_NOT_AVAILABLE")
    with FakeBroker({FIND_COORDINATOR: coordinator_at(Address("", -1), 15)}) as broker, told:
        describe_group(settings(broker), "g", timeout_s=1, clock=ManualClock())


def test_wrong_settings_are_told() -> None:
    for ask in (describe_cluster, lambda given: describe_group(given, "g")):
        with pytest.raises(ConfigError, match="Kerberos"):
            ask({"bootstrap.servers": "kafka:1", "security.protocol": "sasl_ssl"})
