"""Statistics: over everything recorded, or over the last windows of time (``metrics.num.samples`` windows of
``metrics.sample.window.ms`` each).

They take no lock: each is recorded by one thread, and a reader at the same time may not see the newest value.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

DEFAULT_SAMPLES = 2
DEFAULT_WINDOW_MS = 30_000


class CumulativeSum:
    """The sum of all values (``-total``)."""

    def __init__(self) -> None:
        self._sum = 0.0

    def record(self, value: float, now_ms: int) -> None:
        self._sum += value

    def measure(self, now_ms: int) -> float:
        return self._sum


class CumulativeCount(CumulativeSum):
    """The number of all values (``-total``)."""

    def record(self, value: float, now_ms: int) -> None:
        self._sum += 1


class Value:
    """The last value."""

    def __init__(self) -> None:
        self._value = 0.0

    def record(self, value: float, now_ms: int) -> None:
        self._value = value

    def measure(self, now_ms: int) -> float:
        return self._value


class Sampled(Protocol):
    """A statistic that the application's sampling settings apply to."""

    def sample_by(self, samples: int, window_ms: int) -> None: ...


class _Sample:
    __slots__ = ("count", "largest", "least", "start_ms", "total")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.total = 0.0
        self.least = math.inf
        self.largest = -math.inf


class _RateWindows:
    """The values of the last windows."""

    def __init__(self) -> None:
        self.samples: deque[_Sample] = deque(maxlen=DEFAULT_SAMPLES)
        self.window_ms = DEFAULT_WINDOW_MS

    def sample_by(self, samples: int, window_ms: int) -> None:
        """Sets how many windows there are and how long each is; forgets what was recorded."""
        self.samples = deque(maxlen=samples)
        self.window_ms = max(1, window_ms)

    def record(self, value: float, now_ms: int) -> None:
        samples = self.samples
        if not samples or now_ms - samples[-1].start_ms >= self.window_ms:
            samples.append(_Sample(now_ms))
        sample = samples[-1]
        sample.count += 1
        sample.total += value
        if value < sample.least:
            sample.least = value
        if value > sample.largest:
            sample.largest = value

    def current(self, now_ms: int) -> list[_Sample]:
        """The samples that are not too old."""
        oldest = now_ms - (self.samples.maxlen or 1) * self.window_ms
        return [sample for sample in list(self.samples) if sample.start_ms > oldest]


class Avg(_RateWindows):
    """The mean; not a number while there are no values."""

    def measure(self, now_ms: int) -> float:
        samples = self.current(now_ms)
        count = sum(sample.count for sample in samples)
        return sum(sample.total for sample in samples) / count if count else math.nan


class Max(_RateWindows):
    """The largest; not a number while there are no values."""

    def measure(self, now_ms: int) -> float:
        return max((sample.largest for sample in self.current(now_ms)), default=math.nan)


class Min(_RateWindows):
    """The smallest; not a number while there are no values."""

    def measure(self, now_ms: int) -> float:
        return min((sample.least for sample in self.current(now_ms)), default=math.nan)


class WindowedSum(_RateWindows):
    """The sum over the windows."""

    def measure(self, now_ms: int) -> float:
        return float(sum(sample.total for sample in self.current(now_ms)))


class WindowedCount(_RateWindows):
    """The number of values in the windows."""

    def measure(self, now_ms: int) -> float:
        return float(sum(sample.count for sample in self.current(now_ms)))


class Rate:
    """A windowed statistic per second: of the values' sum, or of their number by ``Rate(WindowedCount())``."""

    def __init__(self, of: WindowedSum | WindowedCount | None = None) -> None:
        self._of = of or WindowedSum()

    def sample_by(self, samples: int, window_ms: int) -> None:
        self._of.sample_by(samples, window_ms)

    def record(self, value: float, now_ms: int) -> None:
        self._of.record(value, now_ms)

    def measure(self, now_ms: int) -> float:
        found = self._of.measure(now_ms)
        return found / (self._window_size_ms(now_ms) / 1000) if found else 0.0

    def _window_size_ms(self, now_ms: int) -> int:
        """Returns the time that the windows cover; as in Kafka, windows that are not over count as full except the
        last, so that a rate does not begin with a peak."""
        window_ms = self._of.window_ms
        samples = self._of.current(now_ms)
        elapsed = now_ms - samples[0].start_ms if samples else 0
        missing = (self._of.samples.maxlen or 1) - 1 - elapsed // window_ms
        return max(1, elapsed + max(0, missing) * window_ms)
