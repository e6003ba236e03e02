"""Exception handlers: what happens to a record that cannot be read, processed or written (semantics 112 to 115).

A handler is a function that is given the place, the record and the error, and answers with a :class:`Response`. It runs
on the thread of the task. Records for a dead letter queue go out through the task's own producer, and so in the same
transaction under exactly-once (KIP-1034); they are sent whatever the result is. A handler that raises, or answers with
anything else than a response, fails the task.

Errors of the engine and of the broker's fencing are no handler's business, nor are those of timestamp extractors
(semantics 9).
"""

from __future__ import annotations

import enum
import logging
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


class Result(enum.Enum):
    """The decision of a handler."""

    RESUME = "RESUME"
    """Drop the record, count it as dropped, and go on."""
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
        """Returns the answer that drops the record and goes on.

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
:class:`~processor_api.errors.RetryableError` if a later try may succeed, else a
:class:`~processor_api.errors.ProductionError`; both have the broker's ``reason``, such as ``MSG_SIZE_TOO_LARGE``. The
client keeps no headers and no timestamp of such a record. Changelog records are not asked about (a deviation from
Kafka Streams): a store restored from a changelog with a gap would be wrong."""


def dead_letter_queue_records(
    context: ErrorHandlerContext, error: Exception, topic: str | None = None
) -> tuple[ProducerRecord, ...]:
    """Returns the dead letter that Kafka Streams would send, or nothing without a topic (semantics 131).

    It has the source record's bytes, and its headers followed by ``__streams.errors.`` ``exception``, ``message``,
    ``stacktrace``, ``topic``, ``partition``, ``offset`` and ``node``. Message and stacktrace are cut after 10,000 and
    30,000 characters, since an error that repeats a large value would make a letter that the broker refuses.

    :param topic: the configured one (``errors.dead.letter.queue.topic.name``) if not given.
    """
    topic = topic or context.dead_letter_queue_topic_name
    if not topic:
        return ()
    described = {
        "exception": class_name(error),
        "message": cut(plain_str(error), MOST_MESSAGE),
        "stacktrace": cut("".join(traceback.format_exception(error)), _MOST_STACKTRACE),
        "topic": context.topic,
        "partition": str(context.partition),
        "offset": str(context.offset),
        "node": context.processor_node_id,
    }
    headers = list(context.headers)
    headers += [
        (HEADER_PREFIX + name, None if text is None else text.encode("utf-8", "replace"))
        for name, text in described.items()
    ]
    timestamp = context.timestamp if context.timestamp >= 0 else None
    return (ProducerRecord(topic, context.source_raw_key, context.source_raw_value, timestamp, headers),)


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
