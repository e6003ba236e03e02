"""What a stream thread has done: plain counters, added to by the batch."""

from __future__ import annotations

__all__ = ["ThreadTotals"]


class ThreadTotals:
    """Since the start of the thread. Written by the thread, read by any."""

    def __init__(self, started_at_ms: int) -> None:
        self.started_at_ms = started_at_ms
        self.processed = 0
        self.commits = 0
        self._told = (0, 0)

    def since_last(self) -> dict[str, int]:
        """Records processed and commits since the last call."""
        before, self._told = self._told, (self.processed, self.commits)
        return {"records": self.processed - before[0], "commits": self.commits - before[1]}
