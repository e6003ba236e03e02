"""Plain counters of what a stream thread has done, added to once for each batch, and what is made of them at times."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable

from processor_api.clock import Clock
from processor_api.record import DropReason
from processor_api.task_id import TopicPartition
from processor_api.topology.data import TopologyData
from streams.config import StreamsConfig
from streams.metrics.registry import Metrics
from streams.runtime.processing.drops import Dropped
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.thread")

SAMPLE_INTERVAL_S = 0.5
"""The least time between two samples of the counters."""
SAMPLE_PART = 0.1
"""The time between two samples, as a part of a window of the metrics."""
LAG_INTERVAL_S = 1.0
"""The time between two looks at the ends of the input partitions."""
DROPS_INTERVAL_S = 60.0
"""The least time between two lines about dropped records."""
MOST_NAMED = 5
"""How many nodes and reasons such a line names."""


class ThreadCounters:
    """Counts since the start of the thread. Written by the thread, read by any. Times are in seconds."""

    def __init__(self, started_at_ms: int, metrics: Metrics) -> None:
        self.started_at_ms = started_at_ms
        self.processed = self.commits = self.polls = 0
        self.process_s = self.commit_s = self.poll_s = 0.0
        self.process_s_max = self.commit_s_max = self.poll_s_max = 0.0
        """The largest of the window; of processing, for one record in the mean of a batch."""
        self._reported = (0, 0)
        self.windows = metrics.windows(
            self,
            ("processed", "commits", "polls", "process_s", "commit_s", "poll_s"),
            ("process_s_max", "commit_s_max", "poll_s_max"),
        )

    def polled(self, seconds: float) -> None:
        """Adds a poll."""
        self.polls += 1
        self.poll_s += seconds
        if seconds > self.poll_s_max:
            self.poll_s_max = seconds

    def worked(self, seconds: float, records: int) -> None:
        """Adds the time that so many records took; nothing for no records."""
        if records:
            self.process_s += seconds
            each = seconds / records
            if each > self.process_s_max:
                self.process_s_max = each

    def committed(self, seconds: float) -> None:
        """Adds a commit of tasks."""
        self.commits += 1
        self.commit_s += seconds
        if seconds > self.commit_s_max:
            self.commit_s_max = seconds

    def since_last(self) -> dict[str, int]:
        """Returns the records processed and the commits since the last call."""
        before, self._reported = self._reported, (self.processed, self.commits)
        return {"records": self.processed - before[0], "commits": self.commits - before[1]}


class DropReport:
    """Says what the tasks of a thread have dropped, in one line of the log, at most once a minute."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: dict[tuple[str, DropReason], Dropped] = {}
        self._topology: TopologyData | None = None
        self._next = 0.0
        self._dropped = 0

    def collect(self, tasks: Iterable[Task]) -> None:
        """Takes what tasks have dropped since the last call."""
        for task in tasks:
            for one in task.environment.metrics.drops.since_last():
                if one.reason.dropped:
                    self._dropped += one.count
                if not one.reason.is_expected:
                    place = one.node, one.reason
                    before = self._waiting.get(place)
                    self._waiting[place] = one if before is None else before.plus(one)
                    self._topology = task.plan.topology

    def since_summary(self) -> int:
        """Returns how many records were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def log(self, now: float) -> None:
        """Logs what is not logged yet, if it is time.

        :param now: of the monotonic clock, in seconds.
        """
        if now < self._next or self._topology is None or not self._waiting:
            return
        self._next = now + DROPS_INTERVAL_S
        found = sorted(self._waiting.values(), key=lambda one: -one.count)
        said = [one.in_words(self._topology) for one in found[:MOST_NAMED]]
        if len(found) > MOST_NAMED:
            said.append(f"{sum(one.count for one in found[MOST_NAMED:])} at others")
        self._waiting.clear()
        log.info("records without a result: %s", "; ".join(said), extra={"thread_name": self._name})


class Reports:
    """Samples the counters of a thread and its tasks for rates, and logs what was done since the last time, every
    ``log.summary.interval.ms``; 0 is never."""

    def __init__(self, name: str, counters: ThreadCounters, config: StreamsConfig, clock: Clock) -> None:
        self._name = name
        self._counters = counters
        self._summary_s = config.log_summary_interval_ms / 1000
        self._sample_s = max(SAMPLE_INTERVAL_S, config.metrics_sample_window_ms / 1000 * SAMPLE_PART)
        self._next_summary = clock.monotonic() + self._summary_s if self._summary_s > 0 else math.inf
        self._next_sample = self._next_lag = 0.0
        self._drops = DropReport(name)

    def at(self, now: float, running: Collection[Task], end_of: Callable[[TopicPartition], int | None]) -> None:
        """Does what is due.

        :param now: of the monotonic clock, in seconds.
        :param end_of: returns the end of a partition, where it is known.
        """
        if now >= self._next_lag:
            self._next_lag = now + LAG_INTERVAL_S
            for task in running:
                task.inputs.measure_ends(end_of)
        if now >= self._next_summary:
            self._next_summary = now + self._summary_s
            self._drops.collect(running)
            done = {**self._counters.since_last(), "dropped": self._drops.since_summary()}
            log.info("summary", extra={"thread_name": self._name, **done})
        if now >= self._next_sample:
            self._next_sample = now + self._sample_s
            self._counters.windows.sample()
            for task in running:
                task.sample()
            self._drops.collect(running)
            self._drops.log(now)

    def end(self, running: Collection[Task]) -> None:
        """Logs what was not logged yet of tasks that end."""
        self._drops.collect(running)
        self._drops.log(math.inf)
