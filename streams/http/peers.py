"""Notices that another process does not answer at all, such as one that is stopped: requests that wait for it fail with
that reason after some seconds, and later ones at once.

A worker that takes long over an answer is asked by a second request whether it lives, which its loop answers meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp

SLOW_S = 1.0
"""An answer that takes longer makes us ask whether the worker lives."""
LIVES_S = 4.0
"""The time in which it has to say so: a busy worker answers late, since the port leaves it most of its time."""
MOST_AT_A_TIME = 32
"""Requests that are made to one worker at a time; others wait for their turn."""
MOST_WAITING = 32
"""Requests that wait for a worker of which nothing was heard lately; more are refused, so that others find a place."""


class Silent(Exception):
    """The worker does not answer; the text names it."""


class Peer:
    """Another process that is asked. Used by the loop of the port.

    :param name: as errors name it.
    :param lives: asks whether it lives; any answer says so.
    :param slow_s: the time after which it is asked that, also after it was silent.
    :param lives_s: the time in which it has to answer that.
    """

    def __init__(
        self, name: str, lives: Callable[[], Awaitable[object]], *, slow_s: float = SLOW_S, lives_s: float = LIVES_S
    ) -> None:
        self._name = name
        self._lives = lives
        self._slow_s, self._lives_s = slow_s, lives_s
        self._waiting: dict[asyncio.Timeout, float] = {}
        """The time-outs of the requests that wait, each with the time since when; the first waits longest."""
        self._room = asyncio.Semaphore(MOST_AT_A_TIME)
        self._heard_at = self._asked_at = float("-inf")
        self._silent_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it did not answer when it was asked last."""
        return self._silent_since is not None

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for it, or asks whether it lives."""
        return bool(self._waiting) or self._task is not None

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[None]:
        """Holds one request to it, from its turn to the end of its answer.

        :raises Silent: if the worker does not answer any request.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._silent_since is not None:
            if now - self._asked_at >= self._slow_s:
                self._ask()
            raise self._silent(now - self._silent_since)
        if len(self._waiting) >= MOST_WAITING and now - self._heard_at > 2 * self._slow_s:
            raise self._silent(now - next(iter(self._waiting.values())))
        try:
            async with asyncio.timeout(None) as limit:
                self._waiting[limit] = now
                if self._timer is None:
                    self._timer = loop.call_later(self._slow_s, self._look)
                async with self._room:
                    yield
                self._heard_at = loop.time()
        except TimeoutError:
            if limit.expired():
                raise self._silent(loop.time() - now) from None
            raise
        finally:
            self._waiting.pop(limit, None)

    def _silent(self, seconds: float) -> Silent:
        return Silent(f"worker {self._name} has not responded for {seconds:.0f} s; it may be suspended")

    def _look(self) -> None:
        """Asks whether the worker lives if somebody has waited long; called while somebody waits."""
        loop = asyncio.get_running_loop()
        self._timer = None
        since = next(iter(self._waiting.values()), None)
        if since is None:
            return
        early = since + self._slow_s - loop.time()
        if early > 0:
            self._timer = loop.call_later(early, self._look)
        else:
            self._ask()

    def _ask(self) -> None:
        if self._task is None:
            self._asked_at = asyncio.get_running_loop().time()
            self._task = asyncio.create_task(self._find_out())

    async def _find_out(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._lives_s):
                await self._lives()
        except (aiohttp.ClientError, OSError, TimeoutError):
            if self._heard_at < self._asked_at:  # not an answer to another request meanwhile
                since = next(iter(self._waiting.values()), self._asked_at)
                self._silent_since = since if self._silent_since is None else self._silent_since
                for limit in self._waiting:
                    limit.reschedule(loop.time())
        else:
            self._heard_at, self._silent_since = loop.time(), None
        finally:
            self._asked_at, self._task = loop.time(), None
        if self._waiting and self._timer is None and self._silent_since is None:
            self._timer = loop.call_later(self._slow_s, self._look)

    async def close(self) -> None:
        """Ends what it does by itself."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
