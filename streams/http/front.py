"""The one HTTP port of a supervisor, which passes requests on to its worker processes.

Each worker has a socket on loopback, which the supervisor opens and the worker inherits: so it is there before the
worker is, and stays when the worker is started again. Workers tell the address of the supervisor and their own number,
``host:port/2``, and are asked below ``/workers/2``.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from functools import partial

import aiohttp
from aiohttp import web
from yarl import URL

from processor_api.texts import kind_and_text
from streams.config import StreamsConfig
from streams.http.connections.places import BACKLOG
from streams.http.options import BEHIND
from streams.http.peers import Peer, Silent
from streams.http.processor_share import ProcessorShare
from streams.http.responses import RETRY_AFTER, HttpRefusal, json_answer, later
from streams.http.server import HttpAnswers, HttpPort, HttpServer
from streams.http.worker import ReadyLimits
from streams.threads import SYSTEM_THREADS

CONNECT_S = 2.0
GOES_ON_S = 15.0
"""An answer that has begun is broken off if nothing of it comes for so long."""
MOST_AT_ONCE = 1 << 16
"""An answer that has no more bytes is passed on when it is whole, so that nothing of it is lost with its worker."""
CAPACITY = 4
"""The front admits this many times the requests of a worker: a request that it has passed on to one may come back to
it, since workers ask each other by it."""
_NOT_PASSED = frozenset(
    {"connection", "content-length", "host", "keep-alive", "origin", "te", "transfer-encoding", "upgrade"}
)
"""Headers of one connection, and the origin: it is that of the port here, which has compared them."""


class Front:
    """The port of a supervisor and the sockets of its workers, from its making to :meth:`close`.

    :raises ConfigError: if a file that the settings name cannot be used.
    :raises StreamsError: if the port cannot be listened on.
    """

    def __init__(self, config: StreamsConfig, workers: int) -> None:
        self._port = HttpPort(config, capacity=CAPACITY)
        self._listeners = [socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) for _ in range(workers)]
        self._pages = FrontPages([listener.getsockname()[1] for listener in self._listeners])
        self._server: HttpServer | None = None

    def start(self) -> None:
        """Answers from now on."""
        pages = self._pages
        pace = ProcessorShare(self._port.options.cpu_share)
        answers = HttpAnswers(routes=pages.routes(), pace=pace, afterwards=pages.close)
        self._server = self._port.serve(answers, SYSTEM_THREADS)

    def descriptor(self, number: int) -> int:
        """Returns the descriptor of a worker's socket, which it inherits."""
        return self._listeners[number].fileno()

    def settings(self, number: int) -> list[str]:
        """Returns the settings of a worker, as ``key=value``."""
        # Where the supervisor listens on all addresses, its workers find each other, and others find none of them.
        address = self._port.endpoint or f"127.0.0.1:{self._port.number}"
        return [f"http.listen={BEHIND}:{self.descriptor(number)}", f"application.server={address}/{number}"]

    def mark(self, alive: Sequence[bool], ready: bool) -> None:
        """Takes which workers run now, by number, and whether all are ready."""
        self._pages.alive, self._pages.ready = tuple(alive), ready

    def close(self) -> None:
        """Ends answers and frees the port."""
        if self._server is not None:
            self._server.close()
        for listener in self._listeners:
            listener.close()


class FrontPages:
    """Passes requests on, and joins the answers about all workers.

    :param ports: of the workers on loopback, by number.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._session: aiohttp.ClientSession | None = None
        self._peers = [Peer(str(number), partial(self._lives, number)) for number in range(len(ports))]
        self._turn = 0
        self.alive: tuple[bool, ...] = (False,) * len(ports)
        self.ready = False

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/live", self.live),
            web.get("/ready", self.is_ready),
            web.get("/metrics", self.metrics),
            web.route("*", "/workers/{number}{path:/.*}", self.of_worker),
            web.route("*", "/{path:.*}", self.of_any),
        ]

    async def close(self) -> None:
        """Closes the connections to workers."""
        for peer in self._peers:
            await peer.close()
        if self._session is not None:
            await self._session.close()

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Answers 200: a supervisor that gives up ends."""
        return json_answer({"workers": len(self._ports), "alive": sum(self.alive)})

    async def is_ready(self, request: web.Request) -> web.StreamResponse:
        """Answers 200 while all workers are ready, each within the limits of the request, else 503."""
        ready = self.ready
        if ready and ReadyLimits.of(request.query) is not None:
            path = f"/ready?{request.rel_url.raw_query_string}"
            answers = await asyncio.gather(
                *(self._fetched(number, path, request) for number in range(len(self._ports)))
            )
            ready = None not in answers
        fields = {"ready": ready, "workers": len(self._ports), "alive": sum(self.alive)}
        return json_answer(fields, status=200 if ready else 503, headers=None if ready else RETRY_AFTER)

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """Answers with the metrics of all workers, each with the label ``worker``, its number."""
        from streams.http.exposition import joined

        texts = await asyncio.gather(*(self._fetched(one, "/metrics", request) for one in range(len(self._ports))))
        found = {number: None if text is None else text.decode() for number, text in enumerate(texts)}
        body, content_type = joined(found, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _fetched(self, number: int, path: str, request: web.Request) -> bytes | None:
        """Returns the answer of a worker; ``None`` if there is none."""
        if not self.alive[number]:
            return None
        headers = {name: request.headers[name] for name in ("Authorization",) if name in request.headers}
        try:
            async with self._peers[number].asked(), self._opened().get(self._url(number, path), headers=headers) as got:
                return await got.read() if got.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, Silent):
            return None

    async def _lives(self, number: int) -> None:
        async with self._opened().get(self._url(number, "/live")):
            pass

    async def of_worker(self, request: web.Request) -> web.StreamResponse:
        """Passes a request on to one worker."""
        text = request.match_info["number"]
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else -1
        if not 0 <= number < len(self._ports):
            raise HttpRefusal(
                404, f"worker {text[:20]!r} does not exist: the numbers of workers are 0 to {len(self._ports) - 1}"
            )
        path = request.rel_url.raw_path.removeprefix(f"/workers/{text}")
        try:
            return await self._pass_on(request, number, path)
        except _NoAnswer as error:
            raise later(str(error)) from error

    async def of_any(self, request: web.Request) -> web.StreamResponse:
        """Passes a request on to a worker that runs, in turn; each answers for all. Where one does not answer, another
        is asked, once if that one took its time."""
        alive = [number for number, one in enumerate(self.alive) if one]
        if not alive:
            raise later("no worker runs now: try again later")
        self._turn += 1
        first, waited, why = self._turn % len(alive), 0, ""
        for number in [*alive[first:], *alive[:first]]:
            was_silent = self._peers[number].is_silent
            try:
                return await self._pass_on(request, number, request.rel_url.raw_path)
            except _NoAnswer as error:
                waited, why = waited + (not was_silent), str(error)
            if waited == 2:
                break
        raise later(why)

    async def _pass_on(self, request: web.Request, number: int, path: str) -> web.StreamResponse:
        """Passes a request on to one worker.

        :raises _NoAnswer: if none of its answer has come; a started response that does not continue is aborted.
        """
        if not self.alive[number]:
            raise later(f"worker {number} does not run now: try again later")
        body = await request.read() or None
        url, headers = self._url(number, path, request.rel_url.raw_query_string), _passed(request.headers)
        answer: aiohttp.ClientResponse | None = None
        try:
            async with self._peers[number].asked():
                answer = await self._opened().request(
                    request.method, url, headers=headers, data=body, allow_redirects=False
                )
                short = request.method != "HEAD" and (answer.content_length or MOST_AT_ONCE + 1) <= MOST_AT_ONCE
                whole = await answer.read() if short else None
        except BaseException as error:
            if answer is not None:
                answer.close()
            if isinstance(error, Silent):
                raise _NoAnswer(str(error)) from error
            if isinstance(error, (aiohttp.ClientError, TimeoutError)):
                raise _NoAnswer(f"worker {number} does not respond: {kind_and_text(error)}") from error
            raise
        if whole is not None:
            return web.Response(status=answer.status, body=whole, headers=_passed(answer.headers))
        async with answer:
            begun = web.StreamResponse(status=answer.status, headers=_passed(answer.headers))
            await begun.prepare(request)
            try:
                async for part in answer.content.iter_any():
                    await begun.write(part)
            except (aiohttp.ClientError, TimeoutError) as error:
                if request.transport is not None:
                    request.transport.abort()  # so that no one takes a part for the whole
                raise later(f"the response of worker {number} was interrupted: {kind_and_text(error)}") from error
            return begun

    def _url(self, number: int, path: str, query: str = "") -> URL:
        text = f"http://127.0.0.1:{self._ports[number]}{path}"
        return URL(f"{text}?{query}" if query else text, encoded=True)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                connector=aiohttp.TCPConnector(limit=0),  # each peer has its bound
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=GOES_ON_S),
            )
        return self._session


class _NoAnswer(Exception):
    """A worker gives no answer; the text says which."""


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED}
