"""Authorizes requests, limits their concurrency, and aborts slow responses."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable

from aiohttp import web

from processor_api.texts import kind_and_text
from streams.http.connections.protocol import HttpConnection
from streams.http.options import HttpOptions
from streams.http.page.live import CONTENT
from streams.http.responses import HttpRefusal, later, outage_of

log = logging.getLogger("streams.http")

MOST_REQUESTS = 64
"""Requests that are worked on at a time; each more is refused at once."""
OPEN_TO_ALL = frozenset({"/live", "/ready", *CONTENT})
"""Pages without a token: a probe has none, and neither has a browser before its page asks for one. They say nothing
else."""
PAGES = ("/live", "/ready", "/state", "/metrics", "/topology", "/stores", "/")
MOST_KNOWN = 64
"""Headers of requests that are remembered as let in: a client sends the same ones with each request."""

_OF_WORKER = re.compile(r"^/workers/\d+(?=/)")
"""The begin of a path that a supervisor passes on."""
_HARMLESS = frozenset(
    {"accept", "accept-encoding", "accept-language", "authorization", "cache-control", "connection", "host", "pragma"}
    | {"content-type"}
    | {"traceparent", "tracestate", "user-agent", "x-request-id"}
    | {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
"""Headers that change nothing of an answer, or that :class:`Gate` looks at."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gate:
    """Admits authorized requests, limits their concurrency, and aborts slow responses."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._most = MOST_REQUESTS * options.capacity
        self._requests = 0
        self._meant: str | None = None
        self._known: dict[bytes, bool] = {}

    async def let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = None if request.transport is None else request.transport.get_protocol()
        if not isinstance(connection, HttpConnection):
            return await self._guarded(request, handler)
        connection.begun()
        whole = False
        try:
            answer = await self._guarded(request, handler)
            whole = answer.prepared
            return answer
        finally:
            connection.over(whole=whole)

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._requests >= self._most:
            return later("too many concurrent requests: try again later").answer()
        self._requests += 1
        try:
            async with asyncio.timeout(self._options.answer_s):
                answer = await self._answer(request, handler)
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
        finally:
            self._requests -= 1

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check(request.path, request.headers.get("Host", ""), request.headers.get("Authorization", ""))
            return await handler(request)
        except HttpRefusal as refused:
            return refused.answer()

    def admits(self, headers: bytes) -> bool:
        """Returns whether a request for a store with these headers may be answered at once: whether it is let in, and
        nothing in its headers changes the answer.

        :param headers: whole lines, each a name and a value.
        """
        if self._requests >= self._most:
            return False
        found = self._known.get(headers)
        if found is None:
            found = self._admits(headers)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[headers] = found
        return found

    def _admits(self, headers: bytes) -> bool:
        values: dict[str, str] = {}
        for line in headers[:-2].split(b"\r\n"):
            name, _, value = line.decode("latin-1").partition(":")
            if not line.isascii() or name.lower() in values:
                return False
            values[name.lower()] = value.strip(" \t")
        if not values.keys() <= _HARMLESS or values.get("connection", "keep-alive").lower() != "keep-alive":
            return False
        try:
            self._check("", values["host"], values.get("authorization", ""))
        except (HttpRefusal, KeyError):
            return False
        return True

    def _check(self, path: str, host: str, authorization: str) -> None:
        """Checks that a request may ask.

        :raises HttpRefusal: if it may not.
        """
        token = self._options.token
        if token is None:
            if not self._is_meant_for_us(host):
                raise HttpRefusal(
                    403,
                    "the header Host has another host than this worker (set application.server to the host that"
                    " clients use)",
                )
            return
        if _OF_WORKER.sub("", path) in OPEN_TO_ALL:
            return
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(_as_sent(given.strip()), token.encode()):
            raise HttpRefusal(
                401,
                "a bearer token is required: use the token of the file http.token.file",
                {"WWW-Authenticate": "Bearer"},
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
        return later(f"the response took longer than {self._options.answer_s:g} s").answer()


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
        return f"page {request.path[:80]!r} does not exist; the pages are {', '.join(PAGES)}"
    if error.status == 405:
        return f"method {request.method[:20]} is not allowed here"
    return (error.text or error.reason).partition("\n")[0]
