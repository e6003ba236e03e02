"""The record in work, as stores and contexts see it."""

from __future__ import annotations

from typing import Any

from processor_api.record import NO_TIMESTAMP, HeaderList

__all__ = ["NO_SOURCE", "Cursor"]

NO_SOURCE: tuple[str | None, int] = (None, -1)
"""The source of a record that came from no topic (a punctuation; conformance 20)."""


class _NoMessage:
    """Stands for the message outside of a record's processing."""

    __slots__ = ()

    def offset(self) -> int:
        return -1

    def timestamp(self) -> tuple[int, int]:
        return 0, NO_TIMESTAMP

    def key(self) -> None:
        return None

    def value(self) -> None:
        return None


class Cursor:
    """Position of one task. Metadata is read from the message when somebody asks, not copied per record."""

    __slots__ = ("headers", "keeps_messages", "message", "source", "stream_time", "timestamp")

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP
        self.keeps_messages = False
        """Whether caches keep the message of each change that waits, for error handlers; else its offset only."""
        self.leave()

    def leave(self) -> None:
        """No record is in work."""
        self.message: Any = _NO_MESSAGE
        self.source = NO_SOURCE
        self.timestamp = NO_TIMESTAMP
        self.headers: HeaderList | None = None


class OffsetOnly(_NoMessage):
    """Stands for the message of a record whose cached result is forwarded later: only its offset is kept."""

    __slots__ = ("_offset",)

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


_NO_MESSAGE = _NoMessage()
