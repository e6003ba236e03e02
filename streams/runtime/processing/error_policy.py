"""The error policy of a task: asks the handler that is responsible, and acts on its response.

Errors that the runtime raises on purpose pass through; an exception of user code is handled once, at the node where it
happened (semantics 113). Nothing here runs unless there was an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from processor_api.errors import (
    DeserializationError,
    InternalError,
    ProcessingError,
    ProductionError,
    RetryableError,
    SerializationError,
    StateError,
    StoreError,
    StreamsError,
    TaskMigratedError,
    outage_behind,
)
from processor_api.handlers import (
    DeserializationExceptionHandler,
    ErrorHandlerContext,
    ProcessingExceptionHandler,
    ProducerRecord,
    ProductionExceptionHandler,
    Response,
    Result,
    SerializationExceptionOrigin,
    default_production,
    log_and_continue_processing,
    log_and_fail,
    log_and_fail_processing,
)
from processor_api.record import HeaderList, Record
from processor_api.task_id import TaskId
from processor_api.texts import error_text, repr_of
from processor_api.timestamps import ConsumedRecord
from processor_api.user_code.given_serdes import serde_arguments
from processor_api.user_code.lines import raised_at
from state.row_format.record_context import Cursor
from streams.kafka.ports import NotDelivered

if TYPE_CHECKING:
    from streams.config import StreamsConfig
    from streams.kafka.producing.record_collector import RecordCollector

PASS_THROUGH = (
    DeserializationError,
    InternalError,
    ProcessingError,
    ProductionError,
    RetryableError,
    SerializationError,
    TaskMigratedError,
)

BUILT_IN = (default_production, log_and_continue_processing, log_and_fail_processing)

DESERIALIZATION = "deserialization.exception.handler"
PROCESSING = "processing.exception.handler"
PRODUCTION = "production.exception.handler"

FAILS = (default_production, log_and_fail, log_and_fail_processing)
"""The built-in handlers that fail the task; errors then say which one to set in their place."""
DROPS = {
    DESERIALIZATION: "LogAndContinueExceptionHandler",
    PROCESSING: "LogAndContinueProcessingExceptionHandler",
}
"""The names of the built-in handlers that drop the record."""


@dataclass(frozen=True, kw_only=True)
class ExceptionHandlers:
    """Holds the exception handlers of the configuration."""

    deserialization: DeserializationExceptionHandler = log_and_fail
    processing: ProcessingExceptionHandler = log_and_fail_processing
    production: ProductionExceptionHandler = default_production
    dead_letter_queue_topic_name: str | None = None
    exactly_once: bool = False
    """Whether the production handler is not asked about refused records, since the transaction cannot be committed any
    more. It is tried again if records were only late."""


_DICT_HINT = (
    "; if the dict is a model that the serde of JSON has read, annotate the function that returns the model, and give"
    ' StreamsBuilder(models="json"), or give the model as value_serde= where the function is used'
)
FollowedSerdes = Callable[[str], tuple[str, ...]]
OriginOf = Callable[[str], Mapping[str, str | None]]
"""The name of a node to the line and the call of the user's script that made it, as fields of errors."""


class SendDeadLetters(Protocol):
    """Sends dead letters, as :meth:`streams.kafka.producing.record_collector.RecordCollector.send_dead_letters`."""

    def __call__(self, records: Iterable[ProducerRecord], *, wait: bool = False) -> None: ...


def unknown_origin(node: str) -> Mapping[str, str | None]:
    """Returns nothing, for nodes of which it is not known."""
    return {}


def none_followed(node: str) -> tuple[str, ...]:
    """Returns nothing, for nodes of which it is not known whether a serde follows the result of a function."""
    return ()


def error_policy_for(
    config: StreamsConfig,
    task: TaskId,
    collector: RecordCollector,
    origin_of: OriginOf = unknown_origin,
    followed_serdes: FollowedSerdes = none_followed,
) -> ErrorPolicy:
    """Returns the policy of a task under a configuration; dead letters go through the task's collector."""
    handlers = ExceptionHandlers(
        deserialization=config.deserialization_exception_handler or log_and_fail,
        processing=config.processing_exception_handler or log_and_fail_processing,
        production=config.production_exception_handler or default_production,
        dead_letter_queue_topic_name=config.errors_dead_letter_queue_topic_name,
        exactly_once=config.exactly_once,
    )
    return ErrorPolicy(task, handlers, collector.send_dead_letters, origin_of, followed_serdes)


class ErrorPolicy:
    """Handles the errors of one task. Its methods return to drop the record, or raise to fail the task.

    :param origin_of: finds the line of the user's script that made a node, and the call.
    :param followed_serdes: finds the serdes of a node that follow results of functions, with the reasons.
    """

    def __init__(
        self,
        task: TaskId,
        handlers: ExceptionHandlers,
        send: SendDeadLetters,
        origin_of: OriginOf = unknown_origin,
        followed_serdes: FollowedSerdes = none_followed,
    ) -> None:
        self._origin_of = origin_of
        self._followed_serdes = followed_serdes
        self._task = task
        self._handlers = handlers
        self._send = send
        self.last: dict[str, str] = {}
        """The last error of each node that a handler was asked about, with the place of the record; any thread may
        read it."""
        self.sent_letters = 0
        """How many dead letters it has sent; any thread may read it."""

    @property
    def wants_messages(self) -> bool:
        """Whether a handler may read the source record of a change that waited in a cache."""
        handlers = self._handlers
        asked = (handlers.processing, handlers.production)
        return bool(handlers.dead_letter_queue_topic_name) or any(handler not in BUILT_IN for handler in asked)

    @property
    def wants_refused(self) -> bool:
        """Whether a handler may read a record that the broker refused, or it may become a dead letter."""
        handlers = self._handlers
        asked = bool(handlers.dead_letter_queue_topic_name) or handlers.production is not default_production
        return asked and not handlers.exactly_once

    # ------------------------------------------------------------------ reading

    def deserialization(self, node: str, error: Exception, part: str, cursor: Cursor) -> None:
        """Handles a key or value that cannot be deserialised."""
        message = cursor.message
        topic, partition = cursor.source
        self._raise_outage(node, error, {"topic": topic, "partition": partition, "offset": message.offset()})
        timestamp = message.timestamp()[1]
        headers = message.headers()
        context = self._context(node, cursor, timestamp, headers)
        record = ConsumedRecord(
            str(topic), partition, message.offset(), timestamp, message.key(), message.value(), headers
        )
        given = serde_arguments(self._origin_of(node).get("made_by"), part)
        what = f"the {part} cannot be read: {_shown(error)}; check the serde of source {node!r}, {given}"
        what += self._why_serde(node, part)
        what += self._drop_hint(DESERIALIZATION, self._handlers.deserialization)
        self._handle(
            DESERIALIZATION, self._handlers.deserialization, (context, record, error), DeserializationError, what
        )

    def extraction(self, node: str, error: Exception, cursor: Cursor) -> NoReturn:
        """Raises the error of a timestamp extractor that raised or returned no number: always fatal (semantics 9)."""
        self._raise_outage(node, error, cursor.place())
        context = self._context(node, cursor, cursor.timestamp, None)
        what = f"the timestamp extractor of source {node!r} failed: {_shown(error)}; correct it: no handler is called"
        raise self._failure(ProcessingError, what, context, None) from error

    def too_late(self, node: str, error: Exception, cursor: Cursor) -> NoReturn:
        """Raises the error of a record whose time is too far ahead of the clock (semantics 160)."""
        context = self._context(node, cursor, cursor.message.timestamp()[1], None)
        raise self._failure(ProcessingError, error_text(error), context, None) from error

    # ------------------------------------------------------------------ processing

    def processing(
        self,
        node: str,
        error: Exception,
        key: Any,
        value: Any,
        timestamp: int,
        headers: HeaderList | None,
        cursor: Cursor,
    ) -> None:
        """Handles an error of user code in a node."""
        self._raise_outage(node, error, cursor.place())
        pass_through(error)
        context = self._context(node, cursor, timestamp, headers)
        # A `Record` takes no negative time, and there may be none here (-1).
        record: Record[Any, Any] = Record(key, value, max(timestamp, 0), headers)
        self._processing(node, error, context, record, key)

    def punctuation(self, node: str, error: Exception, cursor: Cursor) -> None:
        """Handles an error of user code in a punctuation (semantics 92)."""
        self._raise_outage(node, error, {})
        pass_through(error)
        self._processing(node, error, self._context(node, cursor, cursor.timestamp, None), None, None)

    def _processing(
        self,
        node: str,
        error: Exception,
        context: ErrorHandlerContext,
        record: Record[Any, Any] | None,
        key: Any,
    ) -> None:
        where = "node" if record is not None else "a punctuation of node"
        what = f"{type(error).__name__} in {where} {node!r}: {error_text(error)}{raised_at(error)}; correct it"
        if isinstance(error, AttributeError) and type(error.obj) is dict:
            what += _DICT_HINT
        what += self._drop_hint(PROCESSING, self._handlers.processing)
        self._handle(PROCESSING, self._handlers.processing, (context, record, error), ProcessingError, what, key)

    # ------------------------------------------------------------------ writing

    def serialization(self, node: str, error: Exception, part: str, record: ProducerRecord, cursor: Cursor) -> None:
        """Handles a ``key`` or ``value`` that cannot be serialised, or ``headers`` that cannot be sent.

        Java does not ask the handler about values of a wrong class. Python's serdes raise the same types of errors for
        these and for bad data, so the handler is asked about both.
        """
        self._raise_outage(node, error, cursor.place())
        context = self._context(node, cursor, record.timestamp or 0, record.headers)
        origin = SerializationExceptionOrigin[part.upper()]
        given = serde_arguments(self._origin_of(node).get("made_by"), part)
        hint = f"; for such a {part} give {given}" if isinstance(error, TypeError) else ""
        hint += self._why_serde(node, part) + self._drop_hint(PRODUCTION, self._handlers.production)
        what = f"the {part} cannot be written to topic {record.topic!r}: {_shown(error)}{hint}"
        asked = (context, record, error, origin)
        self._handle(PRODUCTION, self._handlers.production, asked, SerializationError, what, record.key)

    def _why_serde(self, node: str, part: str) -> str:
        """Returns the end of a sentence about bytes: which serde was chosen and why, if it follows a function."""
        return "".join(f"; it has the {one}" for one in self._followed_serdes(node) if one.startswith(f"{part} "))

    def undelivered(
        self, node: str, failure: StreamsError, record: ProducerRecord
    ) -> tuple[StreamsError | None, tuple[ProducerRecord, ...]]:
        """Handles a record that the broker refused: returns the error to fail with, or ``None``, and the dead letters.

        It does not raise. Under exactly-once the handler is not asked: the transaction cannot be committed, and records
        that were only late are processed again. The source record is no longer the current one, so dead letters hold
        the record that was refused.
        """
        failure.locate(node=node, task=str(self._task), **self._origin_of(node))
        if self._handlers.exactly_once:
            return (failure if isinstance(failure, RetryableError) else _final(failure)), ()
        context = ErrorHandlerContext(
            topic=None,
            partition=-1,
            offset=-1,
            timestamp=-1 if record.timestamp is None else record.timestamp,
            headers=list(record.headers or ()),
            processor_node_id=node,
            task_id=self._task,
            source_raw_key=record.key,
            source_raw_value=record.value,
            dead_letter_queue_topic_name=self._handlers.dead_letter_queue_topic_name,
        )
        try:
            response = self._ask(PRODUCTION, self._handlers.production, (context, record, failure, None), context)
        except StreamsError as error:
            return error, ()
        letters = response.dead_letter_queue_records
        self.sent_letters += len(letters)
        if response.result is Result.RESUME:
            return None, letters
        retry = response.result is Result.RETRY and isinstance(failure, RetryableError)
        return (failure if retry else _final(failure)), letters

    def unwritable(self, node: str, failure: NotDelivered, record: ProducerRecord, cursor: Cursor) -> None:
        """Handles a record that was not sent, since its topic does not exist: returns to drop it, else raises.

        The handler is asked under each guarantee: a transaction has not seen the record.
        """
        context = self._context(node, cursor, record.timestamp or 0, record.headers)
        failure.locate(node=node, task=str(self._task), **self._origin_of(node))
        response = self._ask(PRODUCTION, self._handlers.production, (context, record, failure, None), context)
        retries = response.result is Result.RETRY
        if response.dead_letter_queue_records:
            self._send_letters(response.dead_letter_queue_records, wait=response.result is Result.FAIL)
        if response.result is not Result.RESUME:
            raise failure if retries else _final(failure)

    # ------------------------------------------------------------------ responses

    def _raise_outage(self, node: str, error: Exception, place: Mapping[str, Any]) -> None:
        """Raises the error of an outage, with its place, if an error is or comes from one: no handler is asked."""
        outage = outage_behind(error)
        if outage is None:
            return
        if outage is error and outage.task is not None:
            raise error
        task = str(self._task) if self._task.partition >= 0 else None
        known = {**place, "node": node, "task": task, **self._origin_of(node)}
        raise type(outage)(outage.message, **{**known, **outage.place()}) from error

    @staticmethod
    def _drop_hint(setting: str, handler: Callable[..., Any]) -> str:
        """Returns how to drop such records, unless a handler of the user's has just decided not to."""
        if handler not in FAILS:
            return ""
        drops = DROPS.get(setting)
        name = "your handler that returns Response.resume()" if drops is None else drops
        return f", or set {setting} to {name} to drop such records"

    def _handle(
        self,
        setting: str,
        handler: Callable[..., Any],
        asked: tuple[Any, ...],
        kind: type[StreamsError],
        what: str,
        key: Any = None,
    ) -> None:
        """Asks the handler, sends the dead letters, and raises unless the response is to resume."""
        context, _, error, *_ = asked
        response = self._ask(setting, handler, asked, context)
        resumes = response.result is Result.RESUME
        if response.dead_letter_queue_records:
            wait = not resumes and not self._handlers.exactly_once  # then they are rolled back with the rest
            self._send_letters(response.dead_letter_queue_records, wait=wait)
        if resumes:
            return
        if response.result is Result.RETRY:
            what += f" (the {setting} returned RETRY, which is only for records that were not delivered in time)"
        raise self._failure(kind, what, context, key) from error

    def _send_letters(self, letters: Collection[ProducerRecord], *, wait: bool) -> None:
        """Sends dead letters; where they cannot be, the task goes back, and not only the thread."""
        try:
            self._send(letters, wait=wait)
        except NotDelivered as error:
            raise error.locate(task=str(self._task))  # noqa: B904 - the same error, with its place
        self.sent_letters += len(letters)

    def _ask(
        self, setting: str, handler: Callable[..., Any], asked: tuple[Any, ...], context: ErrorHandlerContext
    ) -> Response:
        about = asked[2]
        place = "" if context.topic is None else f" at {context.topic}-{context.partition}, offset {context.offset}"
        self.last[context.processor_node_id] = f"{_shown(about)}{place}"
        try:
            response: Any = handler(*asked)
        except Exception as error:
            self._raise_outage(context.processor_node_id, error, {})
            what = f"the {setting} {_name(handler)} failed itself: {_shown(error)}; it was called for: {_shown(about)}"
            raise self._failure(_KINDS[setting], what, context, None) from error
        if isinstance(response, Response):
            if all(isinstance(record, ProducerRecord) for record in response.dead_letter_queue_records):
                return response
            wanted = "its dead letters must be ProducerRecords"
        else:
            wanted = "it must return Response.resume() or Response.fail()"
        found = repr_of(response)
        what = f"the {setting} {_name(handler)} returned {found}: {wanted}; it was called for: {_shown(about)}"
        raise self._failure(_KINDS[setting], what, context, None) from about

    def _context(self, node: str, cursor: Cursor, timestamp: int, headers: HeaderList | None) -> ErrorHandlerContext:
        topic, partition = cursor.source
        message = cursor.message
        return ErrorHandlerContext(
            topic=topic,
            partition=partition,
            offset=message.offset(),
            timestamp=timestamp,
            headers=list(headers or ()),
            processor_node_id=node,
            task_id=self._task,
            source_raw_key=message.key(),
            source_raw_value=message.value(),
            dead_letter_queue_topic_name=self._handlers.dead_letter_queue_topic_name,
            source_raw_headers=None if topic is None else list(message.headers() or ()),
            source_timestamp=message.timestamp()[1],
        )

    def _failure(self, kind: type[StreamsError], what: str, context: ErrorHandlerContext, key: Any) -> StreamsError:
        task = str(self._task) if self._task.partition >= 0 else None  # global stores are filled outside of tasks
        node = context.processor_node_id
        place: dict[str, Any] = {"task": task, "node": node, "key": key, **self._origin_of(node)}
        if context.topic is not None:
            place |= {"topic": context.topic, "partition": context.partition, "offset": context.offset}
        return kind(what, **place)


_KINDS: dict[str, type[StreamsError]] = {
    DESERIALIZATION: DeserializationError,
    PROCESSING: ProcessingError,
    PRODUCTION: ProductionError,
}


def pass_through(error: Exception) -> None:
    """Raises an error again that is not one for a handler."""
    if isinstance(error, PASS_THROUGH):
        raise error
    # A wrong call of the user leaves its store as it was, so a handler may continue after it.
    if isinstance(error, StateError) and not isinstance(error, StoreError):
        raise error


def _final(failure: StreamsError) -> StreamsError:
    """Returns the error of a refused record that is not to be sent again."""
    if not isinstance(failure, RetryableError):
        return failure
    final = ProductionError(failure.message, **failure.origin(), **failure.place())
    final.reason = getattr(failure, "reason", None)
    return final


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error_text(error)}{raised_at(error)}"


def _name(handler: Any) -> str:
    name = getattr(handler, "__qualname__", None) or type(handler).__qualname__
    return f"{getattr(handler, '__module__', '?')}.{name}"
