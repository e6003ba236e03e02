"""A member of a group removes partitions from its client only as the answer to a revocation."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.assigned import AssignedPartitions, client_partitions

ONE, TWO = TopicPartition("lines", 1), TopicPartition("lines", 2)


class Client:
    """What a client has, and which of it is paused."""

    def __init__(self) -> None:
        self.has: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.answers = 0
        """How often a rebalance was taken for answered."""
        self.seek_error: int | None = None

    def incremental_assign(self, partitions: list[Any]) -> None:
        self.has.update({TopicPartition(one.topic, one.partition): one.offset for one in partitions})

    def incremental_unassign(self, partitions: list[Any]) -> None:
        names = _names(partitions)
        if not names <= self.has.keys():
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
        self.answers += 1
        for name in names:
            del self.has[name]

    def pause(self, partitions: list[Any]) -> None:
        self.paused |= _names(partitions)

    def resume(self, partitions: list[Any]) -> None:
        self.paused -= _names(partitions)

    def seek(self, partition: Any) -> None:
        if self.seek_error is not None:
            raise KafkaException(KafkaError(self.seek_error))
        self.has[TopicPartition(partition.topic, partition.partition)] = partition.offset

    def position(self, partitions: list[Any]) -> list[Any]:
        (found,) = client_partitions([TopicPartition(one.topic, one.partition) for one in partitions])
        found.offset = self.has[TopicPartition(found.topic, found.partition)]
        return [found]


class Event:
    """What a client reports of a partition, or a record of it."""

    def __init__(self, name: TopicPartition, error: KafkaError | None = None) -> None:
        self.name, self.found = name, error

    def error(self) -> KafkaError | None:
        return self.found

    def topic(self) -> str:
        return self.name.topic

    def partition(self) -> int:
        return self.name.partition


def _names(partitions: list[Any]) -> set[TopicPartition]:
    return {TopicPartition(one.topic, one.partition) for one in partitions}


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def member(client: Client) -> AssignedPartitions:
    """A member that reads two partitions."""
    made = AssignedPartitions()
    made.is_member = True
    made.add(client, {ONE: 10, TWO: 20})
    return made


def test_a_consumer_without_a_group_removes_at_once(client: Client) -> None:
    alone = AssignedPartitions()
    alone.add(client, {ONE: 10, TWO: 20})
    alone.remove(client, [ONE])
    assert (client.has, client.paused, alone.names) == ({TWO: 20}, set(), {TWO})


def test_a_member_pauses_until_it_answers_a_revocation(client: Client, member: AssignedPartitions) -> None:
    member.remove(client, [ONE])
    assert (client.has, client.paused, client.answers, member.names) == ({ONE: 10, TWO: 20}, {ONE}, 0, {TWO})
    member.answer_revocation(client)
    assert (client.has, client.paused, client.answers) == ({TWO: 20}, set(), 1)
    member.answer_revocation(client)
    assert (client.has, client.answers) == ({TWO: 20}, 2)


def test_a_partition_that_is_read_again_stays_in_the_client(client: Client, member: AssignedPartitions) -> None:
    member.remove(client, [ONE])
    member.add(client, {ONE: 7})
    assert (client.has, client.paused, member.names) == ({ONE: 7, TWO: 20}, set(), {ONE, TWO})
    member.answer_revocation(client)
    assert client.has == {ONE: 7, TWO: 20}


def test_a_partition_waits_that_the_client_has_not_started(client: Client, member: AssignedPartitions) -> None:
    """It stays paused, so that no record before the wanted place comes; the last place that was asked for counts."""
    member.remove(client, [ONE])
    client.seek_error = KafkaError._STATE
    member.add(client, {ONE: 7})
    assert (member.is_waiting, client.paused, client.has[ONE]) == (True, {ONE}, 10)
    member.seek(client, ONE, 8)
    assert member.position(client, ONE) == 8
    client.seek_error = None
    member.go_on(client)
    assert (member.is_waiting, client.paused, client.has[ONE]) == (False, set(), 8)
    assert member.position(client, ONE) == 8


def test_a_waiting_partition_that_is_left_again_is_not_sought(client: Client, member: AssignedPartitions) -> None:
    member.remove(client, [ONE])
    client.seek_error = KafkaError._STATE
    member.add(client, {ONE: 7})
    member.remove(client, [ONE])
    client.seek_error = None
    member.go_on(client)
    assert (member.is_waiting, client.paused, client.has[ONE]) == (False, {ONE}, 10)


def test_another_error_of_a_seek_is_raised(client: Client, member: AssignedPartitions) -> None:
    member.remove(client, [ONE])
    client.seek_error = KafkaError._UNKNOWN_PARTITION
    with pytest.raises(KafkaException):
        member.add(client, {ONE: 7})


def test_a_revocation_is_answered_where_the_client_has_dropped_all(client: Client, member: AssignedPartitions) -> None:
    member.remove(client, [ONE])
    client.has.clear()
    member.answer_revocation(client)
    assert client.answers == 1


def test_what_happens_to_partitions_that_are_left_is_not_reported(client: Client, member: AssignedPartitions) -> None:
    record, own = Event(TWO), Event(TWO, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))
    of_left = Event(ONE, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))
    of_client = Event(TopicPartition("", 0), KafkaError(KafkaError._ALL_BROKERS_DOWN))
    messages = [record, own, of_left, of_client]
    assert member.without_events_of_left(messages) == messages
    member.remove(client, [ONE])
    assert member.without_events_of_left(messages) == [record, own, of_client]
