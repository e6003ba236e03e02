"""A thread enters its group: when no worker of another topology is in it, and in the place of its own former member."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import ConfigError
from streams.kafka.membership.port import GroupTopology
from streams.kafka.ports import GroupInfo, GroupMember, InstanceFenced
from streams.runtime.threads.process_resources import FormerMembers
from streams.runtime.threads.thread_resources import GroupEntry
from streams.threads import SYSTEM_THREADS

GROUP = GroupTopology("g", "g", {0: 2}, "0" * 8)


class Described:
    """An admin client of a group with one member, which is ended when its instance id is released."""

    def __init__(self, protocol: str, refuse: Callable[[], Exception] | None = None) -> None:
        self.member = GroupMember(f"c-topology-{GROUP.hash}", "m-1", "one", frozenset(), protocol=protocol)
        self.released: list[GroupMember] = []
        self._refuse = refuse

    def describe_group(self, group: str) -> GroupInfo:
        return GroupInfo(group, "stable", "", (self.member,), self.member.protocol)

    def release_instance(self, group: str, member: GroupMember) -> None:
        if self._refuse is not None:
            raise self._refuse()
        self.released.append(member)


def enter(admin: Any, former: FormerMembers | None = None) -> None:
    entry = GroupEntry(admin, ManualClock(), "one", former)
    entry.wait(GROUP, SYSTEM_THREADS.event())
    assert not entry.waits


def had_place(member_id: str) -> FormerMembers:
    return FormerMembers({member_id}, had_place=True)


def test_a_thread_takes_the_place_of_its_killed_member(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    admin = Described("streams")
    enter(admin)
    assert admin.released == [admin.member]
    assert caplog.messages == ["takes the place of its former member in the group"]


def test_a_thread_that_had_no_place_takes_it_from_a_member_that_is_found_late() -> None:
    """Its process was killed as it joined, and the coordinator read that when the next process had looked."""
    admin = Described("streams")
    enter(admin, FormerMembers({"m-2"}))
    assert admin.released == [admin.member]


def test_a_thread_that_had_a_place_takes_none_from_another_process() -> None:
    """Else two with the same instance id would take it from each other without end. A member that it was itself, such
    as one of a client that was given up, is ended."""
    admin = Described("streams")
    with pytest.raises(InstanceFenced, match="give each process a state"):
        enter(admin, had_place("former"))
    assert not admin.released
    enter(admin, had_place("m-1"))
    assert admin.released == [admin.member]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_thread_of_the_streams_protocol_leaves_other_groups_to_the_brokers(protocol: str) -> None:
    """These refuse its join, which is logged; its own former member there is the other protocol's."""
    admin = Described(protocol)
    enter(admin)
    assert not admin.released


def test_a_place_that_cannot_be_taken_over_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Such as where our own connection has no login; the group has the place until the session ends."""
    enter(Described("streams", lambda: ConfigError("a login by Kerberos")))
    assert caplog.messages == ["this thread joins when the session of its former member has ended"]
