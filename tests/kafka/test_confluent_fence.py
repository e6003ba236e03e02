"""A consumer that lost its place in the group: to another process, or to a late request of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import KafkaError

from processor_api.clock import ManualClock
from processor_api.errors import AuthorizationError, RetryableError, TaskMigratedError
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.confluent.outage import ClusterOutage
from streams.kafka.ports import ClientUnusable, InstanceFenced

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.instance.id": "one"}
NO_MEMBER = b""
"""The member of a client that has not joined, which stands for one that has kept its member."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def outage(clock: ManualClock) -> ClusterOutage:
    return ClusterOutage("127.0.0.1:1", clock)


@pytest.fixture
def consumer(outage: ClusterOutage) -> Iterator[ConfluentConsumer]:
    with closing(ConfluentConsumer(SETTINGS, outage)) as consumer:
        yield consumer


def fatal(name: str) -> KafkaError:
    return KafkaError(getattr(KafkaError, name), "the reason", fatal=True)


def reason(consumer: ConfluentConsumer, member: bytes | None) -> type[Exception]:
    return type(consumer._place.reason_of_fence(consumer._client, member)())


def test_a_member_that_had_its_place_all_the_time_is_fenced_by_another_process(consumer: ConfluentConsumer) -> None:
    assert reason(consumer, NO_MEMBER) is InstanceFenced


@pytest.mark.parametrize("member", [b"one-1234", None])
def test_a_member_that_lost_its_place_before_is_fenced_by_itself(
    consumer: ConfluentConsumer, member: bytes | None
) -> None:
    """After a stall of the broker a request to join that the client had given up was read after the one that it made
    next: all workers of an application ended, with the advice to give each a directory of its own."""
    assert reason(consumer, member) is TaskMigratedError


def test_a_broken_connection_is_reason_for_doubt_for_a_time(
    consumer: ConfluentConsumer, outage: ClusterOutage, clock: ManualClock
) -> None:
    """Two processes with one instance id fence each other until it is over, and then one of them ends."""
    outage.report(KafkaError(KafkaError._TRANSPORT, "gone"))
    assert reason(consumer, NO_MEMBER) is TaskMigratedError
    outage.answered()
    assert reason(consumer, NO_MEMBER) is TaskMigratedError
    clock.advance(61_000)
    assert reason(consumer, NO_MEMBER) is InstanceFenced


def test_a_fence_before_the_first_assignment_is_no_end(consumer: ConfluentConsumer) -> None:
    consumer._on_error(fatal("FENCED_INSTANCE_ID"))
    for _ in range(2):
        with pytest.raises(TaskMigratedError, match="one of its late requests has replaced it") as caught:
            consumer.consume(1, 0.0)
        assert not isinstance(caught.value, InstanceFenced)
    with pytest.raises(TaskMigratedError):
        consumer.poll(0.0)


def test_a_fatal_error_that_is_not_known_is_for_a_new_client(consumer: ConfluentConsumer) -> None:
    consumer._on_error(fatal("UNKNOWN"))
    with pytest.raises(ClientUnusable, match="a new one replaces it") as caught:
        consumer.consume(1, 0.0)
    assert isinstance(caught.value, RetryableError)


class Report:
    """The last message of a client that ended: it has the text of the broker's error, and no name."""

    def __init__(self, name: str) -> None:
        text = KafkaError(getattr(KafkaError, name)).str()
        self._text = f"Fatal error: {text}: JoinGroup fatal error: {text}"

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._FATAL, self._text)


def test_a_missing_right_that_ends_a_member_is_named(consumer: ConfluentConsumer) -> None:
    for message in (Report("GROUP_AUTHORIZATION_FAILED"), None):
        with pytest.raises(AuthorizationError, match="allow READ on the group"):
            consumer._place.check(consumer._client, message)


def test_a_member_has_no_id_before_it_joins(consumer: ConfluentConsumer) -> None:
    assert consumer.member_id() is None
