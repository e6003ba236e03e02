"""Groups of the streams protocol (KIP-1071) as the broker keeps them: topology, members, epochs, targets.

A heartbeat brings its member one step further (`StreamsMembers.heartbeat`): it gives up what is not in its target, then
its epoch moves to that of the target, and it gets what no other member has. The answer has tasks only where the member
joins, or these have changed with this heartbeat, as on Apache Kafka 4.3: what was lost is not sent again.

Simplifications: no standby and warm-up tasks, and static members are refused, as by brokers before 4.4. Internal topics
are made at once, but the member hears of it with its next heartbeat. Nothing here takes a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from processor_api.errors import StreamsError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.streams_group import (
    JOIN_EPOCH,
    GroupStatus,
    GroupSubtopology,
    GroupTopic,
    Heartbeat,
    HeartbeatAnswer,
    JoiningMember,
    MemberFenced,
    StaticMembersRefused,
    TaskLists,
    TopologyRefused,
)
from streams.testing.fake_membership import spread

INTERVAL_S = 5.0
SESSION_S = 45.0

Statuses = tuple[tuple[GroupStatus, str], ...]


class StreamsMember:
    """A member as the group knows it."""

    def __init__(self, member_id: str, client_id: str, joining: JoiningMember) -> None:
        self.member_id, self.client_id, self.process_id = member_id, client_id, joining.process_id
        self.rebalance_timeout_s = joining.rebalance_timeout_ms / 1000
        self.epoch = self.previous_epoch = JOIN_EPOCH
        self.assigned: frozenset[TaskId] = frozenset()
        self.pending: frozenset[TaskId] = frozenset()
        """Tasks that it has to give up, and has not yet."""
        self.target: frozenset[TaskId] = frozenset()
        self.copies: frozenset[TaskId] = frozenset()
        """The tasks of which it keeps a standby copy."""
        self.seen_s = 0.0
        self.revoke_by_s = float("inf")

    @property
    def held(self) -> frozenset[TaskId]:
        """Returns the tasks that it may have open."""
        return self.assigned | self.pending

    @property
    def lists(self) -> TaskLists:
        """Returns the tasks to own, as an answer has them."""
        return TaskLists(self.assigned, self.copies - self.held)


@dataclass
class ConfiguredTopology:
    """The tasks that a topology has on the topics that exist, or why it has none."""

    tasks: frozenset[TaskId] = frozenset()
    statuses: Statuses = ()
    wanted: dict[str, tuple[int, GroupTopic]] = field(default_factory=dict)
    """Internal topics to create, with their partitions."""


def configure(topology: Collection[GroupSubtopology], counts: Mapping[str, int]) -> ConfiguredTopology:
    """Fits a topology to the topics that exist."""
    missing = sorted({name for part in topology for name in part.sources if name not in counts})
    if missing:
        text = f"Source topics {', '.join(missing)} are missing."
        return ConfiguredTopology(statuses=((GroupStatus.MISSING_SOURCE_TOPICS, text),))
    repartition = _repartition_counts(topology, counts)
    known = {**counts, **repartition}
    for part in topology:
        for group in part.copartitions:
            if len({known[name] for name in group}) > 1:
                listed = ", ".join(f"{name}={known[name]}" for name in group)
                text = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
                return ConfiguredTopology(statuses=((GroupStatus.INCORRECTLY_PARTITIONED_TOPICS, text),))
    found = ConfiguredTopology()
    tasks: set[TaskId] = set()
    for part in topology:
        names = [*part.sources, *(topic.name for topic in part.repartition_sources)]
        count = max((known[name] for name in names), default=0)
        tasks.update(TaskId(part.id, number) for number in range(count))
        needed = {topic.name: (repartition[topic.name], topic) for topic in part.repartition_sources}
        needed |= {topic.name: (count, topic) for topic in part.changelogs}
        for name, (partitions, topic) in needed.items():
            if name not in counts:
                found.wanted[name] = partitions, topic
            elif counts[name] != partitions:
                text = (
                    f"Existing topic {name} has different number of partitions: expected {partitions}, found"
                    f" {counts[name]}"
                )
                return ConfiguredTopology(statuses=((GroupStatus.INCORRECTLY_PARTITIONED_TOPICS, text),))
    if found.wanted:
        text = f"Internal topics are missing: {', '.join(sorted(found.wanted))}"
        found.statuses = ((GroupStatus.MISSING_INTERNAL_TOPICS, text),)
    else:
        found.tasks = frozenset(tasks)
    return found


def _repartition_counts(topology: Collection[GroupSubtopology], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the partitions of repartition topics: those given, or as many as what is written to them is read from;
    topics that go together get as many as the others."""
    topics = {topic.name: topic for part in topology for topic in part.repartition_sources}
    found = {name: topic.partitions for name, topic in topics.items() if topic.partitions}
    for _ in topics:
        for name in topics.keys() - found.keys():
            upstream = [
                found.get(read, counts.get(read, 0))
                for part in topology
                if name in part.repartition_sinks
                for read in (*part.sources, *(one.name for one in part.repartition_sources))
            ]
            if upstream and all(upstream):
                found[name] = max(upstream)
    found = {name: found.get(name, 1) for name in topics}
    for part in topology:
        for group in part.copartitions:
            fixed = [counts[name] for name in group if name not in topics]
            fixed += [topics[name].partitions for name in group if name in topics and topics[name].partitions]
            wide = fixed[0] if fixed else max(found[name] for name in group)
            found |= {name: wide for name in group if name in topics and not topics[name].partitions}
    return found


class StreamsMembers:
    """The members of one group of the streams protocol.

    :param counts: returns the partitions of the topics that exist.
    :param create: creates an internal topic with this many partitions.
    :param standby_replicas: the standby copies of each task with a changelog; a copy is never in the process of its
        task.
    """

    def __init__(
        self,
        topology: tuple[GroupSubtopology, ...],
        counts: Callable[[], Mapping[str, int]],
        create: Callable[[GroupTopic, int], None],
        standby_replicas: int = 0,
    ) -> None:
        self.topology = topology
        self._replicas = standby_replicas
        self.members: dict[str, StreamsMember] = {}
        self.session_s = SESSION_S
        self.epoch = 0
        self._target_epoch = 0
        self._tasks: frozenset[TaskId] = frozenset()
        self._shutdown_by: str | None = None
        self._counts, self._create = counts, create

    @property
    def at_rest(self) -> bool:
        """Whether every member has what it should have."""
        return all(one.epoch == self.epoch and one.held == one.target for one in self.members.values())

    # ------------------------------------------------------------------ heartbeats

    def heartbeat(self, beat: Heartbeat, client_id: str, now_s: float) -> HeartbeatAnswer:
        """Answers a heartbeat.

        :raises MemberFenced: if the group does not have the member at this epoch.
        :raises StreamsError: if it refuses the member.
        """
        member_id, epoch, instance_id = beat.member
        if instance_id is not None:
            raise StaticMembersRefused("INVALID_REQUEST (42): Static membership is not yet supported.")
        if epoch < JOIN_EPOCH:
            if self.members.pop(member_id, None) is None:
                raise MemberFenced(f"Member {member_id} is not a member of the group.")
            self._left()
            return HeartbeatAnswer(epoch=epoch, interval_s=INTERVAL_S)
        member = self._joined(beat, client_id) if epoch == JOIN_EPOCH else self._known(beat)
        member.seen_s = now_s
        configured = configure(self.topology, self._counts())
        for partitions, topic in configured.wanted.values():
            self._create(topic, partitions)
        if configured.tasks != self._tasks:
            self._tasks = configured.tasks
            self.epoch += 1
        if beat.asks_for_shutdown:
            self._shutdown_by = member_id
        before = member.lists
        self._reconcile(member, beat.owned, now_s)
        changed = epoch == JOIN_EPOCH or member.lists != before
        return HeartbeatAnswer(
            epoch=member.epoch,
            interval_s=INTERVAL_S,
            tasks=member.lists if changed else None,
            statuses=(*configured.statuses, *self._shutdown()),
        )

    def _joined(self, beat: Heartbeat, client_id: str) -> StreamsMember:
        joining = beat.joining
        if joining is None or beat.owned is None or any(beat.owned):
            raise StreamsError("a member joins with a description of itself and without tasks")
        if joining.topology != self.topology:
            raise TopologyRefused(
                "the group was made for another topology, which the brokers do not replace: INVALID_REQUEST (42):"
                " Topology updates are not supported yet. Stop every worker, run `streams groups upgrade-topology`, and"
                " start again"
            )
        member = self.members.get(beat.member.member_id)
        if member is None:
            member = StreamsMember(beat.member.member_id, client_id, joining)
            self.members[member.member_id] = member
            self.epoch += 1
        return member

    def _known(self, beat: Heartbeat) -> StreamsMember:
        member = self.members.get(beat.member.member_id)
        if member is None:
            raise MemberFenced(f"Member {beat.member.member_id} is not a member of the group.")
        repeats = (
            beat.member.epoch == member.previous_epoch
            and beat.owned is not None
            and beat.owned.active <= member.assigned
        )
        if beat.member.epoch != member.epoch and not repeats:
            raise MemberFenced(f"member {beat.member.member_id} has epoch {beat.member.epoch}, not {member.epoch}")
        return member

    def _reconcile(self, member: StreamsMember, owned: TaskLists | None, now_s: float) -> None:
        if self._target_epoch < self.epoch:
            self._place()
        if member.pending:
            if owned is None or owned.active & member.pending:
                return
            member.pending, member.revoke_by_s = frozenset(), float("inf")
        surplus = member.assigned - member.target
        if surplus:
            member.assigned -= surplus
            member.pending = surplus
            member.revoke_by_s = now_s + member.rebalance_timeout_s
            if owned is None or owned.active & surplus:
                return
            member.pending, member.revoke_by_s = frozenset(), float("inf")
        if member.epoch != self._target_epoch:
            member.previous_epoch, member.epoch = member.epoch, self._target_epoch
        others = (one.held for one in self.members.values() if one is not member)
        member.assigned |= member.target.difference(*others)

    def _place(self) -> None:
        placed = spread(self._tasks, {one.member_id: one.target for one in self.members.values()})
        for member_id, tasks in placed.items():
            self.members[member_id].target = frozenset(tasks)
        self._target_epoch = self.epoch
        self._place_copies()

    def _place_copies(self) -> None:
        copies: dict[str, set[TaskId]] = {member_id: set() for member_id in self.members}
        logged = {part.id for part in self.topology if part.changelogs}
        for owner in self.members.values():
            others = [one for one in sorted(self.members) if self.members[one].process_id != owner.process_id]
            for task in sorted(owner.target):
                if task.subtopology in logged:
                    for member_id in sorted(others, key=lambda one: len(copies[one]))[: self._replicas]:
                        copies[member_id].add(task)
        for member_id, tasks in copies.items():
            self.members[member_id].copies = frozenset(tasks)

    def _shutdown(self) -> Statuses:
        if self._shutdown_by is None:
            return ()
        text = f"Streams group member {self._shutdown_by} encountered a fatal error and requested a shutdown"
        return ((GroupStatus.SHUTDOWN_APPLICATION, f"{text} for the entire application."),)

    # ------------------------------------------------------------------ members that go

    def remove(self, member_id: str) -> None:
        """Removes a member, as the end of its session does."""
        if self.members.pop(member_id, None) is not None:
            self._left()

    def _left(self) -> None:
        self.epoch += 1
        if not self.members:
            self._shutdown_by = None

    def expire(self, now_s: float) -> bool:
        """Removes the members past their session, or past their time to give up tasks; says whether there was one."""
        late = [
            one.member_id
            for one in self.members.values()
            if now_s >= one.seen_s + self.session_s or now_s >= one.revoke_by_s
        ]
        for member_id in late:
            self.remove(member_id)
        return bool(late)

    def next_deadline_s(self) -> float:
        """Returns when the next member is removed if it sends no heartbeat."""
        return min(
            (min(one.seen_s + self.session_s, one.revoke_by_s) for one in self.members.values()), default=float("inf")
        )

    # ------------------------------------------------------------------ commits

    def refusal(self, member_id: str, epoch: int, partitions: Collection[TopicPartition]) -> str | None:
        """Returns the error that a commit of a member meets, or ``None``. One of an earlier epoch is taken for tasks
        that it still has; one of the present epoch for all partitions."""
        member = self.members.get(member_id)
        if member is None:
            return "UNKNOWN_MEMBER_ID"
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            return "ILLEGAL_GENERATION"
        read = {name: part.id for part in self.topology for name in part.sources}
        read |= {topic.name: part.id for part in self.topology for topic in part.repartition_sources}
        tasks = {TaskId(read[topic], number) for topic, number in partitions if topic in read}
        return None if tasks <= member.held else "ILLEGAL_GENERATION"
