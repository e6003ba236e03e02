"""Internal topics on the cluster that the topology does not have, of a former version of it (semantics 167).

A store or a repartition that was renamed begins with an empty topic under its new name. Under the old one the rows
stay, and records that were not read are never read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError, TopologyError
from processor_api.task_id import TopicPartition
from processor_api.topology.data import TopologyData
from streams.kafka.own_names import named_after
from streams.kafka.ports import Admin, Consumer
from streams.kafka.topics.application import application_topics
from streams.kafka.topics.internal import topic_prefix
from streams.threads import Threads

log = logging.getLogger("streams.topics")

CHANGELOG = "-changelog"
_OWN = re.compile(
    r".+-(?:changelog|repartition|subscription-registration-topic|subscription-response-topic)"
    r"|.*KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic"
    r"|\d+-tasks"
)
"""The ends of names of internal topics, behind the application's id."""
READ_S = 10.0
"""How long unread records are looked for."""
POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class LeftTopics:
    """Internal topics of the application that its topology does not have."""

    unread: Mapping[str, int] = field(default_factory=dict)
    """Topics between subtopologies with records that the application has not read, and how many offsets these span."""
    changelogs: tuple[str, ...] = ()
    """Changelogs with records, of no store."""

    def refusal(self) -> TopologyError | None:
        """Returns the error to end with if records would be lost; ``None`` if none would."""
        if not self.unread:
            return None
        return TopologyError(f"{self.unread_text()}. {WHAT_TO_DO}", topic=min(self.unread))

    def unread_text(self) -> str:
        """Returns which topics have unread records, as a sentence."""
        listed = ", ".join(f"{name!r} ({count})" for name, count in sorted(self.unread.items()))
        return f"internal topics that this topology does not have hold records that were not read: {listed}"

    def changelogs_text(self) -> str:
        """Returns which changelogs are left, as a sentence."""
        return (
            f"changelogs of stores that this topology does not have remain: {', '.join(self.changelogs)}. A renamed"
            " store starts empty: give it its former name, or delete the changelogs of removed stores"
        )


WHAT_TO_DO = (
    "A repartition or its store was renamed or removed: give it its former name, or run the former version until it"
    " has read them, or delete these topics to continue without the records"
)


def looking_own(application_id: str, existing: Collection[str], groups: Collection[str]) -> set[str]:
    """Returns the topics with names of this application's internal ones; not those of another, ``<id>-more``.

    :param groups: all groups of the cluster that may be seen.
    """
    return {name for name, rest in named_after(application_id, existing, groups).items() if _OWN.fullmatch(rest)}


def left_names(
    topology: TopologyData, settings: Mapping[str, Any], existing: Mapping[str, int], groups: Collection[str] = ()
) -> set[str]:
    """Returns the names of internal topics, but those of tasks, that exist and are not of the topology."""
    looking = looking_own(topic_prefix(settings), existing, groups)
    own = {one.name for one in application_topics(topology, settings, existing)}
    return {name for name in looking - own if not name.endswith("-tasks")}


def find_left_topics(
    topology: TopologyData,
    settings: Mapping[str, Any],
    existing: Mapping[str, int],
    admin: Admin,
    consumer: Consumer,
    clock: Clock,
) -> LeftTopics:
    """Looks for internal topics of a former version; nothing is asked of the cluster if none have such names.

    :param existing: the partitions of all topics.
    :param consumer: reads committed records, and has no partitions assigned.
    :raises RetryableError: if the cluster does not answer.
    """
    if not left_names(topology, settings, existing):
        return LeftTopics()
    names = left_names(topology, settings, existing, admin.groups())
    partitions = [TopicPartition(name, number) for name in sorted(names) for number in range(existing[name])]
    if not partitions:
        return LeftTopics()
    ends = consumer.end_offsets(partitions)
    kept = [place for place in partitions if place.topic.endswith(CHANGELOG)]
    begins = consumer.beginning_offsets(kept) if kept else {}
    return LeftTopics(
        unread=_unread(topic_prefix(settings), admin, consumer, clock, ends),
        changelogs=tuple(sorted({place.topic for place in kept if begins[place] < ends[place]})),
    )


def _unread(
    group: str, admin: Admin, consumer: Consumer, clock: Clock, ends: Mapping[TopicPartition, int]
) -> dict[str, int]:
    """Returns the topics that the group has read, and not to their ends: behind the last record there may be markers of
    transactions, so that the records are looked for."""
    between = [place for place in ends if not place.topic.endswith(CHANGELOG)]
    committed = admin.group_offsets(group, between) if between else {}
    begun = {place: one.offset for place, one in committed.items() if one.offset < ends[place]}
    found: dict[str, int] = {}
    for place in _with_records(begun, ends, consumer, clock):
        found[place.topic] = found.get(place.topic, 0) + ends[place] - begun[place]
    return found


def _with_records(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], consumer: Consumer, clock: Clock
) -> set[TopicPartition]:
    """Returns the partitions that have a record between two offsets."""
    if not starts:
        return set()
    begins = consumer.beginning_offsets(starts)
    waiting = {place: max(start, begins[place]) for place, start in starts.items()}
    found: set[TopicPartition] = set()
    deadline = clock.monotonic() + READ_S
    consumer.assign(waiting)
    try:
        while waiting:
            message = consumer.poll(POLL_S)
            if message is not None:
                place, error = TopicPartition(message.topic() or "", message.partition() or 0), message.error()
                if error is None:
                    found.add(place)
                if error is None or error.code() == consumer.partition_eof:
                    waiting.pop(place, None)
            elif clock.monotonic() > deadline:
                raise RetryableError("topics of a former version could not be read in time")
    finally:
        consumer.unassign(starts)
    return found


class DeployCheck:
    """Looks for topics of a former version once in a process, when its workers have left the group.

    :param existing: the partitions of all topics when the application was opened.
    """

    def __init__(
        self,
        topology: TopologyData,
        settings: Mapping[str, Any],
        existing: Mapping[str, int],
        admin: Admin,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self._topology = topology
        self._settings = settings
        self._existing = existing
        self._admin = admin
        self._clock = clock
        self._lock = threads.lock()
        self._is_done = not left_names(topology, settings, existing)

    def run(self, consumer: Consumer) -> None:
        """Checks, the first time; the other threads wait meanwhile.

        :param consumer: see :func:`find_left_topics`.
        :raises TopologyError: if records would be lost.
        :raises RetryableError: if the cluster does not answer.
        """
        with self._lock:
            if self._is_done:
                return
            try:
                found = find_left_topics(
                    self._topology, self._settings, self._existing, self._admin, consumer, self._clock
                )
            except RetryableError:
                raise
            except StreamsError as error:  # such as a right that only the former version needed
                log.warning("topics of a former version could not be looked at", extra={"error": str(error)})
                found = LeftTopics()
            if (refusal := found.refusal()) is not None:
                raise refusal
            if found.changelogs:
                log.warning(found.changelogs_text())
            self._is_done = True
