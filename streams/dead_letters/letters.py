"""Dead letters as the exception handlers write them, and the choice of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from processor_api.errors import StreamsError
from processor_api.handlers import HEADER_PREFIX, LETTER_HEADERS, origin_in, split_letter_headers
from processor_api.record import HeaderList
from processor_api.user_code.durations import Timestamp, to_timestamp_ms

REPLAYS = "__streams.replays"
"""The header that counts how often a record was sent again."""


class DeadLetterError(StreamsError):
    """The dead letters have no such letter, or cannot be replayed as asked; the text says what to do."""

    is_permanent = True


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A record of the topic of dead letters; what its headers do not say is empty, or -1."""

    partition: int
    """Its partition in the dead-letter topic."""
    offset: int
    """Its offset there."""
    timestamp: int
    """Its timestamp, in ms since 1970."""
    key: bytes | None
    value: bytes | None
    headers: HeaderList
    """The headers of the record itself, without those of the error and the count of its replays."""
    exception: str
    """The class of the error, with its module."""
    message: str
    """The text of the error."""
    stacktrace: str
    topic: str
    """The topic that the record came from."""
    source_partition: int
    """The partition that the record came from."""
    source_offset: int
    """The offset of the record there."""
    node: str
    """The node of the topology that failed."""
    source_timestamp: int
    """The timestamp of the record that it came from, in ms."""
    added_headers: str
    """The headers that were added to the record before it failed, as JSON; empty if there were none."""
    replays: int
    """How often it was sent again before it died again."""

    @property
    def origin(self) -> tuple[str, int, int] | None:
        """Topic, partition and offset of the record that one of a repartition topic was made from, if that is known."""
        return origin_in(self.headers)

    @classmethod
    def of(cls, message: Any) -> DeadLetter:
        """Reads a message. A letter that died itself has two headers of each name, of which the last is the error's."""
        headers, ours = split_letter_headers(list(message.headers() or ()))
        place = next((at for at in reversed(range(len(headers))) if headers[at][0] == REPLAYS), None)
        if place is not None:
            ours = [*ours, headers.pop(place)]
        said = {name: (value or b"").decode("utf-8", "replace") for name, value in ours}
        exception, text, stacktrace, topic, partition, offset, node, timestamp, added = (
            said.get(HEADER_PREFIX + name, "") for name in LETTER_HEADERS
        )
        return cls(
            partition=message.partition(),
            offset=message.offset(),
            timestamp=message.timestamp()[1],
            key=message.key(),
            value=message.value(),
            headers=headers,
            exception=exception,
            message=text,
            stacktrace=stacktrace,
            topic=topic,
            source_partition=_number(partition, -1),
            source_offset=_number(offset, -1),
            node=node,
            source_timestamp=_number(timestamp, message.timestamp()[1]),
            added_headers=added,
            replays=_number(said.get(REPLAYS, ""), 0),
        )


def _number(text: str, missing: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else missing


@dataclass(frozen=True, kw_only=True)
class LetterFilter:
    """Chooses dead letters by what all of them must match; ``None`` leaves out nothing.

    :raises ValueError: if there is an offset without its partition.
    :raises TypeError: if a time is neither milliseconds nor a datetime with a time zone.
    """

    topic: str | None = None
    """The topic that the record came from."""
    error: str | None = None
    """The class of the error, with or without its module, or a part of its text."""
    node: str | None = None
    """The node of the topology that failed."""
    since: Timestamp | None = None
    """The first timestamp of the letter: a ``datetime``, or ms since 1970."""
    until: Timestamp | None = None
    """The first timestamp after the letters: a ``datetime``, or ms since 1970."""
    partition: int | None = None
    """The partition of the dead-letter topic."""
    offset: int | None = None
    """The offset in that partition."""

    def __post_init__(self) -> None:
        if self.offset is not None and self.partition is None:
            raise ValueError("offset needs partition: each partition has a record at that offset")
        for name in ("since", "until"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, to_timestamp_ms(given, name))

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a letter has all that is asked for."""
        return (
            self.topic in (None, letter.topic)
            and self.node in (None, letter.node)
            and self.partition in (None, letter.partition)
            and self.offset in (None, letter.offset)
            and (self.since is None or letter.timestamp >= to_timestamp_ms(self.since, "since"))
            and (self.until is None or letter.timestamp < to_timestamp_ms(self.until, "until"))
            and (self.error is None or self._is_error(letter, self.error))
        )

    @staticmethod
    def _is_error(letter: DeadLetter, error: str) -> bool:
        return error in (letter.exception, letter.exception.rpartition(".")[2]) or error in letter.message
