"""The live page of a worker: its files, the picture of its topology, and a snapshot each second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.resources import files
from typing import Any, Protocol

from aiohttp import web

from processor_api.topology.topology import Topology
from streams.drawing.drawn import drawn
from streams.drawing.graph import graph_of
from streams.http.served import json_text, later
from streams.observing.status import DropStatus, NodeStatus, TaskStatus, WorkerStatus

EVERY_S = 1.0
"""The time between snapshots."""
MOST_PAGES = 8
"""Pages that are open at a time; each more is refused."""
AT_ONCE_S = 25.0
"""The time after which a page asks again, so that its answers end as all others do."""
UNREAD_S = 5.0
"""A page that takes nothing for so long is closed."""
MOST_PICTURES = 32
CONTENT = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
"""The files, by path. They say nothing of the worker, so they need no token."""
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Watched(Protocol):
    """The part of `KafkaStreams` that the page shows. Every call returns at once, and may be made by any thread."""

    topology: Topology

    def status(self) -> WorkerStatus: ...


class LivePage:
    """Answers with the page, its picture and its snapshots, on the loop of the HTTP port."""

    def __init__(self, application: Watched) -> None:
        self._application = application
        self._files = {path: files(__package__).joinpath(name).read_bytes() for path, (name, _) in CONTENT.items()}
        self._pictures: dict[tuple[bool, tuple[str, ...]], bytes] = {}
        self._snapshots = Snapshots(application.status)
        self._pages = 0
        self._closed = asyncio.Event()

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes of the page."""
        return [
            *(web.get(path, self.content) for path in CONTENT),
            web.get("/page/topology", self.topology),
            web.get("/events", self.events),
        ]

    def close(self) -> None:
        """Ends the answers that give snapshots; called on the loop."""
        self._closed.set()

    async def content(self, request: web.Request) -> web.StreamResponse:
        """Answers with a file."""
        _, content_type = CONTENT[request.path]
        body = self._files[request.path]
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=HEADERS)

    async def topology(self, request: web.Request) -> web.StreamResponse:
        """Answers with the topology, and where each box and line of it is drawn.

        ``names=java`` shows the names of nodes in place of the calls that made them; each ``collapsed`` names a
        subtopology that is drawn as one box.
        """
        graph = graph_of(self._application.topology)
        wanted = set(request.query.getall("collapsed", ()))
        key = request.query.get("names") == "java", tuple(title for title in graph.groups if title in wanted)
        if key not in self._pictures:
            if len(self._pictures) >= MOST_PICTURES:
                self._pictures.pop(next(iter(self._pictures)))
            self._pictures[key] = json_text(drawn(graph, names=key[0], collapsed=key[1])).encode()
        return web.Response(body=self._pictures[key], content_type="application/json", charset="utf-8")

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Answers with server-sent events: a snapshot each second, until the page is to ask again."""
        if self._pages >= MOST_PAGES:
            raise later(f"{MOST_PAGES} live pages are open, and no more are served: close one")
        self._pages += 1
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await response.prepare(request)
            loop = asyncio.get_running_loop()
            end = loop.time() + AT_ONCE_S
            while not self._closed.is_set() and loop.time() < end and await self._send(request, response):
                await self._wait()
            return response
        finally:
            self._pages -= 1

    async def _send(self, request: web.Request, response: web.StreamResponse) -> bool:
        """Sends a snapshot; returns whether the page took it."""
        try:
            async with asyncio.timeout(UNREAD_S):
                await response.write(b"data: %b\n\n" % self._snapshots.at(asyncio.get_running_loop().time()))
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            return False
        return True

    async def _wait(self) -> None:
        """Returns after the time between snapshots, or when the answers end."""
        try:
            async with asyncio.timeout(EVERY_S):
                await self._closed.wait()
        except TimeoutError:
            return


class Snapshots:
    """Makes a snapshot a second at most, which all pages share."""

    def __init__(self, status: Callable[[], WorkerStatus]) -> None:
        self._status = status
        self._made_at = float("-inf")
        self._latest = b""

    def at(self, now: float) -> bytes:
        """Returns the snapshot of a time as a line of JSON, or the latest where that is younger than a second."""
        if now - self._made_at >= EVERY_S * 0.95:
            self._made_at = now
            self._latest = json_text(snapshot(self._status())).encode()
        return self._latest


def snapshot(status: WorkerStatus) -> dict[str, Any]:
    """Returns the status as a page needs it: nodes and dropped records are added up over the tasks."""
    return {
        **_fields(status),
        "threads": [_fields(thread) for thread in status.threads],
        "tasks": [_task(task) for task in status.tasks],
        "nodes": _nodes(status.tasks),
        "drops": [_fields(drop) for drop in _drops(status.tasks)],
    }


def _fields(value: Any) -> dict[str, Any]:
    return dict(vars(value))


def _task(task: TaskStatus) -> dict[str, Any]:
    parts = {name: [_fields(part) for part in getattr(task, name)] for name in ("partitions", "stores", "held")}
    return {**_fields(task), **parts, "lag": task.lag, "nodes": [], "drops": []}


def _nodes(tasks: Iterable[TaskStatus]) -> dict[str, list[float | None]]:
    """Returns records, rate and time share of each node whose figures are known."""
    found: dict[str, list[tuple[TaskStatus, NodeStatus]]] = {}
    for task in tasks:
        for node in task.nodes:
            if (node.records, node.rate, node.time_share) != (None, None, None):
                found.setdefault(node.name, []).append((task, node))
    return {name: _added(parts) for name, parts in found.items()}


def _added(parts: list[tuple[TaskStatus, NodeStatus]]) -> list[float | None]:
    """Adds up a node over its tasks. Its share of the time is the mean of theirs, by their rates."""
    records = [node.records for _, node in parts if node.records is not None]
    rates = [node.rate for _, node in parts if node.rate is not None]
    shares = [(task.rate or 1e-9, node.time_share) for task, node in parts if node.time_share is not None]
    weight = sum(each for each, _ in shares)
    return [
        sum(records) if records else None,
        round(sum(rates), 2) if rates else None,
        round(sum(each * own for each, own in shares) / weight, 4) if shares else None,
    ]


def _drops(tasks: Iterable[TaskStatus]) -> Iterable[DropStatus]:
    found: dict[tuple[str, str], DropStatus] = {}
    for task in tasks:
        for drop in task.drops:
            other = found.get((drop.node, drop.reason))
            if other is not None:
                late = [each for each in (drop.late_by_ms, other.late_by_ms) if each is not None]
                drop = replace(drop, count=drop.count + other.count, late_by_ms=max(late, default=None))
            found[drop.node, drop.reason] = drop
    return found.values()
