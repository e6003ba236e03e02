"""The record in work, as stores and contexts see it."""

from __future__ import annotations

from typing import Any

from processor_api.record import NO_TIMESTAMP, HeaderList

__all__ = ["NO_SOURCE", "Cursor"]

NO_SOURCE: tuple[str | None, int] = (None, -1)
"""The source of a record that came from no topic (a punctuation; conformance 20)."""


class _NoMessage:
    """Stands for the message outside of a record's processing."""

    def offset(self) -> int:
        return -1

    def timestamp(self) -> tuple[int, int]:
        return 0, NO_TIMESTAMP


class Cursor:
    """Position of one task. Metadata is read from the message when somebody asks, not copied per record."""

    __slots__ = ("headers", "message", "source", "stream_time", "timestamp")

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP
        self.leave()

    def leave(self) -> None:
        """No record is in work."""
        self.message: Any = _NO_MESSAGE
        self.source = NO_SOURCE
        self.timestamp = NO_TIMESTAMP
        self.headers: HeaderList | None = None


class OffsetOnly:
    """Stands for the messages of records whose cached results are forwarded later: only their offsets are kept."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def offset(self) -> int:
        return self.value

    def timestamp(self) -> tuple[int, int]:
        return 0, NO_TIMESTAMP


_NO_MESSAGE = _NoMessage()
