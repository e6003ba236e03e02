"""What a client may send wrong: each gets one clear answer, and nothing hangs."""

from __future__ import annotations

import gc
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from http_support.asking import ask, free_port, listening, sent
from runtime_support.running_app import Cluster, counting
from streams.http import server
from streams.http.options import HttpOptions
from streams.http.processor_share import ProcessorShare
from waiting import wait_until

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with Cluster(tmp_path_factory.mktemp("open")) as cluster:
        port = free_port()
        cluster.start(counting(), **listening(port))
        yield port


@pytest.fixture(scope="module")
def secret_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("secret")
    (folder / "token").write_text(TOKEN + "\n")
    with Cluster(folder / "cluster") as cluster:
        port = free_port()
        cluster.start(counting(), **listening(port), http_token_file=str(folder / "token"))
        yield port


def request(path: str, *headers: str, method: str = "GET", host: str = "localhost") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1."), answer[:200]
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(400), 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (request("/live", "X: " + "x" * (1 << 20)), 400),
        (request("/" + "x" * (1 << 20)), 400),
        (request("/live", *(f"X-{number}: x" for number in range(1000))), 400),
        (request("/live", "Content-Length: -5"), 400),
        (request("/live", "Content-Length: 5", "Transfer-Encoding: chunked"), 400),
        (request("/live", "A\x00: b"), 400),
        (request("/live", method="DELETE"), 405),
        (request("/stores/counts/get", "Content-Length: 5000000", method="POST") + b"x" * 5_000_000, 413),
        (request("/stores/%FF%FE/get?key=a"), 404),
        (request("/stores/counts/get?key=a&key=b"), 400),
        (request("/stores/counts/get", "Content-Length: 19", method="POST") + b'{"keys":["\\ud800"]}', 400),
        (request("/events", method="HEAD"), 405),
        (request("/stores/counts/get", "Transfer-Encoding: chunked", method="POST") + b"zz\r\n", 400),
        (
            request("/stores/counts/get", "Transfer-Encoding: chunked", method="POST")
            + b"FFFFFFF\r\n"
            + b"x" * 3_000_000,
            413,
        ),
        (request("http://evil.example/live"), 200),
        (request("/stores/..%2f..%2fetc%2fpasswd/get?key=a"), 404),
        (request("/live", "Accept-Encoding: nonsense", "Expect: the unexpected"), 417),
    ],
)
def test_a_request_that_is_none_is_refused(port: int, data: bytes, status: int) -> None:
    assert status_of(sent(port, data)) == status
    assert ask(port, "/live").status == 200


def test_a_client_that_only_connects_is_let_go_and_disturbs_nobody(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as telnet:
        telnet.sendall(b"GE")
        assert ask(port, "/live").status == 200


def test_requests_that_are_sent_before_the_answers_come_are_all_answered(port: int) -> None:
    one = request("/stores/counts/get?key=a").replace(b"Connection: close\r\n", b"")
    answer = sent(port, one * 299 + request("/stores/counts/get?key=a"))
    assert answer.count(b"HTTP/1.1 404") == 300


def test_many_requests_at_once_are_all_answered(port: int) -> None:
    found: list[int] = []

    def many() -> None:
        found.extend(ask(port, "/stores/counts/get?key=a").status for _ in range(20))

    threads = [threading.Thread(target=many) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 400
    assert set(found) <= {404, 503}


def test_the_host_of_another_site_is_refused_without_a_token(port: int) -> None:
    answer = sent(port, request("/stores", host="evil.example"))
    assert status_of(answer) == 403
    assert b"the header Host has another host than this worker" in answer
    for host in ("localhost", "127.0.0.1:80", "[::1]:80"):
        assert status_of(sent(port, request("/stores", host=host))) == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Authorization: Bearer",
        "Authorization: Bearer wrong",
        f"Authorization: Basic {TOKEN}",
        "Authorization: \xe9",
        "Authorization: Bearer \udcff",
    ],
)
def test_a_wrong_token_is_401(secret_port: int, header: str) -> None:
    answer = sent(secret_port, request("/state", *([header] if header else [])))
    assert status_of(answer) == 401
    assert b"WWW-Authenticate: Bearer" in answer
    assert TOKEN.encode() not in answer


def test_the_right_token_is_let_in_and_probes_need_none(secret_port: int) -> None:
    assert ask(secret_port, "/state", Authorization=f"Bearer {TOKEN}").status == 200
    assert ask(secret_port, "/ready").status == 200
    state = ask(secret_port, "/state", Authorization=f"Bearer {TOKEN}").text
    assert TOKEN not in state


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """Sockets, threads and files, after a close while clients are connected."""
    gc.collect()
    before, threads = set(os.listdir("/proc/self/fd")), {thread.name for thread in threading.enumerate()}
    with Cluster(tmp_path) as cluster:
        port = free_port()
        app = cluster.start(counting(), **listening(port))
        with socket.create_connection(("127.0.0.1", port)) as idle:
            assert ask(port, "/live").status == 200
            app.close()
            idle.settimeout(30)
            assert idle.recv(1) == b""
    gc.collect()
    assert {thread.name for thread in threading.enumerate()} <= threads
    assert len(set(os.listdir("/proc/self/fd")) - before) == 0


def test_a_client_that_never_reads_is_let_go() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(bytes(65536))

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    options = HttpOptions(host="127.0.0.1", port=port, known_hosts=frozenset({"localhost"}), answer_s=0.2)
    serving = server.HttpServer(
        server.HttpAnswers(routes=[web.get("/endless", endless)], pace=ProcessorShare(1.0)), listener, options
    )
    serving.start()
    try:
        with socket.create_connection(("127.0.0.1", port)) as deaf:
            deaf.sendall(request("/endless"))
            wait_until("it is let go", lambda: not _is_answered(deaf))
    finally:
        serving.close()


def test_no_connection_stays_open_without_an_answer_when_the_port_closes() -> None:
    """One that was accepted in the moment of the close was forgotten, and its client waited for its own time-out."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="x")

    waited: list[str] = []
    for _ in range(10):
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        options = HttpOptions(host="127.0.0.1", port=port)
        answers = server.HttpAnswers(routes=[web.get("/", hello)], pace=ProcessorShare(1.0))
        serving = server.HttpServer(answers, listener, options)
        asking = [threading.Thread(target=_ask_until_refused, args=(port, waited)) for _ in range(4)]
        serving.start()
        for thread in asking:
            thread.start()
        wait_until("a client was answered", lambda: bool(waited))
        serving.close()
        for thread in asking:
            thread.join()
        assert "for nothing" not in waited
        waited.clear()


def _ask_until_refused(port: int, waited: list[str]) -> None:
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(request("/"))
                while client.recv(65536):
                    waited.append("for an answer")
        except ConnectionRefusedError:
            return
        except TimeoutError:
            waited.append("for nothing")
            return
        except ConnectionError:
            pass


def _is_answered(connection: socket.socket) -> bool:
    """Whether the server still has the connection: it is written to, which fails when it does not."""
    try:
        connection.sendall(b"x")
    except ConnectionError:
        return False
    return True


def test_a_body_that_comes_slowly_is_no_reason_to_wait_forever(port: int) -> None:
    body = json.dumps({"keys": ["a"]}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
        slow.sendall(request("/stores/counts/get", f"Content-Length: {len(body)}", method="POST"))
        for byte in body:
            slow.sendall(bytes([byte]))
        assert status_of(slow.recv(65536)) == 200
