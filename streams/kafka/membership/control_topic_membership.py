"""Membership in Kafka's own groups, on control topics.

The client's group membership runs on one small topic per subtopology, ``<application.id>-<subtopology>-tasks`` with a
partition for each task: owning its partition p *is* owning task p, but for tasks that members have exchanged
(`streams.kafka.membership.task_slots`). The group assigns those partitions, and never gives one to two members; the
task's real partitions are added by the runtime. So ownership depends neither on metadata nor on the version of the
topology that a worker runs. A worker also refuses to open tasks beside members of another topology
(`streams.kafka.membership.topology_gate`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.port import GroupTopology, Owner, Tasks
from streams.kafka.membership.shutdown_requests import MemberRequests, ShutdownRequests
from streams.kafka.membership.slot_reports import Coming
from streams.kafka.membership.standby_places import MemberCopies
from streams.kafka.membership.task_slots import TaskSlots
from streams.kafka.membership.topology_gate import TopologyGate
from streams.kafka.ports import Admin, Consumer, OffsetAndMetadata
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.membership")


class ControlTopicMembership:
    """The membership of a worker in Kafka's own group, on control topics; the text of this module describes it.

    :param requests: the shutdown requests of the process; without it, none are sent or read.
    :param copies: says which copies of tasks the member keeps and fills; ``None`` if it has none.
    :param leave_static: sends LeaveGroup for this member's instance id, which the client does not do itself; ``None``
        for a dynamic member, which leaves when its consumer closes.
    """

    def __init__(
        self,
        consumer: Consumer,
        admin: Admin,
        clock: Clock,
        *,
        leave_static: Callable[[], None] | None = None,
        requests: ShutdownRequests | None = None,
        copies: MemberCopies | None = None,
    ) -> None:
        self._consumer, self._admin, self._clock = consumer, admin, clock
        self._leave_static = leave_static
        self._requests = None if requests is None else MemberRequests(requests, consumer, clock)
        self._gate = TopologyGate(admin, clock)
        self._topics: ControlTopics | None = None
        self._slots: TaskSlots | None = None
        self._copies = copies
        self._owner: Owner | None = None
        self._active: frozenset[TaskId] | None = None
        """The tasks that the worker owns; ``None`` before the group has assigned anything."""
        self._failure: Exception | None = None

    # ------------------------------------------------------------------ joining

    def check(self, topology: GroupTopology) -> None:
        """Does nothing: a group takes any topology when the members of another one have left."""

    def join(self, topology: GroupTopology, owner: Owner) -> None:
        """Creates the control topics and joins the group; tasks come with the consumer's polls.

        :raises TopologyError: if a control topic has another number of partitions than there are tasks.
        """
        topics = self._topics = ControlTopics(self._admin, topology)
        self._owner = owner
        if not topology.logged:
            self._copies = None  # there is nothing to copy
        copies = self._copies
        self._slots = TaskSlots(
            self._consumer,
            self._admin,
            self._clock,
            topics,
            close=self._notify,
            having=None if copies is None else copies.having,
            arrival=None if copies is None else copies.warm_up,
        )
        topics.create()
        if copies is not None:
            copies.begin(topics)
        self._subscribe(topics)

    def _subscribe(self, topics: ControlTopics) -> None:
        self._consumer.subscribe(topics.names if self._copies is None else self._copies.subscription(topics), self)

    def extend(self, topology: GroupTopology) -> None:
        """Adds partitions to control topics for new tasks; the group assigns them when its leader sees them."""
        if self._topics is not None and self._slots is not None:
            self._topics.extend(topology)
            self._slots.extend(topology.task_counts)

    def may_open(self) -> bool:
        return self._topics is not None and self._gate.may_open(self._topics.topology, self._active or frozenset())

    def is_blocked(self) -> bool:
        return self._gate.is_blocked

    def group_status(self) -> str | None:
        """Returns ``None``: the group knows nothing of topologies."""
        return None

    # ------------------------------------------------------------------ called by the consumer

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if self._slots is not None:
            slots = self._tasks(partitions)
            self._slots.gained(slots)
            if slots and self._copies is not None:
                self._copies.warm_up.gained()
            if not self._slots.unread:  # otherwise the next poll determines their tasks
                self._assignment_changed(lost=False)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._gone(partitions, lost=False)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._gone(partitions, lost=True)

    def _gone(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        if self._slots is not None:
            self._slots.gone(self._tasks(partitions))
            self._assignment_changed(lost=lost)

    def _tasks(self, partitions: Collection[TopicPartition]) -> set[TaskId]:
        return set() if self._topics is None else self._topics.tasks(partitions)

    def _assignment_changed(self, *, lost: bool) -> None:
        try:
            self._own(lost=lost)
        except BaseException as error:  # none may pass through the client's callback, so the next poll raises it
            if passes(error):
                raise
            self._failure = self._failure or as_error(error, "while tasks were given up")

    def _notify(self) -> None:
        """Notifies the owner if the tasks of its slots have changed."""
        if self._slots is not None and self._slots.tasks != self._active:
            self._own(lost=False)

    def _own(self, *, lost: bool) -> None:
        if self._slots is None or self._owner is None or self._topics is None:
            return
        before, active = self._active, self._slots.tasks
        first, self._active = before is None, active
        if first and self._requests is not None and self._topics.first is not None:
            self._requests.listen_soon(self._topics.first)
        self._gate.owns(active)
        copies = self._copies
        if copies is not None and before != active:
            copies.changed(active, (before or frozenset()) - active)
        self._owner.own(Tasks(active) if copies is None else Tasks(active, *copies.take()), lost=lost)

    # ------------------------------------------------------------------ for the worker

    def poll(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if self._slots is not None:
            self._slots.poll()
        if self._requests is not None:
            self._requests.poll()
        self._poll_copies()

    def _poll_copies(self) -> None:
        copies = self._copies
        if copies is None or self._topics is None or self._active is None:
            return
        held_back = copies.warm_up.is_arriving
        copies.poll(self._active)
        if copies.must_subscribe:
            self._subscribe(self._topics)
        if copies.has_others:
            self._own(lost=False)
        elif held_back:
            self._notify()  # of tasks that no longer need to wait

    def take_lags(self, lags: Mapping[TaskId, int]) -> None:
        if self._copies is not None:
            self._copies.warm_up.take_lags(lags)

    def is_warming_up(self) -> bool:
        return self._copies is not None and self._copies.warm_up.coming in (Coming.FILLING, Coming.ARRIVING)

    def take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        if self._requests is not None:
            self._requests.take(partition, messages)

    def request_shutdown(self, reason: str) -> None:
        first = None if self._topics is None else self._topics.first
        if self._requests is None or first is None:
            raise StreamsError(
                "the shutdown request cannot be sent to the members of the application: this member has not joined the"
                " group"
            )
        self._requests.ask(first, reason)

    def identity(self) -> Any:
        return self._consumer.group_metadata()

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._consumer.commit(offsets)

    def leave(self, *, remain: bool = False) -> None:
        self._consumer.close()
        self._owner = self._slots = None  # after the close, which gives the tasks back through both
        if self._copies is not None:
            self._copies.close()
        if not remain:
            self.remove_from_group()

    def remove_from_group(self) -> None:
        if self._leave_static is not None:
            try:
                self._leave_static()
            except StreamsError as error:
                log.warning(
                    "did not leave the group; its tasks wait for the session timeout", extra={"error": str(error)}
                )
