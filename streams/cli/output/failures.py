"""The report of a command that fails: one line that a person can act on, and an exit status.

0 is a clean end, 1 a failure that may pass, 2 one that comes again however often the command is tried: wrong usage, a
wrong configuration, a topology that cannot be loaded, local state that does not fit. 141 is what a shell says of a
program whose reader has gone. The line is text, or a line of the log where the log is JSON.
"""

from __future__ import annotations

import logging
import os
import sys
import textwrap
import threading
import traceback
from collections.abc import Mapping
from typing import Any, TextIO

from processor_api import errors
from processor_api.standard_files import OutputGone
from processor_api.texts import MOST_MESSAGE, cut, error_text, printable, repr_of, shown
from processor_api.user_code.lines import user_frames
from streams.cli.output.causes import CannotRun, remedy_of, status_of
from streams.cli.output.terminal import say_error, say_lines

log = logging.getLogger("streams.cli")

ENDED = "ended by an error"
"""The event of the last line of a log of JSON."""
READER_GONE = 128 + 13
"""The status of a program that SIGPIPE has ended: its standard output no longer has a reader, as before ``head``."""

MOST_TRACE = 32_000
"""Characters of a traceback; what is more is left out of its middle."""
_MOST_FRAMES = 10
_FEW_CHARACTERS = 4


class EscapedText(str):
    """A text of several lines that is escaped and cut, and is shown in a line of JSON as it is."""


class LogLines(logging.StreamHandler[TextIO]):
    """The handler of a command's log.

    :param is_json: whether lines are JSON. Then an error that ends the command is one of them.
    """

    def __init__(self, stream: TextIO, *, is_json: bool) -> None:
        super().__init__(stream)
        self.is_json = is_json


def _ends_in_log() -> bool:
    return any(isinstance(one, LogLines) and one.is_json for one in logging.getLogger().handlers)


def described(error: BaseException) -> str:
    """Returns an error in one line, with its cause; one of the user's own settings and code may list several, one a
    line.

    Text from data or from other programs is escaped and cut (:mod:`processor_api.texts`).
    """
    if isinstance(error, (CannotRun, errors.ConfigError, errors.TopologyError)):
        text = printable(cut(str(error), MOST_MESSAGE), keep="\n")
    elif isinstance(error, errors.StreamsError):
        text = shown(str(error), MOST_MESSAGE)
    else:
        text = kind_and_text(error)
    cause = error.__cause__
    if isinstance(error, errors.StateDirectoryError) and isinstance(cause, OSError):
        return text  # which says in words what the system's error means
    if cause is not None and not _has_cause(text, cause):
        text += f"; caused by {kind_and_text(cause)}"
    return text


def _has_cause(text: str, cause: BaseException) -> bool:
    """Whether a text says already what its cause says; one of few characters may stand in any text by chance."""
    words = error_text(cause)
    if len(words) < _FEW_CHARACTERS:
        return type(cause).__name__ in text
    return shown(words) in text or str(cause) in text


def trace_of(error: BaseException, *, indent: str = "") -> str:
    """Returns the plain traceback of an error, as Python prints it and without local variables, escaped and cut in its
    middle.

    :param indent: in front of each line, so that no text inside of it looks like a line of the log.
    """
    return indented("".join(traceback.format_exception(error)), indent)


def indented(text: str, indent: str) -> str:
    """Returns several lines, escaped, cut in their middle, and each with something in front."""
    text = text.rstrip("\n")
    if len(text) > MOST_TRACE:
        half = MOST_TRACE // 2
        text = f"{text[:half]}\n... ({len(text) - 2 * half} more characters) ...\n{text[-half:]}"
    return textwrap.indent(printable(text, keep="\n"), indent)


def place_of(error: BaseException) -> str:
    """Returns file and line where the user's code raised an error, for the end of a sentence; empty if that is
    unknown."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({os.path.basename(error.filename)}, line {error.lineno})"
    frames = user_frames(error)
    return f" ({os.path.basename(frames[-1].line.file)}, line {frames[-1].line.number})" if frames else ""


def kind_and_text(error: BaseException) -> str:
    """Returns the class and the text of an error, on one line."""
    text = shown(" ".join(error_text(error).split()))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def user_trace(error: BaseException) -> str:
    """Returns the lines of the user's code that an error of it came through, the last ones if they are many; empty for
    errors of others, and where no such line is known."""
    if not isinstance(error, (errors.UserCodeError, CannotRun)) or error.__cause__ is None:
        return ""
    cause = error.__cause__
    if isinstance(cause, SyntaxError):
        lines = traceback.format_exception_only(cause)[:-1]
    else:
        lines = traceback.StackSummary.from_list(
            [frame.summary for frame in user_frames(cause)[-_MOST_FRAMES:]]
        ).format()
    return indented("".join(lines), "")


def is_reader_gone(error: BaseException | None) -> bool:
    """Whether an error comes from a standard output that no longer has a reader."""
    while error is not None and not isinstance(error, OutputGone):
        error = error.__cause__
    return error is not None


def give_up_output() -> int:
    """Lets what is still to be written to the standard output go nowhere; returns the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return READER_GONE


def report(error: BaseException, *, trace: bool) -> int:
    """Writes an error to standard error as one line, and behind it the lines of the user's code that raised it; the
    whole traceback in front of it if asked. Where logs are JSON, it is a line of the log. Returns the exit status."""
    if is_reader_gone(error):
        return give_up_output()
    status = status_of(error)
    if _ends_in_log():
        place: dict[str, Any] = error.place() if isinstance(error, errors.StreamsError) else {}
        place = {name: value if isinstance(value, (int, str)) else repr_of(value) for name, value in place.items()}
        fields: dict[str, Any] = {
            "error": EscapedText(described(error)),
            "remedy": remedy_of(error),
            "status": status,
            **place,
        }
        if lines := user_trace(error):
            fields["user_code"] = lines.splitlines()
        _log_end(fields, error if trace else None)
        return status
    if trace:
        say_lines(trace_of(error), stream=sys.stderr)
    say_lines(f"error: {described(error)}", stream=sys.stderr)
    if lines := user_trace(error):
        say_lines(lines, stream=sys.stderr)
    sys.stderr.flush()
    return status


def report_text(text: str, remedy: str, **fields: object) -> None:
    """Writes why a command ends that has no error of its own: as text to standard error, or as a line of the log.

    :param remedy: what to do about it; a field of the line.
    """
    if _ends_in_log():
        _log_end({"error": EscapedText(text), "remedy": remedy, **fields}, None)
    else:
        say_error(f"error: {text}")


def report_at_once(text: str, remedy: str) -> None:
    """Does so in a signal handler: without a lock that another thread may hold, and without a buffer."""
    line = f"error: {text}"
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogLines) and handler.is_json:
            fields = {"error": text, "remedy": remedy, "threadName": threading.current_thread().name}
            end = {"name": log.name, "levelname": "ERROR", "levelno": logging.ERROR, "msg": ENDED, **fields}
            line = handler.format(logging.makeLogRecord(end))
    os.write(2, f"{line}\n".encode())


def _log_end(fields: Mapping[str, object], error: BaseException | None) -> None:
    log.error(ENDED, extra=fields, exc_info=error)
