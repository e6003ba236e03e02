"""Prepares the fields of a log line: errors become words, texts are escaped and cut."""

from __future__ import annotations

import json
from typing import Any

import structlog

from processor_api.texts import MOST_TEXT, plain_str, repr_of, shown
from streams.cli.output.failures import indented, kind_and_text, place_of, trace_of

_INDENT = "    "
_PLAIN = (bool, int, float, type(None))
_OF_ERRORS = ("exc_info", "stack_info")


class ErrorFields:
    """Turns the exception of a line into fields.

    :param traces: adds its traceback, which is plain and without local variables; else ``error`` says in words what
        failed, and ``raised_at`` where in the user's code.
    :param indent: indents the traceback, which is for text.
    """

    def __init__(self, *, traces: bool, indent: bool) -> None:
        self._traces = traces
        self._indent = _INDENT if indent else ""

    def __call__(self, _logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        exc_info = event.pop("exc_info", None)
        stack = event.pop("stack_info", None)
        if stack and self._traces:
            event["stack"] = indented(str(stack), self._indent)
        error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
        if not isinstance(error, BaseException):
            return event
        event.setdefault("error", kind_and_text(error))
        if self._traces:
            event["exception"] = trace_of(error, indent=self._indent)
        elif place := place_of(_first_cause(error)):
            event.setdefault("raised_at", place.strip(" ()"))
        return event


def _first_cause(error: BaseException) -> BaseException:
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


def bounded(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escapes and cuts each field but those that :class:`ErrorFields` reads, which has to come after."""
    for name, value in event.items():
        if name not in _OF_ERRORS and not isinstance(value, _PLAIN):
            event[name] = _bounded(value)
    return event


def _bounded(value: Any) -> Any:
    if not isinstance(value, (list, tuple, dict)):
        return shown(plain_str(value))
    try:
        text = json.dumps(value, default=plain_str)
    except Exception:  # keys of a type that JSON does not have, or a value that contains itself
        return repr_of(value, MOST_TEXT)
    return value if len(text) <= MOST_TEXT else shown(text)
