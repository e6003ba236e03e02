"""Plain counters of what a stream thread has done, added to once for each batch, and what is made of them at times."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from streams.config import StreamsConfig
from streams.metrics.registry import Metrics
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.thread")

SAMPLE_INTERVAL_S = 0.5
"""The least time between two samples of the counters."""
SAMPLE_PART = 0.1
"""The time between two samples, as a part of a window of the metrics."""
LAG_INTERVAL_S = 1.0
"""The time between two looks at the ends of the input partitions."""


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
            log.info("summary", extra={"thread_name": self._name, **self._counters.since_last()})
        if now >= self._next_sample:
            self._next_sample = now + self._sample_s
            self._counters.windows.sample()
            for task in running:
                task.sample()
