"""The working directory in which a command was started, in which user code may leave the process elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_started_in: str | None = None


@contextmanager
def started_in() -> Iterator[None]:
    """Notes the working directory of now as that of the command that runs inside."""
    global _started_in
    before = _started_in
    with suppress(OSError):  # it was deleted: then only what needs it fails
        _started_in = os.getcwd()
    try:
        yield
    finally:
        _started_in = before


def from_start(path: str | os.PathLike[str] = "") -> str:
    """Returns a path that was given to the command, absolute; without one the directory itself."""
    return os.path.abspath(os.path.join(_started_in or os.getcwd(), path))


def still_there(path: str) -> str:
    """Returns a path that was given to the command as one that leads there also if the directory has changed."""
    return path if from_start() == os.getcwd() else from_start(path)
