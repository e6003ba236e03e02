"""A proxy before a broker that can leave out the brokers of its answers, as a broker does while it is fenced."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Self

METADATA = 3
FLEXIBLE = 9
"""From this version of the answer on, its fields have no fixed size."""


class MetadataProxy:
    """Listens on a port of its own, which the broker has to advertise, and passes all on to the broker.

    While `hides` is set, answers about metadata name topics but no broker.
    """

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self.hides = False
        self.hidden = 0
        """The number of answers without brokers."""
        self.hidden_at = 0.0
        self.asking: set[Connection] = set()
        """The open connections over which metadata was asked for."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="metadata-proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @property
    def silent_s(self) -> float:
        """The seconds since the last answer without brokers."""
        return time.monotonic() - self.hidden_at if self.hidden else 0.0

    @property
    def is_left(self) -> bool:
        """Whether clients have closed their connections and make no new ones: they have lost their brokers.

        One that does not ask for a while, since the machine is busy, has its connection still."""
        return self.silent_s > 3 and not self.asking

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the server is closed
            while True:
                client, _ = self._server.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._broker_port))
                except OSError:
                    client.close()
                    continue
                Connection(self, client, broker).start()


class Connection:
    """One connection of a client, and that to the broker."""

    def __init__(self, proxy: MetadataProxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy, self._client, self._broker = proxy, client, broker
        self._asked: dict[int, int] = {}
        """The versions of requests for metadata, by their numbers."""

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        asking = threading.Thread(target=self._until_closed, args=(self._requests,), daemon=True)
        asking.start()
        self._until_closed(self._answers)
        asking.join()
        self._proxy.asking.discard(self)
        self._client.close()
        self._broker.close()

    def _until_closed(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, EOFError):
            work()
        for end in (self._client, self._broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self) -> None:
        while True:
            frame = read_frame(self._client)
            key, version, number = struct.unpack_from(">hhi", frame)
            if key == METADATA:
                self._proxy.asking.add(self)
                self._asked[number] = version
            self._broker.sendall(struct.pack(">i", len(frame)) + frame)

    def _answers(self) -> None:
        while True:
            frame = read_frame(self._broker)
            asked = self._asked.pop(struct.unpack_from(">i", frame)[0], None)
            if asked is not None and self._proxy.hides:
                frame = without_brokers(frame, asked)
                self._proxy.hidden += 1
                self._proxy.hidden_at = time.monotonic()
            self._client.sendall(struct.pack(">i", len(frame)) + frame)


def read_frame(end: socket.socket) -> bytes:
    return read_exactly(end, struct.unpack(">i", read_exactly(end, 4))[0])


def read_exactly(end: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = end.recv(count - len(found))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def without_brokers(frame: bytes, version: int) -> bytes:
    """Returns an answer about metadata with an empty list of brokers."""
    assert version >= FLEXIBLE, version
    begin = 4 + 1 + 4  # the number, no tagged fields, and the time of throttling
    count, at = read_varint(frame, begin)
    for _ in range(count - 1):
        at += 4
        length, at = read_varint(frame, at)
        at += length - 1 + 4
        length, at = read_varint(frame, at)  # of the rack, which may be none
        at += max(0, length - 1)
        tags, at = read_varint(frame, at)
        assert tags == 0
    return frame[:begin] + b"\x01" + frame[at:]


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns an unsigned number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at
