"""Counts the records of one task that gave no result, by node and reason.

Nothing is done for a record that has a result. Counters are written by the thread of the task, and read by any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from processor_api.forms.times import duration_text
from processor_api.record import DropReason
from processor_api.topology.data import TopologyData


@dataclass(frozen=True)
class Setting:
    """Names a setting that decides when a record is late."""

    name: str
    ms: int

    def __str__(self) -> str:
        return f"{self.name} of {duration_text(self.ms)}"


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """Counts the records that gave no result at a node for one reason."""

    node: str
    reason: DropReason
    count: int
    late_by_ms: int | None = None
    """The time by which the latest of the late records came too late."""
    setting: Setting | None = None

    def plus(self, other: Dropped) -> Dropped:
        """Returns the sum with what another task has dropped at the same node for the same reason."""
        late = [one for one in (self.late_by_ms, other.late_by_ms) if one is not None]
        return replace(self, count=self.count + other.count, late_by_ms=max(late, default=None))

    def in_words(self, topology: TopologyData) -> str:
        """Returns this in words, with the line of the user's script that made the node."""
        place = node_in_words(self.node, topology.call_of(self.node), topology.line_of(self.node))
        words = f"{self.count} at {place}: {self.reason.text}"
        return words if self.setting is None else words + late_in_words(self.late_by_ms or 0, f"{self.setting}")


Sums = dict[tuple[str, DropReason], Dropped]
"""The sums of dropped records by node and reason."""


def add_to(sums: Sums, one: Dropped) -> None:
    """Adds what a task has dropped to sums."""
    place = one.node, one.reason
    before = sums.get(place)
    sums[place] = one if before is None else before.plus(one)


def node_in_words(node: str, call: str | None, made_at: str | None) -> str:
    """Returns the name of a node with the call and the line of the user's script that made it."""
    made = ", ".join(part for part in (call, made_at) if part)
    return f"{node} ({made})" if made else node


def late_in_words(late_by_ms: int, setting: str | None) -> str:
    """Returns the end of a sentence about late records: how late the latest was, and what decides."""
    return f", {duration_text(late_by_ms)} too late at most for a {setting}"


class Lateness:
    """Holds by how much late records of one reason came too late."""

    __slots__ = ("most_ms", "recent_ms", "setting")

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.recent_ms = 0
        """The most since the last report."""
        self.most_ms = 0
        """The most before that."""


class NodeDrops:
    """Counts the records that gave no result at one node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.counts: defaultdict[DropReason, int] = defaultdict(int)
        self._late: dict[DropReason, Lateness] = {}
        self._reported: defaultdict[DropReason, int] = defaultdict(int)

    def counting(self, reason: DropReason) -> Callable[[], None]:
        """Returns a function that counts a record."""
        counts = self.counts

        def count() -> None:
            counts[reason] += 1

        return count

    def lateness(self, reason: DropReason, setting: Setting) -> Lateness:
        """Returns what keeps by how much records came too late for a setting."""
        return self._late.setdefault(reason, Lateness(setting))

    def all(self) -> Iterator[Dropped]:
        """Yields what was counted for each reason."""
        # A copy, made by one call: meanwhile the task may count another reason.
        for reason, count in list(self.counts.items()):
            late = self._late.get(reason)
            most = 0 if late is None else max(late.most_ms, late.recent_ms)
            yield self._dropped(reason, count, late, most)

    def since_last(self) -> Iterator[Dropped]:
        """Yields what was counted for each reason since the last call."""
        for reason, count in list(self.counts.items()):
            new = count - self._reported[reason]
            if new:
                self._reported[reason] = count
                late = self._late.get(reason)
                yield self._dropped(reason, new, late, 0 if late is None else late.recent_ms)
                if late is not None:
                    late.most_ms, late.recent_ms = max(late.most_ms, late.recent_ms), 0

    def _dropped(self, reason: DropReason, count: int, late: Lateness | None, late_by_ms: int) -> Dropped:
        if late is None:
            return Dropped(node=self.node, reason=reason, count=count)
        return Dropped(node=self.node, reason=reason, count=count, late_by_ms=late_by_ms, setting=late.setting)


class TaskDrops:
    """Counts the records that gave no result at the nodes of one task."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeDrops] = {}

    def of(self, node: str) -> NodeDrops:
        """Returns the counters of a node."""
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = NodeDrops(node)
        return found

    def nodes(self) -> list[NodeDrops]:
        """Returns the counters of each node that was asked for."""
        return list(self._nodes.values())

    def all(self) -> list[Dropped]:
        """Returns what was counted at each node for each reason."""
        return [one for node in self.nodes() for one in node.all()]

    def since_last(self) -> list[Dropped]:
        """Returns what was counted since the last call; for the thread of the task."""
        return [one for node in self.nodes() for one in node.since_last()]


class ClosedTaskCounts:
    """Counts the records without a result, and the dead letters, of tasks that one thread has closed: they moved, or
    were opened again with counters of their own. Written by the thread, read by any."""

    def __init__(self) -> None:
        self._drops: Sums = {}
        self.dropped = 0
        self.dead_letters = 0

    def add(self, drops: TaskDrops, *, dropped: int, dead_letters: int) -> None:
        """Adds the counts of a task."""
        for one in drops.all():
            add_to(self._drops, one)
        self.dropped += dropped
        self.dead_letters += dead_letters

    def all(self) -> list[Dropped]:
        """Returns what was counted at each node for each reason."""
        return list(self._drops.values())
