"""Rates, means and maxima of plain counters, over the last windows of time.

The counting thread adds to attributes and does nothing else; now and then it takes a sample, which keeps their values.
A rate is how much a counter has grown since the oldest sample that is young enough: nothing is recorded per event.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any


class SampleWindows:
    """Keeps samples of the counters of one object, for the last windows of time. Samples are taken by the thread that
    counts, and read by any.

    :param of: the object that counts; its attributes named here are numbers that start at 0.
    :param totals: attributes that only grow.
    :param maxima: attributes that are the largest value since the last sample, which sets them back to 0.
    :param samples: ``metrics.num.samples``
    :param window_ms: ``metrics.sample.window.ms``
    """

    def __init__(
        self,
        of: Any,
        totals: Sequence[str],
        maxima: Sequence[str] = (),
        *,
        now_ms: Callable[[], int],
        samples: int,
        window_ms: int,
    ) -> None:
        self._of = of
        self._totals = {name: place for place, name in enumerate(totals)}
        self._maxima = {name: place for place, name in enumerate(maxima)}
        self._samples, self._window_ms = samples, max(1, window_ms)
        self._now_ms = now_ms
        self._taken: deque[tuple[int, tuple[float, ...]]] = deque(maxlen=samples + 1)
        self._largest: deque[tuple[int, tuple[float, ...]]] = deque(maxlen=samples)
        self._next_ms = -math.inf
        self._take(now_ms())

    def sample(self) -> None:
        """Takes a sample; to be called at least once in each window, and does nothing while the newest sample is
        younger than that."""
        now = self._now_ms()
        if now >= self._next_ms:
            self._take(now)

    def _take(self, now: int) -> None:
        of = self._of
        self._next_ms = now + self._window_ms
        self._taken.append((now, tuple([getattr(of, name) for name in self._totals])))
        self._largest.append((now, tuple([getattr(of, name) for name in self._maxima])))
        for name in self._maxima:
            setattr(of, name, 0)

    def _since(self, now: int) -> tuple[int, tuple[float, ...]]:
        """Returns the oldest sample of the windows, or the newest if all are older."""
        taken = list(self._taken)
        oldest = now - self._samples * self._window_ms
        return next((one for one in taken if one[0] >= oldest), taken[-1])

    def rate(self, total: str) -> float:
        """Returns the growth of a counter per second. As in Kafka, windows that are still to come count as full, so
        that a rate does not begin with a peak."""
        now = self._now_ms()
        since, values = self._since(now)
        grown = getattr(self._of, total) - values[self._totals[total]]
        elapsed = now - since
        missing = self._samples - 1 - elapsed // self._window_ms
        return float(grown) / ((max(elapsed + max(0, missing) * self._window_ms, 1)) / 1000)

    def mean(self, total: str, count: str) -> float:
        """Returns the growth of one total for each unit that another has grown by; not a number if that has not
        grown."""
        _, values = self._since(self._now_ms())
        events = getattr(self._of, count) - values[self._totals[count]]
        grown = getattr(self._of, total) - values[self._totals[total]]
        return float(grown / events) if events else math.nan

    def means(self, total: str, count: str) -> list[float]:
        """Returns the same as :meth:`mean` for each window in which the count has grown; none if it has not."""
        oldest = self._now_ms() - self._samples * self._window_ms
        taken = list(self._taken)
        recent = [values for at, values in taken if at >= oldest] or [taken[-1][1]]
        sums, counts = ([values[self._totals[name]] for values in recent] for name in (total, count))
        sums.append(getattr(self._of, total))
        counts.append(getattr(self._of, count))
        return [
            float((sums[at + 1] - sums[at]) / (counts[at + 1] - counts[at]))
            for at in range(len(recent))
            if counts[at + 1] > counts[at]
        ]

    def largest(self, maximum: str, count: str) -> float:
        """Returns the largest value; not a number if there were none.

        :param count: the total that counts the values.
        """
        if math.isnan(self.mean(count, count)):
            return math.nan
        oldest = self._now_ms() - self._samples * self._window_ms
        place = self._maxima[maximum]
        recent = [values[place] for taken, values in list(self._largest) if taken >= oldest]
        return float(max([getattr(self._of, maximum), *recent]))
