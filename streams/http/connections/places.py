"""The connections of the HTTP port: how many there are, which of them give way, and when they are closed.

A connection keeps its place once a request on it has been let in. Without that, it is closed when others need the
place. If all places are kept, some connections more are accepted, on which only probes are answered.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from aiohttp import web

from processor_api.clock import SystemClock
from processor_api.texts import plain_str
from streams.http.options import HttpOptions
from streams.log import RepeatedLines

log = logging.getLogger("streams.http")

MOST_CONNECTIONS = 128
MOST_SPARE = 32
"""HttpConnections beyond the limit, on which probes are answered."""
MOST_HANDSHAKES = 64
"""HttpConnections whose TLS handshake has begun; the oldest is closed for the next one."""
HANDSHAKE_S = 5.0
"""The time that a TLS handshake may take."""
SWEEPS = 6
"""The times that idle connections are looked for in the time after which they are closed."""
PAUSE_S = 0.1
"""The wait before the next connection is accepted, after the system refused one."""
BACKLOG = 128
"""HttpConnections that wait to be accepted."""


class HttpConnections:
    """Makes the protocol of each connection, and closes those that do nothing or must give way.

    :param server: makes the framework's protocols.
    """

    def __init__(self, server: web.Server, options: HttpOptions) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._tls = None if options.is_behind else options.tls  # the supervisor ends it
        self._listener: socket.socket
        self._pause: asyncio.TimerHandle | None = None
        self._most = MOST_CONNECTIONS * options.capacity
        self._idle_s, self._answer_s = options.idle_s, options.answer_s
        self._open: dict[HttpConnection, None] = {}
        """All of them, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._lines = RepeatedLines(log, SystemClock())

    def listen(self, listener: socket.socket) -> None:
        """Accepts the connections of a socket from now on."""
        self._listener = listener
        self._loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        """Accepts the connections that wait."""
        for _ in range(BACKLOG):
            try:
                found, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptor is left
                self._lines.log("connections of the HTTP port cannot be accepted", error=plain_str(error))
                self._loop.remove_reader(self._listener)
                self._pause = self._loop.call_later(PAUSE_S, self.listen, self._listener)
                return
            found.setblocking(False)
            if len(self._handshakes) >= MOST_HANDSHAKES and self._tls is not None:
                oldest = next(iter(self._handshakes))
                del self._handshakes[oldest]
                oldest.cancel()
            task = self._loop.create_task(self._connect(found))
            self._handshakes[task] = None
            task.add_done_callback(partial(self._connected, found))

    def _connected(self, found: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():  # before it began
            found.close()

    async def _connect(self, found: socket.socket) -> None:
        limit_s = None if self._tls is None else HANDSHAKE_S
        try:
            await self._loop.connect_accepted_socket(
                lambda: HttpConnection(self, self._server()), found, ssl=self._tls, ssl_handshake_timeout=limit_s
            )
        except (OSError, asyncio.CancelledError):
            found.close()

    def opened(self, connection: HttpConnection) -> None:
        """Takes a connection that is looked after until it is lost; another one may give way to it."""
        kept = [one for one in self._open if not one.is_spare]
        self._open[connection] = None
        if self._timer is None:
            self._watch()
        if len(kept) < self._most:
            return
        if (oldest := next((one for one in kept if not one.is_let_in), None)) is not None:
            oldest.abort()
            return
        connection.is_spare = True
        spare = [one for one in self._open if one.is_spare]
        if len(spare) > MOST_SPARE:
            spare[0].abort()

    def lost(self, connection: HttpConnection) -> None:
        """Forgets a connection."""
        self._open.pop(connection, None)

    async def close(self) -> None:
        """Accepts no more, ends handshakes, and closes no more idle connections."""
        self._loop.remove_reader(self._listener)
        for timer in (self._timer, self._pause):
            if timer is not None:
                timer.cancel()
        for one in list(self._handshakes):
            one.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _watch(self) -> None:
        now = self._loop.time()
        for one in list(self._open):
            one.end_if_idle(now - self._idle_s, now - self._answer_s)
        again_s = min(self._idle_s, self._answer_s) / SWEEPS
        self._timer = self._loop.call_later(again_s, self._watch) if self._open else None


class HttpConnection(asyncio.Protocol):
    """One connection, whose requests the framework answers.

    :param behind: the framework's protocol.
    """

    def __init__(self, all_of_them: HttpConnections, behind: asyncio.Protocol) -> None:
        self._all = all_of_them
        self._behind = behind
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self.is_let_in = False
        """Whether a request was let in that not everybody may make."""
        self.is_spare = False
        """Whether it is one beyond the limit: only probes are answered."""
        self._begun = 0
        """Requests that are worked on."""
        self._active_at = self._loop.time()
        self._full_since: float | None = None
        """Since when the client does not read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._behind.connection_made(transport)
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.lost(self)
        self._behind.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._behind.data_received(data)

    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        self._full_since = self._loop.time()
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._full_since = None
        self._behind.resume_writing()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Holds one request, from its beginning to the end of its answer."""
        self._begun += 1
        try:
            yield
        finally:
            self._begun -= 1
            self._active_at = self._loop.time()

    def abort(self) -> None:
        """Closes the connection at once; it gives its place to another one."""
        self._all.lost(self)
        self._transport.abort()

    def end_if_idle(self, unused_since: float, unread_since: float) -> None:
        """Closes the connection if no request was made on it since a time, or if its client has not read since
        another one."""
        if self._full_since is not None and self._full_since < unread_since and not self._begun:
            self._transport.abort()
        elif not self._begun and self._active_at < unused_since:
            self._transport.close()
