"""Membership: how a worker gets its tasks, as a port, and its implementation on Kafka's own groups. A port, and its
implementation on Kafka's own groups.

`client_contracts.membership` is what every implementation keeps, `streams.testing.FakeGroup` the smallest one.

The membership calls ``owner.own`` with the tasks that the worker owns now, on the worker's own thread; its return is
the acknowledgement. Nothing else in the runtime knows which implementation runs.

`ControlTopicMembership` uses the client's own group membership on one small topic per subtopology,
``<application.id>-<subtopology>-tasks`` with a partition for each task: owning its partition p *is* owning task p, but
for tasks that members have exchanged (`streams.kafka.membership.task_slots`). The group assigns those partitions, and
never gives one to two members; the task's real partitions are added by the runtime. So ownership depends neither on
metadata nor on the version of the topology that a worker runs. A worker also refuses to open tasks beside members of
another topology, whose hash it reads from their client ids.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError, TopologyError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.group_topology import GroupTopology, control_topic
from streams.kafka.membership.shutdown_requests import ShutdownRequested, ShutdownRequests
from streams.kafka.membership.task_slots import TaskSlots
from streams.kafka.ports import Admin, Consumer, GroupMember, NewTopic, OffsetAndMetadata
from streams.log import RepeatedLines
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.membership")

CONTROL_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1"}
OTHER_TOPOLOGY_PAUSE_S = 1.0
LISTEN_DELAY_S = 1.0
"""Time between the first assignment and the first read of the control topic, which is mostly empty: a fetch that waits
for it delays those of input topics."""


@dataclass(frozen=True)
class Tasks:
    """The tasks that one worker owns."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()


class Owner(Protocol):
    """A worker, as its membership calls it; it is called on its own thread only."""

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        """Makes the worker own exactly these tasks. What is not among them is closed before this returns, after a
        commit unless ``lost``; what is new is opened later, in the worker's loop."""
        ...


class Membership(Protocol):
    """The membership of a worker in its group, by which it gets its tasks."""

    def join(self, topology: GroupTopology, owner: Owner) -> None: ...

    def poll(self) -> None:
        """Keeps the membership alive; may call ``owner.own``. The consumer's own poll is one too."""
        ...

    def identity(self) -> Any:
        """Returns the identity that fences a commit; read immediately before each transaction's commit."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits offsets without a transaction. Raises `TaskMigratedError` (abandon) or `CommitAgain` (after the next
        poll)."""
        ...

    def may_open(self) -> bool:
        """Whether tasks may be opened now; they may not beside workers of another topology."""
        ...

    def is_blocked(self) -> bool:
        """Whether members of another topology were the reason of the last `may_open` that was false; any thread may
        call it."""
        ...

    def extend(self, topology: GroupTopology) -> None:
        """Adds the tasks that the topology has got since the worker joined."""
        ...

    def take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        """Takes consumed records that belong to no task: the membership's own, or late ones of a task that went away.

        :raises ShutdownRequested: if a member asked all to shut down.
        """
        ...

    def request_shutdown(self, reason: str) -> None:
        """Asks every other member to shut down, as KIP-671 does.

        :raises StreamsError: if they cannot be reached.
        """
        ...

    def leave(self, *, remain: bool = False) -> None:
        """Ends the membership.

        :param remain: whether a static member remains in the group, since it comes back: it keeps its tasks for the
            session timeout.
        """
        ...

    def remove_from_group(self) -> None:
        """Removes a static member that remained in the group and does not come back, so that others get its tasks at
        once."""
        ...


def topology_hash(description: str) -> str:
    """Returns eight hexadecimal digits that identify a topology."""
    return hashlib.sha256(description.encode()).hexdigest()[:8]


_HASH = re.compile(r"-topology-([0-9a-f]{8})$")


def client_id_with_hash(client_id: str, digest: str) -> str:
    """Returns a consumer's client id that carries the hash of its topology."""
    return f"{client_id}-topology-{digest}"


def other_topologies(members: Collection[GroupMember], own: str) -> list[str]:
    """Returns the client ids of members that run another topology."""
    return sorted(
        member.client_id for member in members if (found := _HASH.search(member.client_id)) and found.group(1) != own
    )


class ControlTopicMembership:
    """The membership of a worker in Kafka's own group, on control topics; the text of this module describes it.

    :param requests: the shutdown requests of the process; without it, none are sent or read.
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
    ) -> None:
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._repeated = RepeatedLines(log, clock)
        self._leave_static = leave_static
        self._requests = requests
        self._assigned = False
        self._requests_from: TopicPartition | None = None
        self._active: frozenset[TaskId] = frozenset()
        self._slots: TaskSlots | None = None
        self._subtopologies: dict[str, int] = {}
        self._topology: GroupTopology | None = None
        self._owner: Owner | None = None
        self._failure: Exception | None = None
        self._next_check = self._next_listen = 0.0
        self._blocked = False
        self._checked: frozenset[TaskId] = frozenset()

    # ------------------------------------------------------------------ joining

    def join(self, topology: GroupTopology, owner: Owner) -> None:
        """Creates the control topics and joins the group; tasks come with the consumer's polls.

        :raises TopologyError: if a control topic has another number of partitions than there are tasks.
        """
        self._topology, self._owner = topology, owner
        self._slots = TaskSlots(
            self._consumer,
            self._admin,
            self._clock,
            topology,
            close=self._notify,
        )
        counts = {control_topic(topology.prefix, part): count for part, count in topology.task_counts.items() if count}
        self._subtopologies = {
            control_topic(topology.prefix, n): n for n, count in topology.task_counts.items() if count
        }
        existing = {name: info.partitions for name, info in self._admin.topics(list(counts)).items()}
        for name, count in counts.items():
            if existing.get(name, count) != count and self._subtopologies[name] not in topology.growing:
                raise TopologyError(
                    f"control topic {name!r} has {existing[name]} partitions but the subtopology has {count} tasks: its"
                    " source topics were given other partition counts. Give them the counts they had, or reset the"
                    " application",
                    topic=name,
                )
        new = {name: count for name, count in counts.items() if name not in existing}
        self._admin.create_topics(
            [NewTopic(name=name, partitions=count, configs=CONTROL_CONFIGS) for name, count in new.items()]
        )
        self._grow({name: count for name, count in counts.items() if existing.get(name, count) < count})
        self._consumer.subscribe(list(counts), self)

    def extend(self, topology: GroupTopology) -> None:
        """Adds partitions to control topics for new tasks; the group assigns them when its leader sees them."""
        known = {} if self._topology is None else self._topology.task_counts
        self._grow(
            {
                control_topic(topology.prefix, part): count
                for part, count in topology.task_counts.items()
                if part in topology.growing and count > known.get(part, 0)
            }
        )
        self._topology = topology
        if self._slots is not None:
            self._slots.extend(topology.task_counts)

    def _grow(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self._admin.add_partitions(name, count)

    def may_open(self) -> bool:
        topology = self._topology
        if topology is None:
            return False
        active = self._active
        if active <= self._checked:
            self._blocked = False
            return True
        now = self._clock.monotonic()
        if now < self._next_check:
            return False
        self._next_check = now + OTHER_TOPOLOGY_PAUSE_S
        try:
            members = self._admin.group_members(topology.application_id)
        except RetryableError as error:
            self._repeated.log("the group cannot be described; tasks stay closed", error=str(error))
            return False
        others = other_topologies(members, topology.hash)
        self._blocked = bool(others)
        if others:
            self._repeated.log(
                "tasks stay closed: members of the group run another topology; stop them, or this worker",
                level=logging.WARNING,
                members=", ".join(others),
            )
            return False
        self._checked = active
        return True

    def is_blocked(self) -> bool:
        return self._blocked

    # ------------------------------------------------------------------ called by the consumer

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if self._slots is not None:
            self._slots.gained(self._found(partitions))
            if not self._slots.unread:  # otherwise the next poll finds out their tasks
                self._assignment_changed(lost=False)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        if self._slots is not None:
            self._slots.gone(self._found(partitions))
            self._assignment_changed(lost=False)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        if self._slots is not None:
            self._slots.gone(self._found(partitions))
            self._assignment_changed(lost=True)

    def _found(self, partitions: Collection[TopicPartition]) -> set[TaskId]:
        return {TaskId(self._subtopologies[topic], partition) for topic, partition in partitions}

    def _assignment_changed(self, *, lost: bool) -> None:
        try:
            self._own(lost=lost)
        except BaseException as error:  # none may pass through the client's callback, so the next poll raises it
            if passes(error):
                raise
            self._failure = self._failure or as_error(error, "while tasks were given up")

    def _notify(self) -> None:
        """Notifies the owner if the tasks of its slots have changed."""
        if not self._assigned or (self._slots is not None and self._slots.tasks != self._active):
            self._own(lost=False)

    def _own(self, *, lost: bool) -> None:
        if self._slots is None or self._owner is None:
            return
        active = self._active = self._slots.tasks
        if not self._assigned:
            self._assigned = True
            self._next_listen = self._clock.monotonic() + LISTEN_DELAY_S
        self._checked &= active
        self._owner.own(Tasks(active), lost=lost)

    # ------------------------------------------------------------------ for the worker

    def poll(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if self._slots is not None:
            self._slots.poll()
        if self._assigned and self._requests_from is None:
            self._listen()

    def _listen(self) -> None:
        """Starts to read requests once the group has assigned partitions to this member: before that, the client takes
        none."""
        now = self._clock.monotonic()
        if self._requests is None or not self._subtopologies or now < self._next_listen:
            return
        self._next_listen = now + OTHER_TOPOLOGY_PAUSE_S
        try:
            self._requests_from = self._requests.listen(self._consumer, self._requests_topic())
        except RetryableError as error:
            self._repeated.log("requests of other members cannot be read yet", error=str(error))
        except StreamsError as error:  # such as a missing right: requests are then not read
            self._next_listen = math.inf
            log.warning("requests of other members to shut down are not read", extra={"error": str(error)})

    def _requests_topic(self) -> str:
        return min(self._subtopologies, key=lambda topic: self._subtopologies[topic])

    def take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        if partition == self._requests_from and self._requests is not None:
            reason = self._requests.reason(messages)
            if reason is not None:
                raise ShutdownRequested(f"a member of the application asked all of them to shut down: {reason}")

    def request_shutdown(self, reason: str) -> None:
        if self._requests is None or not self._subtopologies:
            raise StreamsError(
                "the members of the application cannot be asked to shut down: this member has not joined the group"
            )
        self._requests.ask(self._requests_topic(), reason)

    def identity(self) -> Any:
        return self._consumer.group_metadata()

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._consumer.commit(offsets)

    def leave(self, *, remain: bool = False) -> None:
        self._consumer.close()
        self._owner = self._slots = None
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
