"""A member that its group waits for in vain is taken out of it, so that it joins again."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.stalled import LOOK_S, LOOKS, StalledMember
from streams.kafka.ports import GroupMember
from streams.kafka.wire.consumer_groups import MemberPlace
from waiting import wait_until

ONE, TWO = TopicPartition("tasks", 1), TopicPartition("tasks", 2)
MEMBER = GroupMember("client", "member", "instance", frozenset({ONE, TWO}), protocol="consumer")
IN_PLACE = MemberPlace(MEMBER, 3, is_behind=False)
BEHIND = MemberPlace(MEMBER, 3, is_behind=True)
HAS_LESS = MemberPlace(replace(MEMBER, partitions=frozenset({ONE})), 3, is_behind=False)


class Group:
    """What the coordinator answers about a member, and which members were taken out."""

    def __init__(self) -> None:
        self.place: MemberPlace | StreamsError | None = IN_PLACE
        self.looks = 0
        self.ended: list[GroupMember] = []
        self.clock = ManualClock()
        self.stalled = StalledMember(self.describe, self.ended.append, self.clock)

    def describe(self, member_id: str) -> MemberPlace | None:
        assert member_id == "member"
        self.looks += 1
        if isinstance(self.place, StreamsError):
            raise self.place
        return self.place

    def look(self, times: int = 1, calls: int = 7, owned: frozenset[TopicPartition] = MEMBER.partitions) -> None:
        """Lets the time of so many looks pass."""
        for _ in range(times):
            self.clock.wait(LOOK_S)
            self.stalled.check(lambda: "member", owned, calls)
            wait_until("the look is over", self.is_over)

    def is_over(self) -> bool:
        return all(one.name != "group-check" for one in threading.enumerate())


@pytest.fixture
def group() -> Group:
    return Group()


def test_a_member_that_has_what_the_group_says_stays(group: Group) -> None:
    group.look(10)
    assert (group.looks, group.ended) == (10, [])


def test_it_is_looked_at_from_time_to_time_only(group: Group) -> None:
    group.stalled.check(lambda: "member", MEMBER.partitions, 7)
    group.look()
    group.stalled.check(lambda: "member", MEMBER.partitions, 7)
    assert group.is_over()
    assert group.looks == 1
    assert group.stalled.next_look == pytest.approx(group.clock.monotonic() + LOOK_S)


@pytest.mark.parametrize("place", [BEHIND, HAS_LESS])
def test_a_member_that_the_group_waits_for_joins_again(
    group: Group, place: MemberPlace, caplog: pytest.LogCaptureFixture
) -> None:
    group.place = place
    group.look(LOOKS - 1)
    assert group.ended == []
    group.look()
    assert group.ended == [place.member]
    assert "joins again" in caplog.text
    group.look(LOOKS - 1)
    assert group.ended == [place.member]


def test_a_look_that_finds_them_agreed_begins_anew(group: Group) -> None:
    for place in (BEHIND, BEHIND, IN_PLACE, BEHIND, BEHIND, None, BEHIND, BEHIND):
        group.place = place
        group.look()
    assert group.ended == []


def test_a_member_that_goes_on_is_not_waited_for_in_vain(group: Group) -> None:
    """It hears of each rebalance, gets another epoch, or gives up what it owns, though the group is ahead each time."""
    group.place = BEHIND
    for calls in range(10):
        group.look(calls=calls)
    for epoch in range(10):
        group.place = replace(BEHIND, epoch=epoch)
        group.look()
    for owned in (frozenset({ONE}), frozenset({TWO})) * 3:
        group.look(owned=owned)
    assert group.ended == []


def test_a_process_that_stood_still_looks_as_often_as_another(group: Group) -> None:
    group.place = BEHIND
    group.look()
    group.clock.wait(3600)
    group.look()
    assert group.ended == []
    group.look()
    assert group.ended == [MEMBER]


def test_a_coordinator_without_an_answer_is_asked_again(group: Group) -> None:
    group.place = RetryableError("no answer")
    group.look(5)
    group.place = BEHIND
    group.look(LOOKS)
    assert (group.looks, group.ended) == (5 + LOOKS, [MEMBER])


def test_what_may_not_be_asked_is_asked_once(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    group.place = StreamsError("this login is not known here")
    group.look(5)
    assert group.looks == 1
    assert "it cannot be seen whether the group waits for this member" in caplog.text


def test_a_client_that_is_no_member_yet_is_not_looked_for(group: Group) -> None:
    group.clock.wait(LOOK_S)
    group.stalled.check(lambda: None, (), 0)
    assert (group.is_over(), group.looks) == (True, 0)
