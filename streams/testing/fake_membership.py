"""A group in memory that hands out tasks, without topics, consumers and timeouts.

It stands for `streams.kafka.membership.port.Membership` where a test decides which member owns which task,
and is the shortest implementation of that port that keeps its contract (`client_contracts.membership`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from processor_api.errors import StreamsError, TaskMigratedError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.port import GroupTopology, Owner, ShutdownRequested, Tasks
from streams.kafka.membership.spread import spread as exchanges
from streams.kafka.ports import OffsetAndMetadata

Owned = Mapping[str, frozenset[TaskId]]
"""The tasks of each member, by its instance id."""

Place = Callable[[frozenset[TaskId], Owned], Mapping[str, Collection[TaskId]]]
"""A function from ``(all tasks, the owner of each)`` to the tasks that each member shall own. A task without an owner
stays closed."""


def spread(tasks: frozenset[TaskId], owned: Owned) -> dict[str, set[TaskId]]:
    """Gives as many tasks to each member, each subtopology spread evenly, and moves few of them."""
    share, more = divmod(len(tasks), len(owned))
    found: dict[str, set[TaskId]] = {}
    for number, member in enumerate(sorted(owned, key=lambda one: (-len(owned[one]), one))):
        found[member] = set(sorted(owned[member] & tasks)[: share + (number < more)])
    free = sorted(tasks.difference(*found.values()))
    for task in free:
        min(sorted(found.items()), key=lambda one: len(one[1]))[1].add(task)
    former = {task: member for member, own in owned.items() for task in own}
    for first, second in exchanges(found, former=former):
        one, other = (next(own for own in found.values() if task in own) for task in (first, second))
        one ^= {first, second}
        other ^= {first, second}
    return found


class FakeGroup:
    """A group in memory for one application. Its members may run on several threads.

    :param place: decides which member shall own which tasks, whenever a member polls; :func:`spread` by default.
    """

    def __init__(self, place: Place = spread) -> None:
        self.place = place
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """The offsets that members have committed."""
        self.members: dict[str, FakeMembership] = {}
        """The members that have joined, by instance id."""
        self.away: dict[str, frozenset[TaskId]] = {}
        """The tasks of members that left to come back."""
        self.lock = threading.RLock()
        """Held by members while they look at the group or change it."""
        self._counts: dict[int, int] = {}

    def member(self, instance_id: str) -> FakeMembership:
        """Makes a member; it is in the group once it has joined."""
        return FakeMembership(self, instance_id)

    @property
    def owned(self) -> Owned:
        """Returns the tasks that each member owns now, including those of members that left to come back."""
        with self.lock:
            return {name: member.active for name, member in self.members.items()} | self.away

    def expire(self, instance_id: str) -> None:
        """Ends the session of a member. If it still runs, its next poll raises an error and it may no longer commit;
        if it left to come back, the others get its tasks."""
        with self.lock:
            self.away.pop(instance_id, None)
            self.members.pop(instance_id, None)

    def extend(self, topology: GroupTopology) -> None:
        """A member has these tasks, or more than were known."""
        with self.lock:
            for part, count in topology.task_counts.items():
                self._counts[part] = max(count, self._counts.get(part, 0))

    def target(self, instance_id: str) -> frozenset[TaskId]:
        """Returns the tasks that a member shall own, without those that another one still has."""
        tasks = frozenset(TaskId(part, number) for part, count in self._counts.items() for number in range(count))
        owned = self.owned
        others = frozenset().union(*(own for name, own in owned.items() if name != instance_id))
        wanted = {name: frozenset(each) for name, each in self.place(tasks, owned).items()}
        given = [task for each in wanted.values() for task in each]
        if unknown := (set(given) - tasks) | (set(wanted) - set(owned)):
            raise StreamsError(f"the group has no such tasks or members: {sorted(map(str, unknown))}")
        if len(given) != len(set(given)):
            raise StreamsError("a task was placed with two members")
        return wanted.get(instance_id, frozenset()) - others


class FakeMembership:
    """One member of a :class:`FakeGroup`; implements `streams.kafka.membership.port.Membership`."""

    def __init__(self, group: FakeGroup, instance_id: str) -> None:
        self.instance_id = instance_id
        self.active: frozenset[TaskId] = frozenset()
        self.waiting: list[str] = []
        """Requests to shut down that came; :meth:`take` is how a worker gets them."""
        self._group = group
        self._owner: Owner | None = None
        self._hash = ""
        self._notified = False
        self._checked: frozenset[TaskId] = frozenset()
        self._blocked = False

    def check(self, topology: GroupTopology) -> None:
        """Does nothing: a group takes any topology."""

    def join(self, topology: GroupTopology, owner: Owner) -> None:
        group = self._group
        with group.lock:
            self._owner, self._hash = owner, topology.hash
            group.away.pop(self.instance_id, None)
            group.members[self.instance_id] = self
            group.extend(topology)

    @property
    def _joined(self) -> bool:
        return self._group.members.get(self.instance_id) is self

    def poll(self) -> None:
        """Gives up the tasks that others shall have, or else takes those of its own that are free; it owns nothing that
        was lost."""
        group, owner = self._group, self._owner
        if owner is None:
            return
        with group.lock:
            lost = not self._joined
            target = frozenset() if lost else group.target(self.instance_id)
            kept = self.active & target
            if kept == self.active:
                kept = target
            if kept == self.active and self._notified:
                return
            if kept > self.active:  # from now on no other member gets them
                self.active = kept
        owner.own(Tasks(kept), lost=lost)
        self.active, self._notified = kept, True
        self._checked &= kept
        if lost:
            self._owner = None

    def identity(self) -> Any:
        return self.instance_id

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        with self._group.lock:
            if not self._joined:
                raise TaskMigratedError(f"member {self.instance_id!r} is no longer in the group")
            self._group.committed.update(offsets)

    def may_open(self) -> bool:
        with self._group.lock:
            if not self.active <= self._checked:
                self._blocked = any(one._hash != self._hash for one in self._group.members.values())
                if not self._joined or self._blocked:
                    return False
                self._checked = self.active
            return True

    def is_blocked(self) -> bool:
        return self._blocked

    def take_lags(self, lags: Mapping[TaskId, int]) -> None:
        """Does nothing: tasks move when the test says so."""

    def is_warming_up(self) -> bool:
        return False

    def group_status(self) -> str | None:
        return None

    def extend(self, topology: GroupTopology) -> None:
        self._group.extend(topology)

    def take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        """Raises the request to shut down, if there was one; no record is the membership's own."""
        if self.waiting:
            raise ShutdownRequested(f"a member of the application asked all of them to shut down: {self.waiting.pop()}")

    def request_shutdown(self, reason: str) -> None:
        with self._group.lock:
            for member in self._group.members.values():
                if member is not self:
                    member.waiting.append(reason)

    def leave(self, *, remain: bool = False) -> None:
        """Leaves the group, after the owner was called with no tasks."""
        owner, self._owner = self._owner, None
        if owner is not None and self.active:
            owner.own(Tasks(), lost=not self._joined)
        with self._group.lock:
            if self._joined:
                del self._group.members[self.instance_id]
                if remain:
                    self._group.away[self.instance_id] = self.active
            self.active = frozenset()

    def remove_from_group(self) -> None:
        with self._group.lock:
            self._group.away.pop(self.instance_id, None)
