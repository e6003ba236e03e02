"""Decides which requests may ask, a limited number at a time, and ends answers that take too long.

Probes have a lane of their own: they need no place, and wait for no share of the processor.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext

from aiohttp import web

from processor_api.texts import kind_and_text
from streams.http.access.proofs import PEER, PEER_PATH, Proofs
from streams.http.connections.places import HttpConnection
from streams.http.options import HttpOptions
from streams.http.page.live import CONTENT
from streams.http.processor_share import ProcessorShare
from streams.http.responses import HttpRefusal, later, outage_of

log = logging.getLogger("streams.http")

MOST_REQUESTS = 64
"""Requests that are worked on at a time; each more is refused at once."""
LIVENESS = frozenset({"/live", "/ready"})
"""Pages that answer to any host and without a token: a probe has no token, and uses the name of a service."""
PROBES = LIVENESS | {"/metrics"}
OPEN_TO_ALL = frozenset({*LIVENESS, PEER_PATH, *CONTENT})
"""Pages without a token: they have nothing of the worker's data. A browser has no token before its page asks for one,
and a worker that proves that it has the token does not send it."""
PAGES = ("/live", "/ready", "/state", "/metrics", "/topology", "/stores", "/")

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

_OF_WORKER = re.compile(r"^/workers/\d+(?=/)")
"""The begin of a path that a supervisor passes on."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gate:
    """Lets in the requests that may ask, a limited number at a time, and ends answers that take too long.

    :param proofs: checks other workers; ``None`` for the port of a supervisor, whose workers check them.
    """

    def __init__(self, options: HttpOptions, pace: ProcessorShare, proofs: Proofs | None = None) -> None:
        self._options = options
        self._pace = pace
        self._proofs = proofs
        self._most = MOST_REQUESTS * options.capacity
        self._requests = 0

    async def let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        found = None if request.transport is None else request.transport.get_protocol()
        connection = found if isinstance(found, HttpConnection) else None
        with nullcontext() if connection is None else connection.answering():
            return await self._guarded(request, handler, connection)

    async def _guarded(
        self, request: web.Request, handler: Handler, connection: HttpConnection | None
    ) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._options.answer_s):
                with ExitStack() as held:
                    answer = await self._answer(request, handler, connection, held)
                    await answer.prepare(request)
                    await answer.write_eof()  # here, so that a client which does not read has no longer than the others
                    return answer
        except TimeoutError:
            return self._too_late(request)
        except web.HTTPException as error:
            return HttpRefusal(error.status, _sentence(error, request)).answer()
        except ConnectionError:
            raise
        except Exception as error:
            if (away := outage_of(error)) is not None:
                return away.answer()
            log.error("a request failed", extra={"path": request.path, "error": kind_and_text(error)}, exc_info=error)
            return HttpRefusal(500, f"the worker could not respond: {kind_and_text(error)}").answer()

    async def _answer(
        self, request: web.Request, handler: Handler, connection: HttpConnection | None, held: ExitStack
    ) -> web.StreamResponse:
        path = _OF_WORKER.sub("", request.path)
        try:
            if path in PROBES:
                self._check(path, request)
            else:
                await self._waited_for(path, request, connection, held)
            return await handler(request)
        except HttpRefusal as refused:
            return refused.answer()

    async def _waited_for(
        self, path: str, request: web.Request, connection: HttpConnection | None, held: ExitStack
    ) -> None:
        """Takes a place for a request that is no probe, and waits for its share of the processor."""
        try:
            is_let_in = self._check(path, request)
            if connection is not None:
                connection.is_let_in = connection.is_let_in or is_let_in
                if connection.is_spare:
                    raise later("too many connections: ask again later")
            if is_let_in:
                held.enter_context(self._place())
        finally:  # a refusal costs its share as well
            await self._pace.turn()

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._requests >= self._most:
            raise later("too many concurrent requests: try again later")
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def _check(self, path: str, request: web.Request) -> bool:
        """Checks that a request may ask; returns whether it is one that not everybody may make.

        :raises HttpRefusal: if it may not.
        """
        if path in LIVENESS:
            return False
        if request.method not in READING and _is_of_another_site(request.headers, self._options):
            raise HttpRefusal(403, "a page of another site must not send this: open the page of this worker")
        tokens = self._options.credentials.tokens
        if not tokens:
            if not _is_meant_for_us(request.headers.get("Host", ""), self._options):
                raise HttpRefusal(
                    403,
                    "the header Host has another host than this worker (set application.server to the host that"
                    " clients use)",
                )
            return True
        if path in OPEN_TO_ALL:
            return False
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        sent = given.strip().encode("utf-8", "surrogateescape")  # it may be no UTF-8
        if scheme.lower() == "bearer" and any(hmac.compare_digest(sent, token.encode()) for token in tokens):
            return True
        if scheme == PEER:
            if self._proofs is None and path != request.path:
                return False  # the worker checks it
            if self._proofs is not None and self._proofs.admits(given.strip()):
                return True
        raise HttpRefusal(
            401, "a bearer token is required: use the token of the file http.token.file", {"WWW-Authenticate": "Bearer"}
        )

    def _too_late(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()  # the answer may have begun
        return later(f"the response took longer than {self._options.answer_s:g} s").answer()


def _is_meant_for_us(host: str, options: HttpOptions) -> bool:
    """Whether a page of another site cannot have sent the request: a browser would name that site's host."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower()
    if name in options.known_hosts or name == options.host.lower() or not name:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_of_another_site(headers: Mapping[str, str], options: HttpOptions) -> bool:
    """Whether a browser says that a page of another site has sent the request. Programs say nothing of it."""
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return True
    if (origin := headers.get("Origin")) is None:
        return False
    address = origin.partition("://")[2].lower()
    return address not in (headers.get("Host", "").lower(), options.server.lower()) or not address


def _sentence(error: web.HTTPException, request: web.Request) -> str:
    if error.status == 404:
        return f"page {request.path[:80]!r} does not exist; the pages are {', '.join(PAGES)}"
    if error.status == 405:
        return f"method {request.method[:20]} is not allowed here"
    return (error.text or error.reason).partition("\n")[0]
