"""Schema registries of tests over HTTP, as far as serdes ask them."""

from __future__ import annotations

import json
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

from streams.trials import trial_in_effect

_PORTS: set[int] = set()
"""Those that registries of this process have had."""


class RegistryServer(ThreadingHTTPServer, ABC):
    """A registry on a free port of the loopback address; a context manager."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        while True:  # clients of this process keep what a registry at an address has answered
            self.server_bind()
            if self.server_address[1] not in _PORTS:
                break
            self.socket.close()
            self.socket = socket.socket(self.address_family, self.socket_type)
            self.server_address = ("127.0.0.1", 0)
        _PORTS.add(self.server_address[1])
        self.server_activate()
        self.written_in_trials: list[str] = []
        """What was written while a trial ran in this process: the end of the registry fails the test."""

    @abstractmethod
    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        """Returns the status and the body of an answer: bytes, or what becomes JSON."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.shutdown()
        self.server_close()
        assert self.written_in_trials == [], "a trial wrote to the schema registry"


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        name, path = trial_in_effect(), self.path.partition("?")[0]
        if name is not None and self.command != "GET" and path.endswith("/versions"):
            self.server.written_in_trials.append(f"{name}: {self.command} {path}")
        status, answer = self.server.answer(self.command, self.path, dict(self.headers.items()), body)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_GET  # noqa: N815 - called by these names

    def log_message(self, *_: Any) -> None: ...


class KeptRegistry(RegistryServer):
    """A registry that begins with schemas under ids that they have elsewhere. A schema has one id in all subjects.

    :param kept: the id, the subject and the text of each.
    """

    def __init__(self, kept: Iterable[tuple[int, str, str]]) -> None:
        super().__init__()
        self.ids: dict[str, int] = {}
        """Ids by the text of the schema."""
        self.subjects: dict[str, list[str]] = {}
        """The texts of each subject, by version from 1."""
        self._kinds: dict[str, str] = {}
        """The kinds of schemas that are not of Avro, by text."""
        self._lock = threading.Lock()
        for number, subject, text in kept:
            self.ids[text] = number
            self.subjects.setdefault(subject, []).append(text)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        """Answers what is asked by id, and of a subject the latest version; registers; looks up."""
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        with self._lock:
            match method, parts:
                case "GET", ["schemas", "ids", number]:
                    found = [text for text, one in self.ids.items() if one == int(number)]
                    return (200, self._schema(found[0])) if found else self._missing(path)
                case "GET", ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                    return self._registered(subject, self.subjects[subject][-1])
                case "POST", ["subjects", subject, *register]:
                    given = json.loads(body)
                    text, known = given["schema"], self.subjects.get(subject, [])
                    if text not in known:
                        if not register:
                            return self._missing(path)
                        known = self.subjects.setdefault(subject, [])
                        self.ids.setdefault(text, max(self.ids.values(), default=0) + 1)
                        known.append(text)
                        self._kinds[text] = given.get("schemaType", "AVRO")
                    return self._registered(subject, text)
        return self._missing(path)

    def _missing(self, path: str) -> tuple[int, Any]:
        return 404, {"error_code": 404, "message": f"nothing at {path}"}

    def _registered(self, subject: str, text: str) -> tuple[int, Any]:
        version = self.subjects[subject].index(text) + 1
        return 200, {"subject": subject, "id": self.ids[text], "version": version, **self._schema(text)}

    def _schema(self, text: str) -> dict[str, str]:
        return {"schema": text, "schemaType": self._kinds.get(text, "AVRO")}
