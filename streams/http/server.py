"""The server of a worker's HTTP port: one thread with a loop of its own, which yields to the stream threads."""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.texts import kind_and_text
from streams.config import StreamsConfig
from streams.http.connections.gate import Gate, Handler
from streams.http.connections.protocol import AtOnce, HttpConnections, KeptSocket
from streams.http.connections.single_reads import SingleReads
from streams.http.options import HttpOptions
from streams.http.page.live import LivePage
from streams.http.responses import ServedApplication
from streams.http.routing import Router, address_of
from streams.http.stores import StorePages
from streams.http.worker import WorkerPages
from streams.outages import GoesBack, patient
from streams.queries.owners import Owners
from streams.queries.queries import Queries
from streams.threads import SYSTEM_THREADS, Threads

log = logging.getLogger("streams.http")

MOST_HEADER_BYTES = 8190
MOST_BODY_BYTES = 1 << 20
NEVER_S = 1e9
CLOSE_S = 5.0
BACKLOG = 128


class PacedSelector(selectors.DefaultSelector):
    """Waits for events of the server's loop, and longer while the server's thread takes more than its share.

    The interpreter runs one thread at a time, so what the server uses the stream threads do not get. The share is one
    of the processor time that they get, since the machine may have other load; an idle worker answers as fast as it
    can. A large share has the stream threads also give up the interpreter sooner, while reads are answered: else each
    turn of the server begins with the switch interval of Python, 5 ms.

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
        self._turn = 0
        self._read_at = float("-inf")
        """When a read was answered last."""
        self._is_soon = False
        """Whether the switch interval is short for this server."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turn += 1
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
        if self._is_soon:
            self._let_be(self._clock.monotonic() - self._read_at < SOON_S)
            return super().select(SOON_S if timeout is None else min(timeout, SOON_S))
        return super().select(timeout)

    def turn(self) -> int:
        """Returns the number of the turn of the loop, in which a read is answered."""
        if self._share >= SOON_SHARE:
            self._read_at = self._clock.monotonic()
            self._let_be(True)
        return self._turn

    def close(self) -> None:
        self._let_be(False)
        super().close()

    def _let_be(self, is_soon: bool) -> None:
        if is_soon != self._is_soon:
            self._is_soon = is_soon
            SWITCHES.soon() if is_soon else SWITCHES.as_usual()

    def _look_around(self, others: float) -> None:
        """Measures several times per second how busy the other threads are.

        :param others: the processor time that they have used.
        """
        now = self._clock.monotonic()
        since, others_then = self._window
        if now - since >= WINDOW_S:
            self._rate = (others - others_then) / (now - since)
            self._window = now, others


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
BURST_S = 0.02
LONGEST_PAUSE_S = 0.5
WINDOW_S = 0.1
ACCEPTED_IN = 3
"""Turns of the loop after which a connection that was accepted is made."""
BUSY = 0.05
"""The part of a core that other threads use when they are busy."""
SWITCH_S = 0.001
SOON_S = 0.2
"""How long the switch interval is short after a read."""
SOON_SHARE = 0.25
"""The share of the server from which on the switch interval is short. With less, the share is the bound."""


@dataclass(frozen=True, kw_only=True)
class HttpAnswers:
    """Holds what a server answers with."""

    routes: Sequence[web.AbstractRouteDef]
    reads: AtOnce | None = None
    """Answers requests at once; the routes answer the others."""
    at_end: Callable[[], None] = lambda: None
    """Ends unfinished responses; called on the loop."""
    afterwards: Callable[[], Awaitable[None]] | None = None
    """Closes the resources of the routes when all responses have ended; called on the loop."""


class HttpServer:
    """Serves one application on one port, from :meth:`start` to :meth:`close`.

    :param listener: the socket, which listens; it is closed at the end.
    """

    def __init__(
        self,
        answers: HttpAnswers,
        listener: socket.socket,
        options: HttpOptions,
        clock: Clock,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._answers = answers
        self._listener = KeptSocket(listener)
        self._options = options
        self._gate = Gate(options)
        self._selector = PacedSelector(options.cpu_share, clock)
        self._loop = asyncio.SelectorEventLoop(self._selector)
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
            # A call that waited for a service, such as a schema registry, would hold up all answers of the worker.
            with patient(GoesBack()):
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
        application.add_routes(self._answers.routes)
        runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            keepalive_timeout=NEVER_S,  # it does not see the requests that are answered without it
            lingering_time=1.0,
            logger=_SILENT,
            max_field_size=MOST_HEADER_BYTES,
            max_line_size=MOST_HEADER_BYTES,
            shutdown_timeout=CLOSE_S,
        )
        await runner.setup()
        assert runner.server is not None
        connected = HttpConnections(
            runner.server, self._options, self._answers.reads, self._gate.admits, self._selector.turn
        )
        tls = None if self._options.is_behind else self._options.tls  # the supervisor ends it
        server = await self._loop.create_server(connected.protocol, sock=self._listener, ssl=tls, backlog=BACKLOG)
        try:
            await self._stop.wait()
        finally:
            self._answers.at_end()
            # A connection that was accepted, and whose server closes before it is made, would stay open without a word.
            self._loop.remove_reader(self._listener)
            for _ in range(ACCEPTED_IN):
                await asyncio.sleep(0)
            server.close()
            connected.close()
            transports = [one.transport for one in runner.server.connections if one.transport is not None]
            await runner.cleanup()
            for transport in transports:
                transport.abort()  # under TLS a close waits for the client
            await asyncio.sleep(0)
            if self._answers.afterwards is not None:
                await self._answers.afterwards()


_SILENT = logging.Logger("streams.http.connections", logging.CRITICAL)  # noqa: LOG001 - it has no handlers of the user
"""Says nothing of what clients send wrong: it is answered, and would fill the log."""


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
        reads = SingleReads(application, queries, owners, clock)
        return self.serve(
            HttpAnswers(routes=routes, reads=reads, at_end=page.close, afterwards=router.close), clock, threads
        )

    def serve(self, answers: HttpAnswers, clock: Clock, threads: Threads) -> HttpServer:
        """Answers from now on."""
        options = self.options
        try:
            server = HttpServer(answers, self._listener, options, clock, threads)
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
        raise StreamsError(f"cannot listen on http.listen {options.address}: {why}") from None
