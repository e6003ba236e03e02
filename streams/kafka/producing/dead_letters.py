"""Sends dead letters. One that is too large leaves out parts of its headers of the error, and does not fail.

The stack trace goes first, then the texts, then the class of the error and the node, and at last the place of the
source record. What remains is the record as it came: it fits into a topic that takes as large records as its source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from processor_api.errors import ProductionError, StreamsError
from processor_api.handlers import ProducerRecord, smaller_letter_headers
from processor_api.record import DropReason, HeaderList
from processor_api.texts import plain_str
from streams.kafka.headers import mended
from streams.kafka.ports import NotDelivered
from streams.kafka.producing.batch_limits import record_bytes
from streams.kafka.producing.deliveries import batch_too_large, is_too_large

log = logging.getLogger("streams.kafka")


class DeadLetters:
    """The dead letters of one collector that wait to be sent, and the sizes that topics have refused.

    :param refused: the smallest size of a letter that each topic has refused. A collector that is made after a rollback
        gets those of the one before.
    """

    def __init__(self, refused: dict[str, int] | None = None) -> None:
        self.waiting: list[ProducerRecord] = []
        self._refused: dict[str, int] = {} if refused is None else refused

    def take(self) -> list[ProducerRecord]:
        """Returns the letters that wait, which wait no longer."""
        taken, self.waiting = self.waiting, []
        return taken

    def fitting(self, letter: ProducerRecord) -> ProducerRecord:
        """Returns a letter as it can be sent: without what made another one of its size too large for its topic."""
        if letter.headers:
            letter = letter._replace(headers=mended(letter.headers))
        refused = self._refused.get(letter.topic)
        while refused is not None and record_bytes(letter) >= refused and (less := _without_next_part(letter)):
            letter = less
        return letter

    def errors_of(self, letter: ProducerRecord, *, goes_back: bool) -> LetterErrors:
        """Returns what handles the errors of a letter.

        :param goes_back: whether a refusal makes the transaction fail, so that the letter is made again.
        """
        return LetterErrors(letter, self._refused, goes_back=goes_back)


class LetterErrors:
    """The errors of one letter, as `SinkErrors` of the record collector: one that is too large is sent again without
    its largest parts."""

    task: str | None = None
    """Not known: letters of all tasks are sent by one producer."""
    wants_refused = False

    def __init__(self, letter: ProducerRecord, refused: dict[str, int], *, goes_back: bool) -> None:
        self._letter, self._refused, self._goes_back = letter, refused, goes_back

    def undelivered(
        self, failure: StreamsError, record: ProducerRecord
    ) -> tuple[StreamsError | None, Iterable[ProducerRecord]]:
        """Handles a letter that was refused: returns the error to raise, or ``None`` and the letter to send instead."""
        letter = self._letter
        if not is_too_large(failure):
            return failure, ()
        size = record_bytes(letter)
        self._refused[letter.topic] = min(size, self._refused.get(letter.topic, size))
        if self._goes_back and smaller_letter_headers(letter.headers or []) is not None:
            return batch_too_large(letter.topic, letter.partition), ()
        less = _without_next_part(letter)
        return (_too_large(failure, letter), ()) if less is None else (None, (less,))

    def unserializable(self, error: Exception, part: str, record: ProducerRecord) -> None:
        """Raises the error of headers that cannot be sent."""
        raise error

    def fail(self, error: Exception, key: object, value: object, timestamp: int, headers: HeaderList | None) -> None:
        """Raises the error: nothing of the user's is called for a letter."""
        raise error

    def unwritable(self, failure: NotDelivered, record: ProducerRecord) -> None:
        """Raises the error of a topic that does not exist."""
        raise failure

    def drop(self, reason: DropReason) -> None:
        """Does nothing: letters are never dropped."""


def _without_next_part(letter: ProducerRecord) -> ProducerRecord | None:
    """Returns a letter without the next part that it can do without, and logs it; ``None`` if there is none."""
    found = smaller_letter_headers(letter.headers or [])
    if found is None:
        return None
    headers, left_out = found
    log.warning(
        "a dead letter is too large: it is sent without some headers of its error",
        extra={"topic": letter.topic, "left_out": ", ".join(left_out), "bytes": record_bytes(letter), **_place(letter)},
    )
    return letter._replace(headers=headers)


def _place(letter: ProducerRecord) -> dict[str, str]:
    """Returns where the record of a letter came from, for the log."""
    said = {name.rpartition(".")[2]: value or b"" for name, value in letter.headers or ()}
    places = ("topic", "partition", "offset")
    return {f"from_{name}": said[name].decode("utf-8", "replace") for name in places if name in said}


def _too_large(failure: StreamsError, letter: ProducerRecord) -> StreamsError:
    error = ProductionError(
        f"a dead letter of {record_bytes(letter)} bytes is too large for topic {letter.topic!r}, even without the"
        f" headers of its error: {plain_str(failure)}; raise max.message.bytes of that topic to that of the source"
        " topics",
        topic=letter.topic,
    )
    error.reason = getattr(failure, "reason", None)
    return error
