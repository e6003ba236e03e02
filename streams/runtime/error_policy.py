"""What becomes of an error: the one place that turns a verdict into an action.

Errors that the engine raises on purpose pass through; an exception of user code is handled once, at the node where it
happened (conformance 113).
"""

from __future__ import annotations

from typing import Any, NoReturn

from processor_api.errors import (
    DeserializationError,
    InternalError,
    ProcessingError,
    ProductionError,
    RetryableError,
    SerializationError,
    StreamsError,
    TaskMigratedError,
)
from state.cursor import Cursor

__all__ = ["ErrorPolicy"]

PASS_THROUGH = (
    DeserializationError,
    InternalError,
    ProcessingError,
    ProductionError,
    RetryableError,
    SerializationError,
    TaskMigratedError,
)


class ErrorPolicy:
    """The default: every error fails the task, with the record's place in the message."""

    def __init__(self, task: str) -> None:
        self._task = task

    def processing(self, node: str, error: Exception, key: Any, cursor: Cursor) -> None:
        """An error of user code in a node: returns to drop the record, else raises."""
        if isinstance(error, PASS_THROUGH):
            raise error
        self._fail(ProcessingError, f"{type(error).__name__} in node {node!r}: {error}", error, cursor, node, key)

    def deserialization(self, node: str, error: Exception, part: str, cursor: Cursor) -> None:
        """A key or value that could not be read: returns to drop the record, else raises."""
        what = f"the {part} cannot be read: {type(error).__name__}: {error}; see the serde of source {node!r}"
        self._fail(DeserializationError, what, error, cursor, node, None)

    def extraction(self, node: str, error: Exception, cursor: Cursor) -> NoReturn:
        """A timestamp extractor that raised or returned no number: always fatal (conformance 9)."""
        what = f"the timestamp extractor of source {node!r} failed: {type(error).__name__}: {error}"
        self._fail(ProcessingError, what, error, cursor, node, None)

    def serialization(self, node: str, topic: str, error: Exception, part: str, key: Any, cursor: Cursor) -> None:
        """A key or value that could not be written: returns to drop the record, else raises."""
        what = f"the {part} cannot be written to topic {topic!r}: {type(error).__name__}: {error}"
        self._fail(SerializationError, what, error, cursor, node, key)

    def _fail(
        self, kind: type[StreamsError], what: str, error: Exception, cursor: Cursor, node: str, key: Any
    ) -> NoReturn:
        topic, partition = cursor.source
        place: dict[str, Any] = {"task": self._task, "node": node, "key": key}
        if topic is not None:
            place |= {"topic": topic, "partition": partition, "offset": cursor.message.offset()}
        raise kind(what, **place) from error
