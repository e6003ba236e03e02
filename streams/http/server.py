"""The server of a worker's HTTP port: one thread with a loop of its own, which yields to the stream threads."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.texts import kind_and_text
from streams.config import StreamsConfig
from streams.http.access.credentials import RENEW_S
from streams.http.access.proofs import Proofs
from streams.http.application.look import ApplicationLook
from streams.http.connections.gate import Gate, Handler
from streams.http.connections.places import BACKLOG, HttpConnections
from streams.http.letters.pages import LetterPages
from streams.http.options import HttpOptions
from streams.http.page.live import LivePage
from streams.http.processor_share import ProcessorShare
from streams.http.responses import ServedApplication
from streams.http.routing import Router, address_of
from streams.http.stores import StorePages
from streams.http.watch import PeerWatch
from streams.http.worker import WorkerPages
from streams.kafka.ports import Admin, KafkaClients
from streams.outages import GoesBack, patient
from streams.queries.owners import Owners
from streams.queries.queries import Queries
from streams.threads import SYSTEM_THREADS, Threads

log = logging.getLogger("streams.http")

MOST_HEADER_BYTES = 8190
MOST_BODY_BYTES = 1 << 20
NEVER_S = 1e9
CLOSE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class HttpAnswers:
    """Holds what a server answers with."""

    routes: Sequence[web.AbstractRouteDef]
    pace: ProcessorShare
    """The share of the processor that the answers may use."""
    proofs: Proofs | None = None
    """Checks other workers that ask."""
    at_end: Callable[[], None] = lambda: None
    """Ends unfinished responses; called on the loop."""
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Another activity of the loop, until the port is closed."""
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
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._answers = answers
        self._listener = listener
        listener.setblocking(False)
        self._options = options
        self._gate = Gate(options, answers.pace, answers.proofs)
        self._loop = asyncio.new_event_loop()
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
            keepalive_timeout=NEVER_S,  # idle connections are closed by their own rule
            lingering_time=1.0,
            logger=_SILENT,
            max_field_size=MOST_HEADER_BYTES,
            max_line_size=MOST_HEADER_BYTES,
            shutdown_timeout=CLOSE_S,
        )
        await runner.setup()
        assert runner.server is not None
        connected = HttpConnections(runner.server, self._options)
        connected.listen(self._listener)
        beside = [self._loop.create_task(self._renew())]
        if self._answers.beside is not None:
            beside.append(self._loop.create_task(self._answers.beside()))
        try:
            await self._stop.wait()
        finally:
            self._answers.at_end()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await connected.close()
            self._listener.close()
            transports = [one.transport for one in runner.server.connections if one.transport is not None]
            await runner.cleanup()
            for transport in transports:
                transport.abort()  # under TLS a close waits for the client
            await asyncio.sleep(0)
            self._answers.pace.close()
            if self._answers.afterwards is not None:
                await self._answers.afterwards()

    async def _renew(self) -> None:
        """Reads tokens and certificates again when their files change."""
        while True:
            await asyncio.sleep(RENEW_S)
            self._options.credentials.renew()


_SILENT = logging.Logger("streams.http.connections", logging.CRITICAL)  # noqa: LOG001 - it has no handlers of the user
"""Says nothing of what clients send wrong: it is answered, and would fill the log."""


class HttpPort:
    """The port of one application, which listens and does not answer yet: so its address is known before the start.

    :param capacity: how many times the usual connections and requests it takes.
    :raises ConfigError: if a file that the settings name cannot be used.
    :raises StreamsError: if the port cannot be listened on.
    """

    def __init__(self, config: StreamsConfig, *, capacity: int = 1) -> None:
        self._config = config
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
        admin: Callable[[], Admin | None],
        clients: KafkaClients,
    ) -> HttpServer:
        """Answers from now on about an application.

        :param queries: returns what reads the stores of the application.
        :param admin: returns the client for the group of the application; ``None`` before the start.
        :param clients: makes the clients for dead letters.
        """
        router, pace = Router(owners, self.options, threads), ProcessorShare(self.options.cpu_share)
        proofs = Proofs(self.options.credentials, self.endpoint or "", clock)
        look = ApplicationLook(application, router, threads)
        page = LivePage(application, look, pace, may_replay=application.config.http_allow_replay)
        stores = StorePages(application, queries, router, pace)
        pages = WorkerPages(application, look, proofs)
        letters = LetterPages.of(application, clients, clock, threads)
        routes = [*pages.routes(), *stores.routes(), *page.routes(), *letters.routes()]

        watch, timeout_ms = None, self._config.http_peer_timeout_ms
        if timeout_ms is not None and self.endpoint is not None:
            watch = PeerWatch(self._config, self.endpoint, router, admin, timeout_ms / 1000, clock, threads)

        def at_end() -> None:
            page.close()
            letters.close()
            look.stop()

        async def afterwards() -> None:
            await look.close()
            if watch is not None:
                watch.close()
            await router.close()

        answers = HttpAnswers(
            routes=routes,
            pace=pace,
            proofs=proofs,
            at_end=at_end,
            beside=None if watch is None else watch.run,
            afterwards=afterwards,
        )
        return self.serve(answers, threads)

    def serve(self, answers: HttpAnswers, threads: Threads) -> HttpServer:
        """Answers from now on."""
        options = self.options
        try:
            server = HttpServer(answers, self._listener, options, threads)
            server.start()
        except BaseException:
            self._listener.close()
            raise
        if options.is_behind:
            return server
        log.info("listening", extra={"endpoint": self.url})
        if not options.credentials.tokens and not options.is_loopback:
            log.warning(
                "the HTTP port has no token, and everyone who reaches it can read the stores; name a file by"
                " http.token.file, or listen on 127.0.0.1",
                extra={"address": options.address},
            )
        if self.endpoint is None:
            log.warning(
                "other workers cannot ask this one for its stores, nor watch it: it listens on all addresses; say by"
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
        failed = StreamsError(f"cannot listen on http.listen {options.address}: {why}")
        failed.is_permanent = error.errno == errno.EACCES  # as for a port below 1024; other processes end some time
        raise failed from None
