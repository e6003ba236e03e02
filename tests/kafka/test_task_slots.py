"""Members exchange tasks: every subtopology is spread evenly, and no task ever has two owners."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.control_topic_membership import ControlTopicMembership
from streams.kafka.membership.port import GroupTopology, Tasks
from streams.kafka.membership.task_slots import SlotPlan
from streams.kafka.membership.topology_gate import client_id_with_hash
from streams.kafka.ports import CommitAgain
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

SESSION_S = 10
TURN_S = 0.1
TURNS_TO_REST = 600
ONE, OTHER = "0" * 8, "f" * 8


class Flaky:
    """A client some of whose calls fail now and then: before they are done, or after."""

    CALLS = frozenset(("commit", "group_offsets", "group_members"))

    def __init__(self, client: Any, group: Group) -> None:
        self._client, self._group = client, group

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in self.CALLS:
            return found

        def call(*given: Any) -> Any:
            if self._group.chance.random() < self._group.share:
                raise CommitAgain("a rebalance")
            answer = found(*given)
            if self._group.chance.random() < self._group.share:
                raise RetryableError("the answer is lost")
            return answer

        return call


class Group:
    """A broker, members of one group, and what each of them owns."""

    def __init__(self, counts: Mapping[int, int], seed: int = 0, share: float = 0.0) -> None:
        self.clock = ManualClock(0)
        self.broker = EmbeddedBroker(self.clock, blocking=False)
        self.clients = EmbeddedClients(self.broker)
        self.counts = counts
        self.chance, self.share = random.Random(seed), share
        self.members: list[Member] = []
        self.moves = 0
        self.all = frozenset(TaskId(part, number) for part, count in counts.items() for number in range(count))

    def member(self, name: str, digest: str = ONE) -> Member:
        self.members.append(Member(self, name, digest))
        return self.members[-1]

    @property
    def awake(self) -> list[Member]:
        return [member for member in self.members if not member.asleep]

    def turn(self) -> None:
        for member in self.chance.sample(self.awake, len(self.awake)):
            member.turn()
            self.check()
        self.clock.advance(int(TURN_S * 1000))

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def check(self) -> None:
        owned = Counter(task for member in self.awake for task in member.owned)
        twice = [str(task) for task, count in owned.items() if count > 1]
        assert not twice, f"{twice} have two owners"

    def rest(self, spread: bool = True) -> None:
        """Goes on until every task has an owner and, if asked for, each subtopology is spread evenly."""
        for _ in range(TURNS_TO_REST):
            self.turn()
            if self.whole and (self.even or not spread):
                return
        raise AssertionError(f"not at rest: {[(member.name, sorted(map(str, member.owned))) for member in self.awake]}")

    @property
    def whole(self) -> bool:
        return frozenset().union(*(member.owned for member in self.awake)) == self.all

    @property
    def even(self) -> bool:
        return all(max(one) - min(one) <= 1 for one in self.spread().values())

    def spread(self) -> dict[int, list[int]]:
        return {part: [sum(t.subtopology == part for t in m.owned) for m in self.awake] for part in self.counts}


class Member:
    """One member; it may fall asleep and wake up."""

    def __init__(self, group: Group, name: str, digest: str) -> None:
        self.group, self.name = group, name
        self.owned: frozenset[TaskId] = frozenset()
        self.asleep = False
        self.topology = GroupTopology(
            application_id="app", prefix="app", task_counts=group.counts, hash=digest, growing=frozenset(group.counts)
        )
        self._join()

    def _join(self) -> None:
        clients = self.group.clients
        config = {
            "group.id": "app",
            "client.id": client_id_with_hash(f"{self.name}-StreamThread-1-consumer", self.topology.hash),
            "group.instance.id": self.name,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_S * 1000,
        }
        consumer: Any = Flaky(clients.consumer(config), self.group)
        admin: Any = Flaky(clients.admin({}), self.group)
        self.consumer = consumer
        self.membership = ControlTopicMembership(
            consumer,
            admin,
            self.group.clock,
            leave_static=lambda: clients.leave_group(config, "app", self.name),
        )
        self.membership.join(self.topology, self)

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        self.group.moves += len(tasks.active - self.owned)
        self.owned = tasks.active

    def turn(self) -> None:
        self.consumer.poll(0)
        self.membership.poll()

    def restart(self, *, stay: bool) -> None:
        self.membership.leave(remain=stay)
        self.owned = frozenset()
        self._join()

    def leave(self) -> None:
        self.membership.leave()
        self.group.members.remove(self)

    def kill(self) -> None:
        """Without a word; the group finds out by the session timeout."""
        self.group.members.remove(self)


# ------------------------------------------------------------------ sequences that clustered

COUNTS = [{0: 4, 1: 4}, {0: 8, 1: 8, 2: 8}, {0: 8, 1: 4, 2: 6}, {0: 3, 1: 7}, {0: 1, 1: 2, 2: 3}]


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_tasks_are_spread_evenly_whoever_comes_and_goes(counts: dict[int, int]) -> None:
    """Starts one by one, restarts, a worker more and a worker less. Was that one worker had all tasks of a subtopology,
    and the other all of the other."""
    group = Group(counts)
    first = group.member("a")
    group.rest()
    second = group.member("b")
    group.rest()
    for _ in range(2):
        first.restart(stay=False)
        group.rest()
        second.restart(stay=True)
        group.rest()
    third = group.member("c")
    group.rest()
    first.leave()
    group.rest()
    group.member("d")
    group.rest()
    third.kill()
    group.rest()
    before = group.moves
    group.turns(600)
    assert group.moves == before, "what is even stays as it is"


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_members_that_all_left_and_come_back_have_what_they_had(counts: dict[int, int], seed: int) -> None:
    """The state of their tasks is on their disks. Was that two workers that were stopped and started had exchanged all.
    A task more of a subtopology, where its number is odd, may go to the other one."""
    group = Group(counts, seed)
    for name in "ab":
        group.member(name)
        group.rest()
    group.turns(150)
    before = {member.name: member.owned for member in group.members}
    for member in list(group.members):
        member.leave()
    for name in ("ab", "ba")[seed % 2]:
        group.member(name)
        group.turns(seed * 10)
    group.rest()
    group.turns(100)
    moved = sum(len(member.owned - before[member.name]) for member in group.members)
    assert moved <= sum(count % 2 for count in counts.values())
    moves = group.moves
    group.turns(600)
    assert group.moves == moves, "what is given back stays so"


def test_of_two_subtopologies_a_new_worker_gets_half_of_each() -> None:
    """No task moves but those, when all is at rest."""
    group = Group({0: 4, 1: 4})
    first = group.member("a")
    group.rest()
    second = group.member("b")
    group.rest()
    assert len(first.owned) == len(second.owned) == 4
    assert group.spread() == {0: [2, 2], 1: [2, 2]}


def test_one_subtopology_asks_for_nothing() -> None:
    """Its slots are its tasks: nothing is read or committed."""
    group = Group({0: 6})
    group.member("a")
    group.member("b")
    group.rest()
    group.turns(100)
    assert not group.broker.groups.group("app").offsets


# ------------------------------------------------------------------ random lives


@pytest.mark.parametrize("seed", range(60))
def test_no_task_has_two_owners(seed: int) -> None:
    """Members come, go, restart, are killed, sleep past their session and wake up, and calls fail before or after they
    are done; in the end every subtopology is spread evenly."""
    chance = random.Random(seed)
    group = Group(chance.choice(COUNTS), seed, share=chance.choice([0.0, 0.1, 0.3]))
    numbers = iter(range(100))
    group.member(f"m{next(numbers)}")
    for _ in range(chance.randint(3, 12)):
        group.turns(chance.choice([0, 1, 3, 12, 30, 60]))
        one = chance.choice(group.members)
        step = chance.choice(["come", "go", "kill", "restart", "stay", "sleep", "wake", "wake"])
        if step == "come" and len(group.members) < 5:
            group.member(f"m{next(numbers)}")
        elif step == "wake":
            for sleeper in group.members:
                if sleeper.asleep:
                    sleeper.turn()
                    sleeper.asleep = False
        elif len(group.awake) > 1 and not one.asleep:
            if step == "sleep":
                one.asleep = True
            elif step in ("go", "kill"):
                one.leave() if step == "go" else one.kill()
            elif step in ("restart", "stay"):
                one.restart(stay=step == "stay")
    group.share = 0.0
    for member in group.members:
        if member.asleep:
            member.turn()
            member.asleep = False
    group.rest()


# ------------------------------------------------------------------ topologies


def exchanged() -> Group:
    """A group that has exchanged tasks."""
    group = Group({0: 4, 1: 4})
    group.member("a")
    group.rest()
    group.member("b")
    group.rest()
    metadata = group.broker.groups.group("app").offsets[TopicPartition("app-0-tasks", 0)].metadata
    assert SlotPlan.decode(metadata).tasks, "the sequence needs an exchange"
    return group


def test_members_of_another_topology_open_nothing_by_a_plan_that_is_not_theirs() -> None:
    """Until those of the former one have left; then tasks are those of their slots again."""
    group = exchanged()
    old = list(group.members)
    new = group.member("c", OTHER)
    group.turns(100)
    assert new.owned == frozenset()
    for member in old:
        member.leave()
    group.rest(spread=False)
    assert new.owned == group.all
    group.member("d", OTHER)
    group.rest()


def test_a_member_that_comes_back_alone_goes_on_by_the_plan() -> None:
    """It is the group's."""
    group = exchanged()
    for member in list(group.members):
        member.leave()
    alone = group.member("a")
    group.rest(spread=False)
    assert alone.owned == group.all


def test_a_plan_is_read_back() -> None:
    plan = SlotPlan(3, ONE, {TaskId(0, 1): TaskId(1, 0), TaskId(1, 0): TaskId(0, 1)}, frozenset({TaskId(0, 1)}))
    assert SlotPlan.decode(plan.encode()) == plan
    assert SlotPlan.decode(SlotPlan().encode()) == SlotPlan.decode("") == SlotPlan()


def test_a_plan_of_many_tasks_fits_into_the_metadata_of_an_offset() -> None:
    """A broker takes 4,096 bytes; this is every task of six hundred in another's slot."""
    slots = [TaskId(part, number) for part in range(4) for number in range(150)]
    tasks = random.Random(1).sample(slots, len(slots))
    plan = SlotPlan(12, ONE, dict(zip(slots, tasks, strict=True)), frozenset(slots[:100]))
    assert len(plan.encode()) <= 4000
    assert SlotPlan.decode(plan.encode()) == plan


def test_no_task_is_exchanged_beside_members_of_another_topology() -> None:
    """They would not follow, and hold up what is exchanged."""
    group = Group({0: 4, 1: 4})
    group.member("a")
    group.rest()
    group.member("b", OTHER)
    group.turns(200)
    assert group.broker.groups.group("app").offsets == {}


@pytest.mark.parametrize("text", ["1 zlib:AAAA", "1 zlib:!", "nonsense", "1 2", "x - - -", "1 - 0_1 -", "1 - a=b -"])
def test_what_is_no_plan_is_refused(text: str) -> None:
    """Rather than taken for none, by which two members might own a task."""
    with pytest.raises(StreamsError, match="not a plan of tasks"):
        SlotPlan.decode(text)
