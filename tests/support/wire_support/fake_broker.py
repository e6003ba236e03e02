"""A broker of few words: it answers each request as the test says, on a loopback port."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from streams.kafka.wire import messages
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import Address
from streams.kafka.wire.codec import Reader, codec_of
from streams.kafka.wire.consumer_groups import CONSUMER_GROUP_DESCRIBE
from streams.kafka.wire.messages import (
    API_VERSIONS,
    ApiVersionsResponse,
    FindCoordinatorResponse,
    FoundCoordinator,
    LeaveGroupResponse,
    LeftMember,
    SupportedApi,
)
from streams.kafka.wire.offset_commits import OFFSET_COMMIT
from streams.kafka.wire.streams_groups import messages as streams_messages

HOST = "127.0.0.1"
MOST_REQUEST_BYTES = 100_000
CERTIFICATES = Path(__file__).parent / "certificates"
APIS: dict[int, Api[Any, Any]] = {
    api.key: api for api in (*vars(messages).values(), OFFSET_COMMIT) if isinstance(api, Api)
}
VERSIONS = ApiVersionsResponse(0, tuple(SupportedApi(api.key, 0, api.highest) for api in APIS.values()), 0)
STREAMS_APIS = {api.key: api for api in vars(streams_messages).values() if isinstance(api, Api)}
STREAMS_VERSIONS = VERSIONS._replace(
    api_keys=(*VERSIONS.api_keys, *(SupportedApi(key, 0, api.highest) for key, api in STREAMS_APIS.items()))
)
"""The versions of a broker that takes part in the streams protocol."""
CONSUMER_APIS = {CONSUMER_GROUP_DESCRIBE.key: CONSUMER_GROUP_DESCRIBE}
CONSUMER_VERSIONS = VERSIONS._replace(
    api_keys=(*VERSIONS.api_keys, *(SupportedApi(key, 0, api.highest) for key, api in CONSUMER_APIS.items()))
)
"""The versions of a broker that takes part in the consumer protocol."""
APIS |= STREAMS_APIS | CONSUMER_APIS


class Request(NamedTuple):
    """What came in."""

    api: Api[Any, Any]
    version: int
    correlation_id: int
    client_id: str
    body: Any
    address: Address
    """Where it came in."""

    def answer(self, response: Any) -> bytes:
        """The bytes of an answer to it, with their size."""
        flexible = self.api.is_flexible(self.version)
        out = bytearray(struct.pack(">i", self.correlation_id))
        if flexible and not self.api.old_response_header:
            out.append(0)
        codec_of(self.api.response, self.version, flexible=flexible).write(out, response)
        return struct.pack(">i", len(out)) + bytes(out)


CLOSE = object()
"""In place of an answer: the connection is closed."""
Answer = Any
"""A response; bytes to send as they are before the connection is closed; `CLOSE`; or a function of the request that
gives one of these."""


class FakeBroker:
    """Answers of each kind of request are used in turn, the last one for ever; ApiVersions is answered unless told."""

    def __init__(self, answers: Mapping[Api[Any, Any], Any], *, tls: ssl.SSLContext | None = None) -> None:
        given: dict[int, Any] = {API_VERSIONS.key: VERSIONS} | {api.key: answer for api, answer in answers.items()}
        self._answers = {key: deque(each if isinstance(each, list) else [each]) for key, each in given.items()}
        self._tls = tls
        self._listener = socket.create_server((HOST, 0))
        self._closing = False
        self.address = Address(*self._listener.getsockname())
        self.requests: list[Request] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, name="fake-broker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        with socket.create_connection(self.address):  # wakes the thread
            pass
        self._thread.join(10)
        self._listener.close()
        assert not self._thread.is_alive()

    @property
    def bootstrap(self) -> str:
        return str(self.address)

    def asked(self, api: Api[Any, Any]) -> list[Any]:
        """The bodies of the requests of one kind."""
        return [request.body for request in self.requests if request.api is api]

    def _serve(self) -> None:
        while True:
            line, _ = self._listener.accept()
            with line:
                if self._closing:
                    return
                self.connections += 1
                try:
                    with self._secured(line) as talk:
                        self._talk(talk)
                except OSError:  # the client went away, or one of us refused the other's certificate
                    pass

    def _secured(self, line: socket.socket) -> socket.socket:
        if self._tls is None:
            return line
        secured = self._tls.wrap_socket(line, server_side=True, do_handshake_on_connect=False)
        try:
            secured.do_handshake()
        except ssl.SSLError:
            # What the client has sent meanwhile is read, or else the system would drop what we told it.
            with secured:
                secured.shutdown(socket.SHUT_WR)
                while socket.socket.recv(secured, 1000):
                    pass
            raise
        return secured

    def _talk(self, line: socket.socket) -> None:
        with line.makefile("rb") as stream:
            while head := stream.read(4):
                size = int.from_bytes(head, "big")
                if size > MOST_REQUEST_BYTES:
                    return
                request = self._parsed(stream.read(size))
                self.requests.append(request)
                answers = self._answers[request.api.key]
                answer = answers.popleft() if len(answers) > 1 else answers[0]
                if callable(answer):
                    answer = answer(request)
                if answer is CLOSE:
                    return
                if isinstance(answer, bytes):
                    line.sendall(answer)
                    return
                line.sendall(request.answer(answer))

    def _parsed(self, data: bytes) -> Request:
        reader = Reader(data)
        key, version, correlation_id, length = struct.unpack(">hhih", reader.take(10))
        client_id = reader.take(length).decode()
        api = APIS[key]
        flexible = api.is_flexible(version)
        if flexible:
            reader.skip_tags()
        body = codec_of(api.request, version, flexible=flexible).read(reader)
        assert reader.left == 0
        return Request(api, version, correlation_id, client_id, body, self.address)


def coordinator_at(address: Address, code: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(0, (FoundCoordinator("g", 1, *address, code, None),))


def here(request: Request) -> FindCoordinatorResponse:
    """Answers FindCoordinator: this broker is it."""
    return coordinator_at(request.address)


def left(code: int = 0, member_code: int = 0) -> LeaveGroupResponse:
    members = (LeftMember("", "i", member_code),) if code == 0 else ()
    return LeaveGroupResponse(0, code, members)


def server_tls(name: str = "broker", *, client_authority: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{name}.pem", CERTIFICATES / f"{name}.key")
    if client_authority:
        context.load_verify_locations(CERTIFICATES / f"{client_authority}.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context
