"""Connections on which some requests are answered at once, and the others by the framework, in their order."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

from http_support.asking import sent
from processor_api.clock import SystemClock
from streams.http.connections.gate import Gate, Handler
from streams.http.connections.protocol import MOST_HEAD_BYTES, AtOnce, HttpConnections
from streams.http.options import HttpOptions
from streams.http.server import HttpAnswers, HttpServer
from waiting import wait_until

TOKEN = "correct-horse-battery-staple"


class Echo:
    """Answers reads of stores at once as the route does, but those whose query has an ``x``."""

    answers = 0
    turns = 0

    def new_turn(self) -> None:
        self.turns += 1

    def answer(self, store: bytes, query: bytes, body: bytes | None) -> bytes | None:
        if b"x" in query or b"%" in query or body == b"slow":
            return None
        self.answers += 1
        method, given = ("GET", b"") if body is None else ("POST", body)
        body = json.dumps([method, store.decode(), query.decode(), given.decode()]).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def echoed(request: web.Request) -> web.StreamResponse:
    fields = [request.method, request.match_info["store"], request.query_string, (await request.read()).decode()]
    return web.Response(body=json.dumps(fields).encode())


@contextmanager
def serving(reads: AtOnce | None, **options: Any) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    found = HttpOptions(
        host="127.0.0.1", port=port, known_hosts=frozenset({"localhost"}), cpu_share=1.0, **options
    )  # fmt: skip
    routes = [web.get("/stores/{store}/get", echoed), web.post("/stores/{store}/get", echoed)]
    server = HttpServer(HttpAnswers(routes=routes, reads=reads), listener, found, SystemClock())
    server.start()
    try:
        yield port
    finally:
        server.close()


def read(query: str, *headers: str, host: str = "localhost") -> bytes:
    lines = [f"GET /stores/s/get?{query} HTTP/1.1", f"Host: {host}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(body: bytes, *headers: str) -> bytes:
    lines = ["POST /stores/s/get HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def answers(data: bytes) -> list[tuple[int, bytes]]:
    """The statuses and bodies of some answers, one after the other."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        size = re.search(rb"(?i)content-length: *(\d+)", head)
        length = 0 if size is None else int(size[1])
        found.append((int(head.split(b" ", 2)[1]), data[:length]))
        data = data[length:]
    return found


LAST = read("last", "Connection: close")


def test_answers_come_in_the_order_of_the_requests() -> None:
    reads = Echo()
    with serving(reads) as port:
        one = [
            read("key=1"),
            read("key=x"),
            post(b"slow"),
            read("key=2"),
            read("key=%41"),
            read("key=3"),
            read("key=4"),
        ]
        found = answers(sent(port, b"".join(one * 300) + LAST))
        wanted = ["key=1", "key=x", "", "key=2", "key=A", "key=3", "key=4"] * 300 + ["last"]
        assert [json.loads(body)[2] for _, body in found] == wanted
        assert reads.answers == 4 * 300


def test_a_read_behind_a_request_of_the_framework_is_answered_at_once_again() -> None:
    reads = Echo()
    with serving(reads) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for number in range(3):
            for data in (read("key=x"), post(b"slow"), read("key=1")):
                connection.sendall(data)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            assert reads.answers == number + 1


HEADERS = [
    "Accept: */*", "User-Agent: me", "accept-encoding: gzip", "X-Other: 1", "Connection: keep-alive", "Cookie: a=b",
    "Content-Length: 0", "Content-Length: 3", "Transfer-Encoding: chunked", "Expect: 100-continue", "Host: localhost",
    "Upgrade: h2c", "Connection: close", "Connection: Upgrade", " folded: x", "no colon", "Space : x", "A: \xe9",
    "Bare: a\rb", "Line: a\nContent-Length: 4", "X: a\n", "Nul: a\x00b", "Host: evil.example", "Long: " + "y" * 9000,
    "Content-Length: +3", "Content-Length: 3, 3", "content-LENGTH:3", "Trailer: x", "TE: trailers", "X:",
]  # fmt: skip


def a_request(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return post(
            rng.choice([b"", b"abc", b"slow", b"GET /stores/s/get?key=7 HTTP/1.1\r\nHost: localhost\r\n\r\n"]),
            *rng.choices(HEADERS, k=rng.choice([0, 0, 1])),
        )
    query = rng.choice(["key=1", "key=2", "key=x", "key=%41", "key=a b", "", "key=#", "key=\x7f", 'key="', "key=\xe9"])
    count = rng.choice([0, 0, 0, 0, 1, 1, 2])
    found = read(query, *rng.choices(HEADERS, k=count))
    if rng.random() < 0.1:
        at = rng.randrange(len(found))
        found = found[:at] + bytes([rng.randrange(256)]) + found[at + rng.randrange(2) :]
    if rng.random() < 0.05:
        found = found.replace(b"\r\n", b"\n")
    if rng.random() < 0.05:
        found = found.replace(b"HTTP/1.1", rng.choice([b"HTTP/1.0", b"HTTP/2.0", b"http/1.1"]))
    return found


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.written = bytearray()
        self.closed = False
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        if not self.closed:
            self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def exchanged(protocol: asyncio.Protocol, parts: list[bytes]) -> list[tuple[int, bytes]]:
    """The answers to what comes in these pieces; each is dealt with before the next one comes."""
    wire = Wire(protocol)
    for part in parts:
        if wire.closed:
            break
        protocol.data_received(part)
        for _ in range(12):
            await asyncio.sleep(0)
    wire.close()
    await asyncio.sleep(0)
    return answers(bytes(wire.written))


async def divided(seeds: range) -> None:
    options = HttpOptions(host="127.0.0.1", port=1, known_hosts=frozenset({"localhost"}))
    gate = Gate(options)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await gate.let_in(request, handler)

    application = web.Application(middlewares=[guard])
    application.add_routes([web.get("/stores/{store}/get", echoed), web.post("/stores/{store}/get", echoed)])
    runner = web.AppRunner(application, access_log=None, logger=logging.getLogger("tests.silent"))
    await runner.setup()
    assert runner.server is not None
    connected = HttpConnections(runner.server, options, Echo(), gate.admits, iter(range(1 << 30)).__next__)
    at_once = 0
    for seed in seeds:
        rng = random.Random(seed)
        data = b"".join(a_request(rng) for _ in range(rng.randint(1, 5))) + LAST
        cuts = sorted(rng.choices(range(len(data)), k=rng.randint(0, 4)))
        parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        found = await exchanged(connected.protocol(), parts)
        wanted = await exchanged(runner.server(), [bytes([one]) for one in data])
        at_once += len(found)
        # The framework forgets good requests that come in one piece with a bad one: then the last is an error.
        assert found == wanted or (found[:-1] == wanted[: len(found) - 1] and found[-1][0] == 400), (seed, parts)
    assert at_once > len(seeds)
    connected.close()
    await runner.cleanup()


@pytest.mark.parametrize("first", [0, 80])
def test_what_a_client_sends_is_divided_as_the_framework_divides_it(first: int) -> None:
    """Whatever comes, in whatever pieces: the same requests are seen, and answered in the same order."""
    asyncio.run(divided(range(first, first + 80)))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([f"Authorization: Bearer {TOKEN}"], 200),
        ([f"authorization:bearer   {TOKEN} "], 200),
        ([], 401),
        (["Authorization: Bearer wrong"], 401),
        ([f"Authorization: Bearer {TOKEN}x"], 401),
        ([f"Authorization: Basic {TOKEN}"], 401),
        (["Authorization: Bearer \xe9"], 401),
        ([f"X-Authorization: Bearer {TOKEN}"], 401),
    ],
)
def test_a_token_is_needed_each_time(headers: list[str], status: int) -> None:
    with serving(Echo(), token=TOKEN) as port:
        right = read("key=1", f"Authorization: Bearer {TOKEN}")
        found = answers(sent(port, right + read("key=2", *headers) + LAST))
        assert [one for one, _ in found][:2] == [200, status]
        found = answers(sent(port, read("key=2", *headers) + right + LAST))
        assert [one for one, _ in found][:2] == [status, 200]


def test_the_host_of_another_site_is_refused() -> None:
    with serving(Echo()) as port:
        both = read("key=1", host="evil.example") + read("key=2") + read("key=3", host="evil.example")
        assert [status for status, _ in answers(sent(port, both + LAST))] == [403, 200, 403, 200]


def test_a_client_that_asks_without_end_leaves_others_their_turns() -> None:
    with serving(Echo()) as port, socket.create_connection(("127.0.0.1", port), timeout=30) as greedy:
        greedy.sendall(read("key=1") * 2000)
        assert answers(sent(port, read("key=2") + LAST))[0][0] == 200
        greedy.sendall(LAST)
        found = bytearray()
        while part := greedy.recv(1 << 20):
            found += part
        assert len(answers(bytes(found))) == 2001


def test_a_client_that_asks_and_never_reads_is_let_go() -> None:
    with serving(Echo(), answer_s=0.3) as port, socket.create_connection(("127.0.0.1", port)) as deaf:
        deaf.settimeout(0.05)

        def is_let_go() -> bool:
            try:
                deaf.send(read("key=1") * 1000)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            return False

        wait_until("it is let go", is_let_go)


def test_a_connection_without_a_request_is_closed() -> None:
    with serving(Echo(), idle_s=0.3, answer_s=0.3) as port:
        for begin in (b"", b"GET /sto", read("key=1"), read("key=x"), post(b"body")[:-2], read("key=1")[:-2]):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as idle:
                idle.sendall(begin)
                while idle.recv(65536):
                    pass


def test_a_head_without_end_is_refused() -> None:
    with serving(Echo()) as port:
        assert answers(sent(port, b"GET /" + b"y" * 4 * MOST_HEAD_BYTES))[0][0] == 400


def test_the_switch_interval_is_short_only_while_reads_come() -> None:
    usual = sys.getswitchinterval()
    with serving(Echo()) as port, serving(Echo()) as other:
        for one in (port, other):
            assert answers(sent(one, read("key=1") + LAST))[0][0] == 200
            assert sys.getswitchinterval() < usual
        wait_until("it is as before", lambda: sys.getswitchinterval() == usual)
        assert answers(sent(port, read("key=1") + LAST))[0][0] == 200
    assert sys.getswitchinterval() == usual
