"""Groups of all protocols over our own connection: they are described, and former members are ended."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import GroupMember, OffsetAndMetadata
from streams.kafka.wire.cluster_queries import ClusterQueries
from streams.kafka.wire.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeResponse,
    DescribedConsumer,
    DescribedConsumerGroup,
    MemberAssignment,
    PartitionsOfName,
)
from streams.kafka.wire.leave import release_instance, remove_members
from streams.kafka.wire.messages import (
    API_VERSIONS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    DescribedGroup,
    DescribeGroupsResponse,
)
from streams.kafka.wire.streams_groups.messages import STREAMS_GROUP_HEARTBEAT, StreamsGroupHeartbeatResponse
from wire_support.fake_broker import CONSUMER_VERSIONS, STREAMS_VERSIONS, FakeBroker, here

T0 = TopicPartition("t", 0)
OFFSETS = {T0: OffsetAndMetadata(3)}
NO_GROUP = DescribeGroupsResponse(0, (DescribedGroup(0, "g", "Dead", "", "", ()),))


# ---------------------------------------------------------------------- requests


def consumer(member_id: str, instance: str | None, *partitions: int, kind: int = 1) -> DescribedConsumer:
    assigned = MemberAssignment((PartitionsOfName(b"\1" * 16, "t", partitions),))
    return DescribedConsumer(
        member_id, instance, None, 4, "c", "/10.0.0.1", ("t",), None, assigned, MemberAssignment(()), kind
    )


def group(*members: DescribedConsumer, code: int = 0) -> ConsumerGroupDescribeResponse:
    found = DescribedConsumerGroup(code, None, "g", "Reconciling", 5, 5, "uniform", members, 0)
    return ConsumerGroupDescribeResponse(0, (found,))


def asked(answers: dict[Any, Any], versions: Any = CONSUMER_VERSIONS) -> FakeBroker:
    return FakeBroker({API_VERSIONS: versions, FIND_COORDINATOR: here, **answers})


def queries(broker: FakeBroker) -> ClusterQueries:
    return ClusterQueries({"bootstrap.servers": broker.bootstrap}, ManualClock())


def test_a_group_of_the_consumer_protocol_is_described() -> None:
    """With members of both protocols, as while an application changes to another one."""
    answer = group(consumer("m-1", "i", 0, 2), consumer("m-2", None, kind=0))
    with asked({DESCRIBE_GROUPS: NO_GROUP, CONSUMER_GROUP_DESCRIBE: answer}) as broker:
        asking = queries(broker)
        found = asking.describe_group("g", 5.0)
        asking.close()
    assert (found.state, found.assignor, found.protocol) == ("reconciling", "uniform", "consumer")
    owned = frozenset((T0, TopicPartition("t", 2)))
    assert found.members == (GroupMember("c", "m-1", "i", owned), GroupMember("c", "m-2", None, frozenset()))
    assert [(one.protocol, one.host) for one in found.members] == [("consumer", "10.0.0.1"), ("classic", "10.0.0.1")]


@pytest.mark.parametrize("code", [69, 35])
def test_a_group_that_is_of_no_protocol_is_not_there(code: int) -> None:
    """Also where the brokers know the request, and their feature is off."""
    with asked({DESCRIBE_GROUPS: NO_GROUP, CONSUMER_GROUP_DESCRIBE: group(code=code)}) as broker:
        asking = queries(broker)
        assert asking.describe_group("g", 5.0).state == "dead"
        asking.close()


def test_a_broker_that_knows_no_such_groups_is_asked_for_the_others() -> None:
    with asked({DESCRIBE_GROUPS: NO_GROUP}, STREAMS_VERSIONS) as broker:
        from streams.kafka.wire.streams_groups.messages import (
            STREAMS_GROUP_DESCRIBE,
            DescribedStreamsGroup,
            StreamsGroupDescribeResponse,
        )

        found = DescribedStreamsGroup(0, None, "g", "Empty", 1, 1, None, (), 0)
        broker._answers[STREAMS_GROUP_DESCRIBE.key] = [StreamsGroupDescribeResponse(0, (found,))]
        asking = queries(broker)
        assert asking.describe_group("g", 5.0).protocol == "streams"
        asking.close()


@pytest.mark.parametrize("code", [0, 25, 69])
def test_a_former_member_is_ended_and_its_instance_id_may_come_back(code: int) -> None:
    member = GroupMember("c", "m-1", "i", frozenset(), protocol="streams")
    answer = StreamsGroupHeartbeatResponse(0, code, None, "m-1", -2, 5000, 0, 0, None, None, None, None, 0, None)
    with asked({STREAMS_GROUP_HEARTBEAT: answer}, STREAMS_VERSIONS) as broker:
        release_instance({"bootstrap.servers": broker.bootstrap}, "g", member, clock=ManualClock())
        remove_members({"bootstrap.servers": broker.bootstrap}, "g", [member], clock=ManualClock())
        sent = [(one.member_id, one.member_epoch, one.instance_id) for one in broker.asked(STREAMS_GROUP_HEARTBEAT)]
    assert sent == [("m-1", -2, "i"), ("m-1", -1, "i")]


def test_what_the_brokers_refuse_is_said_with_what_follows() -> None:
    member = GroupMember("c", "m-1", "i", frozenset(), protocol="streams")
    text = r"^the membership of static member 'i' in group 'g' cannot be taken over.*: .*GROUP_AUTH"
    answer = StreamsGroupHeartbeatResponse(0, 30, None, "m-1", -2, 5000, 0, 0, None, None, None, None, 0, None)
    with asked({STREAMS_GROUP_HEARTBEAT: answer}, STREAMS_VERSIONS) as broker, pytest.raises(StreamsError, match=text):
        release_instance({"bootstrap.servers": broker.bootstrap}, "g", member, clock=ManualClock())


def test_members_of_other_applications_are_not_removed() -> None:
    member = GroupMember("c", "m-1", "i", frozenset(), protocol="consumer")
    with pytest.raises(StreamsError, match=r"member 'm-1' is of the consumer protocol: stop its process"):
        remove_members({"bootstrap.servers": "127.0.0.1:1"}, "g", [member], clock=ManualClock())
