"""Chooses which member of a group should own which partitions: a pure function.

The target is balanced by number of partitions and sticky: no partition changes its owner unless balance or a
subscription requires it. When all members subscribe to the same topics the counts differ by one at most and the number
of moves is the least possible; otherwise no single move from one member to another would improve the balance. Equal
cases are decided by name, so that the same group always gets the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from processor_api.task_id import TopicPartition


class MemberState(NamedTuple):
    """The input of the assignment for one member."""

    topics: Collection[str]
    owned: Collection[TopicPartition]


def assign(
    members: Mapping[str, MemberState], partition_counts: Mapping[str, int]
) -> dict[str, frozenset[TopicPartition]]:
    """Returns the target of every member; partitions of a topic that no member subscribes to are left out.

    A partition that two members claim to own stays with the first by name.
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
