"""The group in memory keeps the contract of every membership, and gives tasks to whom a test says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pytest

from client_contracts.membership import COUNTS, GROWING, MembershipContract, Worker
from processor_api.errors import StreamsError, TaskMigratedError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.port import GroupTopology, Tasks
from streams.kafka.ports import OffsetAndMetadata
from streams.testing.fake_membership import FakeGroup

INPUT = TopicPartition("in", 0)


class FakeKit:
    """`client_contracts.membership.MembershipKit` for the group in memory."""

    reasons_arrive = True
    spreads_subtopologies = True

    def __init__(self) -> None:
        self.history: list[tuple[Worker, frozenset[TaskId]]] = []
        self.input = INPUT
        self.group = FakeGroup()

    def topology(self, digest: str = "0" * 8, more: int = 0) -> GroupTopology:
        counts = {part: count + (more if part == GROWING else 0) for part, count in COUNTS.items()}
        return GroupTopology(application_id="app", prefix="app", task_counts=counts, hash=digest)

    def worker(self, topology: GroupTopology, instance: str) -> Worker:
        member = self.group.member(instance)
        return Worker(member, lambda: member.take(INPUT, ()), self.history)

    def committed(self) -> OffsetAndMetadata | None:
        return self.group.committed.get(INPUT)

    def until(self, condition: Callable[[], bool], workers: Collection[Worker], what: str) -> None:
        for _ in range(1000):
            if condition():
                return
            for worker in workers:
                worker.turn()
        pytest.fail(what)

    def close(self) -> None:
        """Nothing is open."""


class TestFakeGroup(MembershipContract):
    @pytest.fixture(autouse=True)
    def _kit(self) -> Iterator[None]:
        self.kit = FakeKit()
        yield
        self.kit.close()


def joined(group: FakeGroup, *names: str) -> list[Worker]:
    """Workers of three tasks."""
    topology = GroupTopology(application_id="app", prefix="app", task_counts={0: 3}, hash="0" * 8)
    workers = [Worker(group.member(name), lambda: None, []) for name in names]
    for worker in workers:
        worker.membership.join(topology, worker)
    return workers


def tasks(*numbers: int) -> frozenset[TaskId]:
    return frozenset(TaskId(0, number) for number in numbers)


def test_a_test_says_who_owns_what() -> None:
    """A task that moves is given up first; one that is placed nowhere stays closed."""
    group = FakeGroup(lambda every, owned: {"a": tasks(0, 1), "b": tasks(2)})
    a, b = joined(group, "a", "b")
    a.turn()
    b.turn()
    assert (a.owned, b.owned) == (tasks(0, 1), tasks(2))
    group.place = lambda every, owned: {"b": tasks(1)}
    b.turn()
    assert b.owned == tasks()
    a.turn()
    b.turn()
    assert (a.owned, b.owned) == (tasks(), tasks(1))


@pytest.mark.parametrize(
    ("placed", "says"),
    [
        ({"a": tasks(0), "b": tasks(0)}, "a task was placed with two members"),
        ({"a": tasks(7)}, "the group has no such tasks or members: ['0_7']"),
        ({"c": tasks(0)}, "the group has no such tasks or members: ['c']"),
    ],
)
def test_a_wrong_placement_is_told(placed: dict[str, frozenset[TaskId]], says: str) -> None:
    a, _ = joined(FakeGroup(lambda every, owned: placed), "a", "b")
    with pytest.raises(StreamsError) as caught:
        a.turn()
    assert caught.value.message == says


def test_a_member_whose_session_ended_is_told_and_fenced() -> None:
    told: list[tuple[frozenset[TaskId], bool]] = []

    class Owner:
        def own(self, tasks: Tasks, *, lost: bool) -> None:
            told.append((tasks.active, lost))

    group = FakeGroup()
    member = group.member("a")
    member.join(GroupTopology(application_id="app", prefix="app", task_counts={0: 3}, hash="0" * 8), Owner())
    member.poll()
    group.expire("a")
    with pytest.raises(TaskMigratedError, match="member 'a' is no longer in the group"):
        member.commit({INPUT: OffsetAndMetadata(1)})
    member.poll()
    assert told == [(tasks(0, 1, 2), False), (tasks(), True)]
    assert (group.committed, group.owned) == ({}, {})


def test_the_tasks_of_a_member_that_comes_back_wait_for_it() -> None:
    """Until its session ends."""
    group = FakeGroup()
    a, b = joined(group, "a", "b")
    for worker in (a, b, a, b):
        worker.turn()
    had = a.owned
    a.membership.leave(remain=True)
    for _ in range(3):
        b.turn()
    assert b.owned == tasks(0, 1, 2) - had
    (again,) = joined(group, "a")
    again.turn()
    assert again.owned == had
    again.membership.leave(remain=True)
    group.expire("a")
    b.turn()
    assert b.owned == tasks(0, 1, 2)


def test_a_place_that_is_given_up_is_free_at_once() -> None:
    group = FakeGroup()
    a, b = joined(group, "a", "b")
    for worker in (a, b, a, b):
        worker.turn()
    assert a.owned
    a.membership.leave(remain=True)
    a.membership.remove_from_group()
    b.turn()
    assert b.owned == tasks(0, 1, 2)
