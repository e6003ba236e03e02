"""Lines of the user's script: where a node or a store was made, for the texts of errors."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

__all__ = ["Line", "at", "text_of", "user_line"]

OURS = frozenset({"processor_api", "state", "dsl", "streams"})
"""The packages of this project; frames of others are the user's."""


class Line(NamedTuple):
    """A line of a file. Its text is ``orders.py:14``, with the path from the working directory if the file is in it."""

    file: str
    number: int

    def __str__(self) -> str:
        try:
            here = os.path.join(os.getcwd(), "")
        except OSError:  # the working directory was deleted
            here = ""
        return f"{self.file.removeprefix(here)}:{self.number}"


def user_line() -> Line | None:
    """Returns the line of the nearest caller outside of this project's packages; ``None`` if there is none."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).partition(".")[0] in OURS:
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno)


def text_of(line: Line | None) -> str | None:
    """Returns the text of a line, if it is known."""
    return None if line is None else str(line)


def at(line: Line | str | None) -> str:
    """Returns the words that put a line into a sentence: `` at orders.py:14``; nothing if it is not known."""
    return "" if line is None else f" at {line}"
