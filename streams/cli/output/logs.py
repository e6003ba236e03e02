"""The logs of the commands, on standard error: one line for each event, as text for people or JSON for machines."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import threading
import warnings
from typing import Any, TextIO

import structlog

from processor_api.texts import MOST_TEXT, plain_str, repr_of, shown
from streams.cli.output import terminal
from streams.cli.output.failures import EscapedText, LogLines, described, indented, kind_and_text, place_of, trace_of
from streams.log import in_work, quieten_libraries

# Prepares the fields of a log line: errors become words, texts are escaped and cut.

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
        if name not in _OF_ERRORS and not isinstance(value, (*_PLAIN, EscapedText)):
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


FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


_PROCESS = re.compile(r"^.+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?P<slot>\d+)-(?P<name>.+)$")
"""A name of a thread that begins with the id of its process."""
_OF_CLIENT = re.compile(r"^.+-(?P<name>(?:Global)?StreamThread.*|housekeeping)$")
"""One that begins with the setting ``client.id``."""


def configure(log_format: str | None, level: str, stream: TextIO | None = None, *, slots: bool = False) -> None:
    """Sends what any module logs to ``stream`` (standard error); replaces what was configured before.

    The packages log by the standard library, with fields in ``extra``, which become fields of the line. Every line has
    the application, the thread and the task; in JSON they are null where there is none. Texts are escaped and cut, the
    error that ends the application is left to the last line on a terminal, and tracebacks are shown at level ``debug``
    only. In text, names of threads are without those of the application and the process; JSON has the whole name, which
    is also that of the Kafka clients.

    :param log_format: ``text`` or ``json``; ``None`` is text on a terminal, and else JSON.
    :param slots: whether names of threads in text begin with the slot of their worker, since others log here too.
    """
    target = stream or sys.stderr
    renderer: structlog.typing.Processor
    if log_format is None:
        log_format = "text" if target.isatty() else "json"
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer(default=str)
    else:
        # The formatter of exceptions is named, since the default depends on the packages that are installed.
        renderer = structlog.dev.ConsoleRenderer(
            colors=terminal.has_colour(target), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        )
    is_followed_by_report = log_format == "text" and target.isatty() and level != "debug" and not slots
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_place,
        *(() if log_format == "json" else (_ShortNames(slots), _without_blanks)),
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            *((_FirstFailure(),) if is_followed_by_report else ()),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            bounded,
            ErrorFields(traces=level == "debug", indent=log_format != "json"),
            renderer,
        ],
    )
    handler = _Handler(target, is_json=log_format == "json")
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    quieten_libraries()
    warnings.showwarning = _log_warning
    if log_format == "json":
        threading.excepthook, sys.unraisablehook = _log_of_thread, _log_ignored
    elif threading.excepthook is _log_of_thread:
        threading.excepthook, sys.unraisablehook = threading.__excepthook__, sys.__unraisablehook__


def _log_of_thread(arguments: threading.ExceptHookArgs) -> None:
    """Logs the error that has ended a thread of the user's or of a library, instead of writing its traceback."""
    error = arguments.exc_value
    if error is not None and not isinstance(error, SystemExit):
        thread = None if arguments.thread is None else arguments.thread.name
        logging.getLogger("py.threads").error("a thread has ended by an error", extra={"of": thread}, exc_info=error)


def _log_ignored(arguments: sys.UnraisableHookArgs) -> None:
    """Logs an error that Python ignores, such as one of a finalizer, instead of writing its traceback."""
    where = {"of": repr_of(arguments.object), "ignored": arguments.err_msg}
    logging.getLogger("py.ignored").error("an error is ignored", extra=where, exc_info=arguments.exc_value)


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Logs a warning of Python as a line, instead of writing it to standard error as text of its own."""
    place = {"category": category.__name__, "warning": plain_str(message), "at": f"{filename}:{lineno}"}
    logging.getLogger("py.warnings").warning("a library warns", extra=place)


class _Handler(LogLines):
    def emit(self, record: logging.LogRecord) -> None:
        """Writes the line above a live view, where there is one."""
        try:
            terminal.write_line(self.stream, self.format(record))
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Prints one line; the standard library would print the arguments of the line and the stack."""
        error = sys.exc_info()[1]
        if isinstance(error, BrokenPipeError) or error is None:
            return
        text = f"a line of {record.name} could not be logged: {described(error)}"
        other = {"name": "streams.cli", "levelname": "ERROR", "levelno": logging.ERROR, "msg": text}
        with contextlib.suppress(Exception):
            terminal.write_line(self.stream, self.format(logging.makeLogRecord(other)))


_application: list[str | None] = [None]


def name_application(name: str | None) -> None:
    """Adds this application to every line from now on."""
    _application[0] = name


def _with_place(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Returns application, thread and task of a line; the task is the one it names, otherwise the one its thread works
    on."""
    record = event.get("_record")
    event["application"] = _application[0]
    event["thread"] = record.threadName if isinstance(record, logging.LogRecord) else None
    event.setdefault("task", None if in_work.task is None else str(in_work.task))
    return event


class _FirstFailure:
    """Leaves out what the command says once more when the application has ended: the error of the first thread that
    failed. Errors of others, which are not said again, stay."""

    def __init__(self) -> None:
        self._has_come = False

    def __call__(self, _logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        record, exc_info = event.get("_record"), event.get("exc_info")
        if self._has_come or not isinstance(record, logging.LogRecord) or not isinstance(exc_info, tuple):
            return event
        if (record.name, record.levelno) != ("streams.thread", logging.ERROR):
            return event
        self._has_come = True
        del event["exc_info"]
        event["error"] = f"{type(exc_info[1]).__name__}, printed in full at the end"
        return event


class _ShortNames:
    def __init__(self, slots: bool) -> None:
        self._slots = slots

    def __call__(self, _logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        for field in ("thread", "thread_name"):
            if isinstance(event.get(field), str):
                event[field] = self._short(event[field])
        if event.get("thread_name") == event["thread"]:
            del event["thread_name"]
        return event

    def _short(self, name: str) -> str:
        if found := _PROCESS.match(name):
            return f"{found['slot']}-{found['name']}" if self._slots else found["name"]
        found = _OF_CLIENT.match(name)
        return name if found is None else found["name"]


def _without_blanks(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for name, value in list(event.items()):
        if value is None or value == "":
            del event[name]
    return event
