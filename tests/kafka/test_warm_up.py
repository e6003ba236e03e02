"""A member that comes to a group: when it fills copies first, and when it takes tasks as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from processor_api.clock import SystemClock
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.group_picture import read_picture
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.slot_reports import Coming
from streams.kafka.membership.task_slots import SlotPlan
from streams.kafka.membership.warm_up import MISSING_S, WarmUp, WarmUpSettings
from streams.kafka.ports import Admin, GroupMember, OffsetAndMetadata, TopicInfo

HASH = "0f3c9a71"
TOPOLOGY = GroupTopology(
    application_id="app",
    prefix="app",
    task_counts={0: 2, 1: 4},
    hash=HASH,
    logged=frozenset({1}),
    changelogs={1: ("app-counts-changelog",)},
)
CONTROL = {0: "app-0-tasks", 1: "app-1-tasks"}
STATEFUL = [TaskId(1, number) for number in range(4)]
PROBING_S = 100.0


class Clock(SystemClock):
    """A clock that a test sets."""

    now = 0.0

    def monotonic(self) -> float:  # type: ignore[override]
        return self.now


class Group:
    """The coordinator's answers, as a test sets them."""

    def __init__(self, **owners: Collection[TaskId]) -> None:
        self.owners: dict[str, Collection[TaskId]] = dict(owners)
        self.ends = dict.fromkeys(range(4), 1000)
        self.hashes: dict[str, str] = {}
        self.at_rest = True
        self.plan = SlotPlan()

    def group_members(self, group: str) -> list[GroupMember]:
        return [
            GroupMember(
                f"{name}-StreamThread-1-consumer-topology-{self.hashes.get(name, HASH)}",
                f"id of {name}",
                name,
                frozenset(TopicPartition(CONTROL[task.subtopology], task.partition) for task in tasks)
                if self.at_rest
                else frozenset(),
            )
            for name, tasks in self.owners.items()
        ]

    def group_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {one: OffsetAndMetadata(0, self.plan.encode()) for one in partitions}

    def topics(self, names: Collection[str]) -> Mapping[str, TopicInfo]:
        return {name: TopicInfo(name, 4) for name in names}

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.ends[one.partition] for one in partitions}


class Member:
    """A member that comes to a group."""

    def __init__(self, group: Group, **settings: Any) -> None:
        self.group, self.clock = group, Clock()
        self.admin = cast(Admin, group)
        self.topics = ControlTopics(self.admin, TOPOLOGY)
        given = WarmUpSettings(
            member="new", client_id="new", acceptable_lag=10, probing_s=PROBING_S, **{"filled_at_once": 2, **settings}
        )
        self.warm_up = WarmUp(self.clock, given)
        self.warm_up.begin(self.admin, self.topics)

    def look(self) -> None:
        """Takes a picture of the group as it is now."""
        self.warm_up.observe(read_picture(self.admin, self.topics, with_ends=True))

    @property
    def subscription(self) -> list[str]:
        return self.warm_up.subscription(self.topics)

    def lacks(self, lag: int) -> None:
        """Has its copies lack so many offsets."""
        self.warm_up.take_lags(dict.fromkeys(self.warm_up.wanted, lag))


def test_the_first_member_takes_tasks_at_once() -> None:
    assert Member(Group()).warm_up.coming is None


def test_a_member_that_is_back_within_its_session_takes_tasks_at_once() -> None:
    assert Member(Group(old=STATEFUL[:3], new=STATEFUL[3:])).warm_up.coming is None


def test_a_member_subscribes_to_tasks_with_state_when_its_copies_are_near() -> None:
    member = Member(Group(old=STATEFUL))
    assert member.subscription == ["app-0-tasks"]
    assert len(member.warm_up.wanted) == 2
    member.lacks(11)
    assert member.warm_up.is_filling
    member.lacks(10)
    assert member.warm_up.coming is Coming.ARRIVING
    assert member.subscription == ["app-0-tasks", "app-1-tasks"]
    brought = sorted(member.warm_up.wanted)
    others = sorted(set(STATEFUL) - set(brought))
    given = [TaskId(0, 0), brought[0], others[0]]
    assert member.warm_up.held_back(given) == {others[0]}, "it will be exchanged for the other one"
    assert not member.warm_up.held_back([*brought, *others]), "there is none to exchange"


def test_so_many_copies_are_filled_at_a_time() -> None:
    member = Member(Group(old=STATEFUL), filled_at_once=1)
    assert len(member.warm_up.wanted) == 1
    member.lacks(0)
    assert member.warm_up.is_filling
    assert len(member.warm_up.wanted) == 2, "the first is kept"
    member.lacks(0)
    assert not member.warm_up.is_filling


def test_short_changelogs_are_near_without_a_copy() -> None:
    group = Group(old=STATEFUL)
    group.ends = dict.fromkeys(range(4), 10)
    member = Member(group)
    assert (member.warm_up.coming, member.warm_up.wanted) == (Coming.SETTLED, frozenset())
    assert member.subscription == ["app-0-tasks", "app-1-tasks"]


def test_a_member_alone_takes_tasks_as_they_are() -> None:
    member = Member(Group(old=STATEFUL))
    member.group.owners = {"new": []}
    member.group.at_rest = False
    member.look()
    assert member.warm_up.is_filling, "a group that is not at rest shows no owners"
    member.group.owners, member.group.at_rest = {"new": [TaskId(0, 0)]}, True
    member.look()
    assert not member.warm_up.is_filling
    assert not member.warm_up.held_back(STATEFUL[:1]), "it opens what it gets"


def test_tasks_that_move_have_no_owner_for_a_moment() -> None:
    member = Member(Group(old=STATEFUL, other=[]))
    member.group.owners["old"] = STATEFUL[1:]
    member.look()
    member.clock.now += MISSING_S / 2
    member.look()
    assert member.warm_up.is_filling
    member.group.owners["other"] = STATEFUL[:1]
    member.look()
    member.group.owners["other"] = []
    member.clock.now += MISSING_S
    member.look()
    assert member.warm_up.is_filling, "they had owners meanwhile"
    member.clock.now += MISSING_S
    member.look()
    assert not member.warm_up.is_filling


def test_a_group_that_is_not_at_rest_was_at_rest_before() -> None:
    """Who made its plan is still there: then its tasks have owners that it does not show now."""
    group = Group(old=STATEFUL)
    group.at_rest = False
    assert Member(group).warm_up.coming is None, "it may be the first time"
    group.plan = SlotPlan(1, HASH, {}, frozenset(), dict.fromkeys(STATEFUL, "old"), "id of old")
    member = Member(group)
    assert member.warm_up.is_filling
    assert not member.warm_up.wanted
    group.at_rest = True
    member.look()
    assert len(member.warm_up.wanted) == 2
    group.plan = SlotPlan(1, HASH, {}, frozenset(), dict.fromkeys(STATEFUL, "old"), "id of another life")
    group.at_rest = False
    assert Member(group).warm_up.coming is None


def test_members_of_another_topology_end_it() -> None:
    member = Member(Group(old=STATEFUL))
    member.group.owners["deployed"], member.group.hashes["deployed"] = [], "11111111"
    member.look()
    assert not member.warm_up.is_filling


def test_copies_that_come_nearer_are_waited_for() -> None:
    member = Member(Group(old=STATEFUL))
    for lag in (900, 700, 500, 300):
        member.lacks(lag)
        member.clock.now += PROBING_S
        member.warm_up.poll()
        assert member.warm_up.is_filling
    member.clock.now += PROBING_S
    member.warm_up.poll()
    assert member.warm_up.coming is Coming.ARRIVING
    assert not member.warm_up.held_back(STATEFUL[:1])


def test_a_member_is_as_any_other_some_seconds_after_it_got_tasks() -> None:
    member = Member(Group(old=STATEFUL))
    member.lacks(0)
    member.warm_up.gained()
    member.warm_up.poll()
    assert member.warm_up.wanted
    member.clock.now += 5.0
    member.warm_up.poll()
    assert (member.warm_up.coming, member.warm_up.wanted) == (None, frozenset())
    report = member.warm_up.report()
    assert report is not None
    assert report.coming is Coming.SETTLED
    member.warm_up.take_lags({})
    assert member.warm_up.report() is None


def test_tasks_exchanged_into_slots_of_others_keep_these_out() -> None:
    """A slot without state that stands for a task with state is not taken before the copies are near."""
    group = Group(old=[*STATEFUL, TaskId(0, 0)])
    group.plan = SlotPlan(1, HASH, {TaskId(0, 0): STATEFUL[0], STATEFUL[0]: TaskId(0, 0)})
    assert Member(group).subscription == ["app-counts-changelog"]
