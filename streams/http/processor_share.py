"""The share of the processor that the HTTP port may use beside the stream threads."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from processor_api.clock import Clock, SystemClock

BURST_S = 0.02
LONGEST_PAUSE_S = 0.5
WINDOW_S = 0.1
BUSY = 0.05
"""The part of a core that other threads use when they are busy."""
SWITCH_S = 0.001
SOON_S = 0.2
"""The time that the switch interval is short after a read."""
SOON_SHARE = 0.25
"""The share of the server from which on the switch interval is short. With less, the share is the bound."""


class ProcessorShare:
    """Delays the work of the server's thread that exceeds its share; probes do not wait here.

    The interpreter runs one thread at a time, so the stream threads do not get what the server uses. The share is one
    of the processor time that they get, since the machine may have other load; an idle worker answers as fast as it
    can. A large share also has the stream threads give up the interpreter sooner while reads are answered: otherwise
    each turn of the server begins with the switch interval of Python, 5 ms.

    Used by the loop of one server, on its thread.

    :param share: the part of their processor time.
    """

    def __init__(self, share: float, clock: Clock | None = None) -> None:
        self._share = share
        self._clock = clock or SystemClock()
        self._credit = BURST_S
        self._rate = 1.0
        """The part of a core that the other threads of the process have used lately."""
        self._last: tuple[float, float] | None = None
        self._window = self._clock.monotonic(), 0.0
        self._turns = asyncio.Lock()
        self._usual_again: asyncio.TimerHandle | None = None

    async def turn(self) -> None:
        """Returns when the server may work on: before each request, and before each part of a long answer."""
        self._be_soon()
        async with self._turns:
            while (pause_s := self._due_s()) > 0:
                await asyncio.sleep(pause_s)

    def close(self) -> None:
        """Ends what it does by itself; called on the loop."""
        if self._usual_again is not None:
            self._usual_again.cancel()
            self._as_usual()

    def _due_s(self) -> float:
        """Returns how long to wait before the next work, in seconds."""
        used, total = time.thread_time(), time.process_time()
        if self._last is None:  # it begins on the thread that made its first turn
            self._last = used, total
        own = used - self._last[0]
        others = max(0.0, total - self._last[1] - own)
        self._last = used, total
        self._look_around(total - used)
        self._credit = min(BURST_S, self._credit + others * self._share) - own
        if self._rate <= BUSY:
            self._credit = max(self._credit, 0.0)
        if self._credit >= 0:
            return 0.0
        return min(-self._credit / (self._share * self._rate), LONGEST_PAUSE_S)

    def _look_around(self, others: float) -> None:
        """Determines, some times in a second, how busy the other threads are.

        :param others: the processor time that they have used.
        """
        now = self._clock.monotonic()
        since, others_then = self._window
        if now - since >= WINDOW_S:
            self._rate = (others - others_then) / (now - since)
            self._window = now, others

    def _be_soon(self) -> None:
        if self._share < SOON_SHARE:
            return
        if self._usual_again is None:
            SWITCHES.soon()
        else:
            self._usual_again.cancel()
        self._usual_again = asyncio.get_running_loop().call_later(SOON_S, self._as_usual)

    def _as_usual(self) -> None:
        self._usual_again = None
        SWITCHES.as_usual()


class Switches:
    """The switch interval of the interpreter, which is short while a server of this process wants it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers = 0
        self._usual_s = 0.0

    def soon(self) -> None:
        """Makes the interval short for a server."""
        with self._lock:
            if self._servers == 0:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual_s, SWITCH_S))
            self._servers += 1

    def as_usual(self) -> None:
        """Ends that for a server; after the last one the interval is what it was."""
        with self._lock:
            self._servers -= 1
            if self._servers == 0:
                sys.setswitchinterval(self._usual_s)


SWITCHES = Switches()
