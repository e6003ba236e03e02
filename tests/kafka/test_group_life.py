"""The state of a member of a streams group keeps what the group and the worker may rely on."""

from __future__ import annotations

from itertools import count

from processor_api.task_id import TaskId
from streams.kafka.membership.group_life import GroupLife, Phase
from streams.kafka.streams_group import Heartbeat, HeartbeatAnswer, JoiningMember, TaskLists
from streams.threads import SYSTEM_THREADS

JOINING = JoiningMember(topology=(), rebalance_timeout_ms=1000, process_id="p")
A, B = TaskId(0, 0), TaskId(0, 1)


def tasks(*active: TaskId) -> TaskLists:
    return TaskLists(frozenset(active))


class Member:
    """A life, and the heartbeats of a thread that all get an answer unless the test says otherwise."""

    def __init__(self) -> None:
        numbers = count(1)
        self.life = GroupLife(JOINING, lambda: f"member-{next(numbers)}", None, SYSTEM_THREADS)

    def beat(self) -> Heartbeat:
        found = self.life.next_beat()
        assert found is not None
        return found

    def exchange(self, epoch: int, given: TaskLists | None = None) -> Heartbeat:
        beat = self.beat()
        self.life.answered(beat, HeartbeatAnswer(epoch=epoch, interval_s=5.0, tasks=given))
        return beat

    @classmethod
    def owning(cls, *active: TaskId) -> Member:
        """Returns a member at epoch 3 that owns tasks, and whose group knows it."""
        member = cls()
        member.exchange(3, tasks(*active))
        member.life.acknowledge(1, tasks(*active))
        member.exchange(3)
        return member


def test_a_member_joins_without_tasks_and_tells_them_once() -> None:
    member = Member()
    assert member.exchange(3, tasks(A)).joining is JOINING
    member.life.acknowledge(1, tasks(A))
    assert member.exchange(3).owned == tasks(A)
    assert member.exchange(3).owned is None


def test_after_an_unanswered_heartbeat_all_tasks_are_sent_again() -> None:
    """It is not known whether the group has got them."""
    member = Member.owning(A)
    member.life.unanswered(member.beat(), 0.0)
    assert member.beat().owned == tasks(A)


def test_after_an_unanswered_heartbeat_the_group_is_asked_until_none_can_be_late() -> None:
    """The lost answer may have had other tasks, which the group does not repeat; and the heartbeat may arrive late,
    after it was asked, and have an answer with tasks that nobody reads."""
    member = Member.owning(A)
    assert not member.life.doubt.is_due(99.0)
    member.life.unanswered(member.beat(), 100.0)
    member.exchange(4, tasks(A))
    asked = []
    for now in range(100, 150):
        if member.life.doubt.is_due(now):
            asked.append(now)
            member.life.assigned(member.beat(), tasks(A, B), now)
            assert member.life.target == tasks(A, B)
    assert asked == [100, 105, 110, 115, 120, 125, 130]


def test_a_member_whose_join_has_no_answer_joins_as_the_same() -> None:
    member = Member()
    first = member.beat()
    member.life.unanswered(first, 100.0)
    assert member.beat().member == first.member
    assert member.life.doubt.is_due(100.0)


def test_the_next_life_has_no_doubt_of_the_one_before() -> None:
    member = Member.owning(A)
    member.life.unanswered(member.beat(), 100.0)
    member.life.fenced(member.beat())
    member.life.begin_next(2)
    assert not member.life.doubt.is_due(100.0)


def test_a_fenced_member_has_no_identity_and_waits_for_its_worker() -> None:
    """It commits nothing, and does not join before its worker has closed what it owned."""
    member = Member.owning(A)
    member.life.fenced(member.beat())
    assert member.life.identity(1) is None
    assert member.life.next_beat() is None
    assert member.life.phase is Phase.FENCED


def test_the_next_life_has_another_member_id() -> None:
    """A commit of the life before, still on its way, is one of a member that the group does not have."""
    member = Member.owning(A)
    before = member.beat()
    member.life.fenced(before)
    member.life.begin_next(2)
    assert member.beat().member.member_id != before.member.member_id
    assert member.beat().owned == tasks()


def test_a_late_acknowledgement_of_an_earlier_life_is_ignored() -> None:
    """A worker that was closing tasks while its member was fenced told the group that it owned them."""
    member = Member.owning(A)
    member.life.fenced(member.beat())
    member.life.begin_next(2)
    member.exchange(5, tasks())
    member.life.acknowledge(1, tasks(A))
    assert member.exchange(5).owned is None


def test_a_late_answer_of_an_earlier_life_is_ignored() -> None:
    member = Member.owning(A)
    late = member.beat()
    member.life.fenced(late)
    member.life.begin_next(2)
    member.life.answered(late, HeartbeatAnswer(epoch=9, interval_s=5.0, tasks=tasks(A)))
    assert member.life.phase is Phase.JOINING
    assert member.life.target is None


def test_a_worker_of_an_earlier_life_begins_none() -> None:
    member = Member.owning(A)
    member.life.fenced(member.beat())
    member.life.begin_next(1)
    assert member.life.phase is Phase.FENCED
