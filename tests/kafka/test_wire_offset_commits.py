"""Commits of a member by a request of our own."""

from __future__ import annotations

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import ConfigError, RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata, PartlyCommitted
from streams.kafka.wire.messages import FIND_COORDINATOR
from streams.kafka.wire.offset_commits import (
    OFFSET_COMMIT,
    AnsweredPartition,
    AnsweredTopic,
    CommittedPartition,
    CommittedTopic,
    CommittingMember,
    OffsetCommitResponse,
    OffsetCommits,
)
from wire_support.fake_broker import FakeBroker, here

MEMBER = CommittingMember("m", 5, "i")
OFFSETS = {
    TopicPartition("a", 0): OffsetAndMetadata(7, ""),
    TopicPartition("b", 1): OffsetAndMetadata(8, "text"),
    TopicPartition("a", 2): OffsetAndMetadata(9, "more"),
}


def answer(*codes: int) -> OffsetCommitResponse:
    """Each partition has one of the codes."""
    partitions = tuple(AnsweredPartition(number, code) for number, code in enumerate(codes))
    return OffsetCommitResponse(0, (AnsweredTopic("a", partitions),))


def commit(broker: FakeBroker, timeout_s: float = 5.0) -> int:
    commits = OffsetCommits({"bootstrap.servers": broker.bootstrap}, "g", ManualClock())
    try:
        return commits.commit(MEMBER, OFFSETS, timeout_s)
    finally:
        commits.close()


def test_a_commit_has_the_member_and_each_offset_with_its_text() -> None:
    """Behind a text is the byte that librdkafka sends too: its Python client reads on to the next one."""
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_COMMIT: answer(0, 0)}) as broker:
        assert commit(broker) == 0
        (request,) = broker.asked(OFFSET_COMMIT)
    assert (request.group_id, request.generation_id, request.member_id, request.group_instance_id) == ("g", 5, "m", "i")
    assert request.topics == (
        CommittedTopic("a", (CommittedPartition(0, 7, -1, "\0"), CommittedPartition(2, 9, -1, "more\0"))),
        CommittedTopic("b", (CommittedPartition(1, 8, -1, "text\0"),)),
    )


def test_partitions_that_do_not_exist_are_named_unless_more_is_wrong() -> None:
    """The others are committed; another error is that of all."""
    for codes in ((0, 3, 3), (3, 0, 0)):
        answers = {FIND_COORDINATOR: here, OFFSET_COMMIT: answer(*codes)}
        with FakeBroker(answers) as broker, pytest.raises(PartlyCommitted, match="do not exist: a-") as caught:
            commit(broker)
        assert caught.value.partitions == {TopicPartition("a", number) for number, code in enumerate(codes) if code}
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_COMMIT: answer(0, 12, 3)}) as broker:
        assert commit(broker) == 12


def test_the_connection_is_kept_for_the_next_commit() -> None:
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_COMMIT: answer(0)}) as broker:
        commits = OffsetCommits({"bootstrap.servers": broker.bootstrap}, "g", ManualClock())
        for _ in range(5):
            assert commits.commit(MEMBER, OFFSETS, 5.0) == 0
        commits.close()
        assert len(broker.asked(FIND_COORDINATOR)) == 1
        assert len(broker.asked(OFFSET_COMMIT)) == 5


@pytest.mark.parametrize("code", [22, 25, 27, 82, 12, 30])
def test_what_the_coordinator_refuses_is_told(code: int) -> None:
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_COMMIT: answer(0, code, code)}) as broker:
        assert commit(broker) == code
        assert len(broker.asked(OFFSET_COMMIT)) == 1


def test_a_coordinator_that_moves_is_looked_for_again() -> None:
    answers = [answer(16, 16), answer(14, 14), answer(0, 0)]
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_COMMIT: answers}) as broker:
        assert commit(broker) == 0
        assert len(broker.asked(FIND_COORDINATOR)) == 3


def test_one_that_stays_away_is_an_error_that_may_pass() -> None:
    told = pytest.raises(RetryableError, match=r"NOT_COORDINATOR \(16\)")
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_COMMIT: answer(16)}) as broker, told:
        commit(broker, 1.0)


def test_a_login_that_only_librdkafka_has_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="Kerberos"):
        OffsetCommits({"bootstrap.servers": "h:1", "security.protocol": "sasl_plaintext"}, "g")
