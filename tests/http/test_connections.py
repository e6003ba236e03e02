"""HttpConnections of the port: which of them keep their places, and probes that are answered whatever the others do."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from http_support.asking import sent
from streams.http.access.credentials import Credentials
from streams.http.connections.gate import MOST_REQUESTS
from streams.http.connections.places import MOST_CONNECTIONS, MOST_HANDSHAKES, MOST_SPARE
from streams.http.options import HttpOptions
from streams.http.processor_share import ProcessorShare
from streams.http.server import HttpAnswers, HttpServer
from waiting import wait_until

TOKEN, OTHER = "correct-horse-battery-staple", "tr0ub4dor-and-3-horses"
BURNT_S = 0.2


class Kit:
    """The answers of a server: a read, one that waits until the end, one that uses the processor, and long content."""

    def __init__(self) -> None:
        self.waiting = 0

    async def read(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="read")

    async def wait(self, request: web.Request) -> web.StreamResponse:
        self.waiting += 1
        try:
            await asyncio.sleep(3600)
        finally:
            self.waiting -= 1
        raise AssertionError

    async def burn(self, request: web.Request) -> web.StreamResponse:
        until = time.thread_time() + BURNT_S
        while time.thread_time() < until:
            pass
        return web.Response(text="burnt")

    async def long(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=bytes(1 << 20))

    def routes(self) -> list[web.RouteDef]:
        pages = {"/live": self.read, "/ready": self.read, "/metrics": self.read, "/stores": self.read}
        others = {"/wait": self.wait, "/burn": self.burn, "/page.js": self.long}
        return [web.get(path, handler) for path, handler in {**pages, **others}.items()]


@contextmanager
def serving(kit: Kit | None = None, *, share: float = 1.0, **options: Any) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    found = HttpOptions(
        host="127.0.0.1", port=port, known_hosts=frozenset({"localhost"}), **{"answer_s": 60.0, **options}
    )
    server = HttpServer(HttpAnswers(routes=(kit or Kit()).routes(), pace=ProcessorShare(share)), listener, found)
    server.start()
    try:
        yield port
    finally:
        server.close()


def request(path: str, *headers: str, host: str = "localhost") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode("latin-1")


def status(port: int, path: str, *headers: str, host: str = "localhost") -> int:
    return int(sent(port, request(path, "Connection: close", *headers, host=host)).split(b" ", 2)[1])


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


BEARER = f"Authorization: Bearer {TOKEN}"


@pytest.fixture(name="token_file")
def token_file_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


# ------------------------------------------------------------------ probes


def probes(port: int) -> set[int]:
    return {status(port, path) for path in ("/live", "/ready", "/metrics")}


def test_probes_are_answered_while_readers_hold_all_places() -> None:
    """They were refused, so that a worker that was well went out of service."""
    kit = Kit()
    with serving(kit) as port:
        held = [connected(port) for _ in range(MOST_REQUESTS)]
        for one in held:
            one.sendall(request("/wait"))
        wait_until("all places are taken", lambda: kit.waiting == MOST_REQUESTS)
        assert status(port, "/stores") == 503
        assert probes(port) == {200}
        for one in held:
            one.close()


def test_probes_are_answered_while_all_connections_are_kept() -> None:
    with serving() as port:
        held = [connected(port) for _ in range(MOST_CONNECTIONS)]
        for one in held:
            one.sendall(request("/stores"))
            assert one.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert status(port, "/stores") == 503
        assert probes(port) == {200}
        spare = [connected(port) for _ in range(MOST_SPARE + 1)]
        wait_until("the first of them has given way", lambda: is_closed(spare[0]))
        assert probes(port) == {200}
        held[0].close()
        wait_until("a place is free", lambda: status(port, "/stores") == 200)
        for one in (*held, *spare):
            one.close()


def test_a_connection_without_a_token_gives_way(token_file: Path) -> None:
    with serving(credentials=Credentials(token_file)) as port:
        strangers = [connected(port) for _ in range(MOST_CONNECTIONS)]
        for one in strangers:
            one.sendall(request("/page.js") * 20)  # and nothing is read
        for _ in range(3):
            assert status(port, "/stores", BEARER) == 200
            assert {status(port, path) for path in ("/live", "/ready")} == {200}
            assert status(port, "/metrics", BEARER) == 200
        wait_until("some have given way", lambda: any(map(is_closed, strangers[:5])))
        for one in strangers:
            one.close()


def test_probes_do_not_wait_for_the_share_of_reads() -> None:
    """They waited for seconds beside readers, since the whole port paused."""
    kit, stop = Kit(), threading.Event()

    def is_busy() -> None:
        while not stop.is_set():
            pass

    busy = threading.Thread(target=is_busy)
    busy.start()
    try:
        with serving(kit, share=0.001) as port, connected(port) as first, connected(port) as second:
            first.sendall(request("/burn"))
            assert first.recv(1 << 16).startswith(b"HTTP/1.1 200")  # as much as a thousandth of 200 s
            second.sendall(request("/stores"))
            assert probes(port) == {200}
            second.setblocking(False)
            with pytest.raises(BlockingIOError):
                second.recv(1)
    finally:
        stop.set()
        busy.join()


def test_probes_answer_to_any_name_of_the_worker() -> None:
    with serving() as port:
        assert {status(port, path, host="shop.default.svc") for path in ("/live", "/ready")} == {200}
        assert {status(port, path, host="shop.default.svc") for path in ("/stores", "/metrics")} == {403}


def test_a_name_that_is_not_known_is_refused_on_all_addresses() -> None:
    """A page of another site could read the stores through a browser in the network."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    found = HttpOptions(host="0.0.0.0", port=port, known_hosts=frozenset({"localhost", "shop.example"}))
    server = HttpServer(HttpAnswers(routes=Kit().routes(), pace=ProcessorShare(1.0)), listener, found)
    server.start()
    try:
        for host, wanted in {"evil.example": 403, "shop.example:80": 200, "10.1.2.3:80": 200, "[::1]:80": 200}.items():
            assert status(port, "/stores", host=host) == wanted
    finally:
        server.close()


# ------------------------------------------------------------------ tokens and certificates


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ([BEARER], 200),
        ([f"authorization:bearer   {TOKEN} "], 200),
        ([], 401),
        (["Authorization: Bearer wrong"], 401),
        ([f"Authorization: Bearer {TOKEN}x"], 401),
        ([f"Authorization: Basic {TOKEN}"], 401),
        (["Authorization: Bearer \xe9"], 401),
        ([f"X-Authorization: Bearer {TOKEN}"], 401),
        (["Authorization: Streams-Peer"], 401),
        ([f"Authorization: Streams-Peer {TOKEN} {TOKEN}"], 401),
    ],
)
def test_a_token_is_needed(headers: list[str], wanted: int, token_file: Path) -> None:
    with serving(credentials=Credentials(token_file)) as port:
        assert status(port, "/stores", *headers) == wanted


def test_two_tokens_are_valid_while_they_are_changed(token_file: Path) -> None:
    credentials = Credentials(token_file)
    with serving(credentials=credentials) as port:

        def taken() -> list[int]:
            return [status(port, "/stores", f"Authorization: Bearer {one}") for one in (TOKEN, OTHER)]

        assert taken() == [200, 401]
        token_file.write_text(f"{OTHER}\n{TOKEN}\n")
        assert credentials.renew()
        assert taken() == [200, 200]
        for wrong in ("", "short", f"{TOKEN}\n{OTHER}\n{TOKEN}x\n"):
            token_file.write_text(wrong)
            assert not credentials.renew()
            assert taken() == [200, 200]
        token_file.write_text(OTHER)
        assert credentials.renew()
        assert taken() == [401, 200]
        assert not credentials.renew()


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    made, key = folder / f"{name}.pem", folder / f"{name}.key"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    more = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(made)]
    subprocess.run([*words, *more], check=True, capture_output=True)
    return made, key


def test_a_certificate_is_read_again(tmp_path: Path) -> None:
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    credentials = Credentials(None, *first)

    def shown(port: int) -> str:
        with connected(port) as found, trusting.wrap_socket(found, server_hostname="localhost") as secure:
            name: Any = secure.getpeercert()
            return str(name["subject"][0][0][1])

    trusting = ssl.create_default_context()
    for each in (first, second):
        trusting.load_verify_locations(each[0])
    with serving(credentials=credentials) as port:
        assert shown(port) == "first"
        for old, new in zip(first, second, strict=True):
            new.replace(old)
        assert credentials.renew()
        assert shown(port) == "second"


def test_handshakes_that_do_not_end_give_way(tmp_path: Path) -> None:
    """Each was open for a minute, and was not counted."""
    with serving(credentials=Credentials(None, *certificate(tmp_path, "own"))) as port:
        silent = [connected(port) for _ in range(2 * MOST_HANDSHAKES)]
        wait_until("the first have given way", lambda: all(map(is_closed, silent[:MOST_HANDSHAKES])))
        trusting = ssl.create_default_context(cafile=str(tmp_path / "own.pem"))
        with connected(port) as found, trusting.wrap_socket(found, server_hostname="localhost") as secure:
            secure.sendall(request("/live"))
            assert secure.recv(1 << 16).startswith(b"HTTP/1.1 200")
        for one in silent:
            one.close()


# ------------------------------------------------------------------ the ends of connections


def test_a_connection_without_a_request_is_closed() -> None:
    with serving(idle_s=0.3, answer_s=0.3) as port:
        for begin in (b"", b"GET /sto", request("/stores"), request("/stores")[:-2]):
            with connected(port) as idle:
                idle.sendall(begin)
                while idle.recv(65536):
                    pass


def test_a_client_that_asks_and_never_reads_is_let_go() -> None:
    with serving(answer_s=0.3) as port, connected(port) as deaf:
        deaf.settimeout(0.05)

        def is_let_go() -> bool:
            try:
                deaf.send(request("/page.js") * 100)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            return False

        wait_until("it is let go", is_let_go)


def test_answers_come_in_the_order_of_the_requests() -> None:
    with serving() as port:
        found = sent(port, (request("/stores") + request("/nothing")) * 100 + request("/live", "Connection: close"))
        statuses = [line.split(b" ")[1] for line in found.split(b"HTTP/1.1")[1:] for line in [b"x" + line]]
        assert statuses == [b"200", b"404"] * 100 + [b"200"]


def test_the_switch_interval_is_short_only_while_reads_come() -> None:
    usual = sys.getswitchinterval()
    with serving() as port, serving() as other:
        for one in (port, other):
            assert status(one, "/live") == 200
            assert sys.getswitchinterval() == usual or one is other
            assert status(one, "/stores") == 200
            assert sys.getswitchinterval() < usual
        wait_until("it is as before", lambda: sys.getswitchinterval() == usual)
        assert status(port, "/stores") == 200
    assert sys.getswitchinterval() == usual
