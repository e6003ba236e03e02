"""Watches one other worker over the HTTP port, and takes it over when it is dead, or silent for too long.

The workers form a ring by their addresses in the group, and each watches the next one. Workers behind the port of a
supervisor count as one: the supervisor takes over those that die alone.

A refused connection means that the process has ended, since its machine answers. Silence does not say whether it has
ended, so that is acted on under exactly-once only: a process that lives loses a transaction. At least once nothing
would keep it from writing on.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.texts import kind_and_text
from streams.config import StreamsConfig
from streams.http.routing import Router, Unreachable
from streams.kafka.ports import Admin
from streams.kafka.suspects import ProcessMembers, processes_at, take_over
from streams.threads import Threads

log = logging.getLogger("streams.http")

BEAT_S = 0.2
LOOK_S = 3.0
"""How often the group is asked for its members."""
LONGEST_BEAT_S = 1.0
ALIVE = 200


def next_in_ring(own: str, found: Mapping[str, tuple[ProcessMembers, ...]]) -> str | None:
    """Returns the port that the worker of a port watches; ``None`` if there is no other, or if another worker behind
    the same port watches.

    :param own: the address of the worker.
    :param found: the processes behind each address, as :func:`processes_at` gives them.
    """
    port = port_of(own)
    if own != min((one for one in found if port_of(one) == port), default=own):
        return None
    others = sorted({port_of(one) for one in found} - {port})
    return next((one for one in others if one > port), others[0] if others else None)


def port_of(endpoint: str) -> str:
    """Returns the ``host:port`` of a worker that may have others behind the same port."""
    return endpoint.partition("/")[0]


@dataclass
class WatchedPort:
    """The worker that is watched, with others behind the same port."""

    port: str
    asked: str
    """The address of the one that shows that it has the token."""
    is_known: bool = False
    """Whether it has answered, after it has shown that it has the token, and was not suspected since."""
    silent_s: float = 0.0
    """How long this worker has waited since the last answer. The time in which this process stood still itself is
    not counted."""
    said: str = ""
    """The reason, as it was logged, for which it is not watched."""


class PeerWatch:
    """Watches the next worker of the ring. Used by the loop of the port; brokers are asked by a thread of its own.

    :param own: the address of this worker, as others have it from the group.
    :param admin: returns the client for the group; ``None`` before the start.
    :param timeout_s: how long a worker may be silent.
    """

    def __init__(
        self,
        config: StreamsConfig,
        own: str,
        router: Router,
        admin: Callable[[], Admin | None],
        timeout_s: float,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self._config = config
        self._own = own
        self._router = router
        self._admin = admin
        self._timeout_s = timeout_s
        self._clock = clock
        self._helper = threads.helper("http-watch")
        self._peer: WatchedPort | None = None
        self._looked_at = float("-inf")
        self.refusals = 0
        """How many beats were refused a connection."""

    async def run(self) -> None:
        """Watches until it is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if loop.time() > self._looked_at + LOOK_S:
                    await self._look()
                if self._peer is not None:
                    await self._beat(self._peer)
                await asyncio.sleep(BEAT_S)
        except Exception as error:
            log.error("other workers are not watched: an error", extra={"error": kind_and_text(error)}, exc_info=error)

    def close(self) -> None:
        """Ends the thread."""
        self._helper.shutdown(wait=False, cancel_futures=True)

    async def _asked(self, ask: Callable[[Admin], Any]) -> Any:
        """Returns what the thread of its own asks the brokers; ``None`` if they do not answer."""
        admin = self._admin()
        if admin is None:
            return None
        pending: Any = self._helper.submit(ask, admin)
        try:
            return await asyncio.wrap_future(pending)
        except StreamsError as error:
            log.debug("the group cannot be asked for the workers to watch", extra={"error": error.message})
            return None

    async def _look(self) -> None:
        """Determines which worker to watch."""
        found = await self._asked(self._processes)
        self._looked_at = asyncio.get_running_loop().time()
        if found is None:
            return
        port = next_in_ring(self._own, found)
        if port is None or self._peer is None or self._peer.port != port:
            asked = min((one for one in found if port_of(one) == port), default="")
            self._peer = None if port is None else WatchedPort(port, asked)

    def _processes(self, admin: Admin) -> dict[str, tuple[ProcessMembers, ...]]:
        return processes_at(self._config, admin.group_members(self._config.application_id))

    async def _beat(self, peer: WatchedPort) -> None:
        limit_s = min(LONGEST_BEAT_S, self._timeout_s / 2)
        loop = asyncio.get_running_loop()
        begun = loop.time()

        async def silent(error: Exception) -> None:
            peer.silent_s += min(loop.time() - begun, limit_s) + BEAT_S
            if peer.silent_s >= self._timeout_s:
                reason = f"it has not responded for {peer.silent_s:.1f} s: {kind_and_text(error)}"
                await self._suspect(peer, reason, silent=True)

        try:
            async with asyncio.timeout(limit_s):
                status = await self._router.beat(peer.asked, peer.port)
        except Unreachable as error:
            self._say(peer, str(error))
        except aiohttp.ClientConnectorError as error:
            if error.errno == errno.ECONNREFUSED:
                self.refusals += 1
                await self._suspect(peer, "its machine refuses connections to its port", silent=False)
            else:
                await silent(error)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await silent(error)
        else:
            if status == ALIVE:
                if not peer.is_known:
                    log.info("watches another worker", extra={"endpoint": peer.port})
                peer.is_known, peer.silent_s, peer.said = True, 0.0, ""
            else:
                self._say(peer, f"{peer.port} answers {status} to a probe: is it a proxy, or does the worker end?")

    def _say(self, peer: WatchedPort, reason: str) -> None:
        """Notes that a worker cannot be watched, and logs it once."""
        peer.is_known = False
        if peer.said != reason:
            peer.said = reason
            log.warning("a worker is not watched", extra={"endpoint": peer.port, "reason": reason})

    async def _suspect(self, peer: WatchedPort, reason: str, *, silent: bool) -> None:
        """Takes over the processes behind the port of a worker that had shown that it has the token.

        It is not suspected again before it answers again."""
        if not peer.is_known:
            return
        peer.is_known = False
        if silent and not self._config.exactly_once:
            log.warning(
                "a worker is silent: its tasks wait until its session ends, since at least once it may still write",
                extra={"endpoint": peer.port, "reason": reason},
            )
            return

        def take_over_all(admin: Admin) -> None:
            found = self._processes(admin)
            for endpoint in sorted(found):
                for process in found[endpoint] if port_of(endpoint) == peer.port else ():
                    take_over(admin, process, f"worker {endpoint}: {reason}", self._clock)

        await self._asked(take_over_all)
        self._looked_at = float("-inf")
