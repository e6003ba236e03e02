"""The live page of an application: its files, the picture of the topology, and a snapshot of all workers each second.

With ``worker=self`` a page shows one worker alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Set
from functools import partial
from importlib.resources import files
from typing import Any

from aiohttp import web

from processor_api.topology.nodes import SinkNode
from streams.drawing.drawn import drawn
from streams.drawing.graph import graph_of
from streams.http.application.look import EVERY_S, ApplicationLook, Watched, is_about_one
from streams.http.processor_share import ProcessorShare
from streams.http.responses import json_bytes, json_text, later
from streams.observing.application import ApplicationStatus, totals_of
from streams.observing.diagnosis import why_application_is_silent
from streams.observing.status import NodeStatus, TaskStatus, ThreadStatus, WorkerStatus

PAUSE_S = 1.0
"""The time between two snapshots of a page."""
MOST_PAGES = 8
"""Pages that are open at a time; each more is refused."""
AT_ONCE_S = 25.0
"""The time after which a page asks again, so that its answers end as all others do."""
UNREAD_S = 5.0
"""A page that takes nothing for so long is closed."""
COMPARED_S = 30.0
"""A status is compared with one that is at least so old, to say why nothing comes out."""
MANY = 100
"""The records from which on one that came to a sink would have been seen: nodes are counted by samples."""
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


class LivePage:
    """Answers with the page, its picture and its snapshots, on the loop of the HTTP port."""

    def __init__(
        self, application: Watched, look: ApplicationLook, pace: ProcessorShare, *, may_replay: bool = False
    ) -> None:
        self._application = application
        self._pace = pace
        self._files = {path: files(__package__).joinpath(name).read_bytes() for path, (name, _) in CONTENT.items()}
        self._pictures: dict[tuple[bool, tuple[str, ...]], bytes] = {}
        self._snapshots = Snapshots(application, look, look.latest, may_replay=may_replay)
        self._own_snapshots = Snapshots(application, look, look.own, may_replay=may_replay)
        self._pages = 0
        self._closed = asyncio.Event()

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes of the page."""
        return [
            *(web.get(path, self.content) for path in CONTENT),
            web.get("/page/topology", self.topology),
            web.get("/events", self.events, allow_head=False),
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

        ``names=java`` shows the names of nodes instead of the calls that made them; each ``collapsed`` names a
        subtopology that is drawn as one box.
        """
        graph = graph_of(self._application.topology)
        wanted = set(request.query.getall("collapsed", ()))
        key = request.query.get("names") == "java", tuple(title for title in graph.groups if title in wanted)
        if key not in self._pictures:
            if len(self._pictures) >= MOST_PICTURES:
                self._pictures.pop(next(iter(self._pictures)))
            self._pictures[key] = json_bytes(json_text(drawn(graph, names=key[0], collapsed=key[1])))
        return web.Response(body=self._pictures[key], content_type="application/json", charset="utf-8")

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Answers with server-sent events: a snapshot each second, until the page is to ask again."""
        if self._pages >= MOST_PAGES:
            raise later(f"{MOST_PAGES} live pages are open, which is the limit: close one")
        snapshots = self._own_snapshots if is_about_one(request) else self._snapshots
        self._pages += 1
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await response.prepare(request)
            loop = asyncio.get_running_loop()
            end = loop.time() + AT_ONCE_S
            while not self._closed.is_set() and loop.time() < end and await self._send(request, response, snapshots):
                await self._wait()
            return response
        finally:
            self._pages -= 1

    async def _send(self, request: web.Request, response: web.StreamResponse, snapshots: Snapshots) -> bool:
        """Sends a snapshot; returns whether the page took it."""
        await self._pace.turn()
        latest = await snapshots.latest()
        try:
            async with asyncio.timeout(UNREAD_S):
                await response.write(b"data: %b\n\n" % latest)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            return False
        return True

    async def _wait(self) -> None:
        """Returns after the time between snapshots, or when the answers end."""
        try:
            async with asyncio.timeout(PAUSE_S):
                await self._closed.wait()
        except TimeoutError:
            return


class Snapshots:
    """Makes a snapshot a second at most, which all pages share.

    :param status: returns what snapshots are made of.
    :param may_replay: whether the page may list and replay dead letters.
    """

    def __init__(
        self,
        application: Watched,
        look: ApplicationLook,
        status: Callable[[], Awaitable[ApplicationStatus]],
        *,
        may_replay: bool = False,
    ) -> None:
        self._look = look
        self._status = status
        self._may_replay = may_replay
        self._sinks = frozenset(node.name for node in application.topology.nodes.values() if isinstance(node, SinkNode))
        self._turn = asyncio.Lock()
        self._made_at = float("-inf")
        self._latest = b""
        self._earlier: deque[tuple[float, ApplicationStatus]] = deque()

    async def latest(self) -> bytes:
        """Returns a snapshot as a line of JSON: the latest one where that is younger than a second."""
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if now - self._made_at >= EVERY_S:
                status = await self._status()
                self._latest = await self._look.made(partial(self._made, now, status))
                self._made_at = now
            return self._latest

    def _made(self, now: float, status: ApplicationStatus) -> bytes:
        earlier = self._compared_with(now, status)
        silent = is_silent(status, earlier, self._sinks)
        reasons = [_fields(reason) for reason in why_application_is_silent(status, earlier)] if silent else []
        return json_bytes(json_text({**snapshot(status), "reasons": reasons, "may_replay": self._may_replay}))

    def _compared_with(self, now: float, status: ApplicationStatus) -> ApplicationStatus | None:
        """Returns a status that is between one and two times ``COMPARED_S`` old, if there is one."""
        while self._earlier and now - self._earlier[0][0] > 2 * COMPARED_S:
            self._earlier.popleft()
        if not self._earlier or now - self._earlier[-1][0] >= COMPARED_S:
            self._earlier.append((now, status))
        began, earlier = self._earlier[0]
        return earlier if now - began >= COMPARED_S else None


def is_silent(status: ApplicationStatus, earlier: ApplicationStatus | None, sinks: Set[str]) -> bool:
    """Whether nothing comes out of a worker or of all: a worker does not run, nothing was processed, or nothing came to
    a sink.

    :param earlier: the status some time before; without one, only a worker that does not run is silent.
    """
    if any(not worker.ready or worker.paused or worker.failure is not None for worker in status.workers):
        return True
    if earlier is None:
        return False
    processed = status.totals.processed - earlier.totals.processed
    sent, sent_then = _sent(status, sinks), _sent(earlier, sinks)
    return processed == 0 or (processed >= MANY and sent is not None and sent == sent_then)


def _sent(status: ApplicationStatus, sinks: Set[str]) -> int | None:
    tasks = (task for worker in status.workers for task in worker.tasks)
    found = [node.records for task in tasks for node in task.nodes if node.name in sinks]
    known = [records for records in found if records is not None]
    return sum(known) if known else None


def snapshot(status: ApplicationStatus) -> dict[str, Any]:
    """Returns the status as a page needs it: nodes and dropped records are added up over the tasks, and each part says
    of which worker it is."""
    owned = [(worker, task) for worker in status.workers for task in worker.tasks]
    return {
        "application_id": status.application_id,
        "at_ms": status.at_ms,
        "ready": status.ready,
        "totals": _fields(status.totals),
        "missing": [_fields(one) for one in status.missing],
        "workers": [_worker(worker) for worker in status.workers],
        "threads": [_thread(worker, thread) for worker in status.workers for thread in worker.threads],
        "brokers": [{**_fields(broker), "worker": one.name} for one in status.workers for broker in one.brokers],
        "tasks": [_task(worker, task) for worker, task in sorted(owned, key=lambda each: each[1].number)],
        "global_tasks": [_task(one, one.global_task) for one in status.workers if one.global_task is not None],
        "nodes": _nodes(status.all_tasks),
        "drops": [_fields(drop) for drop in status.drops],
        "errors": dict(_errors(status)),
    }


def _worker(worker: WorkerStatus) -> dict[str, Any]:
    parts: dict[str, Any] = {name: [] for name in ("threads", "tasks", "standbys", "brokers", "closed_tasks")}
    totals = _fields(totals_of([worker]))
    return {**_fields(worker), **parts, "global_task": None, "name": worker.name, "totals": totals}


def _thread(worker: WorkerStatus, thread: ThreadStatus) -> dict[str, Any]:
    name = thread.name.removeprefix(f"{worker.client_id}-").replace("StreamThread-", "thread ")
    return {**_fields(thread), "name": name, "worker": worker.name}


def _errors(status: ApplicationStatus) -> Iterator[tuple[str, str]]:
    for task in status.all_tasks:
        for node in task.nodes:
            if node.last_error is not None:
                yield node.name, f"{node.last_error} (task {task.id})"


def _fields(value: Any) -> dict[str, Any]:
    return dict(vars(value))


def _task(worker: WorkerStatus, task: TaskStatus) -> dict[str, Any]:
    parts = {name: [_fields(part) for part in getattr(task, name)] for name in ("partitions", "stores", "held")}
    copies = {name: one and _fields(one) for name in ("snapshot", "copying") for one in [getattr(task, name)]}
    thread = task.thread.removeprefix(f"{worker.client_id}-").replace("StreamThread-", "thread ")
    more: dict[str, Any] = {"thread": thread, "worker": worker.name, "lag": task.lag, "nodes": [], "drops": []}
    return {**_fields(task), **parts, **copies, **more}


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
