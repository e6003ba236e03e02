"""A process that has died, or seems to, is taken over: its transaction ends and its members leave, and no other's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import TaskMigratedError
from processor_api.task_id import TopicPartition
from runtime_support.failing_clients import RefusingAdmin
from streams.kafka.own_names import thread_id
from streams.kafka.streams_group import (
    JOIN_EPOCH,
    GroupMemberIdentity,
    GroupSubtopology,
    Heartbeat,
    JoiningMember,
    TaskLists,
)
from streams.kafka.suspects import ProcessMembers, take_over
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

DEAD, OTHER = "00000000-0000-4000-8000-000000000001-0", "00000000-0000-4000-8000-000000000001-1"
SUSPECT = ProcessMembers(application="app", process=DEAD, threads=2, exactly_once=True, stays=False)


class Listener:
    def on_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_lost(self, partitions: Collection[TopicPartition]) -> None: ...


class Opened:
    """A broker with two processes of two threads, all members, each with an open transaction."""

    def __init__(self, **settings: str) -> None:
        self.broker = EmbeddedBroker()
        self.broker.create_topic("out", 4)
        self.clients = EmbeddedClients(self.broker)
        self.admin = self.clients.admin({})
        self.names = [thread_id("app", process, number) for process in (DEAD, OTHER) for number in (1, 2)]
        self.consumers = [self.member(name, **settings) for name in self.names]
        self.producers = [self.writing(name) for name in self.names]

    def member(self, name: str, **settings: str) -> Any:
        found = self.clients.consumer({"group.id": "app", "group.instance.id": name, **settings})
        found.subscribe(["out"], Listener())
        found.poll(0)
        return found

    def writing(self, name: str) -> Any:
        found = self.clients.producer({"transactional.id": name})
        found.init_transactions()
        found.begin_transaction()
        found.produce("out", b"v", b"k", 0, None, None, 5, None)
        found.flush()
        return found

    @property
    def members(self) -> list[str]:
        return sorted(one.instance_id or "" for one in self.admin.group_members("app"))


def test_its_transactions_end_and_its_members_leave(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "streams.membership")
    opened = Opened()
    take_over(opened.admin, SUSPECT, "worker 0 died: SIGKILL", ManualClock())
    assert opened.admin.open_transactions() == opened.names[2:]
    assert opened.members == opened.names[2:]
    (line,) = caplog.records
    assert line.message.startswith("a process is taken over")
    assert [line.reason, line.process_id] == ["worker 0 died: SIGKILL", DEAD]  # type: ignore[attr-defined]
    assert line.transactional_ids == ", ".join(opened.names[:2])  # type: ignore[attr-defined]
    for producer in opened.producers[2:]:
        producer.commit_transaction()


def test_a_process_that_lives_after_all_loses_one_transaction() -> None:
    opened = Opened()
    take_over(opened.admin, SUSPECT, "it was silent", ManualClock())
    with pytest.raises(TaskMigratedError):
        opened.producers[0].commit_transaction()
    again = opened.writing(opened.names[0])
    again.commit_transaction()


def test_a_second_time_does_nothing_more() -> None:
    """Two that watch it may do so at the same time."""
    opened = Opened()
    for _ in range(2):
        take_over(opened.admin, SUSPECT, "it was silent", ManualClock())
    assert opened.members == opened.names[2:]


def test_at_least_once_it_only_leaves() -> None:
    opened = Opened()
    take_over(opened.admin, replace(SUSPECT, exactly_once=False), "it died", ManualClock())
    assert opened.admin.open_transactions() == opened.names
    assert opened.members == opened.names[2:]


def test_members_with_an_id_of_the_user_stay_for_their_return() -> None:
    opened = Opened()
    take_over(opened.admin, replace(SUSPECT, stays=True), "it died", ManualClock())
    assert opened.admin.open_transactions() == opened.names[2:]
    assert opened.members == opened.names


def test_members_of_a_streams_group_are_those_of_the_process() -> None:
    """They have no instance ids there, and a new member id with each join."""
    broker = EmbeddedBroker()
    broker.create_topic("in", 2)
    clients = EmbeddedClients(broker)
    part = GroupSubtopology(id=0, sources=("in",))
    for process in (DEAD, OTHER):
        requests = clients.streams_group({"group.id": "app", "client.id": f"app-{process}"})
        joining = JoiningMember(topology=(part,), rebalance_timeout_ms=1000, process_id=process)
        identity = GroupMemberIdentity(requests.new_member_id(), JOIN_EPOCH)
        requests.heartbeat(Heartbeat(member=identity, joining=joining, owned=TaskLists()), 1.0)
    admin = clients.admin({})
    take_over(admin, replace(SUSPECT, exactly_once=False), "it died", ManualClock())
    assert [one.process_id for one in admin.group_members("app")] == [OTHER]


def test_what_the_brokers_do_not_do_is_said(caplog: pytest.LogCaptureFixture) -> None:
    refusing: Any = RefusingAdmin()
    take_over(refusing, SUSPECT, "it died", ManualClock())
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert "no broker answers" in line.error  # type: ignore[attr-defined]
