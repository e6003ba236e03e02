"""A consumer that is another member of its group than the one that was given its partitions owns none of them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.errors import TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.assigned import AssignedPartitions
from streams.kafka.confluent.consuming.group_place import GroupPlace, group_metadata
from streams.kafka.confluent.outage import ClientOutage

ONE, TWO = ClientPartition("tasks", 1), ClientPartition("tasks", 2)
OWN_ONE, OWN_TWO = TopicPartition("tasks", 1), TopicPartition("tasks", 2)


class Outage:
    def suspect(self) -> None:
        """Nothing is to be seen here."""


class Client:
    """What a place asks a client for."""

    member = "first"

    def consumer_group_metadata(self) -> bytes:
        return group_metadata("app", 7, self.member, "instance")

    def incremental_assign(self, partitions: list[Any]) -> None:
        """Nothing is fetched."""

    incremental_unassign = resume = incremental_assign

    def __init__(self) -> None:
        self.subscribed: list[list[str]] = []

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.subscribed.append(topics)


class Calls:
    """A listener that notes its calls."""

    def __init__(self) -> None:
        self.made: list[tuple[str, list[TopicPartition]]] = []

    def on_assigned(self, partitions: Any) -> None:
        self.made.append(("assigned", sorted(partitions)))

    def on_revoked(self, partitions: Any) -> None:
        self.made.append(("revoked", sorted(partitions)))

    def on_lost(self, partitions: Any) -> None:
        self.made.append(("lost", sorted(partitions)))


class Member:
    """A place with two partitions, under the id that the client had then."""

    def __init__(self) -> None:
        self.client, self.calls = Client(), Calls()
        self.place = GroupPlace(cast(ClientOutage, Outage()), AssignedPartitions())
        self.callbacks = self.place.callbacks(self.calls)
        self.call("on_assign", ONE, TWO)
        self.calls.made.clear()

    def call(self, name: str, *partitions: ClientPartition) -> None:
        self.callbacks[name](cast(Any, self.client), list(partitions))


def test_a_member_that_stays_gives_back_what_is_revoked_and_keeps_the_rest() -> None:
    member = Member()
    member.call("on_revoke", ONE)
    assert member.calls.made == [("revoked", [OWN_ONE])]
    assert member.place.owned == {OWN_TWO}
    assert member.place.metadata(member.client) == member.client.consumer_group_metadata()
    assert not member.place.has_ended


@pytest.mark.parametrize("call", ["on_revoke", "on_assign"])
def test_all_is_lost_when_the_client_has_joined_again_as_another_member(call: str) -> None:
    """It stood still past its session in the middle of a rebalance, joined again with what it owned, and reports a part
    of that as revoked or nothing: the rest had another owner meanwhile, whose work it must not commit over."""
    member = Member()
    member.client.member = "second"
    member.call(call, ONE)
    assert member.calls.made == [("lost", [OWN_ONE, OWN_TWO])]
    assert member.place.owned == set()
    assert member.place.has_ended
    with pytest.raises(TaskMigratedError):
        member.place.check(member.client, None)
    with pytest.raises(TaskMigratedError):
        member.place.metadata(member.client)
    member.call("on_assign", TWO)
    assert member.calls.made == [("lost", [OWN_ONE, OWN_TWO])]


def test_nothing_is_committed_by_another_member_before_the_client_calls_back() -> None:
    member = Member()
    member.client.member = "second"
    with pytest.raises(TaskMigratedError):
        member.place.metadata(member.client)


def test_a_member_whose_loss_was_reported_gets_partitions_as_another_one() -> None:
    member = Member()
    member.call("on_lost", ONE, TWO)
    member.client.member = "second"
    member.call("on_assign", TWO)
    assert member.calls.made == [("lost", [OWN_ONE, OWN_TWO]), ("assigned", [OWN_TWO])]
    assert member.place.metadata(member.client) == member.client.consumer_group_metadata()


def test_topics_that_change_wait_for_a_client_that_has_lost_its_place() -> None:
    """librdkafka ends the process where a client that was a member, and is none, gets other topics."""
    client, place, calls = Client(), GroupPlace(cast(ClientOutage, Outage()), AssignedPartitions()), Calls()
    client.member = ""
    place.wanted = ["a"], calls
    place.subscribe(client)
    assert client.subscribed == [["a"]]  # the first ones begin the membership
    place.wanted = ["a", "b"], calls
    place.subscribe(client)
    assert client.subscribed == [["a"]]
    client.member = "second"
    place.subscribe(client)
    place.subscribe(client)
    assert client.subscribed == [["a"], ["a", "b"]]
    assert place.wanted is None
