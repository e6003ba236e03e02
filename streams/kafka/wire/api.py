"""A request, its answer, and the bytes of both with their headers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from streams.kafka.wire.codec import MalformedMessage, Reader, codec_of

Q = TypeVar("Q")
R = TypeVar("R")

_HEADER = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")
CORRELATION_BYTES = _CORRELATION_ID.size


@dataclass(frozen=True, kw_only=True)
class Api(Generic[Q, R]):
    """One kind of request with its key and the versions that are declared here."""

    name: str
    key: int
    lowest: int
    highest: int
    flexible_from: int | None
    """The first flexible version (KIP-482); ``None`` if there is none."""
    request: type[Q]
    response: type[R]
    needs: str
    """The oldest Kafka that has the lowest version."""
    most_answer_bytes: int = 64 * 1024
    """Largest size of an answer that is read: as much as the request may return, with room for fields that are not
    known here."""
    recurs: bool = False
    """Whether it is sent again and again and mostly gets the same answer: a connection keeps the last one and reads it
    once."""
    old_response_header: bool = False
    """Whether the answer's header has no tagged fields even in flexible versions, as that of ApiVersions, which must be
    readable by a client that does not know the broker's versions."""

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def encode(self, request: Q, version: int, correlation_id: int, client_id: str) -> bytes:
        """Returns the request with its header (version 1, or 2 when flexible) and its size in front."""
        flexible = self.is_flexible(version)
        client = client_id.encode()
        out = bytearray(_HEADER.pack(self.key, version, correlation_id, len(client)) + client)
        if flexible:
            out.append(0)
        codec_of(self.request, version, flexible=flexible).write(out, request)
        return struct.pack(">i", len(out)) + bytes(out)

    def decode(self, answer: bytes, version: int, check: Callable[[], object] | None = None) -> R:
        """Returns the answer; ``answer`` is without its size.

        :param check: called now and then meanwhile; ends it by raising.
        :raises MalformedMessage: if it is not such a response.
        """
        flexible = self.is_flexible(version)
        reader = Reader(answer, check)
        reader.take(_CORRELATION_ID.size)
        if flexible and not self.old_response_header:
            reader.skip_tags()
        found = codec_of(self.response, version, flexible=flexible).read(reader)
        if reader.left:
            raise MalformedMessage(f"it has {reader.left} more bytes after its end")
        return found


def correlation_id_of(answer: bytes) -> int:
    """Returns the correlation id of an answer, which names its request.

    :raises MalformedMessage: if it is too short for an answer.
    """
    found: int = _CORRELATION_ID.unpack(Reader(answer).take(_CORRELATION_ID.size))[0]
    return found
