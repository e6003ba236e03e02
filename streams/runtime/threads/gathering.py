"""Lets records gather before the next turn of a stream thread, where turns find few of them.

A turn costs about a tenth of a millisecond whatever it finds: calls of the clients, a look at the clock, at the tasks
and at what is due. At some thousand records a second each would get a turn of its own, and most of the time would go
there. So a turn that found few is followed by the next one only after a moment, if some are likely to come meanwhile.
Records that come more seldom are processed at once (docs/decisions/commits-and-transactions.md, "Few records gather for
a moment before the next turn").
"""

from __future__ import annotations

import math
from collections.abc import Callable

from processor_api.clock import Clock

LIKELY = 4
"""A moment is worth its while if so many records are likely to come in it, by how many came since the turn before."""

MANY = 100
"""So many records in one turn make what the turn costs itself small beside them."""


class Gathering:
    """The moments that one stream thread waits between turns.

    :param gather_ms: the least time from one turn with few records to the next; 0 is none.
    """

    def __init__(self, clock: Clock, gather_ms: int) -> None:
        self._clock = clock
        self._gather_s = gather_ms / 1000
        self._found_at = -math.inf
        self._next = 0.0

    def found(self, records: int) -> None:
        """Notes how many records the client had for a turn."""
        if not self._gather_s:
            return
        now = self._clock.monotonic()
        since_s, self._found_at = now - self._found_at, now
        if records < MANY and records * self._gather_s >= LIKELY * since_s:
            self._next = now + self._gather_s

    def wait(self, most_s: Callable[[], float]) -> None:
        """Waits for the rest of the moment.

        :param most_s: returns until when something else is due.
        """
        if self._next:
            left_s, self._next = self._next - self._clock.monotonic(), 0.0
            if (wait_s := min(left_s, most_s())) > 0:
                self._clock.wait(wait_s)
