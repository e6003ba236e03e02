"""Membership: how a worker gets its tasks, as a port.

`client_contracts.membership` is what every implementation keeps, `streams.testing.FakeGroup` the smallest one. That on
Kafka's own groups is `streams.kafka.membership.control_topic_membership`; one by another protocol is a file beside it.

The membership calls ``owner.own`` with the tasks that the worker owns now, on the worker's own thread; its return is
the acknowledgement. Nothing else in the runtime knows which implementation runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from processor_api.errors import StreamsError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.streams_group import GroupSubtopology


class ShutdownRequested(StreamsError):
    """Another member of the application asked all of them to shut down."""


@dataclass(frozen=True)
class GroupTopology:
    """Holds the part of a topology that membership needs."""

    application_id: str
    prefix: str
    task_counts: Mapping[int, int]
    """Tasks of each subtopology that has any."""
    hash: str
    """That of its layout: members with another one do not run at the same time."""
    growing: frozenset[int] = frozenset()
    """Subtopologies whose tasks may become more while members run."""
    subtopologies: tuple[GroupSubtopology, ...] = ()
    """The subtopologies with their topics, for a group that places tasks by them."""
    logged: frozenset[int] = frozenset()
    """Subtopologies with a store that has a changelog, of whose tasks there may be copies."""
    changelogs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The changelogs of the stores of each of these, by their real names, sorted."""


@dataclass(frozen=True)
class Tasks:
    """The tasks that one worker owns."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    """Those of which it keeps a copy, to take over if their owner ends."""
    warmup: frozenset[TaskId] = frozenset()
    """Those of which it has a copy only since they move: it fills that, to take them over when it is near (semantics
    100), or had them a moment ago. These copies answer no queries."""

    @property
    def copies(self) -> frozenset[TaskId]:
        """The tasks of which a copy is kept, for either reason."""
        return (self.standby | self.warmup) - self.active


class Owner(Protocol):
    """A worker, as its membership calls it; it is called on its own thread only."""

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        """Makes the worker own exactly these tasks. What is not among them is closed before this returns, after a
        commit unless ``lost``; what is new is opened later, in the worker's loop."""
        ...


class Membership(Protocol):
    """The membership of a worker in its group, by which it gets its tasks."""

    def check(self, topology: GroupTopology) -> None:
        """Checks whether the group can take this topology at all, before members of another one are waited for.

        :raises TopologyError: if it never will, as it is.
        """
        ...

    def join(self, topology: GroupTopology, owner: Owner) -> None: ...

    def poll(self) -> None:
        """Keeps the membership alive; may call ``owner.own``. The consumer's own poll is one too.

        :raises ShutdownRequested: if a member asked all to shut down.
        """
        ...

    def identity(self) -> Any:
        """Returns the identity that fences a commit; read immediately before each transaction's commit."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits offsets without a transaction. Raises `TaskMigratedError` (abandon), `CommitAgain` (after the next
        poll) or `PartlyCommitted` (some partitions do not exist)."""
        ...

    def may_open(self) -> bool:
        """Whether tasks may be opened now; they may not beside workers of another topology."""
        ...

    def is_blocked(self) -> bool:
        """Whether members of another topology were the reason of the last `may_open` that was false; any thread may
        call it."""
        ...

    def take_lags(self, lags: Mapping[TaskId, int]) -> None:
        """Takes how many offsets of their changelogs the copies of this worker lack, of those where that is known."""
        ...

    def is_warming_up(self) -> bool:
        """Whether this member fills copies of tasks before it takes them over, or has just joined for these; any thread
        may call it."""
        ...

    def group_status(self) -> str | None:
        """Returns why the group gives this member no tasks, with what to do; ``None`` if it says nothing of the kind.
        Any thread may call it."""
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
