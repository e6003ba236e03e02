"""The connections of the HTTP port: each takes its requests off the stream of bytes, one after the other.

A read of one key that can be answered at once is answered here. All other requests go to the framework's own protocol,
one at a time, so that answers keep the order of the requests; what this module cannot divide into requests goes there
as it comes, for the rest of the connection.

A socket of these connections is read and written without giving the interpreter to other threads. Python's own calls
release it, and a stream thread that computes gives it back after the switch interval, 5 ms: once for each request and
once for each answer, where once for all that have come is enough.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import socket
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from aiohttp import web

from streams.http.options import HttpOptions

MOST_CONNECTIONS = 128
TOO_MANY = b'{"error":"too many connections: ask again later"}\n'
MOST_HEAD_BYTES = 8190
"""A longer head of a request goes to the framework, which knows how to refuse it."""
MOST_HELD_BYTES = 1 << 16
"""Bytes behind a request that is worked on; a client that sends more waits."""
MOST_IN_TURN = 32
"""Requests of one connection that are answered before others have their turn."""
MOST_IN_ALL = 256
"""Keys of all connections that are answered before the server looks at its share of the processor."""
KEY_BYTES = 16
"""About the bytes of a key in a request for several."""
SWEEPS = 6
"""How often idle connections are looked for, in the time after which they are closed."""

MOST_READ_BYTES = 1 << 16
_CALLS = ctypes.PyDLL(None, use_errno=True) if sys.platform in ("linux", "darwin") else None
_AT_ONCE = getattr(socket, "MSG_DONTWAIT", 0) | getattr(socket, "MSG_NOSIGNAL", 0)

_LINES = rb"((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*\r\n){0,100})\r\n"
_READ = re.compile(rb"(?:GET|(POST)) /stores/([A-Za-z0-9._~-]+)/get(?:\?([!-\"$-~]*))? HTTP/1\.1\r\n" + _LINES)
_LENGTH = re.compile(rb"^content-length:[\t ]*(\d{1,6})[\t ]*\r\n", re.I | re.M)
_WHOLE = re.compile(rb"(?:GET|HEAD|POST) [!-~]+ HTTP/1\.1\r\n" + _LINES)
_BODY = re.compile(rb"^(?:content-length|(transfer-encoding|upgrade|expect|connection)):[\t ]*([^\r]*)", re.I | re.M)
_BEGINS = (b"GET /", b"HEAD /", b"POST /")


class AtOnce(Protocol):
    """Answers reads of keys."""

    def new_turn(self) -> None:
        """Forgets what holds for one turn of the server only."""
        ...

    def answer(self, store: bytes, query: bytes, body: bytes | None) -> bytes | None:
        """Returns a whole answer; ``None`` if it cannot be given at once."""
        ...


class _KeyRead(NamedTuple):
    """A read of keys."""

    store: bytes
    query: bytes
    body: int | None
    """Where its body begins; ``None`` if it has none."""
    end: int

    @property
    def cost(self) -> int:
        """About how many keys it has."""
        return 1 if self.body is None else 1 + (self.end - self.body) // KEY_BYTES


class HttpConnections:
    """Makes the protocol of each connection, refuses those that are too many, and closes those that do nothing.

    :param server: makes the framework's protocols.
    :param reads: answers requests at once; without them the framework answers all.
    :param admits: whether a read with these headers may be answered at once.
    :param turn: returns a number that is another one in each turn of the loop.
    """

    def __init__(
        self,
        server: web.Server,
        options: HttpOptions,
        reads: AtOnce | None,
        admits: Callable[[bytes], bool],
        turn: Callable[[], int],
    ) -> None:
        self.reads = reads
        self.admits = admits
        self._server = server
        self._most = MOST_CONNECTIONS * options.capacity
        self._turn = turn
        self._idle_s, self._answer_s = options.idle_s, options.answer_s
        self._open: set[HttpConnection] = set()
        self._last = -1
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None

    def protocol(self) -> asyncio.Protocol:
        """Returns the protocol of a new connection."""
        if len(self._open) >= self._most:
            return _TooMany()
        return HttpConnection(self, self._server())

    def opened(self, connection: HttpConnection) -> None:
        """Takes a connection that is looked after until it is lost."""
        self._open.add(connection)
        if self._timer is None:
            self._watch()

    def lost(self, connection: HttpConnection) -> None:
        """Forgets a connection."""
        self._open.discard(connection)

    def close(self) -> None:
        """Closes no more idle connections."""
        if self._timer is not None:
            self._timer.cancel()

    def room(self, cost: int) -> bool:
        """Takes the place of one answer in this turn; returns whether there was any.

        :param cost: as many keys as it may have.
        """
        now = self._turn()
        if now != self._last:
            self._last, self._left = now, MOST_IN_ALL
            if self.reads is not None:
                self.reads.new_turn()
        has_room = self._left > 0
        self._left -= cost
        return has_room

    def answer(self, read: _KeyRead, data: bytes) -> bytes | None:
        """Returns the whole answer to a read; ``None`` if it cannot be given at once.

        :param data: where the read is.
        """
        assert self.reads is not None
        body = None if read.body is None else data[read.body : read.end]
        return self.reads.answer(read.store, read.query, body)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for one in list(self._open):
            one.end_if_idle(now - self._idle_s, now - self._answer_s)
        self._timer = loop.call_later(min(self._idle_s, self._answer_s) / SWEEPS, self._watch) if self._open else None


class HttpConnection(asyncio.Protocol):
    """One connection: its requests are answered in their order, here or by the framework.

    :param behind: the framework's protocol, which answers what is not answered here.
    """

    def __init__(self, all_of_them: HttpConnections, behind: asyncio.Protocol) -> None:
        self._all = all_of_them
        self._behind = behind
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._held = b""
        """Bytes whose turn has not come."""
        self._asked = 0
        """Requests that the framework has and has not answered."""
        self._is_behind = all_of_them.reads is None
        """Whether everything goes to the framework."""
        self._begun = 0
        """Requests that the framework works on."""
        self._active_at = self._loop.time()
        self._full_since: float | None = None
        """Since when the client does not read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._all.opened(self)
        self._behind.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.lost(self)
        self._held = b""
        self._behind.connection_lost(exc)

    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        self._full_since = self._loop.time()
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._full_since = None
        self._behind.resume_writing()
        self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._is_behind:
            self._behind.data_received(data)
            return
        self._held = self._held + data if self._held else data
        if not self._asked:
            self._take()
        if len(self._held) > MOST_HELD_BYTES and not self._is_behind:
            self._transport.pause_reading()

    # ------------------------------------------------------------------ requests of the framework

    def begun(self) -> None:
        """Takes note that the framework works on a request."""
        self._begun += 1

    def over(self, *, whole: bool) -> None:
        """Takes note that the framework has done with a request.

        :param whole: whether all of the answer is written; otherwise the next request waits for no sign, and goes to
            the framework as well, which writes it behind the answer.
        """
        self._begun -= 1
        self._active_at = self._loop.time()
        if self._is_behind:
            return
        if not whole:
            self._give_up()
            return
        self._asked -= 1
        if self._held:
            self._loop.call_soon(self._go_on)

    def end_if_idle(self, unused_since: float, unread_since: float) -> None:
        """Closes the connection if no request was made on it since a time, or if its client has not read since
        another one."""
        if self._full_since is not None and self._full_since < unread_since and not self._begun:
            self._transport.abort()
        elif not self._begun and self._active_at < unused_since:
            self._transport.close()

    # ------------------------------------------------------------------ requests in their order

    def _go_on(self) -> None:
        if self._is_behind or self._asked or self._transport.is_closing():
            return
        if self._held:
            self._take()
        if len(self._held) <= MOST_HELD_BYTES and not self._is_behind:  # otherwise the framework decides
            self._transport.resume_reading()

    def _take(self) -> None:
        """Answers the requests that have come, up to one that is not answered at once."""
        data, at, answers = self._held, 0, list[bytes]()
        is_later = self._full_since is not None
        while at < len(data) and not is_later:
            found = self._read_at(data, at)
            if found is None:
                break
            if found.end > len(data):
                is_later = True  # the rest of its body is to come
            elif len(answers) == MOST_IN_TURN or not self._all.room(found.cost):
                is_later = True
                self._loop.call_soon(self._go_on)
            else:
                answer = self._all.answer(found, data)
                if answer is None:
                    break
                answers.append(answer)
                at = found.end
        if answers:
            self._active_at = self._loop.time()
            self._transport.write(b"".join(answers))
        self._held = data[at:]
        if self._held and not is_later:
            self._pass_on()

    def _read_at(self, data: bytes, at: int) -> _KeyRead | None:
        """Returns the read of keys that begins there; ``None`` if there is none, or it is the framework's."""
        found = _READ.match(data, at)
        if found is None or found.end() - at > MOST_HEAD_BYTES:
            return None
        is_post, store, query, headers = found.groups()
        body = end = found.end()
        if is_post:
            length = _LENGTH.search(headers)
            if length is None:
                return None
            headers = headers[: length.start()] + headers[length.end() :]
            end = body + int(length[1])
        if end - at > MOST_HELD_BYTES or not self._all.admits(headers):
            return None
        return _KeyRead(store, query or b"", body if is_post else None, end)

    def _pass_on(self) -> None:
        """Gives the first request of those that wait to the framework, or everything if its end is not certain."""
        data = self._held
        is_begun = data.startswith(_BEGINS) or any(one.startswith(data) for one in _BEGINS)
        if is_begun and len(data) <= MOST_HEAD_BYTES and b"\r\n\r\n" not in data:
            return  # the rest of its head is to come
        end = _end_of_first(data)
        if end is None:
            self._give_up()
            return
        self._held = data[end:]
        self._asked += 1
        self._behind.data_received(data[:end])

    def _give_up(self) -> None:
        data, self._held, self._is_behind = self._held, b"", True
        self._transport.resume_reading()
        if data and not self._transport.is_closing():
            self._behind.data_received(data)


def _end_of_first(data: bytes) -> int | None:
    """Returns where the first of some requests ends; ``None`` if that is not sure, or has not come."""
    found = _WHOLE.match(data)
    if found is None or found.end() > MOST_HEAD_BYTES:
        return None
    length: int | None = None
    for line in _BODY.finditer(found[1]):
        is_other, value = line[1], line[2].strip(b" \t")
        if is_other is not None:
            if is_other.lower() != b"connection" or value.lower() != b"keep-alive":
                return None
        elif length is not None or not value.isdigit() or len(value) > 7:
            return None
        else:
            length = int(value)
    end = found.end() + (length or 0)
    return end if end <= len(data) else None


class _TooMany(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(TOO_MANY), TOO_MANY)
        )
        transport.close()


class KeptSocket(socket.socket):
    """A socket that does not wait, and keeps the interpreter while it is read and written: some microseconds.

    :param like: the socket whose place it takes; that one is detached.
    """

    def __init__(self, like: socket.socket, into: ctypes.Array[ctypes.c_char] | None = None) -> None:
        super().__init__(like.family, like.type, like.proto, fileno=like.detach())
        self.settimeout(0)
        self._into = into or ctypes.create_string_buffer(MOST_READ_BYTES)
        """The bytes that are read; one buffer for all connections of a listener, which one thread reads."""

    def accept(self) -> tuple[socket.socket, Any]:
        found, address = super().accept()
        return KeptSocket(found, self._into), address

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if _CALLS is None or flags:
            return super().recv(size, flags)
        count = _RECV(self.fileno(), self._into, min(size, MOST_READ_BYTES), _AT_ONCE)
        if count < 0:
            raise _failure()
        return memoryview(self._into)[:count].tobytes()

    def send(self, data: Any, flags: int = 0, /) -> int:
        if _CALLS is None or flags or type(data) is not bytes:
            return super().send(data, flags)
        count: int = _SEND(self.fileno(), data, len(data), _AT_ONCE)
        if count < 0:
            raise _failure()
        return count


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _call(name: str, data: Any) -> Any:
    found = getattr(_CALLS, name, None)
    if found is not None:
        found.argtypes, found.restype = [ctypes.c_int, data, ctypes.c_size_t, ctypes.c_int], ctypes.c_ssize_t
    return found


_RECV, _SEND = _call("recv", ctypes.c_void_p), _call("send", ctypes.c_char_p)
