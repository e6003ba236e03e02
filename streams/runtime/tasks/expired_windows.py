"""Deletes the rows of expired windows from changelogs, by stream time (semantics 162), and says which changelogs a
broker cuts by the wall clock though their stores need the rows (semantics 163).

Asks and deletes on the thread of the purge; what it is asked about is collected by the stream thread, after a commit.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.record import NO_TIMESTAMP
from processor_api.task_id import TopicPartition
from state.windowed.segments import Retention
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import Admin, OffsetAndMetadata
from streams.kafka.topics.changelog_keeping import Needed, is_cut_by_tasks, needed_by
from streams.log import retry_level
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.purge")

STEPS = 8
"""Rows are deleted when this many parts of a retention have passed since the last time."""
LEAST_STEP_MS = 60_000
BEHIND_MS = 3_600_000
"""Topics of tasks whose time is less behind the clock are not looked at: no setting is as short by itself."""


class Expiry(NamedTuple):
    """The work of a purge on the changelogs of some tasks."""

    before: Mapping[TopicPartition, int]
    """The time by changelog partition; records before the first one of that time or later are of expired windows."""
    behind: Mapping[str, tuple[Needed, int]]
    """Changelogs of stores whose time is far behind the clock: what they need, and that time."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.before or self.behind)


class CutChangelogs:
    """Warns of changelogs which the broker cuts though their stores need the rows; of each once."""

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._seen: set[str] = set()

    def is_behind(self, stream_time: int) -> bool:
        """Whether a time is so far behind the clock that a broker's settings matter."""
        return stream_time != NO_TIMESTAMP and self._clock.time_ms() - stream_time >= BEHIND_MS

    def at_start(
        self, task: Task, beginnings: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Warns of the changelogs from which a task is about to restore stores.

        :param beginnings: of the changelogs that are read from their beginning.
        :param starts: the committed offsets of the task's inputs, which have their times.

        :raises RetryableError: if no broker answers.
        """
        time = max(
            (TopicPartitionMetadata.decode(one.metadata).partition_time for one in starts.values()),
            default=NO_TIMESTAMP,
        )
        if self.is_behind(time):
            behind = {p.topic: (need, time) for p, need in _needs(task).items() if p in beginnings}
            cut = {p.topic for p, beginning in beginnings.items() if beginning}
            self.warn(behind, cut)

    def warn(self, behind: Mapping[str, tuple[Needed, int]], cut: Collection[str] = ()) -> None:
        """Warns of those changelogs whose topics do not keep what their stores need.

        :param cut: changelogs whose first records are gone.
        :raises RetryableError: if no broker answers.
        """
        asked = behind.keys() - self._seen
        if not asked:
            return
        try:
            settings = self._admin.topic_settings(asked)
        except RetryableError:
            raise
        except StreamsError as error:
            self._seen |= asked
            text = "it is not known whether changelogs keep what their stores need: their settings cannot be read"
            log.warning(text, extra={"topics": ", ".join(sorted(asked)), "error": str(error)})
            return
        now = self._clock.time_ms()
        for topic in sorted(asked & settings.keys()):
            need, time = behind[topic]
            kept_ms = need.at_risk_ms(settings[topic], time, now)
            if kept_ms is None:
                continue
            self._seen.add(topic)
            log.warning(
                "changelog loses rows that store %r still needs: %s, and the time of its records is further behind the"
                " clock.%s Keep them: %s",
                need.store,
                f"{need.setting}={kept_ms}",
                " Its first records are gone, so the store may lack some now: process their input again (`streams"
                " reset`) if that matters."
                if topic in cut
                else "",
                need.remedy(topic, time, now),
                extra={"store": need.store, "changelog": topic, need.setting: kept_ms, "behind_ms": now - time},
            )


class ExpiredWindows:
    """Finds and deletes the rows of expired windows in the changelogs of a stream thread's tasks.

    :param additional_ms: for how much longer rows are kept than the stores show them.
    """

    def __init__(self, admin: Admin, cut: CutChangelogs, additional_ms: int) -> None:
        self._admin = admin
        self._cut = cut
        self._additional_ms = additional_ms
        self._deleted: dict[TopicPartition, int] = {}
        """The time before which rows were deleted last."""
        self._refused: frozenset[TopicPartition] = frozenset()
        """Partitions of which nothing may be deleted; replaced, never changed."""

    def due(self, tasks: Collection[Task]) -> Expiry:
        """Returns what has expired, and which changelogs are behind, as of the last commit of tasks."""
        before: dict[TopicPartition, int] = {}
        behind: dict[str, tuple[Needed, int]] = {}
        for task in tasks:
            time = task.environment.cursor.stream_time
            if self._cut.is_behind(time):
                behind |= {place.topic: (need, time) for place, need in _needs(task).items()}
            for place, need in _needs(task).items():
                builder = task.plan.topology.stores[need.store]
                if not is_cut_by_tasks(builder) or place in self._refused:
                    continue
                until, retention = task.stores.window_time(need.store), Retention.of(builder, persistent=True)
                # A late record may write a row whose time is up to a retention later than its own.
                until -= 2 * retention.at_least_ms + retention.interval_ms + self._additional_ms
                step = max(retention.at_least_ms // STEPS, LEAST_STEP_MS)
                if until > 0 and until - self._deleted.get(place, -step) >= step:
                    before[place] = until
        return Expiry(before, behind)

    def purge(self, found: Expiry) -> None:
        """Deletes, and warns. What fails for a while is tried again; what is refused is not, while the thread runs."""
        before = {place: time for place, time in found.before.items() if place not in self._refused}  # since it was due
        topics = ", ".join(sorted({place.topic for place in before}))
        try:
            self._cut.warn(found.behind)
            if before:
                offsets = self._admin.offsets_for_time(before)
                self._admin.delete_records({place: offset for place, offset in offsets.items() if offset > 0})
                self._deleted |= before
        except RetryableError as error:
            text = "rows of expired windows are not deleted from changelogs yet"
            log.log(retry_level(), text, extra={"topics": topics, "error": str(error)})
        except StreamsError as error:
            self._refused |= before.keys()
            log.warning(
                "rows of expired windows are not deleted from changelogs, which grow: allow the application to delete"
                " records of them, or give them a retention.ms",
                extra={"topics": topics, "error": str(error)},
            )


def _needs(task: Task) -> dict[TopicPartition, Needed]:
    """Returns what the stores of a task need of their own changelogs, by partition."""
    plan, found = task.plan, {}
    for store, topic in plan.changelogs.items():
        need = None if store in plan.source_changelogs else needed_by(plan.topology.stores[store])
        if need is not None:
            found[TopicPartition(topic, task.id.partition)] = need
    return found
