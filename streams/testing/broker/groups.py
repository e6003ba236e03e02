"""Consumer groups as the broker keeps them: members, generations, targets of the assignment, committed offsets.

A change of the members, of what they subscribe to or of those topics starts a round: a new generation and a new target
for every member (`assignment.assign`). Each member asks for its next step whenever it polls: first to revoke what it
owns beyond its target, then to take what is in its target and no other member owns. A member that has revoked something
starts the next round, in which others find it free; so a partition is never owned twice.

Simplifications: no member waits for another, so a round is over for each member when it has polled (Kafka holds all
members until the last has joined); sessions are kept alive by the member's calls alone, there is no heartbeat thread.
Nothing here takes a lock: the broker holds its own around every call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import Literal, NamedTuple

from processor_api.task_id import TopicPartition
from streams.kafka import streams_group
from streams.kafka.ports import OffsetAndMetadata
from streams.testing.streams_groups import StreamsMembers


class MemberState(NamedTuple):
    """The input of the assignment for one member."""

    topics: Collection[str]
    owned: Collection[TopicPartition]


def assign(
    members: Mapping[str, MemberState], partition_counts: Mapping[str, int]
) -> dict[str, frozenset[TopicPartition]]:
    """Returns the target of every member; partitions of a topic that no member subscribes to are left out.

    The target is balanced by number of partitions and sticky: no partition changes its owner unless balance or a
    subscription requires it. When all members subscribe to the same topics the counts differ by one at most and the
    number of moves is the least possible; otherwise no single move from one member to another would improve the
    balance. Equal cases are decided by name, so that the same group always gets the same answer. A partition that two
    members claim to own stays with the first by name.
    """
    names = sorted(members)
    subscribed = {
        topic: [name for name in names if topic in members[name].topics] for topic in sorted(partition_counts)
    }
    target = _kept(members, names, subscribed, partition_counts)
    taken = set().union(*target.values())
    for topic, readers in subscribed.items():
        for partition in (TopicPartition(topic, p) for p in range(partition_counts[topic])):
            if readers and partition not in taken:
                target[min(readers, key=lambda name: len(target[name]))].add(partition)
    while _move_one(target, subscribed):
        pass
    return {name: frozenset(partitions) for name, partitions in target.items()}


def _kept(
    members: Mapping[str, MemberState],
    names: list[str],
    subscribed: Mapping[str, list[str]],
    partition_counts: Mapping[str, int],
) -> dict[str, set[TopicPartition]]:
    taken: set[TopicPartition] = set()
    target: dict[str, set[TopicPartition]] = {}
    for name in names:
        target[name] = {
            partition
            for partition in members[name].owned
            if partition not in taken
            and partition.partition < partition_counts.get(partition.topic, 0)
            and name in subscribed[partition.topic]
        }
        taken |= target[name]
    return target


def _move_one(target: dict[str, set[TopicPartition]], subscribed: Mapping[str, list[str]]) -> bool:
    """Moves one partition from a member to one with at least two fewer; ``False`` if there is no such pair."""
    least = min(map(len, target.values()), default=0)
    for giver in sorted(target, key=lambda name: (-len(target[name]), name)):
        if len(target[giver]) < least + 2:
            return False
        for partition in sorted(target[giver], reverse=True):
            taker = min(subscribed[partition.topic], key=lambda name: len(target[name]))
            if len(target[taker]) <= len(target[giver]) - 2:
                target[giver].remove(partition)
                target[taker].add(partition)
                return True
    return False


class GroupIdentity(NamedTuple):
    """The member that commits; generation -1 without a member is a client outside of the group."""

    group: str
    generation: int = -1
    member: str = ""
    instance: str | None = None


class Step(NamedTuple):
    """The next step of a member in a rebalance, and its partitions."""

    kind: Literal["revoke", "assign", "lose"]
    partitions: frozenset[TopicPartition]


class Member:
    """A member of a group. ``generation`` and ``owned`` are what the member itself knows."""

    __slots__ = (
        "client_id",
        "generation",
        "instance",
        "last_seen_s",
        "member_id",
        "owned",
        "revoking",
        "session_timeout_s",
        "target",
        "topics",
    )

    def __init__(
        self,
        member_id: str,
        client_id: str,
        instance: str | None,
        topics: Collection[str],
        session_timeout_s: float,
    ) -> None:
        self.member_id = member_id
        self.client_id = client_id
        self.instance = instance
        self.topics = frozenset(topics)
        self.session_timeout_s = session_timeout_s
        self.last_seen_s = 0.0
        self.generation = -1
        self.owned: frozenset[TopicPartition] = frozenset()
        self.target: frozenset[TopicPartition] = frozenset()
        self.revoking = False


class Group:
    """One consumer group."""

    def __init__(self, name: str, partition_counts: Callable[[], Mapping[str, int]]) -> None:
        self.name = name
        self.generation = 0
        self.members: dict[str, Member] = {}
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.pending: dict[TopicPartition, set[int]] = {}
        """Producers whose open transactions hold an offset of the partition."""
        self.streams: StreamsMembers | None = None
        self.standby_replicas = 0
        """Its setting ``streams.num.standby.replicas``, which a group of the streams protocol uses from its first
        member on."""
        """The members of a group of the streams protocol; ``None`` of a classic one."""
        self._partition_counts = partition_counts

    @property
    def has_members(self) -> bool:
        """Whether the group has members, of any protocol."""
        return bool(self.members) or (self.streams is not None and bool(self.streams.members))

    def heartbeat(
        self,
        beat: streams_group.Heartbeat,
        client_id: str,
        now_s: float,
        create: Callable[[streams_group.GroupTopic, int], None],
    ) -> streams_group.HeartbeatAnswer:
        """Answers a heartbeat of the streams protocol; the first that joins makes the group one of that protocol.

        :raises GroupOfOtherProtocol: if the group has classic members, or is none of the streams protocol.
        """
        if self.members:
            raise streams_group.GroupOfOtherProtocol(f"Group {self.name} is not a streams group.")
        if self.streams is None:
            if beat.member.epoch != streams_group.JOIN_EPOCH or beat.joining is None:
                raise streams_group.GroupOfOtherProtocol(f"Group {self.name} is not a streams group.")
            if beat.member.instance_id is None:
                topology = beat.joining.topology
                self.streams = StreamsMembers(topology, self._partition_counts, create, self.standby_replicas)
            else:
                raise streams_group.StaticMembersRefused(
                    "INVALID_REQUEST (42): Static membership is not yet supported."
                )
        return self.streams.heartbeat(beat, client_id, now_s)

    def static_member(self, instance: str | None) -> Member | None:
        """Returns the member that holds a ``group.instance.id`` now."""
        if instance is None:
            return None
        return next((member for member in self.members.values() if member.instance == instance), None)

    @property
    def at_rest(self) -> bool:
        """Whether every member has what it should have."""
        return all(one.generation == self.generation and one.owned == one.target for one in self.members.values())

    def join(self, member: Member, now_s: float) -> None:
        """Adds a member. One with the instance id of another takes its place at once, in the same generation."""
        member.last_seen_s = now_s
        replaced = self.static_member(member.instance)
        if replaced is not None:
            del self.members[replaced.member_id]
        self.members[member.member_id] = member
        if replaced is None or replaced.topics != member.topics or replaced.owned != replaced.target:
            self.rebalance(replaced, member)
        else:
            member.target = replaced.target

    def leave(self, member: Member) -> None:
        if self.members.get(member.member_id) is member:
            del self.members[member.member_id]
            self.rebalance()

    def subscribe(self, member: Member, topics: Collection[str]) -> None:
        if member.topics != frozenset(topics):
            member.topics = frozenset(topics)
            self.rebalance()

    def rebalance(self, replaced: Member | None = None, by: Member | None = None) -> None:
        """Starts a round; a static member that takes another's place counts as the owner of what that one had."""
        self.generation += 1
        known = {
            name: MemberState(m.topics, replaced.target if replaced is not None and m is by else m.owned)
            for name, m in self.members.items()
        }
        for name, target in assign(known, self._partition_counts()).items():
            self.members[name].target = target

    def next_step(self, member: Member) -> Step | None:
        """Returns the step that the member has to take now, or ``None``. After a "revoke" step it calls
        :meth:`revoked`."""
        if member.generation == self.generation:
            return None
        member.generation = self.generation
        surplus = member.owned - member.target
        if surplus:
            member.revoking = True
            return Step("revoke", surplus)
        held = {p for other in self.members.values() if other is not member for p in other.owned}
        granted = member.target - member.owned - held
        member.owned |= granted
        return Step("assign", granted)

    def revoked(self, member: Member, partitions: frozenset[TopicPartition]) -> None:
        """Notes that the member has revoked the partitions: they are free for the next round."""
        member.revoking = False
        member.owned -= partitions
        if self.members.get(member.member_id) is member:
            self.rebalance()

    def refusal(self, identity: GroupIdentity, partitions: Collection[TopicPartition]) -> str | None:
        """Returns the error that a commit of partitions under this identity meets, or ``None``."""
        if not identity.member and identity.generation < 0:
            return None
        if self.streams is not None:
            return self.streams.refusal(identity.member, identity.generation, partitions)
        member = self.members.get(identity.member)
        holder = self.static_member(identity.instance)
        if holder is not None and holder.member_id != identity.member:
            return "FENCED_INSTANCE_ID"
        if member is None:
            return "UNKNOWN_MEMBER_ID"
        # While a member gives partitions up the group waits for it, so that it can commit.
        current = identity.generation == self.generation or (
            member.revoking and identity.generation == member.generation
        )
        return None if current else "ILLEGAL_GENERATION"

    def decide(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], committed: bool) -> None:
        """A transaction with offsets of the group ended."""
        for partition in offsets:
            self.pending[partition].discard(producer_id)
            if not self.pending[partition]:
                del self.pending[partition]
        if committed:
            self.offsets.update(offsets)


class GroupCoordinator:
    """All groups of a broker."""

    def __init__(self, partition_counts: Callable[[], Mapping[str, int]]) -> None:
        self._partition_counts = partition_counts
        self._groups: dict[str, Group] = {}
        self._member_numbers = count(1)

    def group(self, name: str) -> Group:
        """The group of this name; an empty one if there was none."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = Group(name, self._partition_counts)
        return found

    def names(self) -> list[str]:
        """Returns the groups that have members or committed offsets."""
        return [
            name
            for name, group in self._groups.items()
            if group.has_members or group.offsets or group.streams is not None
        ]

    def new_member_id(self, client_id: str) -> str:
        return f"{client_id}-{next(self._member_numbers)}"

    def decide(
        self, producer_id: int, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], committed: bool
    ) -> None:
        self.group(group).decide(producer_id, offsets, committed)

    def topics_changed(self, names: Collection[str]) -> None:
        """Starts a round of the groups that are subscribed to topics that were created or deleted."""
        changed = frozenset(names)
        for group in self._groups.values():
            if any(changed & member.topics for member in group.members.values()):
                group.rebalance()

    def forget_offsets(self, topic: str) -> None:
        """A topic was deleted, and the committed offsets of its partitions with it."""
        for group in self._groups.values():
            group.offsets = {
                partition: offset for partition, offset in group.offsets.items() if partition.topic != topic
            }

    def expire(self, now_s: float) -> bool:
        """Removes the members past their session; says whether there was one."""
        expired = False
        for group in self._groups.values():
            late = [m.member_id for m in group.members.values() if now_s >= m.last_seen_s + m.session_timeout_s]
            for member_id in late:
                del group.members[member_id]
            if late:
                expired = True
                group.rebalance()
            if group.streams is not None and group.streams.expire(now_s):
                expired = True
        return expired

    def next_deadline_s(self) -> float:
        """Returns when the next session ends if its member makes no call."""
        groups = self._groups.values()
        classic = (m.last_seen_s + m.session_timeout_s for group in groups for m in group.members.values())
        streams = (group.streams.next_deadline_s() for group in groups if group.streams is not None)
        return min((*classic, *streams), default=float("inf"))

    def delete(self, name: str) -> None:
        """Deletes a group without members, and its committed offsets with it."""
        self._groups.pop(name, None)
