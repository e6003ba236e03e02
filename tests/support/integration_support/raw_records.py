"""Batches of records as bytes, sent to a broker as they are: what other clients may write, and what none should."""

from __future__ import annotations

import gzip
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["CONTROL", "GZIP", "RawRecord", "batch", "send_raw"]

GZIP = 1
CONTROL = 0x20
"""Bits of a batch's attributes."""


@dataclass(frozen=True)
class RawRecord:
    """One record. ``count`` and ``lengths`` lie about its headers where they are given."""

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: Sequence[tuple[bytes | None, bytes | None]] = ()
    timestamp_delta: int = 0
    offset_delta: int | None = None
    count: int | None = None

    def encode(self, number: int) -> bytes:
        body = bytes([0]) + varint(self.timestamp_delta)
        body += varint(number if self.offset_delta is None else self.offset_delta)
        body += _sized(self.key) + _sized(self.value)
        body += varint(len(self.headers) if self.count is None else self.count)
        for name, value in self.headers:
            body += _sized(name) + _sized(value)
        return varint(len(body)) + body


def varint(number: int) -> bytes:
    """Zigzag, seven bits a byte, the lowest first."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch(
    records: Sequence[RawRecord], timestamp: int, *, attributes: int = 0, most_timestamp: int | None = None
) -> bytes:
    """A batch of message format 2; gzip compresses its records if the attributes say so."""
    data = b"".join(record.encode(number) for number, record in enumerate(records))
    if attributes & 7 == GZIP:
        data = gzip.compress(data, 9)
    largest = (
        timestamp + max(record.timestamp_delta for record in records) if most_timestamp is None else most_timestamp
    )
    rest = struct.pack(">hiqqqhii", attributes, len(records) - 1, timestamp, largest, -1, -1, -1, len(records))
    rest += data
    front = struct.pack(">ib", -1, 2) + struct.pack(">I", crc32c(rest))
    return struct.pack(">qi", 0, len(front) + len(rest)) + front + rest


def send_raw(bootstrap: str, topic: str, data: bytes, partition: int = 0) -> int:
    """Sends a batch by a request of Produce, version 3; returns the broker's error code, 0 if it took the batch."""
    body = struct.pack(">h", -1) + struct.pack(">hi", 1, 30_000) + struct.pack(">i", 1) + _text(topic)
    body += struct.pack(">ii", 1, partition) + struct.pack(">i", len(data)) + data
    request = struct.pack(">hhi", 0, 3, 1) + _text("raw") + body
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = _read(connection, struct.unpack(">i", _read(connection, 4))[0])
    (length,) = struct.unpack_from(">h", answer, 8)
    (code,) = struct.unpack_from(">h", answer, 10 + length + 8)
    return int(code)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionError("the broker closed the connection: it does not take such a request")
        found += part
    return found


def _table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_CRC = _table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
