"""Asks the HTTP port of an application in a test."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from typing import Any, NamedTuple


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
