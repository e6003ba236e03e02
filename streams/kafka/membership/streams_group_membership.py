"""Membership in a group of the streams protocol (KIP-1071): the brokers know the topology, and place its tasks.

The member's heartbeats run on a thread of their own (`streams.kafka.membership.group_heartbeats`), and share their
state with the worker (`streams.kafka.membership.group_life`). The worker takes over other tasks in :meth:`poll`; its
return from ``own`` is what the next heartbeat acknowledges. The group assigns tasks themselves, and tells all members
of a request to shut down. Control topics stand only for the topics that patterns match, which the brokers do not look
for: they count the partitions of the control topic, and the members widen it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError, TaskMigratedError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka import streams_group
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.group_heartbeats import WHAT_TO_DO, GroupHeartbeats, StreamsGroupMember, status_text
from streams.kafka.membership.group_life import GroupLife
from streams.kafka.membership.port import GroupTopology, Owner, ShutdownRequested, Tasks
from streams.kafka.membership.topology_gate import TopologyGate
from streams.kafka.own_names import control_topic
from streams.kafka.ports import Admin, Consumer, InstanceFenced, OffsetAndMetadata
from streams.threads import SYSTEM_THREADS, Threads

log = logging.getLogger("streams.membership")

LEAVE_S = 5.0
"""How long a member tries to leave."""
CHECK_S = 5.0
ASK_S = 5.0
"""How long a request that all shut down may take."""

LATE_S = 5.0
"""So long a copy is kept that the group has taken away: it does so a heartbeat before it gives the task itself."""


class OwnedTasks:
    """Holds the tasks that the worker owns in a life of its membership.

    Copies that the group has taken away are kept for some seconds more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.given: streams_group.TaskLists | None = None
        """Those that the group has given; ``None`` before it has given any, or none."""
        self._late: frozenset[TaskId] = frozenset()
        self._until = 0.0

    def after(self, target: streams_group.TaskLists) -> Tasks:
        """Returns the tasks to own after an answer of the group, with the copies to keep besides."""
        before = self.given or streams_group.TaskLists()
        gone = before.copies - target.active - target.copies
        if gone:
            self._until = self._clock.monotonic() + LATE_S
        self._late = (self._late | gone) - target.active - target.copies
        return Tasks(target.active, target.standby | self._late, target.warmup)

    def without_late(self) -> Tasks | None:
        """Returns the tasks to own once the time of kept copies has passed; ``None`` if nothing changes now."""
        if not self._late or self.given is None or self._clock.monotonic() < self._until:
            return None
        self._late = frozenset()
        return Tasks(self.given.active, self.given.standby, self.given.warmup)

    def clear(self) -> streams_group.TaskLists | None:
        """Drops all ownership; returns the tasks that the group had assigned."""
        given, self.given, self._late = self.given, None, frozenset()
        return given


class StreamsGroupMembership:
    """The membership of a worker in a group of the streams protocol; the text of this module describes it."""

    def __init__(
        self,
        requests: streams_group.StreamsGroupRequests,
        member: StreamsGroupMember,
        consumer: Consumer,
        admin: Admin,
        clock: Clock,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._requests, self._member = requests, member
        self._consumer, self._admin = consumer, admin
        self._machine = clock, threads
        self._gate = TopologyGate(admin, clock)
        self._topology: GroupTopology | None = None
        self._owner: Owner | None = None
        self._heartbeats: GroupHeartbeats | None = None
        self._number = 1
        """The life that the worker is in."""
        self._owned = OwnedTasks(clock)
        self._left: streams_group.GroupMemberIdentity | None = None
        """The identity of a static member that remains in the group."""

    # ------------------------------------------------------------------ joining

    def check(self, topology: GroupTopology) -> None:
        """Compares the topology with that of the group. Without this, new workers of a rolling update would wait until
        the last former one has ended, and then all be refused.

        :raises TopologyRefused: if the group was made for another one.
        """
        try:
            known = self._requests.topology(CHECK_S)
        except StreamsError as error:  # the join reports it
            log.debug("the topology of the group is not known yet", extra={"error": str(error)})
            return
        if known is not None and known != tuple(map(streams_group.as_described, topology.subtopologies)):
            raise streams_group.TopologyRefused(
                f"group {topology.application_id!r} has another topology, which the brokers do not replace. Stop every"
                " worker, run `streams groups upgrade-topology`, and start again"
            )

    def join(self, topology: GroupTopology, owner: Owner) -> None:
        """Starts the heartbeats, which join the group; tasks come with later polls.

        :raises RetryableError: if a control topic must be made, and no broker answers.
        """
        member = self._member
        self._make_control_topics(topology)
        joining = streams_group.JoiningMember(
            topology=topology.subtopologies,
            rebalance_timeout_ms=int(member.max_poll_s * 1000),
            process_id=member.process_id,
            endpoint=member.endpoint,
            rack_id=member.rack_id,
            client_tags=member.client_tags,
        )
        clock, threads = self._machine
        life = GroupLife(joining, self._requests.new_member_id, member.instance_id, threads)
        self._topology, self._owner = topology, owner
        self._heartbeats = GroupHeartbeats(life, self._requests, member, clock, threads)
        self._heartbeats.start()

    def extend(self, topology: GroupTopology) -> None:
        """Takes over a topology with more tasks. The group sees the partitions of source topics itself, and assigns
        these; for topics of a pattern the control topic of the subtopology grows."""
        self._topology = topology
        self._make_control_topics(topology)

    def _make_control_topics(self, topology: GroupTopology) -> None:
        """Makes or widens the control topics that the group counts instead of the topics of a pattern."""
        names = {control_topic(topology.prefix, part.id): part for part in topology.subtopologies}
        counts = {part.id: topology.task_counts.get(part.id, 0) for name, part in names.items() if name in part.sources}
        if any(counts.values()):
            ControlTopics(self._admin, replace(topology, task_counts=counts)).create()

    def may_open(self) -> bool:
        owned = self._owned.given
        if self._topology is None or owned is None:
            return False
        return self._gate.may_open(self._topology, owned.active)

    def take_lags(self, lags: Mapping[TaskId, int]) -> None:
        """Does nothing: the brokers do not ask for lags."""

    def is_warming_up(self) -> bool:
        """Returns ``False``: a member takes what the brokers give it."""
        return False

    def group_status(self) -> str | None:
        found = () if self._heartbeats is None else self._heartbeats.life.statuses
        return next((status_text(status, detail) for status, detail in found if status in WHAT_TO_DO), None)

    def is_blocked(self) -> bool:
        return self._gate.is_blocked or (self._heartbeats is not None and self._heartbeats.is_blocked)

    # ------------------------------------------------------------------ for the worker

    def poll(self) -> None:
        """Takes over the tasks that the group has given; may call ``owner.own``.

        :raises ShutdownRequested: if a member asked all to shut down.
        :raises StreamsError: if the group refuses this member.
        """
        heartbeats, owner = self._heartbeats, self._owner
        if heartbeats is None or owner is None:
            return
        heartbeats.note_poll()
        if heartbeats.failure is not None:
            raise heartbeats.failure
        life = heartbeats.life
        if life.number != self._number:
            self._lose(life, owner)
        elif life.statuses:
            self._check_shutdown(life)
        target = life.target
        # The life may have ended since it was compared: then the next poll closes all, and nothing is opened.
        if target is None or target == self._owned.given or life.number != self._number:
            self._end_late_copies(owner)
        elif self._owned.given is not None or any(target) or not life.statuses:  # else more is to come
            self._take(life, owner, target)

    def _lose(self, life: GroupLife, owner: Owner) -> None:
        """Closes the tasks of a life that is over; only then the next one begins."""
        number, owned = life.number, self._owned.clear()
        try:
            if owned is not None and any(owned):
                self._gate.owns(frozenset())
                owner.own(Tasks(), lost=True)
        finally:
            self._number = number
            life.begin_next(number)
            self._wake()

    def _take(self, life: GroupLife, owner: Owner, target: streams_group.TaskLists) -> None:
        self._gate.owns(target.active)
        owner.own(self._owned.after(target), lost=False)
        self._owned.given = target
        life.acknowledge(self._number, target)
        # To close tasks may have taken long, and shows as well that the worker lives.
        if self._heartbeats is not None:
            self._heartbeats.note_poll()
        self._wake()

    def _end_late_copies(self, owner: Owner) -> None:
        left = self._owned.without_late()
        if left is not None:
            owner.own(left, lost=False)

    def _check_shutdown(self, life: GroupLife) -> None:
        if life.asks_for_shutdown:
            return
        for status, detail in life.statuses:
            if status is streams_group.GroupStatus.SHUTDOWN_APPLICATION:
                raise ShutdownRequested(f"a member of the application asked all of them to shut down: {detail}")

    def _wake(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.wake()

    def take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        """Drops records of a task that went away, which its next owner reads."""

    def request_shutdown(self, reason: str) -> None:
        """Has the group ask every member to shut down. It tells them which member asked, but not the reason."""
        if self._heartbeats is None:
            raise StreamsError(
                "the shutdown request cannot be sent to the members of the application: this member has not joined the"
                " group"
            )
        log.warning("the group is asked to shut down", extra={"reason": reason})
        self._heartbeats.life.asks_for_shutdown = True
        self._wake()
        if not self._heartbeats.shutdown_sent.wait(ASK_S):
            raise StreamsError(
                "the shutdown request was not sent to the members of the application: the group's coordinator has not"
                " responded"
            )

    def _identity(self) -> streams_group.GroupMemberIdentity:
        found = None if self._heartbeats is None else self._heartbeats.life.identity(self._number)
        if found is None:
            raise TaskMigratedError("this member is no longer in its group")
        return found

    def identity(self) -> Any:
        return self._requests.identity(self._identity())

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if offsets:
            self._requests.commit(self._identity(), offsets)

    # ------------------------------------------------------------------ the end

    def leave(self, *, remain: bool = False) -> None:
        heartbeats, owner = self._heartbeats, self._owner
        self._owner = None
        try:
            if owner is not None and any(self._owned.given or ()) and heartbeats is not None:
                owner.own(Tasks(), lost=heartbeats.life.identity(self._number) is None)
        finally:
            self._owned.clear()
            if heartbeats is not None:
                # The heartbeats first: one that is under way may come to the group behind the leave, and join again.
                ended, member = heartbeats.stop(), heartbeats.life.end()
                if member is not None and ended:
                    self._leave(member, remain=remain)
                elif member is not None:
                    self._log_stay("the coordinator does not answer")
            self._requests.close()
            self._consumer.close()

    def _leave(self, member: streams_group.GroupMemberIdentity, *, remain: bool) -> None:
        stays = remain and member.instance_id is not None
        self._left = member if stays else None
        epoch = streams_group.STATIC_LEAVE_EPOCH if stays else streams_group.LEAVE_EPOCH
        try:
            self._requests.heartbeat(streams_group.Heartbeat(member=member._replace(epoch=epoch)), LEAVE_S)
        except (streams_group.MemberFenced, InstanceFenced, streams_group.GroupOfOtherProtocol):
            pass  # it is not in the group, or another one has its place
        except StreamsError as error:
            self._log_stay(str(error))

    @staticmethod
    def _log_stay(reason: str) -> None:
        log.warning("did not leave the group; its tasks wait for the session timeout", extra={"error": reason})

    def remove_from_group(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            self._leave(left, remain=False)
            self._requests.close()
