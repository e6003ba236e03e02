"""The server of a worker's HTTP port: one thread with a loop of its own, which yields to the stream threads."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import selectors
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiohttp import web

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.texts import kind_and_text
from streams.config import StreamsConfig
from streams.http.options import HttpOptions
from streams.http.page.live import CONTENT, LivePage
from streams.http.routing import Router, address_of
from streams.http.served import HttpRefusal, ServedApplication, later
from streams.http.stores import StorePages
from streams.http.worker import WorkerPages
from streams.queries.owners import Owners
from streams.queries.queries import Queries
from streams.threads import SYSTEM_THREADS, Threads

log = logging.getLogger("streams.http")

MOST_CONNECTIONS = 128
MOST_REQUESTS = 64
"""Requests that are worked on at a time; each more is refused at once."""
MOST_HEADER_BYTES = 8190
MOST_BODY_BYTES = 1 << 20
IDLE_S = 30.0
"""A connection is closed after this time without a whole request."""
CLOSE_S = 5.0
BACKLOG = 128
OPEN_TO_ALL = frozenset({"/live", "/ready", *CONTENT})
"""Pages without a token: a probe has none, and neither has a browser before its page asks for one. They say nothing
else."""

_OF_WORKER = re.compile(r"^/workers/\d+(?=/)")
"""The begin of a path that a supervisor passes on."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PacedSelector(selectors.DefaultSelector):
    """Waits for events of the server's loop, and longer while the server's thread takes more than its share.

    The interpreter runs one thread at a time, so what the server uses the stream threads do not get. The share is one
    of the processor time that they get, since the machine may have other load; an idle worker answers as fast as it
    can.

    :param share: the part of their processor time.
    """

    def __init__(self, share: float, clock: Clock) -> None:
        super().__init__()
        self._share = share
        self._clock = clock
        self._credit = BURST_S
        self._rate = 1.0
        """The part of a core that the other threads of the process have used lately."""
        self._last = 0.0, time.process_time()
        self._window = clock.monotonic(), 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        used, total = time.thread_time(), time.process_time()
        own = used - self._last[0]
        others = max(0.0, total - self._last[1] - own)
        self._last = used, total
        self._look_around(total - used)
        self._credit = min(BURST_S, self._credit + others * self._share) - own
        if self._rate <= BUSY:
            self._credit = max(self._credit, 0.0)
        elif self._credit < 0:
            self._clock.wait(min(-self._credit / (self._share * self._rate), LONGEST_PAUSE_S))
        return super().select(timeout)

    def _look_around(self, others: float) -> None:
        """Finds out, some times in a second, how busy the other threads are.

        :param others: the processor time that they have used.
        """
        now = self._clock.monotonic()
        since, others_then = self._window
        if now - since >= WINDOW_S:
            self._rate = (others - others_then) / (now - since)
            self._window = now, others


BURST_S = 0.02
LONGEST_PAUSE_S = 0.5
WINDOW_S = 0.1
ACCEPTED_IN = 3
"""Turns of the loop after which a connection that was accepted is made."""
BUSY = 0.05
"""The part of a core that other threads use when they are busy."""


class HttpServer:
    """Serves one application on one port, from :meth:`start` to :meth:`close`.

    :param listener: the socket, which listens; it is closed at the end.
    :param at_end: ends the answers that would go on; called on the loop.
    :param afterwards: closes what the routes use, when no answer goes on any more; likewise.
    """

    def __init__(
        self,
        routes: Sequence[web.AbstractRouteDef],
        listener: socket.socket,
        options: HttpOptions,
        clock: Clock,
        threads: Threads = SYSTEM_THREADS,
        at_end: Callable[[], None] = lambda: None,
        afterwards: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._at_end, self._afterwards = at_end, afterwards
        self._listener = listener
        self._options = options
        self._gate = Gate(options)
        self._routes = routes
        self._loop = asyncio.SelectorEventLoop(PacedSelector(options.cpu_share, clock))
        self._stop = asyncio.Event()
        self._thread = threads.thread(self._run, "http")

    def start(self) -> None:
        """Starts the thread, which answers from now on."""
        self._thread.start()

    def close(self) -> None:
        """Ends answers after some seconds at most, and frees the port; returns when that is done."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(2 * CLOSE_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            log.error("the HTTP port was closed by an error", extra={"error": kind_and_text(error)}, exc_info=error)
        finally:
            self._listener.close()
            self._loop.close()

    async def _serve(self) -> None:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._gate.let_in(request, handler)

        application = web.Application(middlewares=[guard], client_max_size=MOST_BODY_BYTES)
        application.add_routes(self._routes)
        runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            keepalive_timeout=IDLE_S,
            lingering_time=1.0,
            logger=_SILENT,
            max_field_size=MOST_HEADER_BYTES,
            max_line_size=MOST_HEADER_BYTES,
            shutdown_timeout=CLOSE_S,
        )
        await runner.setup()
        assert runner.server is not None
        connected = _Connections(runner.server, MOST_CONNECTIONS * self._options.capacity)
        tls = None if self._options.is_behind else self._options.tls  # the supervisor ends it
        server = await self._loop.create_server(connected.protocol, sock=self._listener, ssl=tls, backlog=BACKLOG)
        try:
            await self._stop.wait()
        finally:
            self._at_end()
            # A connection that was accepted, and whose server closes before it is made, would stay open without a word.
            self._loop.remove_reader(self._listener)
            for _ in range(ACCEPTED_IN):
                await asyncio.sleep(0)
            server.close()
            transports = [one.transport for one in runner.server.connections if one.transport is not None]
            await runner.cleanup()
            for transport in transports:
                transport.abort()  # under TLS a close waits for the client
            await asyncio.sleep(0)
            if self._afterwards is not None:
                await self._afterwards()


_SILENT = logging.Logger("streams.http.connections", logging.CRITICAL)  # noqa: LOG001 - it has no handlers of the user
"""Says nothing of what clients send wrong: it is answered, and would fill the log."""


class _Connections:
    """Makes the protocol of each connection, and refuses those that are too many."""

    def __init__(self, server: web.Server, most: int) -> None:
        self._server = server
        self._most = most

    def protocol(self) -> asyncio.Protocol:
        return self._server() if len(self._server.connections) < self._most else _TooMany()


class _TooMany(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        body = b'{"error":"too many connections: ask again later"}\n'
        transport.write(
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        transport.close()


class Gate:
    """Lets in the requests that may ask, so many at a time, and ends answers that take too long."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._most = MOST_REQUESTS * options.capacity
        self._requests = 0
        self._meant: str | None = None

    async def let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._requests >= self._most:
            return later("too many requests at a time: ask again later").answer()
        self._requests += 1
        try:
            self._check(request)
            async with asyncio.timeout(self._options.answer_s):
                answer = await handler(request)
                await answer.prepare(request)
                await answer.write_eof()  # here, so that a client which does not read has no longer than the others
                return answer
        except HttpRefusal as refused:
            return refused.answer()
        except TimeoutError:
            return self._too_late(request)
        except web.HTTPException as error:
            return HttpRefusal(error.status, _sentence(error, request)).answer()
        except ConnectionError:
            raise
        except Exception as error:
            log.error("a request failed", extra={"path": request.path, "error": kind_and_text(error)}, exc_info=error)
            return HttpRefusal(500, f"the worker failed to answer: {kind_and_text(error)}").answer()
        finally:
            self._requests -= 1

    def _check(self, request: web.Request) -> None:
        """Checks that a request may ask.

        :raises HttpRefusal: if it may not.
        """
        token = self._options.token
        if token is None:
            if not self._is_meant_for_us(request.headers.get("Host", "")):
                raise HttpRefusal(403, "the header Host names another host than this one (application.server names it)")
            return
        if _OF_WORKER.sub("", request.path) in OPEN_TO_ALL:
            return
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(_as_sent(given.strip()), token.encode()):
            raise HttpRefusal(
                401, "a bearer token is needed, that of the file http.token.file", {"WWW-Authenticate": "Bearer"}
            )

    def _is_meant_for_us(self, host: str) -> bool:
        """Whether a page of another site cannot have sent the request: a browser would name that site's host."""
        if host != self._meant:  # most requests have the same
            if not _is_of(host, self._options):
                return False
            self._meant = host
        return True

    def _too_late(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()  # the answer may have begun
        return later(f"the answer took longer than {self._options.answer_s:g} s").answer()


def _as_sent(header: str) -> bytes:
    """Returns the bytes of a part of a header, which may be no UTF-8."""
    return header.encode("utf-8", "surrogateescape")


def _is_of(host: str, options: HttpOptions) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower()
    if name in options.known_hosts or name == options.host.lower() or not name:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return not options.is_loopback
    return True


def _sentence(error: web.HTTPException, request: web.Request) -> str:
    if error.status == 404:
        return f"there is no page {request.path[:80]!r}; there are {', '.join(PAGES)}"
    if error.status == 405:
        return f"{request.method[:20]} is not taken here"
    return (error.text or error.reason).partition("\n")[0]


PAGES = ("/live", "/ready", "/state", "/metrics", "/topology", "/stores", "/")


class HttpPort:
    """The port of one application, which listens and does not answer yet: so its address is known before the start.

    :param capacity: how many times the usual connections and requests it takes.
    :raises ConfigError: if a file that the settings name cannot be used.
    :raises StreamsError: if the port cannot be listened on.
    """

    def __init__(self, config: StreamsConfig, *, capacity: int = 1) -> None:
        self.options = replace(HttpOptions.of(config), capacity=capacity)
        self._listener = _listen(self.options)
        self.number: int = self._listener.getsockname()[1]
        """The port, also where 0 was asked for."""
        self.endpoint = self.options.reached_at(self.number)
        """The ``host:port`` by which others reach it; ``None`` if that is not known."""
        scheme = "http" if self.options.tls is None else "https"
        self.url = f"{scheme}://{address_of(self.endpoint or self.options.listens_at(self.number))}"

    def serve_application(
        self,
        application: ServedApplication,
        queries: Callable[[], Queries],
        owners: Owners,
        clock: Clock,
        threads: Threads,
    ) -> HttpServer:
        """Answers from now on about an application.

        :param queries: returns what reads the stores of the application.
        """
        router = Router(owners, self.options, threads)
        page, stores = LivePage(application, router), StorePages(application, queries, router)
        routes = [*WorkerPages(application).routes(), *stores.routes(), *page.routes()]
        return self.serve(routes, clock, threads, at_end=page.close, afterwards=router.close)

    def serve(
        self,
        routes: Sequence[web.AbstractRouteDef],
        clock: Clock,
        threads: Threads,
        *,
        at_end: Callable[[], None] = lambda: None,
        afterwards: Callable[[], Awaitable[None]] | None = None,
    ) -> HttpServer:
        """Answers by these routes from now on; the rest is as in :class:`HttpServer`."""
        options = self.options
        try:
            server = HttpServer(routes, self._listener, options, clock, threads, at_end, afterwards)
            server.start()
        except BaseException:
            self._listener.close()
            raise
        if options.is_behind:
            return server
        log.info("listening", extra={"endpoint": self.url})
        if options.token is None and not options.is_loopback:
            log.warning(
                "the HTTP port has no token, and everyone who reaches it can read the stores; name a file by"
                " http.token.file, or listen on 127.0.0.1",
                extra={"address": options.address},
            )
        if self.endpoint is None:
            log.warning(
                "other workers cannot ask this one for its stores: it listens on all addresses; say by"
                " application.server which one they reach",
                extra={"address": options.address},
            )
        return server


def _listen(options: HttpOptions) -> socket.socket:
    try:
        if options.is_behind:
            return socket.socket(fileno=options.port)
        found: Any = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        why = error.strerror or str(error)
        raise StreamsError(f"http.listen {options.address} cannot be listened on: {why}") from None
