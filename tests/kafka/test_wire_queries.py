"""What a cluster tells of logs, topics and groups, also just after an election."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import AuthorizationError, ConfigError, RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import LogPoint
from streams.kafka.ports import GroupMember, OffsetAndMetadata, TopicState, UnknownPartitionError
from streams.kafka.wire.client_settings import Address
from streams.kafka.wire.cluster_queries import AssignedTopic, ClusterQueries, ConsumerAssignment
from streams.kafka.wire.codec import MalformedMessage, codec_of
from streams.kafka.wire.error_codes import UNSTABLE_OFFSET_COMMIT
from streams.kafka.wire.messages import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    ClusterBroker,
    DeletedGroup,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    EpochEnd,
    EpochEndsOfTopic,
    FetchedOffset,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    ListedOffset,
    ListedTopic,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetFetchResponse,
    OffsetForLeaderEpochResponse,
    OffsetsOfGroup,
    OffsetsOfTopic,
    PartitionMetadata,
    TopicMetadata,
)
from wire_support.fake_broker import CLOSE, HOST, FakeBroker, Request, here

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FENCED_LEADER_EPOCH, NOT_LEADER, UNKNOWN_TOPIC = 74, 6, 3


def topics_at(*leaders: int, error: int = 0, topic_id: bytes = b"\1" * 16) -> Any:
    """Answers Metadata: this broker is number 1, and these brokers lead the partitions of topic "t"."""
    partitions = tuple(PartitionMetadata(0, number, one, 5, (1,), (1,), ()) for number, one in enumerate(leaders))

    def answer(request: Request) -> MetadataResponse:
        topic = TopicMetadata(error, "t", topic_id, False, partitions, 0)
        return MetadataResponse(0, (ClusterBroker(1, *request.address, None),), "c", 1, (topic,))

    return answer


def ends(*found: tuple[int, int]) -> ListOffsetsResponse:
    """Answers ListOffsets with an error and an offset for each partition."""
    listed = tuple(ListedOffset(number, error, -1, offset, 5) for number, (error, offset) in enumerate(found))
    return ListOffsetsResponse(0, (ListedTopic("t", listed),))


def asked_ends(*offsets: int) -> Any:
    """Answers ListOffsets with the offsets of those partitions that were asked for."""

    def answer(request: Request) -> ListOffsetsResponse:
        (topic,) = request.body.topics
        asked = [one.partition_index for one in topic.partitions]
        listed = tuple(ListedOffset(number, 0, -1, offsets[number], 5) for number in asked)
        return ListOffsetsResponse(0, (ListedTopic("t", listed),))

    return answer


def queries(broker: FakeBroker, *servers: Address) -> ClusterQueries:
    given = ",".join(map(str, (*servers, broker.address)))
    return ClusterQueries({"bootstrap.servers": given}, ManualClock())


def ask_ends(answers: dict[Any, Any], *partitions: TopicPartition) -> tuple[Any, FakeBroker]:
    with FakeBroker(answers) as broker:
        asking = queries(broker)
        try:
            return asking.log_ends(partitions, 5.0), broker
        finally:
            asking.close()


def test_leaders_are_asked_without_an_epoch() -> None:
    found, broker = ask_ends({METADATA: topics_at(1, 1), LIST_OFFSETS: ends((0, 7), (0, 9))}, T0, T1)
    assert found == {T0: 7, T1: 9}
    (asked,) = broker.asked(LIST_OFFSETS)
    assert [one.current_leader_epoch for topic in asked.topics for one in topic.partitions] == [-1, -1]


@pytest.mark.parametrize("code", [FENCED_LEADER_EPOCH, NOT_LEADER, 5, 9, 56, 75, 78, -1])
def test_an_answer_that_may_pass_is_asked_for_again_with_metadata_of_now(code: int) -> None:
    """The admin client asked with the metadata that it had, for minutes. A leader that answered is not asked again."""
    answers = {METADATA: topics_at(1, 1), LIST_OFFSETS: [ends((code, -1), (0, 9)), ends((0, 7))]}
    found, broker = ask_ends(answers, T0, T1)
    assert found == {T0: 7, T1: 9}
    assert len(broker.asked(METADATA)) == 2
    assert [len(one.topics[0].partitions) for one in broker.asked(LIST_OFFSETS)] == [2, 1]


def test_a_partition_without_a_leader_is_waited_for() -> None:
    """The others are asked meanwhile, once."""
    answers = {METADATA: [topics_at(-1, 1), topics_at(2, 1), topics_at(1, 1)], LIST_OFFSETS: asked_ends(7, 9)}
    found, broker = ask_ends(answers, T0, T1)
    assert found == {T0: 7, T1: 9}
    assert len(broker.asked(METADATA)) == 3
    assert [len(one.topics[0].partitions) for one in broker.asked(LIST_OFFSETS)] == [1, 1]


def test_no_answer_in_time_is_worth_another_try() -> None:
    with pytest.raises(RetryableError, match=r"the offsets of .*t.* cannot be looked up: FENCED_LEADER_EPOCH \(74\)"):
        ask_ends({METADATA: topics_at(1), LIST_OFFSETS: ends((FENCED_LEADER_EPOCH, -1))}, T0)


@pytest.mark.parametrize("leaders", [topics_at(error=UNKNOWN_TOPIC), topics_at(1)])
def test_what_does_not_exist_is_told_at_once(leaders: Any) -> None:
    with FakeBroker({METADATA: leaders}) as broker:
        asking = queries(broker)
        with pytest.raises(UnknownPartitionError, match="does not exist"):
            asking.log_ends([T1], 5.0)
        asking.close()
        assert len(broker.asked(METADATA)) == 1


def test_a_missing_right_is_told() -> None:
    with pytest.raises(AuthorizationError, match=r"TOPIC_AUTHORIZATION_FAILED \(29\); allow DESCRIBE on topic 't'"):
        ask_ends({METADATA: topics_at(error=29)}, T0)


def epoch_ends(*found: tuple[int, int, int]) -> Any:
    """Answers OffsetForLeaderEpoch with an error, an epoch and an end for each partition that was asked for."""

    def answer(request: Request) -> OffsetForLeaderEpochResponse:
        (topic,) = request.body.topics
        ends = tuple(EpochEnd(found[n][0], n, *found[n][1:]) for n in (one.partition for one in topic.partitions))
        return OffsetForLeaderEpochResponse(0, (EpochEndsOfTopic("t", ends),))

    return answer


def ask_divergences(
    answers: Any, *points: tuple[TopicPartition, LogPoint]
) -> tuple[dict[tuple[TopicPartition, LogPoint], int], list[Any]]:
    with FakeBroker({METADATA: topics_at(1, 1), OFFSET_FOR_LEADER_EPOCH: answers}) as broker:
        asking = queries(broker)
        try:
            return asking.divergences(points, 5.0), broker.asked(OFFSET_FOR_LEADER_EPOCH)
        finally:
            asking.close()


def test_a_record_is_in_its_log_as_long_as_its_epoch_ends_behind_it() -> None:
    """One request asks about all partitions of a leader."""
    gone, there = (T0, LogPoint(7, 3)), (T1, LogPoint(7, 3))
    found, asked = ask_divergences(epoch_ends((0, 3, 7), (0, 3, 8)), gone, there)
    assert found == {gone: 7}
    (request,) = asked
    assert [(one.partition, one.current_leader_epoch, one.leader_epoch) for one in request.topics[0].partitions] == [
        (0, -1, 3),
        (1, -1, 3),
    ]


def test_an_epoch_that_the_log_lacks_has_lost_its_records() -> None:
    """The leader names the largest one before it."""
    point = (T0, LogPoint(7, 3))
    assert ask_divergences(epoch_ends((0, 1, 5)), point)[0] == {point: 5}


@pytest.mark.parametrize(("epoch", "lost"), [(3, {}), (5, {}), (6, {(T0, LogPoint(7, 6)): 0})])
def test_an_epoch_that_is_to_come_means_older_copies_of_all_logs(epoch: int, lost: Any) -> None:
    """The leader of the metadata is of epoch 5. A broker that knows no epochs of a log tells nothing about it."""
    assert ask_divergences(epoch_ends((0, -1, -1)), (T0, LogPoint(7, epoch)))[0] == lost


def test_two_records_of_a_partition_take_two_requests() -> None:
    one, other = (T0, LogPoint(7, 3)), (T0, LogPoint(5, 2))
    found, asked = ask_divergences(epoch_ends((0, 2, 6)), one, other)
    assert found == {one: 6}
    assert len(asked) == 2


def test_epochs_are_asked_for_again_after_an_election() -> None:
    point = (T0, LogPoint(7, 3))
    found, asked = ask_divergences([epoch_ends((FENCED_LEADER_EPOCH, -1, -1)), epoch_ends((0, 3, 9))], point)
    assert (found, len(asked)) == ({}, 2)


def test_states_have_the_epochs_of_the_leaders() -> None:
    with FakeBroker({METADATA: topics_at(1, -1)}) as broker:
        asking = queries(broker)
        assert asking.topic_states(["t"], 5.0) == {"t": TopicState("AQEBAQEBAQEBAQEBAQEBAQ", {0: 5, 1: 5})}
        asking.close()


def test_ids_are_those_of_topics_that_are_shown() -> None:
    with FakeBroker({METADATA: [topics_at(1), topics_at(1, topic_id=bytes(16)), topics_at(error=3)]}) as broker:
        asking = queries(broker)
        assert [asking.topic_ids(["t"], 5.0) for _ in range(3)] == [{"t": "AQEBAQEBAQEBAQEBAQEBAQ"}, {}, {}]
        asking.close()
        assert not any(asked.allow_auto_topic_creation for asked in broker.asked(METADATA))


@pytest.mark.parametrize(
    "late", [topics_at(error=UNKNOWN_TOPIC), topics_at(1), topics_at(1, -1)], ids=["unknown", "fewer", "no leader"]
)
def test_a_new_topic_is_unknown_while_one_broker_does_not_have_it(late: Any) -> None:
    """A worker that was alone got no tasks for minutes: the metadata by which they are assigned came from a broker
    that did not have the control topics yet."""
    with FakeBroker({METADATA: [late, topics_at(1, 1)]}) as other:

        def both(request: Request) -> MetadataResponse:
            answer: MetadataResponse = topics_at(1, 1)(request)
            return answer._replace(brokers=(*answer.brokers, ClusterBroker(2, *other.address, None)))

        with FakeBroker({METADATA: both}) as broker:
            asking = queries(broker)
            assert asking.unknown_somewhere({"t": 2}, 5.0) == {"t"}
            assert asking.unknown_somewhere({"t": 2}, 5.0) == set()
            assert len(other.asked(METADATA)) == 2
            asking.close()


def test_a_broker_that_is_down_is_not_waited_for() -> None:
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]

    def both(request: Request) -> MetadataResponse:
        answer: MetadataResponse = topics_at(1, 1)(request)
        return answer._replace(brokers=(ClusterBroker(2, HOST, port, None), *answer.brokers))

    with FakeBroker({METADATA: both}) as broker:
        asking = queries(broker)
        assert asking.unknown_somewhere({"t": 2}, 5.0) == set()
        assert asking.unknown_somewhere({"t": 3}, 5.0) == {"t"}
        asking.close()


def test_a_connection_is_kept_and_made_again() -> None:
    """The broker may close one that waits; the server that answered is asked first from then on."""
    with socket.create_server((HOST, 0)) as listener:
        nobody = Address(*listener.getsockname())
    with FakeBroker({METADATA: [topics_at(1), topics_at(1), CLOSE, topics_at(1)]}) as broker:
        asking = queries(broker, nobody)
        assert len([asking.topic_ids(["t"], 5.0) for _ in range(2)]) == 2
        assert broker.connections == 1
        assert asking.topic_ids(["t"], 5.0)
        assert broker.connections == 2
        asking.close()
        asking.close()


def described(code: int = 0, state: str = "Stable", assignment: bytes = b"") -> DescribeGroupsResponse:
    member = DescribedGroupMember("m-1", "i", "c", "/10.0.0.1", b"", assignment)
    members = (member,) if state == "Stable" else ()
    return DescribeGroupsResponse(0, (DescribedGroup(code, "g", state, "consumer", "range", members),))


def describe(answer: Any) -> Any:
    with FakeBroker({FIND_COORDINATOR: here, DESCRIBE_GROUPS: answer}) as broker:
        asking = queries(broker)
        try:
            return asking.describe_group("g", 5.0)
        finally:
            asking.close()


def test_a_group_has_members_with_partitions() -> None:
    written = bytearray()
    assigned = ConsumerAssignment(1, (AssignedTopic("t", (0, 1)), AssignedTopic("u", (4,))))
    codec_of(ConsumerAssignment, 0, flexible=False).write(written, assigned)
    assert written.hex() == "0001000000020001740000000200000000000000010001750000000100000004"
    found = describe(described(assignment=bytes(written) + b"\xff\xff\xff\xff"))  # user data, or a newer version's
    member = GroupMember("c", "m-1", "i", frozenset((T0, T1, TopicPartition("u", 4))))
    assert (found.state, found.assignor, found.members) == ("stable", "range", (member,))
    assert found.members[0].host == "10.0.0.1"


@pytest.mark.parametrize("assignment", [b"", b"\0\1\0\0"])
def test_a_member_may_have_no_partitions_that_can_be_read(assignment: bytes) -> None:
    assert describe(described(assignment=assignment)).members[0].partitions == frozenset()


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (described(state="PreparingRebalance"), "preparing_rebalance"),
        (described(state="Empty"), "empty"),
        (described(state="Dead"), "dead"),
        (described(69, ""), "dead"),
    ],
)
def test_a_group_is_in_a_state_of_the_port(answer: Any, state: str) -> None:
    assert describe(answer).state == state


def test_a_group_that_may_not_be_seen_is_told() -> None:
    with pytest.raises(
        AuthorizationError, match=r"not described: GROUP_AUTHORIZATION_FAILED \(30\); allow DESCRIBE on group 'g'"
    ):
        describe(described(30, ""))


def test_a_group_that_may_not_be_deleted_or_read_is_told_with_the_right_that_is_missing() -> None:
    refused = DeleteGroupsResponse(0, (DeletedGroup("g", 30),))
    fetched = OffsetFetchResponse(0, (OffsetsOfGroup("g", (), 30),))
    with FakeBroker({FIND_COORDINATOR: here, DELETE_GROUPS: refused, OFFSET_FETCH: fetched}) as broker:
        asking = queries(broker)
        with pytest.raises(AuthorizationError, match=r"'g' cannot be deleted: .*; allow DELETE on group 'g'"):
            asking.delete_group("g", 5.0)
        with pytest.raises(AuthorizationError, match=r"group 'g' cannot be read: .*; allow DESCRIBE on group 'g'"):
            asking.group_offsets("g", [T0], 5.0)
        asking.close()


def test_offsets_of_a_group_are_read_though_a_transaction_may_change_them() -> None:
    """A member's plan is committed without transactions, so it need not wait for any."""
    fetched = (FetchedOffset(0, 7, -1, "text\0", 0), FetchedOffset(1, -1, -1, None, 0))
    answer = OffsetFetchResponse(0, (OffsetsOfGroup("g", (OffsetsOfTopic("t", fetched),), 0),))
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_FETCH: answer}) as broker:
        asking = queries(broker)
        assert asking.group_offsets("g", [T0, T1], 5.0) == {T0: OffsetAndMetadata(7, "text")}
        assert asking.group_offsets("g", [T0, T1], 5.0) == {T0: OffsetAndMetadata(7, "text")}
        asking.close()
        assert not any(asked.require_stable for asked in broker.asked(OFFSET_FETCH))
        assert len(broker.asked(FIND_COORDINATOR)) == 1, "the coordinator is looked up for each request"


def test_stable_offsets_leave_out_those_that_a_transaction_may_change() -> None:
    """One partition in the middle of a commit is no reason to know nothing of the others."""
    fetched = (FetchedOffset(0, 7, -1, "text\0", 0), FetchedOffset(1, -1, -1, None, UNSTABLE_OFFSET_COMMIT))
    answer = OffsetFetchResponse(0, (OffsetsOfGroup("g", (OffsetsOfTopic("t", fetched),), 0),))
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_FETCH: answer}) as broker:
        asking = queries(broker)
        assert asking.stable_offsets("g", [T0, T1], 5.0) == {T0: OffsetAndMetadata(7, "text")}
        asking.close()
        assert all(asked.require_stable for asked in broker.asked(OFFSET_FETCH))


def batch(first: int, last: int, records: int, *, attributes: int = 0, magic: int = 2) -> bytes:
    """The header of a batch, written by hand from Kafka's definition, and a body of three bytes."""
    front = first.to_bytes(8, "big") + (49 + 3).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(4)
    middle = attributes.to_bytes(2, "big") + (last - first).to_bytes(4, "big") + bytes(8 + 8 + 8 + 2 + 4)
    return front + middle + records.to_bytes(4, "big") + b"abc"


def fetched_batches(records: bytes | None, error: int = 0) -> FetchResponse:
    one = FetchedPartition(0, error, 42, 42, 0, None, -1, records)
    return FetchResponse(0, 0, 0, (FetchedTopic("t", (one,)),))


def test_headers_of_batches_tell_markers_and_what_a_compaction_has_left() -> None:
    """The last batch of an answer may be cut off. A leader that has moved is looked up again."""
    data = batch(5, 9, 2, attributes=0x10) + batch(10, 10, 1, attributes=0x30) + batch(11, 20, 10)[:-2]
    answers = [fetched_batches(None, NOT_LEADER), fetched_batches(data)]
    with FakeBroker({METADATA: topics_at(1), FETCH: answers}) as broker:
        asking = queries(broker)
        expected = [(5, 9, 2, False, True), (10, 10, 1, True, True), (11, 20, 10, False, False)]
        assert asking.batch_headers(T0, 7, 5.0) == expected
        assert broker.asked(FETCH)[0].topics[0].partitions[0].fetch_offset == 7
        asking.close()


def test_batches_of_the_old_formats_are_not_guessed_at() -> None:
    with FakeBroker({METADATA: topics_at(1), FETCH: fetched_batches(batch(5, 9, 2, magic=1))}) as broker:
        asking = queries(broker)
        with pytest.raises(MalformedMessage, match="the batch at offset 5 has format 1"):
            asking.batch_headers(T0, 5, 5.0)
        asking.close()


def test_a_missing_right_to_read_batches_is_named() -> None:
    with FakeBroker({METADATA: topics_at(1), FETCH: fetched_batches(None, 29)}) as broker:
        asking = queries(broker)
        with pytest.raises(AuthorizationError, match=r"the batches of t-0 cannot be read: .*; allow READ on topic 't'"):
            asking.batch_headers(T0, 5, 5.0)
        asking.close()


def test_a_login_that_only_librdkafka_has_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="Kerberos"):
        ClusterQueries({"bootstrap.servers": "h:1", "security.protocol": "sasl_plaintext"})
