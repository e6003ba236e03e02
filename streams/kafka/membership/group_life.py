"""The state of a member of a group of the streams protocol, which its heartbeats and its worker share.

A member lives from a join until the group no longer has it. Then the next life begins, with another member id,
but only after the worker has closed what it owned in the one before (`begin_next`). So an identity of an earlier life
never becomes valid again while its tasks are open, and a commit that is still on its way is refused.

Within a life the group gives the tasks to own, in two steps where some are to be given up: first what the member keeps,
and after its acknowledgement the rest, when others have given it up. So it owns exactly what was given last. After a
heartbeat without an answer the group is sent all that is owned, and asked what it has assigned, for some time: the
answer that was lost may have had other tasks, which it does not repeat, and the heartbeat may come to it late.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from streams.kafka.streams_group import (
    JOIN_EPOCH,
    GroupMemberIdentity,
    GroupStatus,
    Heartbeat,
    HeartbeatAnswer,
    JoiningMember,
    TaskLists,
)
from streams.threads import Threads


class Phase(enum.Enum):
    """The phase of a life."""

    JOINING = "joining"
    MEMBER = "member"
    FENCED = "fenced"
    """The group no longer has it; the worker must still close its tasks."""
    ENDED = "ended"


LATE_S, AGAIN_S = 30.0, 5.0
"""So long a heartbeat without an answer may still come to the group; and how often it is asked meanwhile."""


class Doubt:
    """Tells when to ask the group what it has assigned, after a heartbeat without an answer."""

    def __init__(self) -> None:
        self._until, self._ask_at = float("-inf"), float("inf")

    def begin(self, now_s: float) -> None:
        """Takes that a heartbeat has had no answer."""
        self._until, self._ask_at = now_s + LATE_S, now_s

    def is_due(self, now_s: float) -> bool:
        """Whether to ask now; the last time after no late heartbeat can arrive."""
        return self._ask_at <= now_s and self._ask_at <= self._until

    def asked(self, now_s: float) -> None:
        """Takes that the group has said what it has assigned."""
        self._ask_at = now_s + AGAIN_S

    def end(self) -> None:
        """Takes that no heartbeat of this life can matter."""
        self._until = float("-inf")


class GroupLife:
    """Holds the state of a member. May be used by any thread.

    :param joining: what it says of itself when it joins.
    :param new_member_id: returns an id that no member has had.
    """

    def __init__(
        self, joining: JoiningMember, new_member_id: Callable[[], str], instance_id: str | None, threads: Threads
    ) -> None:
        self._joining = joining
        self._new_member_id = new_member_id
        self._lock = threads.lock()
        self._member = GroupMemberIdentity(new_member_id(), JOIN_EPOCH, instance_id)
        self._answer: HeartbeatAnswer | None = None
        """The last answer of the group in this life."""
        self._known: TaskLists | None = None
        """The owned tasks that the group has; ``None`` if that is in doubt."""
        self._owned = TaskLists()
        self.phase = Phase.JOINING
        self.number = 1
        """Counts the lives."""
        self.target: TaskLists | None = None
        """The tasks to own; ``None`` until the group has given some, or none."""
        self.doubt = Doubt()
        """Whether an answer with other tasks may have been lost. Used by the heartbeats."""
        self.asks_for_shutdown = False

    @property
    def statuses(self) -> tuple[tuple[GroupStatus, str], ...]:
        """The group's statuses for this member, each with its text. Any thread may read them."""
        answer = self._answer
        return () if answer is None else answer.statuses

    # ------------------------------------------------------------------ for the heartbeats

    def next_beat(self) -> Heartbeat | None:
        """Returns the heartbeat to send now; ``None`` if there is none to send."""
        with self._lock:
            if self.phase is Phase.JOINING:
                return Heartbeat(member=self._member, joining=self._joining, owned=TaskLists())
            if self.phase is not Phase.MEMBER:
                return None
            owned = None if self._owned == self._known else self._owned
            return Heartbeat(
                member=self._member,
                owned=owned,
                asks_for_shutdown=self.asks_for_shutdown,
                endpoint_epoch=-1 if self._answer is None else self._answer.endpoint_epoch,
            )

    def answered(self, beat: Heartbeat, answer: HeartbeatAnswer) -> None:
        """Takes the answer to a heartbeat."""
        with self._lock:
            if not self._is_current(beat):
                return
            self._member = self._member._replace(epoch=answer.epoch)
            self._answer = answer
            if self.phase is Phase.JOINING:
                self.phase, self._known = Phase.MEMBER, TaskLists()
            elif beat.owned is not None:
                self._known = beat.owned
            if answer.tasks is not None:
                self.target = answer.tasks

    def unanswered(self, beat: Heartbeat, now_s: float) -> None:
        """Takes that the group may or may not have got a heartbeat, or gets it later."""
        with self._lock:
            if self._is_current(beat):
                self._known = None
                self.doubt.begin(now_s)

    def assigned(self, beat: Heartbeat, tasks: TaskLists, now_s: float) -> None:
        """Takes what the group has assigned, after a heartbeat in doubt."""
        with self._lock:
            if self._is_current(beat):
                self.target = tasks
                self.doubt.asked(now_s)

    def fenced(self, beat: Heartbeat) -> None:
        """Records that the group no longer has the member."""
        with self._lock:
            if self._is_current(beat):
                self.phase, self.target, self._answer = Phase.FENCED, None, None
                self.number += 1

    def joins_without_instance(self) -> None:
        """Has the member join as a dynamic one."""
        with self._lock:
            self._member = GroupMemberIdentity(self._new_member_id(), JOIN_EPOCH)

    def _is_current(self, beat: Heartbeat) -> bool:
        alive = self.phase in (Phase.JOINING, Phase.MEMBER)
        return alive and beat.member.member_id == self._member.member_id

    # ------------------------------------------------------------------ for the worker

    def begin_next(self, number: int) -> None:
        """Takes that the worker has closed all tasks of the lives before this one, which may begin."""
        with self._lock:
            if number == self.number and self.phase is Phase.FENCED:
                self._member = GroupMemberIdentity(self._new_member_id(), JOIN_EPOCH, self._member.instance_id)
                self._owned, self._known = TaskLists(), None
                self.doubt.end()
                self.phase = Phase.JOINING

    def acknowledge(self, number: int, owned: TaskLists) -> None:
        """Takes that the worker owns these tasks and no others; of an earlier life, it is nothing to tell the group."""
        with self._lock:
            if number == self.number:
                self._owned = owned

    def identity(self, number: int) -> GroupMemberIdentity | None:
        """Returns the identity by which a worker of this life commits; ``None`` if the life is over."""
        with self._lock:
            return self._member if number == self.number and self.phase is Phase.MEMBER else None

    def end(self) -> GroupMemberIdentity | None:
        """Ends the membership; returns the identity to leave with, if the group may have the member."""
        with self._lock:
            phase, self.phase = self.phase, Phase.ENDED
            return self._member if phase in (Phase.JOINING, Phase.MEMBER) else None
