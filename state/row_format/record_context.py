"""The current record, as stores and contexts see it."""

from __future__ import annotations

from typing import Any

from processor_api.record import NO_TIMESTAMP, HeaderList
from state.row_format.row_probe import RowProbe

NO_SOURCE: tuple[str | None, int] = (None, -1)
"""The source of a record that came from no topic (a punctuation; semantics 20)."""


class _NoMessage:
    """A stand-in for the message while no record is processed."""

    __slots__ = ()

    def offset(self) -> int:
        return -1

    def timestamp(self) -> tuple[int, int]:
        return 0, NO_TIMESTAMP

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return None

    def headers(self) -> None:
        return None


class Cursor:
    """The record context of one task. Metadata is read from the message on demand, not copied for each record."""

    __slots__ = ("headers", "keeps_messages", "message", "probe", "source", "stream_time", "timestamp")

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP
        self.keeps_messages = False
        """Whether caches keep the message of each change that waits, for error handlers; else its offset only."""
        self.probe: RowProbe | None = None
        """Sees what happens to rows; set before stores are opened."""
        self.leave()

    def leave(self) -> None:
        """Notes that there is no current record."""
        self.message: Any = _NO_MESSAGE
        self.source = NO_SOURCE
        self.timestamp = NO_TIMESTAMP
        self.headers: HeaderList | None = None

    def place(self) -> dict[str, Any]:
        """Returns topic, partition and offset of the current record, for an error; nothing if there is none."""
        topic, partition = self.source
        if self.source == NO_SOURCE:
            return {}
        return {"topic": topic, "partition": partition, "offset": self.message.offset()}

    def late_message(self) -> OffsetOnly:
        """Returns a stand-in for the message of a change that waited in a cache; its ``origin`` is what the change
        kept."""
        return KeptMessage() if self.keeps_messages else OffsetOnly()

    def own_message(self) -> Any:
        """Returns the message of the current record, for an operator that holds the record back.

        A stand-in is copied, since the same one stands for the next change.
        """
        message = self.message
        if type(message) is not OffsetOnly and type(message) is not KeptMessage:
            return message
        copy = type(message)()
        copy.origin = message.origin
        return copy

    def kept_message(self) -> Any:
        """Returns the message of the current record, for a change that waits."""
        message = self.message
        return message.origin if type(message) is KeptMessage else message


class OffsetOnly(_NoMessage):
    """A stand-in for the messages of records whose cached results are forwarded later: only their offsets are kept."""

    __slots__ = ("origin",)

    def __init__(self) -> None:
        self.origin: Any = -1

    def offset(self) -> int:
        return int(self.origin)


class KeptMessage(OffsetOnly):
    """A stand-in like :class:`OffsetOnly`, where the messages are kept."""

    __slots__ = ()

    def offset(self) -> int:
        return int(self.origin.offset())

    def key(self) -> bytes | None:
        return self.origin.key()  # type: ignore[no-any-return]

    def value(self) -> bytes | None:
        return self.origin.value()  # type: ignore[no-any-return]


_NO_MESSAGE = _NoMessage()


def message_bytes(message: Any) -> int:
    """Returns the bytes of a message's key, value and headers, which is what it takes in memory if it is large."""
    size = len(message.key() or b"") + len(message.value() or b"")
    for name, value in message.headers() or ():
        size += len(name) + len(value or b"")
    return size
