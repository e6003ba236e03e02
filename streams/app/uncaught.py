"""The uncaught exception handler: what happens when a thread of an application fails (KIP-671)."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import Any

from processor_api.errors import InternalError
from processor_api.texts import plain_str, repr_of
from streams.kafka.membership.port import ShutdownRequested
from streams.kafka.ports import InstanceFenced
from streams.user_exits import passes

log = logging.getLogger("streams.client")


class StreamThreadExceptionResponse(enum.Enum):
    """The answers of an uncaught exception handler.

    ::

        def answer(error: Exception) -> StreamThreadExceptionResponse:
            if isinstance(error, RetryableError):
                return StreamThreadExceptionResponse.REPLACE_THREAD
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

        app.set_uncaught_exception_handler(answer)
    """

    REPLACE_THREAD = "REPLACE_THREAD"
    """Another thread replaces the failed one and takes over its tasks, which go back to their last commit. A record
    that fails each time does so again."""
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    """This application object closes and ends in state ERROR."""
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"
    """Every process of the application does."""


StreamsUncaughtExceptionHandler = Callable[[Exception], StreamThreadExceptionResponse]
"""Called on the thread that failed, before it closes its tasks. It must not wait for the application."""

Response = StreamThreadExceptionResponse


def verdict(handler: StreamsUncaughtExceptionHandler | None, error: Exception) -> StreamThreadExceptionResponse:
    """Returns the answer of the handler; without one, the client shuts down.

    So it does if the handler itself fails, and for errors that a new thread could not avoid.
    """
    if isinstance(error, ShutdownRequested):
        return Response.SHUTDOWN_CLIENT
    if handler is None:
        return Response.SHUTDOWN_CLIENT
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    try:
        answer: Any = handler(error)
    except BaseException as own:
        if passes(own):
            raise
        log.error(
            "the uncaught exception handler %s raised %s; the application shuts down",
            name,
            type(own).__name__,
            extra={"error": plain_str(own), "asked_about": plain_str(error)},
            exc_info=own,
        )
        return Response.SHUTDOWN_CLIENT
    if not isinstance(answer, Response):
        log.error(
            "the uncaught exception handler %s returned %s, not a StreamThreadExceptionResponse; the application shuts"
            " down",
            name,
            repr_of(answer),
            extra={"asked_about": plain_str(error)},
        )
        return Response.SHUTDOWN_CLIENT
    if answer is Response.REPLACE_THREAD and isinstance(error, (InstanceFenced, InternalError)):
        log.error("a new thread would fail in the same way; the application shuts down: %s", error)
        return Response.SHUTDOWN_CLIENT
    return answer
