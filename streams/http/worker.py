"""The pages about a worker as a whole: whether it lives and is ready, its state, its metrics, its topology.

State and metrics of many tasks take some time: they are made by a thread of their own, so that probes do not wait.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from streams.drawing.graph import Graph, graph_of
from streams.drawing.svg import svg
from streams.http.access.proofs import PEER_PATH, Proofs
from streams.http.responses import RETRY_AFTER, HttpRefusal, ServedApplication, json_answer, json_bytes, json_text
from streams.observing.diagnosis import why_no_output
from streams.threads import Threads

T = TypeVar("T")

ENDED = ("PENDING_ERROR", "ERROR", "NOT_RUNNING")


class WorkerPages:
    """Answers about one application."""

    def __init__(self, application: ServedApplication, proofs: Proofs, threads: Threads) -> None:
        self._application = application
        self._proofs = proofs
        self._pictures: dict[str, bytes] = {}
        self._helper = threads.helper("http-status")

    def close(self) -> None:
        """Ends the thread."""
        self._helper.shutdown(wait=False, cancel_futures=True)

    async def _made(self, make: Callable[[], T]) -> T:
        """Returns what the thread of its own makes."""
        pending: Any = self._helper.submit(make)
        found: T = await asyncio.wrap_future(pending)
        return found

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
        """Answers 200 while the worker does its part (`KafkaStreams.is_ready`), else 503."""
        ready = self._application.is_ready()
        fields = {"ready": ready, "state": str(self._application.state)}
        return json_answer(fields, status=200 if ready else 503, headers=None if ready else RETRY_AFTER)

    async def state(self, request: web.Request) -> web.StreamResponse:
        """Answers with all that is known of the worker now (`KafkaStreams.status`), and why nothing comes out of it."""
        return await self._made(self._state)

    def _state(self) -> web.Response:
        status = self._application.status()
        reasons = [dataclasses.asdict(reason) for reason in why_no_output(status)]
        return json_answer({**dataclasses.asdict(status), "reasons": reasons})

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """Answers with the metrics, as Prometheus or OpenMetrics reads them."""
        from streams.http.exposition import exposition

        application = self._application
        accept = request.headers.get("Accept", "")
        make = partial(exposition, application.metrics, application.is_ready, accept)
        body, content_type = await self._made(make)
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


def _json(application: ServedApplication) -> str:
    graph: Graph = graph_of(application.topology)
    fields: dict[str, Any] = dataclasses.asdict(graph)
    return json_text({"application_id": application.config.application_id, **fields}) + "\n"


_FORMS: dict[str, tuple[str, Callable[[ServedApplication], str]]] = {
    "json": ("application/json; charset=utf-8", _json),
    "text": ("text/plain; charset=utf-8", lambda application: application.topology.describe()),
    "svg": ("image/svg+xml", lambda application: svg(graph_of(application.topology))),
}
