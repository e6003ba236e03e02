"""Plain counters of what was restored."""

from __future__ import annotations

from streams.metrics.registry import Metrics


class RestoreCounters:
    """Counts what was restored of one task. Written by the thread that restores, read by any."""

    def __init__(self, metrics: Metrics) -> None:
        self.restored = 0
        """Records since the task was opened."""
        self.remaining = 0
        """Offsets still to be read."""
        self.windows = metrics.windows(self, ("restored",))
