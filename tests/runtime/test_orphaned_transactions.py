"""The transactions of threads that are not in the group any more are ended at once, and no other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from runtime_support.failing_clients import RefusingAdmin
from streams.kafka.ports import GroupMember
from streams.runtime.start.orphaned_transactions import OrphanedTransactions, orphans
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

ONE, TWO = "00000000-0000-4000-8000-000000000001-0", "00000000-0000-4000-8000-000000000002-0"
GONE, LIVES = f"app-{ONE}-1", f"app-{TWO}-1"


def member(instance: str | None) -> GroupMember:
    return GroupMember("client", "member", instance, frozenset())


def test_a_transaction_of_no_member_is_an_orphan() -> None:
    assert orphans("app", [GONE, LIVES], [member(LIVES)], LIVES) == [GONE]


@pytest.mark.parametrize("members", [[], [GONE]])
def test_nothing_is_ended_where_the_member_that_asks_is_not_described(members: list[str]) -> None:
    """Such as by a request for groups of another protocol, which finds no members at all."""
    assert orphans("app", [LIVES, GONE], [member(name) for name in members], LIVES) == []


@pytest.mark.parametrize(
    "name", [f"app-2-{ONE}-1", f"other-{ONE}-1", "app", "app-1", f"app-{ONE}", f"app-{ONE}-x", f"app-{ONE}-1-1-1", ""]
)
def test_those_of_others_are_left_alone(name: str) -> None:
    """Such as of an application whose id begins alike, or of a producer of the user."""
    assert orphans("app", [name], [member(LIVES)], LIVES) == []


@pytest.mark.parametrize("instance", [None, "", "mine-1", f"mine-{ONE}-1"])
def test_nothing_is_ended_beside_members_with_names_of_their_own(instance: str | None) -> None:
    """With a `group.instance.id` of the user, the group does not say whose transactional id it is."""
    assert orphans("app", [GONE], [member(LIVES), member(instance)], LIVES) == []


class Listener:
    def on_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_lost(self, partitions: Collection[TopicPartition]) -> None: ...


class Opened:
    """A broker with an open transaction of a thread that is gone."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        broker = EmbeddedBroker()
        broker.create_topic("out", 1)
        self.clients = EmbeddedClients(broker)
        self.asking = self.clients.consumer({"group.id": "app", "group.instance.id": LIVES})
        self.asking.subscribe(["out"], Listener())
        self.asking.poll(0)
        self.admin = self.clients.admin({})
        self.write()

    def write(self) -> None:
        self.producer = self.clients.producer({"transactional.id": GONE})
        self.producer.init_transactions()
        self.producer.begin_transaction()
        self.producer.produce("out", b"v", b"k", 0, None, None, 5, None)
        self.producer.flush()


def test_an_orphan_is_ended_and_its_producer_fenced() -> None:
    opened = Opened()
    assert opened.admin.open_transactions() == [GONE]
    OrphanedTransactions("app", LIVES, opened.admin, opened.clock).end()
    assert opened.admin.open_transactions() == []
    with pytest.raises(StreamsError):
        opened.producer.commit_transaction()


def test_the_group_is_asked_once_a_second() -> None:
    opened = Opened()
    orphaned = OrphanedTransactions("app", LIVES, opened.admin, opened.clock)
    orphaned.end()
    opened.write()
    opened.clock.advance(900)
    orphaned.end()
    assert opened.admin.open_transactions() == [GONE]
    opened.clock.advance(100)
    orphaned.end()
    assert opened.admin.open_transactions() == []


def test_what_cannot_be_asked_is_left_to_the_time_out() -> None:
    refusing: Any = RefusingAdmin()
    OrphanedTransactions("app", LIVES, refusing, ManualClock()).end()
