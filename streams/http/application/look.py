"""Asks all workers of an application for their status, and merges what they answer.

Only somebody who looks makes a worker ask, at most once a second for all who look. A worker that does not respond is
named, and never left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from aiohttp import web

from processor_api.texts import kind_and_text
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.http.responses import HttpRefusal
from streams.http.routing import MOST_WORKERS, PROCESSES_S, Router, Unreachable
from streams.kafka.membership.group_picture import GroupProcess
from streams.observing.answers import worker_status
from streams.observing.application import ApplicationStatus, MissingWorker, application_status
from streams.observing.status import WorkerStatus
from streams.threads import Threads

T = TypeVar("T")

EVERY_S = 0.95
"""The least time between two looks: a little less than the second between two requests of a page."""
MOST_SHARE = 0.1
"""The part of a core that looks may use: larger ones are further apart."""
ANSWER_S = 2.0
"""How long a look waits for a worker."""
STALE_S = 10.0
"""The age up to which the last status of a worker counts while the next one is waited for: a busy worker answers
late."""


def is_about_one(request: web.Request) -> bool:
    """Whether a request is about the worker that it reaches, by ``worker=self``, and not the whole application.

    :raises HttpRefusal: if it names another worker.
    """
    given = request.query.get("worker")
    if given not in (None, "self"):
        raise HttpRefusal(
            400, f"worker must be self, got {given[:80]!r}: another worker is asked at its own address with worker=self"
        )
    return given is not None


class Watched(Protocol):
    """The part of `KafkaStreams` that is looked at. Every call returns at once, and may be made by any thread."""

    config: StreamsConfig
    topology: Topology

    def status(self) -> WorkerStatus: ...


@dataclass
class AskedWorker:
    """Another worker, with its latest answer."""

    endpoint: str
    since: float = 0.0
    """When the request was made that is waited for."""
    task: asyncio.Task[WorkerStatus] | None = None
    status: WorkerStatus | None = None
    """Its last status; ``None`` if it has not answered the last request."""
    answered_at: float = float("-inf")
    reason: str = ""
    """The reason for which it has no status."""

    def took(self, now: float) -> None:
        """Takes the answer, if it has come."""
        if self.task is None or not self.task.done():
            return
        error = None if self.task.cancelled() else self.task.exception()
        self.status = None if error is not None or self.task.cancelled() else self.task.result()
        is_known = isinstance(error, Unreachable)
        self.reason = str(error) if is_known else "" if error is None else kind_and_text(error)
        self.answered_at, self.task = now, None

    def found(self, now: float) -> WorkerStatus | str:
        """Returns its status, or the reason why it is missing."""
        is_late = self.task is not None and now - self.answered_at > STALE_S
        if self.status is not None and not is_late:
            return self.status
        if self.task is None or (self.reason and not is_late):
            return self.reason
        return f"it has not responded for {max(1.0, now - self.since):.0f} s"


class ApplicationLook:
    """Looks at the application of one worker, on the loop of its port."""

    def __init__(self, application: Watched, router: Router, threads: Threads) -> None:
        self._application = application
        self._router = router
        self._helper = threads.helper("http-status")
        self._others: dict[str, AskedWorker] = {}
        self._behind: dict[str, int] = {}
        """The number of workers behind the port of each supervisor."""
        self._behind_at = float("-inf")
        self._looking: asyncio.Task[ApplicationStatus] | None = None
        self._latest: ApplicationStatus | None = None
        self._next_at = float("-inf")
        self._used_s = 0.0
        """The processor time of the thread since the last look began."""

    async def made(self, make: Callable[[], T]) -> T:
        """Returns what a thread makes, so that probes do not wait for it."""

        def timed() -> T:
            began = time.thread_time()
            try:
                return make()
            finally:
                self._used_s += time.thread_time() - began

        pending: Any = self._helper.submit(timed)
        found: T = await asyncio.wrap_future(pending)
        return found

    async def own(self) -> ApplicationStatus:
        """Returns the status of this worker alone."""
        own = await self.made(self._application.status)
        return application_status(own.application_id, [own])

    @property
    def is_due(self) -> bool:
        """Whether the next one who asks makes another look."""
        return asyncio.get_running_loop().time() >= self._next_at

    async def latest(self) -> ApplicationStatus:
        """Returns the status of the application: the latest one if another look is not due. All who ask share it."""
        if self._latest is not None and not self.is_due:
            return self._latest
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._looked)
        return await asyncio.shield(self._looking)

    def _looked(self, _: object) -> None:
        self._looking = None

    def stop(self) -> None:
        """Ends a look, and the answers that wait for it."""
        if self._looking is not None:
            self._looking.cancel()

    async def close(self) -> None:
        """Ends requests, and the thread."""
        tasks = [one.task for one in self._others.values() if one.task is not None]
        tasks += [] if self._looking is None else [self._looking]  # type: ignore[list-item]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._helper.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> ApplicationStatus:
        loop = asyncio.get_running_loop()
        began, missing = loop.time(), list[MissingWorker]()
        self._used_s = 0.0
        try:
            processes = await self._router.processes()
        except HttpRefusal as error:
            processes = frozenset()
            missing.append(MissingWorker(worker="of other machines", reason=error.message))
        endpoints = await self._endpoints(processes)
        missing += (
            MissingWorker(worker=one, reason=f"only {MOST_WORKERS} workers are asked for their status")
            for one in endpoints[MOST_WORKERS:]
        )
        await self._ask(endpoints[:MOST_WORKERS])
        now = loop.time()
        answers = {one.endpoint: one.found(now) for one in self._others.values()}

        def merged() -> ApplicationStatus:
            own = self._application.status()
            workers = [own, *(one for one in answers.values() if isinstance(one, WorkerStatus))]
            absent = missing_workers(own, self._router.own, processes, answers)
            return application_status(own.application_id, workers, [*missing, *absent])

        self._latest = await self.made(merged)
        self._next_at = began + max(EVERY_S, self._used_s / MOST_SHARE)
        return self._latest

    async def _endpoints(self, processes: Collection[GroupProcess]) -> list[str]:
        """Returns the addresses of the other workers: those that the group has, and those behind the same ports."""
        own = self._router.own
        known = {one.endpoint for one in processes if one.endpoint is not None} | ({own} - {None})
        supervised = {one.partition("/")[0]: one for one in sorted(filter(None, known)) if "/" in one}
        now = asyncio.get_running_loop().time()
        if now - self._behind_at > PROCESSES_S or supervised.keys() - self._behind.keys():
            counts = await asyncio.gather(*map(self._count_behind, supervised.values()))
            self._behind = dict(zip(supervised, counts, strict=True))
            self._behind_at = now
        behind = {f"{port}/{number}" for port, count in self._behind.items() for number in range(count)}
        return sorted(one for one in {*known, *behind} if one is not None and one != own)

    async def _count_behind(self, endpoint: str) -> int:
        """Returns the number of workers behind a port; 0 if it does not respond, which its workers report too."""
        with suppress(Unreachable, TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                return await self._router.workers_behind(endpoint)
        return 0

    async def _ask(self, endpoints: Collection[str]) -> None:
        """Asks workers, and takes the answers that come in time. A worker that still owes one is not asked again."""
        loop = asyncio.get_running_loop()
        for gone in self._others.keys() - set(endpoints):
            if (task := self._others.pop(gone).task) is not None:
                task.cancel()
        asked = []
        for endpoint in endpoints:
            one = self._others.setdefault(endpoint, AskedWorker(endpoint))
            one.took(loop.time())
            if one.task is None:
                one.since, one.task = loop.time(), asyncio.create_task(self._status_of(endpoint))
                asked.append(one.task)
        if asked:
            await asyncio.wait(asked, timeout=ANSWER_S)
        for one in self._others.values():
            one.took(loop.time())

    async def _status_of(self, endpoint: str) -> WorkerStatus:
        answer = await self._router.status_of(endpoint)
        try:
            found = await self.made(partial(worker_status, answer))
        except ValueError as error:
            raise Unreachable(f"it {error}") from error
        if found.application_id != self._application.config.application_id:
            raise Unreachable(f"it is a worker of another application, {found.application_id[:80]!r}")
        return found


def missing_workers(
    own: WorkerStatus,
    own_endpoint: str | None,
    processes: Collection[GroupProcess],
    answers: Mapping[str, WorkerStatus | str],
) -> Iterator[MissingWorker]:
    """Yields the workers of an application whose status is not known.

    :param own: the status of the worker that asks.
    :param own_endpoint: its address, as others have it.
    :param processes: the processes that the group has.
    :param answers: the status by address of each worker that was asked, or the reason why there is none.
    """
    for endpoint, answer in answers.items():
        if isinstance(answer, str):
            yield MissingWorker(worker=endpoint, reason=answer)
    for client_id, told in sorted(processes, key=str):
        is_own = told == own_endpoint and (told is not None or client_id == own.client_id)
        found = own if is_own else answers.get(told or "")
        if isinstance(found, WorkerStatus) and found.client_id != client_id:
            yield MissingWorker(
                worker=client_id,
                reason=f"worker {found.client_id} responds at its address {told}: it has ended, or both have the"
                " same application.server",
            )
        elif found is None and told is None:
            reason = "it does not have an HTTP port that others reach: set http.listen and application.server"
            yield MissingWorker(worker=client_id, reason=reason)
