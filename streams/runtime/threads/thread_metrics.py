"""Plain counters of what a stream thread has done, added to once for each batch."""

from __future__ import annotations

from streams.metrics.registry import Metrics


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
