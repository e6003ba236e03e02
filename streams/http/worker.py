"""The pages about a worker as a whole: whether it lives and is ready, its state, its metrics, its topology.

State and metrics of many tasks take some time: a thread of their own makes them, so that probes do not wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from processor_api.clock import SystemClock
from streams.drawing.graph import Graph, graph_of
from streams.drawing.svg import svg
from streams.http.access.proofs import PEER_PATH, Proofs
from streams.http.application.look import ApplicationLook, is_about_one
from streams.http.responses import (
    RETRY_AFTER,
    HttpRefusal,
    Query,
    ServedApplication,
    json_answer,
    json_bytes,
    json_text,
    number_in,
    text_answer,
)
from streams.observing.answers import status_json
from streams.observing.application import ApplicationStatus
from streams.observing.diagnosis import why_application_is_silent

ENDED = ("PENDING_ERROR", "ERROR", "NOT_RUNNING")
KEPT_S = 1.0
"""How long what `/ready` says of lag and commits is kept: probes need no token, so they must cost little."""


@dataclass(frozen=True)
class ReadyLimits:
    """Limits that a request of `/ready` sets, besides that the worker does its part."""

    max_lag: int | None
    """The most offsets that the tasks of a worker may have left to process, together."""
    max_commit_age_ms: int | None
    """The largest age of the last good commit of each thread, in ms."""

    @classmethod
    def of(cls, query: Query) -> ReadyLimits | None:
        """Returns the limits of a request, if it has some.

        :raises HttpRefusal: if one is no number, or has another name.
        """
        names = {"max_lag", "max_commit_age_ms"}
        if unknown := sorted(set(query) - names):
            raise HttpRefusal(400, f"/ready takes {' and '.join(sorted(names))}, got {unknown[0][:80]!r}")
        return cls(number_in(query, "max_lag"), number_in(query, "max_commit_age_ms")) if query else None

    def hold(self, lag: int | None, commit_age_ms: int) -> bool:
        """Whether a worker is within them; a lag that is not known is not."""
        return (self.max_lag is None or (lag is not None and lag <= self.max_lag)) and (
            self.max_commit_age_ms is None or commit_age_ms <= self.max_commit_age_ms
        )


class WorkerPages:
    """Answers about one application."""

    def __init__(self, application: ServedApplication, look: ApplicationLook, proofs: Proofs) -> None:
        self._application = application
        self._look = look
        self._proofs = proofs
        self._pictures: dict[str, bytes] = {}
        self._progress: tuple[float, int | None, int] = (-KEPT_S, None, 0)
        """When it was looked at, the lag of all tasks, and the age of the last commit in ms."""

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/live", self.live),
            web.get("/ready", self.ready),
            web.get("/state", self.state),
            web.get("/metrics", self.metrics),
            web.get("/topology", self.topology),
            web.get(PEER_PATH, self.peer),
        ]

    async def peer(self, request: web.Request) -> web.StreamResponse:
        """Answers another worker that shows that it has the token: with a ticket, and the same proof."""
        query = request.query
        found = self._proofs.answer(query.get("nonce", ""), query.get("code", ""))
        if found is None:
            raise HttpRefusal(401, "the asker does not show that it has the token of this worker (http.token.file)")
        return json_answer(found)

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Answers 200 until the application has failed or ended."""
        state = str(self._application.state)
        return json_answer({"state": state}, status=503 if state in ENDED else 200)

    async def ready(self, request: web.Request) -> web.StreamResponse:
        """Answers 200 while the worker does its part (`KafkaStreams.is_ready`) within the limits of the request, else
        503."""
        limits = ReadyLimits.of(request.query)
        ready = self._application.is_ready()
        fields: dict[str, Any] = {"ready": ready, "state": str(self._application.state)}
        if limits is not None:
            lag, age_ms = await self._look.made(self._measured)
            ready = ready and limits.hold(lag, age_ms)
            fields |= {"ready": ready, "lag": lag, "commit_age_ms": age_ms}
        return json_answer(fields, status=200 if ready else 503, headers=None if ready else RETRY_AFTER)

    def _measured(self) -> tuple[int | None, int]:
        """Returns the lag of all tasks, ``None`` if that of one is not known, and the age of the last good commit."""
        now = SystemClock().monotonic()
        at, lag, age_ms = self._progress
        if now - at >= KEPT_S:
            status = self._application.status()
            lags = [task.lag for task in status.tasks]
            lag = None if None in lags else sum(one for one in lags if one is not None)
            age_ms = max((thread.commit_age_ms for thread in status.threads), default=0)
            self._progress = now, lag, age_ms
        return lag, age_ms

    async def state(self, request: web.Request) -> web.StreamResponse:
        """Answers with the status of all workers and their totals, and why nothing comes out of the application.

        ``worker=self`` asks for this worker alone (`KafkaStreams.status`).
        """
        if is_about_one(request):
            return await self._look.made(partial(_state_of_one, await self._look.own()))
        return await self._look.made(partial(_state, await self._look.latest()))

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """Answers with the metrics, as Prometheus or OpenMetrics reads them."""
        from streams.http.exposition import exposition

        application = self._application
        accept = request.headers.get("Accept", "")
        make = partial(exposition, application.metrics, application.is_ready, accept)
        body, content_type = await self._look.made(make)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def topology(self, request: web.Request) -> web.StreamResponse:
        """Answers with the topology, as ``json``, ``text`` or ``svg``."""
        form = request.query.get("format", "json")
        found = _FORMS.get(form)
        if found is None:
            raise HttpRefusal(400, f"format must be one of {', '.join(_FORMS)}, got {form[:80]!r}")
        content_type, make = found
        if form not in self._pictures:
            self._pictures[form] = json_bytes(make(self._application))
        return web.Response(body=self._pictures[form], headers={"Content-Type": content_type})


def _state(application: ApplicationStatus) -> web.Response:
    return text_answer(status_json(application, reasons=why_application_is_silent(application)))


def _state_of_one(application: ApplicationStatus) -> web.Response:
    [worker] = application.workers
    return text_answer(status_json(worker, reasons=why_application_is_silent(application)))


def _json(application: ServedApplication) -> str:
    graph: Graph = graph_of(application.topology)
    fields: dict[str, Any] = dataclasses.asdict(graph)
    return json_text({"application_id": application.config.application_id, **fields}) + "\n"


_FORMS: dict[str, tuple[str, Callable[[ServedApplication], str]]] = {
    "json": ("application/json; charset=utf-8", _json),
    "text": ("text/plain; charset=utf-8", lambda application: application.topology.describe()),
    "svg": ("image/svg+xml", lambda application: svg(graph_of(application.topology))),
}
