"""The current record, as stores and contexts see it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from processor_api.record import NO_TIMESTAMP, HeaderList, Headers
from processor_api.serde import Serde
from state.row_format.row_probe import RowProbe

log = logging.getLogger("streams.state")

T = TypeVar("T")

NO_SOURCE: tuple[str | None, int] = (None, -1)
"""The source of a record that came from no topic (a punctuation; semantics 20)."""


class SentOn(Protocol):
    """Sees the changes of a store that a cache has held back, when it sends them on."""

    def __call__(self, store: str, count: int, changes: Iterator[T], send: Callable[[Iterator[T]], None]) -> None:
        """Calls ``send`` until it has sent all changes, of which there are this many, in order."""


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

    def headers(self) -> Any:
        return None


class Cursor:
    """The record context of one task. Metadata is read from the message on demand, not copied for each record."""

    __slots__ = (
        "hands_headers",
        "headers",
        "keeps_messages",
        "message",
        "probe",
        "sent_on",
        "source",
        "stream_time",
        "thread",
        "timestamp",
    )

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP
        self.keeps_messages = False
        """Whether caches keep the message of each change that waits, for error handlers; else its offset only."""
        self.probe: RowProbe | None = None
        """Sees what happens to rows; set before stores are opened."""
        self.sent_on: SentOn | None = None
        """Sees what caches send on."""
        self.hands_headers = False
        """Whether a serde of the task takes the headers of the current record, so that nodes have to set them."""
        self.thread: int | None = None
        """The thread whose record it is (``threading.get_ident``), where `hands_headers`."""
        self.leave()

    def handing(self, serde: Serde[Any], what: str) -> Serde[Any]:
        """Returns a serde that gets the headers of the current record at each call, if it takes any.

        :param what: keeps no headers, such as ``store 'counts'``, for the warning of a serde that adds some.
        """
        if not serde.takes_headers:
            return serde
        self.hands_headers = True
        return ContextSerde(serde, self, what)

    def own_headers(self) -> Headers:
        """Returns a copy of the headers of the current record; for another thread, which has none, no headers."""
        if self.thread is not None and threading.get_ident() != self.thread:
            return Headers()
        return Headers(self.headers or ())

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


class ContextSerde(Serde[Any]):
    """A serde that takes headers, in a place that has none of its own: it gets a copy of those of the current record.

    What it adds to them is not kept, so a record looks the same whether a store is cached or not.
    """

    __slots__ = ("_cursor", "_serde", "_warned", "_what")

    def __init__(self, serde: Serde[Any], cursor: Cursor, what: str) -> None:
        super().__init__(self._write, self._read, name=serde.name)
        self._serde, self._cursor, self._what = serde, cursor, what
        self._warned = False

    @property
    def takes_headers(self) -> bool:
        return True

    def with_headers(self, headers: Headers) -> Serde[Any]:
        return self._serde.with_headers(headers)

    def _write(self, value: Any) -> bytes:
        headers = self._cursor.own_headers()
        given = None if self._warned else list(headers)
        data = self._serde.with_headers(headers).serialize(value)
        if headers and given is not None and headers != given:
            self._warned = True
            log.warning(
                "the headers that a serde adds are not kept here: values keep theirs in stores with headers"
                " (dsl.store.format=HEADERS)",
                extra={"serde": self.name, "place": self._what, "header": headers[-1][0]},
            )
        return data

    def _read(self, data: bytes) -> Any:
        return self._serde.with_headers(self._cursor.own_headers()).deserialize(data)


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

    def headers(self) -> Any:
        return self.origin.headers()

    def timestamp(self) -> tuple[int, int]:
        return self.origin.timestamp()  # type: ignore[no-any-return]


_NO_MESSAGE = _NoMessage()


def message_bytes(message: Any) -> int:
    """Returns the bytes of a message's key, value and headers, which is what it takes in memory if it is large."""
    size = len(message.key() or b"") + len(message.value() or b"")
    for name, value in message.headers() or ():
        size += len(name) + len(value or b"")
    return size
