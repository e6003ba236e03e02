"""Ends a child that was forked by a function of the user, where it would come back into the code of the thread."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from types import TracebackType

log = logging.getLogger("streams.thread")


class ParentOnly:
    """A context manager around code of a thread that calls functions of the user.

    A child that such a function has forked has to end by itself, as `multiprocessing` has it do. One that raises
    ``SystemExit`` or simply returns would continue as a second stream thread with the clients and stores of its parent:
    it is ended instead, with the status that it asked for.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self) -> None:
        """Ends the process if it is a child."""
        if os.getpid() != self._process:
            self._end(None)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if os.getpid() != self._process:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        status = 1
        if isinstance(error, SystemExit):
            status = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
        else:
            log.error(
                "a child that a function of the user had forked came back from it, and is ended: it has to end itself",
                extra={"parent": self._process},
                exc_info=error,
            )
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status)
