"""Members of a streams group on the embedded broker: what the group refuses, and workers that do not poll."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from processor_api.clock import ManualClock, SystemClock
from processor_api.errors import ConfigError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.group_heartbeats import StreamsGroupMember
from streams.kafka.membership.group_picture import thread_name_at
from streams.kafka.membership.port import GroupTopology, Tasks
from streams.kafka.membership.streams_group_membership import LATE_S, OwnedTasks, StreamsGroupMembership
from streams.kafka.membership.topology_gate import client_id_with_hash
from streams.kafka.ports import InstanceFenced, OffsetAndMetadata
from streams.kafka.streams_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    GroupSubtopology,
    GroupTopic,
    Heartbeat,
    HeartbeatAnswer,
    InstanceHeld,
    TaskLists,
    TopologyRefused,
)
from streams.queries.owners import read_owners
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.testing.broker.clients import EmbeddedStreamsGroup
from waiting import wait_until

CLOCK = SystemClock()
MEMBER = StreamsGroupMember(name="one", process_id="one", max_poll_s=30.0, pace_s=0.01)


def topology(*parts: GroupSubtopology) -> GroupTopology:
    parts = parts or (GroupSubtopology(0, ("in",)),)
    return GroupTopology("app", "app", {0: 2}, "0" * 8, subtopologies=parts)


class Owner:
    """A worker that notes what it owns."""

    def __init__(self) -> None:
        self.history: list[tuple[frozenset[TaskId], bool]] = []

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        self.history.append((tasks.active, lost))

    @property
    def owned(self) -> frozenset[TaskId]:
        return self.history[-1][0] if self.history else frozenset()


class Group:
    """The members of one group."""

    def __init__(self) -> None:
        self.broker = EmbeddedBroker()
        self.broker.create_topic("in", 2)
        self.clients = EmbeddedClients(self.broker)
        self.members: list[StreamsGroupMembership] = []

    def join(
        self, member: StreamsGroupMember = MEMBER, what: GroupTopology | None = None, requests: Any = None
    ) -> tuple[StreamsGroupMembership, Owner]:
        config = {"group.id": "app", "client.id": member.name}
        requests = requests or self.clients.streams_group(config)
        consumer, admin = self.clients.consumer(config), self.clients.admin({})
        found, owner = StreamsGroupMembership(requests, member, consumer, admin, CLOCK), Owner()
        self.members.append(found)
        found.join(what or topology(), owner)
        return found, owner

    def owns(self, member: StreamsGroupMembership, owner: Owner, count: int = 2) -> None:
        def come() -> bool:
            member.poll()
            return len(owner.owned) == count

        wait_until(f"it owns {count} tasks", come)

    def fails(self, member: StreamsGroupMembership) -> StreamsError:
        found: list[StreamsError] = []

        def come() -> bool:
            try:
                member.poll()
            except StreamsError as error:
                found.append(error)
            return bool(found)

        wait_until("the group refuses it", come)
        return found[0]


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group()
    yield made
    for member in made.members:
        member.leave()


def test_another_topology_is_refused_even_when_the_group_is_empty(group: Group) -> None:
    first, owner = group.join()
    group.owns(first, owner)
    first.leave()
    group.broker.create_topic("other", 2)
    second, _ = group.join(what=topology(GroupSubtopology(0, ("other",))))
    error = group.fails(second)
    assert isinstance(error, TopologyRefused)
    assert "streams groups upgrade-topology" in str(error)


def test_another_topology_is_found_before_its_members_are_waited_for(group: Group) -> None:
    """New workers waited, were ready, and so had all former ones replaced; then the group refused them."""
    first, owner = group.join()
    group.owns(first, owner)
    first.check(topology(GroupSubtopology(0, ("in",), copartitions=(("in", "out"),))))
    with pytest.raises(TopologyRefused, match="group 'app' has another topology, which the brokers do not replace"):
        first.check(topology(GroupSubtopology(0, ("other",))))


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ((GroupSubtopology(0, ("late",)),), "MISSING_SOURCE_TOPICS: Source topics late are missing."),
        (
            (GroupSubtopology(0, ("in", "wide"), copartitions=(("in", "wide"),)),),
            "INCORRECTLY_PARTITIONED_TOPICS: Following topics do not have the same number",
        ),
        (
            (GroupSubtopology(0, ("in",), changelogs=(GroupTopic("wide"),)),),
            "INCORRECTLY_PARTITIONED_TOPICS: Existing topic wide has different number of partitions",
        ),
    ],
)
def test_a_status_says_why_there_are_no_tasks_and_what_to_do(
    group: Group, parts: tuple[GroupSubtopology, ...], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    group.broker.create_topic("wide", 3)
    with caplog.at_level(logging.WARNING, "streams.membership"):
        member, owner = group.join(what=topology(*parts))
        wait_until("the log says why", lambda: (member.poll(), caplog.records)[1])
    status = member.group_status()
    assert status is not None
    assert status.startswith(says)
    assert " To do: " in status
    assert not owner.history
    assert caplog.records[0].status == status  # type: ignore[attr-defined]


def test_a_status_heals_by_itself(group: Group) -> None:
    member, owner = group.join(what=topology(GroupSubtopology(0, ("late",))))
    wait_until("the group says why", lambda: member.group_status() is not None)
    group.broker.create_topic("late", 2)
    group.owns(member, owner)
    assert member.group_status() is None


def test_internal_topics_are_made_by_the_group(group: Group) -> None:
    """Their counts follow from the topics read, where the topology leaves them open."""
    parts = (
        GroupSubtopology(0, ("in",), repartition_sinks=("app-r-repartition",)),
        GroupSubtopology(
            1,
            (),
            changelogs=(GroupTopic("app-s-changelog", configs=(("cleanup.policy", "compact"),)),),
            repartition_sources=(GroupTopic("app-r-repartition"),),
        ),
    )
    member, owner = group.join(what=topology(*parts))
    group.owns(member, owner, 4)
    assert {name: len(one.partitions) for name, one in group.broker.topics.items() if name != "in"} == {
        "app-r-repartition": 2,
        "app-s-changelog": 2,
    }


def test_a_worker_that_does_not_poll_loses_its_tasks(group: Group) -> None:
    """Its heartbeats kept them for ever."""
    stuck, owner = group.join(replace(MEMBER, max_poll_s=0.3))
    group.owns(stuck, owner)
    other, takes_over = group.join(replace(MEMBER, name="two", process_id="two"))
    group.owns(other, takes_over)
    with pytest.raises(TaskMigratedError):
        stuck.commit({TopicPartition("in", 0): OffsetAndMetadata(1)})
    stuck.poll()
    assert owner.history[-1] == (frozenset(), True)


def test_a_member_that_the_group_has_forgotten_loses_its_tasks_and_joins_again(group: Group) -> None:
    member, owner = group.join()
    group.owns(member, owner)
    streams = group.broker.groups.group("app").streams
    assert streams is not None
    (before,) = streams.members
    with group.broker.lock:
        streams.remove(before)
    wait_until("it is told", lambda: (member.poll(), (frozenset(), True) in owner.history)[1])
    group.owns(member, owner)
    assert list(streams.members) != [before]


def test_the_group_says_which_process_answers_for_a_task(group: Group) -> None:
    """Queries and the HTTP port ask it, as they ask a classic group."""
    name = client_id_with_hash(f"{thread_name_at('app-1-StreamThread-1', 'host:8080')}-consumer", "0" * 8)
    member, owner = group.join(replace(MEMBER, name=name))
    group.owns(member, owner)
    found = read_owners(group.clients.admin({}), topology())
    assert found.endpoints == {TaskId(0, 0): "host:8080", TaskId(0, 1): "host:8080"}
    assert found.members == {"host:8080"}


def test_members_that_are_removed_by_an_administrator_join_again(group: Group) -> None:
    member, owner = group.join()
    group.owns(member, owner)
    admin = group.clients.admin({})
    admin.remove_members("app", admin.group_members("app"))
    wait_until("it has lost its tasks", lambda: (member.poll(), (frozenset(), True) in owner.history)[1])
    group.owns(member, owner)


def test_an_instance_id_of_the_user_needs_brokers_that_take_static_members(group: Group) -> None:
    member, _ = group.join(replace(MEMBER, instance_id="mine", must_be_static=True))
    error = group.fails(member)
    assert isinstance(error, ConfigError)
    assert "need Kafka 4.4 or later" in str(error)


def test_an_instance_id_of_the_library_is_left_out_where_it_is_refused(group: Group) -> None:
    member, owner = group.join(replace(MEMBER, instance_id="ours"))
    group.owns(member, owner)


def test_members_of_another_protocol_are_waited_for(group: Group) -> None:
    """The next deployment of an application may change its protocol, and its former workers leave later."""
    classic = group.clients.consumer({"group.id": "app", "client.id": "former"})
    classic.subscribe(["in"], _Nothing())
    classic.consume(1, 0.0)
    member, owner = group.join()
    wait_until("it waits", lambda: (member.poll(), member.is_blocked())[1])
    classic.close()
    group.owns(member, owner)
    assert not member.is_blocked()


def test_an_empty_group_takes_the_protocol_of_the_next_member(group: Group) -> None:
    member, owner = group.join()
    group.owns(member, owner)
    classic = group.clients.consumer({"group.id": "app", "client.id": "next"})
    classic.subscribe(["in"], _Nothing())
    with pytest.raises(StreamsError, match="INCONSISTENT_GROUP_PROTOCOL"):
        classic.consume(1, 0.0)
    member.commit({TopicPartition("in", 0): OffsetAndMetadata(1)})
    member.leave()
    classic.consume(1, 0.0)
    admin = group.clients.admin({})
    assert (admin.describe_group("app").protocol, len(admin.group_members("app"))) == ("classic", 1)
    assert admin.group_offsets("app", [TopicPartition("in", 0)])[TopicPartition("in", 0)].offset == 1
    classic.close()


class _Nothing:
    def on_assigned(self, partitions: Any) -> None: ...

    def on_revoked(self, partitions: Any) -> None: ...

    def on_lost(self, partitions: Any) -> None: ...


class LossyRequests(EmbeddedStreamsGroup):
    """Loses the answer to the heartbeat that gives other tasks."""

    loses = False

    def heartbeat(self, beat: Heartbeat, timeout_s: float) -> HeartbeatAnswer:
        answer = super().heartbeat(beat, timeout_s)
        if self.loses and answer.tasks is not None:
            self.loses = False
            raise RetryableError("the answer is lost")
        return answer


def test_tasks_of_a_lost_answer_are_asked_for(group: Group) -> None:
    """The group gives them once, so that they stayed without an owner until it gave others."""
    config = {"group.id": "app", "client.id": "one"}
    requests = LossyRequests(group.broker, config)
    member, owner = group.join(requests=requests)
    other, others = group.join(replace(MEMBER, name="two", process_id="two"))
    wait_until(
        "both own one",
        lambda: (member.poll(), other.poll(), len(owner.owned) == len(others.owned) == 1)[2],
    )
    requests.loses = True
    other.leave()
    group.owns(member, owner)
    assert not requests.loses


class StaticRequests(EmbeddedStreamsGroup):
    """Keeps an instance id for its member, as Kafka 4.4 does, and loses the answer to the first join."""

    holder: str | None = None
    loses = True

    def heartbeat(self, beat: Heartbeat, timeout_s: float) -> HeartbeatAnswer:
        member_id, epoch, _ = beat.member
        if epoch == JOIN_EPOCH and self.holder is not None:
            raise InstanceHeld("UNRELEASED_INSTANCE_ID")
        if epoch == LEAVE_EPOCH and self.holder != member_id:
            raise InstanceFenced("FENCED_INSTANCE_ID")
        answer = super().heartbeat(replace(beat, member=beat.member._replace(instance_id=None)), timeout_s)
        self.holder = None if epoch == LEAVE_EPOCH else member_id
        if self.loses:
            self.loses = False
            raise RetryableError("the answer is lost")
        return answer


def test_a_static_member_whose_join_was_taken_unheard_joins_again(group: Group) -> None:
    """At once; it waited until its own session was over."""
    requests = StaticRequests(group.broker, {"group.id": "app", "client.id": "one"})
    member, owner = group.join(replace(MEMBER, instance_id="i"), requests=requests)
    group.owns(member, owner)
    assert not requests.loses


def test_an_instance_id_that_another_member_has_is_for_the_next_join(group: Group) -> None:
    """Before which the thread looks whose it is, and takes the place over if that is right."""
    requests = StaticRequests(group.broker, {"group.id": "app", "client.id": "one"})
    requests.holder = "another"
    member, _ = group.join(replace(MEMBER, instance_id="i"), requests=requests)
    error = group.fails(member)
    assert type(error) is TaskMigratedError
    assert "UNRELEASED_INSTANCE_ID" in str(error)


def test_a_copy_is_kept_for_some_seconds_after_the_group_took_it_away() -> None:
    """A broker takes the copy away a heartbeat before it gives the task itself, which then goes on from it."""
    clock = ManualClock()
    owned = OwnedTasks(clock)
    one, two, other = TaskId(1, 0), TaskId(1, 1), TaskId(0, 0)
    had = TaskLists(frozenset({other}), frozenset({one, two}))
    first, second = TaskLists(frozenset({other})), TaskLists(frozenset({other, one}))
    kept = []
    for target in (had, first, second):
        kept.append(owned.after(target).standby)
        owned.given = target
    assert kept == [{one, two}, {one, two}, {two}]
    assert owned.without_late() is None
    clock.advance(int(LATE_S * 1000))
    assert owned.without_late() == Tasks(frozenset({other, one}))
    assert owned.without_late() is None
