"""Exception handlers: what happens to a record that cannot be read, processed or written (semantics 112 to 115).

A handler is a function that is given the place, the record and the error, and answers with a :class:`Response`. It runs
on the thread of the task. Records for a dead letter queue go out through the task's own producer, and so in the same
transaction under exactly-once (KIP-1034); they are sent whatever the result is. A handler that raises, or answers with
anything else than a response, fails the task.

Errors of the engine and of the broker's fencing do not reach a handler, nor do those of timestamp extractors
(semantics 9).
"""

from __future__ import annotations

import base64
import enum
import json
import logging
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from processor_api.errors import RetryableError
from processor_api.record import HeaderList, Record
from processor_api.task_id import TaskId
from processor_api.texts import MOST_MESSAGE, cut, plain_str
from processor_api.timestamps import ConsumedRecord
from processor_api.user_code.given_values import items_of

log = logging.getLogger("streams.errors")

HEADER_PREFIX = "__streams.errors."
_MOST_STACKTRACE = 30_000

LETTER_HEADERS = ("exception", "message", "stacktrace", "topic", "partition", "offset", "node", "timestamp", "headers")
"""The names of our headers, without the prefix. The last two are there only if they say something: the timestamp of the
source record, where the letter has another one, and the headers that were added on the way to the node that failed."""

ORIGIN_HEADER = "__streams.origin"
"""The header of a record of a repartition topic with the place of the record that it was made from, such as
``orders:0:17``, for its dead letter. Only applications with a dead-letter topic write it, and no node sees it."""
_ORIGIN = re.compile(rb"([A-Za-z0-9._-]{1,249}):([0-9]{1,9}):([0-9]{1,18})")

_PLACE = ("topic", "partition", "offset")
"""Those that say where the record came from. They are written in any case, and are the last to be left out."""

_LEFT_OUT = (("stacktrace",), ("message", "headers"), ("exception", "node"), (*_PLACE, "timestamp"))
"""The parts that a letter which is too large leaves out, one after the other."""

_WITHOUT_PREFIX: Mapping[str, str] = {HEADER_PREFIX + name: name for name in LETTER_HEADERS}


class Result(enum.Enum):
    """The decision of a handler."""

    RESUME = "RESUME"
    """Drop the record, count it as dropped, and continue."""
    FAIL = "FAIL"
    """Fail the task."""
    RETRY = "RETRY"
    """Process again what was read since the last commit. Only for a record that was not delivered in time, that is for
    a :class:`~processor_api.errors.RetryableError`; elsewhere it means `FAIL`."""


class SerializationExceptionOrigin(enum.Enum):
    """The part of a record that could not be written."""

    KEY = "KEY"
    VALUE = "VALUE"
    HEADERS = "HEADERS"
    """A header's name or value, which Kafka's client cannot send (semantics 150)."""


class ProducerRecord(NamedTuple):
    """A record to be sent. A handler is given the one that failed, and makes its own for a dead letter queue."""

    topic: str
    key: Any
    """Bytes; the key as the topology gave it, where it could not be written."""
    value: Any
    """Bytes; the value as the topology gave it, where it could not be written."""
    timestamp: int | None = None
    """The timestamp in ms; ``None`` is now."""
    headers: HeaderList | None = None
    partition: int | None = None
    """``None`` leaves the choice to Kafka's default partitioner."""


@dataclass(frozen=True)
class Response:
    """A handler's answer: a result, and records for a dead letter queue, sent before the result takes effect."""

    result: Result
    dead_letter_queue_records: tuple[ProducerRecord, ...] = ()

    @classmethod
    def resume(cls, dead_letter_queue_records: Iterable[ProducerRecord] = ()) -> Response:
        """Returns the response that drops the record and continues.

        :param dead_letter_queue_records: records to send before.
        """
        return cls(Result.RESUME, tuple(items_of(dead_letter_queue_records, "dead_letter_queue_records")))

    @classmethod
    def fail(cls, dead_letter_queue_records: Iterable[ProducerRecord] = ()) -> Response:
        """Returns the answer that fails the task.

        :param dead_letter_queue_records: records to send before.
        """
        return cls(Result.FAIL, tuple(items_of(dead_letter_queue_records, "dead_letter_queue_records")))

    @classmethod
    def retry(cls) -> Response:
        """Returns the answer that processes again what was read since the last commit; see :attr:`Result.RETRY`."""
        return cls(Result.RETRY)


@dataclass(frozen=True, kw_only=True)
class ErrorHandlerContext:
    """The place where an error happened, and the record (KIP-1033).

    Topic, partition and offset are those of the source record. They are ``None``, -1 and -1 in a punctuation, and for a
    record that the broker refused, since by then others are being processed.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    """The time of the record at the node, in ms; the time of a punctuation; -1 for a record that the broker refused."""
    headers: HeaderList
    """The headers of the record at the node."""
    processor_node_id: str
    """The node's name."""
    task_id: TaskId
    source_raw_key: bytes | None
    source_raw_value: bytes | None
    dead_letter_queue_topic_name: str | None = None
    """``errors.dead.letter.queue.topic.name``."""
    source_raw_headers: HeaderList | None = field(default=None, compare=False)
    """The headers of the source record, as they were read; ``None`` if they are not known."""
    source_timestamp: int = field(default=-1, compare=False)
    """The timestamp of the source record in ms; -1 if it is not known."""


DeserializationExceptionHandler = Callable[[ErrorHandlerContext, ConsumedRecord, Exception], Response]
"""Asked when a serde raises while it reads. The record has its key and value as bytes."""

ProcessingExceptionHandler = Callable[[ErrorHandlerContext, Record[Any, Any] | None, Exception], Response]
"""Asked when a processor or a function given to the DSL raises: once, at the node where it happened. The record is what
that node was given, ``None`` in a punctuation; between operators of tables its value is ``(new value, old value)``."""

ProductionExceptionHandler = Callable[
    [ErrorHandlerContext, ProducerRecord, Exception, SerializationExceptionOrigin | None], Response
]
"""Asked when a serde raises while it writes to a topic: the origin says which part, the error is the serde's own. Asked
also, under at-least-once, when the broker refused a record: without an origin, and with a
:class:`~processor_api.errors.RetryableError` if a later try may succeed, otherwise a
:class:`~processor_api.errors.ProductionError`; both have the broker's ``reason``, such as ``MSG_SIZE_TOO_LARGE``. The
client keeps no headers and no timestamp of such a record. Changelog records are not asked about (a deviation from
Kafka Streams): a store restored from a changelog with a gap would be wrong."""


def dead_letter_queue_records(
    context: ErrorHandlerContext, error: Exception, topic: str | None = None
) -> tuple[ProducerRecord, ...]:
    """Returns the dead letter that Kafka Streams would send, or nothing without a topic (semantics 131).

    It has the source record's key, value and headers as they were read, followed by ``__streams.errors.``
    ``exception``, ``message``, ``stacktrace``, ``topic``, ``partition``, ``offset`` and ``node``. Where they say
    something, ``timestamp`` has the source record's timestamp, and ``headers`` those headers that were added before the
    node failed, as JSON. Message and stacktrace are cut after 10,000 and 30,000 characters, because an error that
    repeats a large value would make a letter that the broker refuses.

    :param topic: the configured one (``errors.dead.letter.queue.topic.name``) if not given.
    """
    topic = topic or context.dead_letter_queue_topic_name
    if not topic:
        return ()
    source = context.source_raw_headers
    described: dict[str, str | None] = {
        "exception": class_name(error),
        "message": cut(plain_str(error), MOST_MESSAGE),
        "stacktrace": cut("".join(traceback.format_exception(error)), _MOST_STACKTRACE),
        "topic": context.topic,
        "partition": str(context.partition),
        "offset": str(context.offset),
        "node": context.processor_node_id,
    }
    if context.timestamp != context.source_timestamp >= 0:
        described["timestamp"] = str(context.source_timestamp)
    if source is not None and (added := _added_headers(context.headers, source)):
        described["headers"] = added
    headers = [*(context.headers if source is None else source), *_written(described)]
    timestamp = context.timestamp if context.timestamp >= 0 else None
    return (ProducerRecord(topic, context.source_raw_key, context.source_raw_value, timestamp, headers),)


def origin_header(topic: str, partition: int, offset: int) -> tuple[str, bytes]:
    """Returns the header that names a record as the one that another record was made from."""
    return ORIGIN_HEADER, b"%s:%d:%d" % (topic.encode(), partition, offset)


def origin_in(headers: HeaderList | None) -> tuple[str, int, int] | None:
    """Returns topic, partition and offset of the record that headers name as the origin; ``None`` if they name none."""
    for name, value in reversed(headers or ()):
        if name == ORIGIN_HEADER and (found := _ORIGIN.fullmatch(value or b"")) is not None:
            return found[1].decode(), int(found[2]), int(found[3])
    return None


def without_origin(headers: HeaderList) -> HeaderList:
    """Returns headers without those that :func:`origin_header` makes."""
    return [header for header in headers if header[0] != ORIGIN_HEADER]


def _written(described: Mapping[str, str | None]) -> HeaderList:
    """Returns our headers of these texts, by their names without the prefix."""
    return [
        (HEADER_PREFIX + name, None if (text := described[name]) is None else text.encode("utf-8", "replace"))
        for name in LETTER_HEADERS
        if name in described
    ]


def split_letter_headers(headers: HeaderList) -> tuple[HeaderList, HeaderList]:
    """Returns the headers of the record of a dead letter, and ours.

    Ours stand together, in the order of :data:`LETTER_HEADERS`. The record may have headers of these names itself, if
    it was a dead letter before: they are distinguished by their place. What a handler has added after ours belongs to
    the record.

    Where they do not stand together, since something else wrote the letter, the last one of each name is ours.
    """
    names = [_WITHOUT_PREFIX.get(header[0]) for header in headers]
    for first in reversed(range(len(names) - len(_PLACE) + 1)):
        if tuple(names[first : first + len(_PLACE)]) == _PLACE:
            break
    else:
        return _split_by_name(headers, names)
    begin, end = first, first + len(_PLACE)
    for name in reversed(LETTER_HEADERS[: LETTER_HEADERS.index(_PLACE[0])]):
        if begin and names[begin - 1] == name:
            begin -= 1
    for name in LETTER_HEADERS[LETTER_HEADERS.index(_PLACE[-1]) + 1 :]:
        if end < len(names) and names[end] == name:
            end += 1
    return [*headers[:begin], *headers[end:]], headers[begin:end]


def _split_by_name(headers: HeaderList, names: list[str | None]) -> tuple[HeaderList, HeaderList]:
    last = {name: place for place, name in enumerate(names) if name is not None}
    ours = sorted(last.values())
    taken = set(ours)
    return [one for place, one in enumerate(headers) if place not in taken], [headers[place] for place in ours]


def smaller_letter_headers(headers: HeaderList) -> tuple[HeaderList, tuple[str, ...]] | None:
    """Returns the headers of a letter without the next part that a letter which is too large leaves out, and the names
    of what was left out; ``None`` if nothing more can be omitted."""
    own, ours = split_letter_headers(headers)
    for part in _LEFT_OUT:
        dropped = tuple(HEADER_PREFIX + name for name in part)
        kept = [header for header in ours if header[0] not in dropped]
        if len(kept) < len(ours):
            return [*own, *kept], part
    return None


def _added_headers(at_node: Iterable[Any], source: HeaderList) -> str | None:
    """Returns the headers of a record at a node that its source record did not have, as JSON; ``None`` if there are
    none.

    A value that is not a text is written as ``{"base64": "..."}``.
    """
    left = Counter(source)
    added = []
    for header in at_node:
        try:
            if left[header] > 0:
                left[header] -= 1
                continue
            name, value = header
        except (TypeError, ValueError):  # not a pair of a name and bytes: it was not in the source record
            name, value = repr(header), None
        added.append([str(name), _as_json(value)])
    return json.dumps(added) if added else None


def _as_json(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    try:
        data = bytes(memoryview(value))
    except TypeError:
        return repr(value)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def class_name(error: Exception) -> str:
    """Returns the name of an error's class as a traceback has it: with its module, except for Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def log_and_fail(context: ErrorHandlerContext, record: ConsumedRecord, error: Exception) -> Response:
    """Fails the task: the default for records that cannot be read (Java: ``LogAndFailExceptionHandler``).

    The error that the task fails with is in the log; this adds a line at debug."""
    log.debug("record cannot be read", extra=_place(context), exc_info=error)  # the error of the task says the same
    return Response.fail(dead_letter_queue_records(context, error))


def log_and_continue(context: ErrorHandlerContext, record: ConsumedRecord, error: Exception) -> Response:
    """Drops records that cannot be read (Java: ``LogAndContinueExceptionHandler``)."""
    log.warning("record dropped: it cannot be read", extra=_place(context), exc_info=error)
    return Response.resume(dead_letter_queue_records(context, error))


def log_and_fail_processing(
    context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception
) -> Response:
    """Fails the task; the default for unprocessable records (Java: ``LogAndFailProcessingExceptionHandler``).

    The error that the task fails with is in the log; this adds a line at debug."""
    log.debug("record cannot be processed", extra=_place(context), exc_info=error)
    return Response.fail(dead_letter_queue_records(context, error))


def log_and_continue_processing(
    context: ErrorHandlerContext, record: Record[Any, Any] | None, error: Exception
) -> Response:
    """Drops records that cannot be processed (Java: ``LogAndContinueProcessingExceptionHandler``)."""
    log.warning("record dropped: it cannot be processed", extra=_place(context), exc_info=error)
    return Response.resume(dead_letter_queue_records(context, error))


def default_production(
    context: ErrorHandlerContext,
    record: ProducerRecord,
    error: Exception,
    origin: SerializationExceptionOrigin | None,
) -> Response:
    """Decides by default about records that cannot be written (Java: ``DefaultProductionExceptionHandler``).

    What was not delivered in time is processed again, everything else fails the task.
    """
    if origin is None and isinstance(error, RetryableError):
        return Response.retry()
    return Response.fail(dead_letter_queue_records(context, error))


def _place(context: ErrorHandlerContext) -> dict[str, Any]:
    return {
        "task": str(context.task_id),
        "node": context.processor_node_id,
        "topic": context.topic,
        "partition": context.partition,
        "offset": context.offset,
    }
