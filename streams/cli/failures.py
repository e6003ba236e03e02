"""What a command says when it cannot go on: one line that a person can act on, and an exit status.

0 is a clean end, 1 a failure while running, 2 something that will not run however often it is tried: wrong usage, a
wrong configuration, a topology that cannot be loaded.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType

from processor_api.errors import ConfigError, MissingTopicError, StreamsError, TopologyError

__all__ = ["CANNOT_RUN", "CLEAN", "FAILED", "CannotRun", "described", "place_of", "report"]

CLEAN = 0
FAILED = 1
CANNOT_RUN = 2

_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PACKAGES = ("streams", "dsl", "state", "processor_api")
_OURS = ("<frozen importlib", *(os.path.join(_HOME, package) + os.sep for package in _PACKAGES))


class CannotRun(Exception):
    """The command cannot do what was asked, and trying again will not help; the text is a sentence for the user."""


def described(error: BaseException) -> str:
    """An error in one line, with what caused it."""
    if isinstance(error, (CannotRun, StreamsError)):
        text = str(error)
    else:
        text = _kind_and_text(error)
    cause = error.__cause__
    if cause is not None and str(cause) not in text:
        text += f"; caused by {_kind_and_text(cause)}"
    return text


def place_of(error: BaseException) -> str:
    """File and line where the user's code raised an error, for the end of a sentence; empty if that is unknown."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({os.path.basename(error.filename)}, line {error.lineno})"
    trace: TracebackType | None = error.__traceback__
    frames = [frame for frame in traceback.extract_tb(trace) if not _is_ours(frame.filename)]
    return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""


def _kind_and_text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) or os.sep + "importlib" + os.sep in filename


def report(error: BaseException, *, trace: bool) -> int:
    """Writes an error to standard error as one line, and its traceback if asked; returns the exit status."""
    if trace:
        traceback.print_exception(error)
    sys.stderr.write(f"error: {described(error)}\n")
    sys.stderr.flush()
    hopeless = isinstance(error, (CannotRun, ConfigError, TopologyError)) and not isinstance(error, MissingTopicError)
    return CANNOT_RUN if hopeless else FAILED
