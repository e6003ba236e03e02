"""Lines of the user's script: where a node or a store was made, and where a function of it raised, for the texts of
errors."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from types import TracebackType
from typing import NamedTuple

OURS = frozenset({"processor_api", "state", "dsl", "streams"})
"""The packages of this project; frames of others are the user's."""


class Line(NamedTuple):
    """A line of a file. Its text is ``orders.py:14``, with the path from the working directory if the file is in it."""

    file: str
    number: int
    call: str = ""
    """The method of this project that is called there, such as ``map_values``."""
    serdes: tuple[str, ...] = ()
    """The serdes there that follow the results of functions, and why: ``value serde avro Order, because to_order at
    app.py:7 returns Order``."""

    def __str__(self) -> str:
        try:
            here = os.path.join(os.getcwd(), "")
        except OSError:  # the working directory was deleted
            here = ""
        return f"{self.file.removeprefix(here)}:{self.number}"


def user_line() -> Line | None:
    """Returns the line of the nearest caller outside of this project's packages; ``None`` if there is none."""
    frame, call = sys._getframe(1), ""
    while is_of_project(frame.f_globals.get("__name__")):
        if frame.f_back is None:
            return None
        frame, call = frame.f_back, frame.f_code.co_name
    return Line(frame.f_code.co_filename, frame.f_lineno, call)


class UserFrame(NamedTuple):
    """A call in the user's code, on the way to the line that raised an error."""

    line: Line
    function: str
    """The function's name, or ``a lambda``; ``the module`` outside of any."""
    defined_at: Line
    summary: traceback.FrameSummary


def user_frames(error: BaseException) -> list[UserFrame]:
    """Returns the calls in the user's code that an error came through, the outermost first.

    Left out are this project's packages, Python's library and installed packages: where these are called by the user's
    code, its own line is the last. If nothing else is left, as in an application that is itself installed, all that is
    in the folder of the first one is the user's. An error looks at its traceback here alone, so nothing is paid for
    records without one.
    """
    trace: TracebackType | None = error.__traceback__
    calls = zip(traceback.walk_tb(trace), traceback.extract_tb(trace), strict=True)
    theirs = [
        (frame, number, summary)
        for (frame, number), summary in calls
        if not is_of_project(frame.f_globals.get("__name__")) and not summary.filename.startswith("<frozen ")
    ]
    own = [call for call in theirs if not _is_library(call[2].filename)]
    if not own and theirs:
        home = os.path.dirname(theirs[0][2].filename)
        own = [call for call in theirs if call[2].filename.startswith(home)]
    return [
        UserFrame(
            Line(summary.filename, number),
            _function_name(frame.f_code.co_qualname),
            Line(summary.filename, frame.f_code.co_firstlineno),
            summary,
        )
        for frame, number, summary in own
    ]


def raised_at(error: BaseException) -> str:
    """Returns the words that end a sentence about an error of the user's code: ``, raised at orders.py:14 in price``.

    They name the function that was given to the topology too, if it called the one that raised. Nothing if no line of
    the user's code is known, as for a function that is written in C.
    """
    frames = user_frames(error)
    if not frames:
        return ""
    first, last = frames[0], frames[-1]
    text = f", raised at {last.line} in {last.function}"
    return text if first.defined_at == last.defined_at else f"{text}, called by {first.function} at {first.defined_at}"


def is_of_project(module: object) -> bool:
    """Whether the module of a name is one of this project's."""
    return str(module).partition(".")[0] in OURS


def _is_library(filename: str) -> bool:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return filename.startswith(tuple(os.path.join(folder, "") for folder in folders)) or any(
        f"{os.sep}{folder}{os.sep}" in filename for folder in ("site-packages", "dist-packages")
    )


def _function_name(qualified: str) -> str:
    name = qualified.rpartition("<locals>.")[2]
    return {"<lambda>": "a lambda", "<module>": "the module"}.get(name.rpartition(".")[2], name)


def text_of(line: Line | None) -> str | None:
    """Returns the text of a line, if it is known."""
    return None if line is None else str(line)


def at(line: Line | str | None) -> str:
    """Returns the words that put a line into a sentence: `` at orders.py:14``; nothing if it is not known."""
    return "" if line is None else f" at {line}"
