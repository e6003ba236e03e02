"""Asks the HTTP port of an application in a test."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

AT_ONCE = {"http.max.cpu.percent": 100}
"""Has the port answer as fast as it can. A test asks from the worker's own process, which is busy by that, and the
port of a busy worker waits for its share: a file of tests took minutes so."""


def listening(port: int) -> dict[str, Any]:
    """The settings, in snake case, of an application that answers there as fast as it can (:data:`AT_ONCE`)."""
    fast = {name.replace(".", "_"): value for name, value in AT_ONCE.items()}
    return {"http_listen": f"127.0.0.1:{port}", **fast}


class Answer(NamedTuple):
    """An answer of the port."""

    status: int
    headers: Any
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def ask(port: int, path: str, data: bytes | None = None, **headers: str) -> Answer:
    """Asks the port of this machine, by GET or, with data, by POST."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, named)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Answer(answer.status, answer.headers, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read().decode())


def lines(answer: Answer) -> tuple[list[Any], Any]:
    """The rows of an answer of lines, and the line about it."""
    *found, last = [json.loads(line) for line in answer.text.splitlines()]
    return found, last


def rows_of_pages(port: int, path: str) -> Iterator[list[Any]]:
    """Yields the rows of each page."""
    page = path
    while True:
        found, last = lines(ask(port, page))
        assert "error" not in last, last
        yield found
        if last["next"] is None:
            return
        page = f"{path}&cursor={last['next']}"


def pages_of(port: int, path: str) -> Iterator[list[Any]]:
    """Yields the keys of each page of rows."""
    for page in rows_of_pages(port, path):
        yield [row["key"] for row in page]


def sent(port: int, data: bytes, *, half_closed: bool = False) -> bytes:
    """Sends bytes as they are; returns all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.settimeout(30)
        try:
            connection.sendall(data)
            if half_closed:
                connection.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        found = bytearray()
        try:
            while part := connection.recv(65536):
                found += part
        except ConnectionError:
            pass
        return bytes(found)
