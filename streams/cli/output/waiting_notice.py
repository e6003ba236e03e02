"""Says on standard error that a command still waits, so that it is not taken for one that hangs: for an answer, or for
lines of its input, as behind ``tail -f``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from streams.cli.output.terminal import say_error


class WaitingNotice:
    """Writes a line after some seconds without an answer, and then again and again; a context manager.

    :param what: what is waited for, as the end of a sentence.
    :param first_s: the seconds until the first line.
    :param again_s: the seconds between further ones.
    """

    def __init__(
        self, what: str, *, first_s: float = 3.0, again_s: float = 10.0, write: Callable[[str], object] = say_error
    ) -> None:
        self._what = what
        self._first_s = first_s
        self._again_s = again_s
        self._write = write
        self._answered = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="waiting-notice", daemon=True)

    def answered(self) -> None:
        """Begins to count again: there was an answer, and the next one is waited for."""
        self._answered.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._answered.set()
        self._thread.join()

    def _run(self) -> None:
        begin, wait_s = time.monotonic(), self._first_s
        while not self._over:
            if self._answered.wait(wait_s):
                self._answered.clear()
                begin, wait_s = time.monotonic(), self._first_s
            else:
                self._write(f"no response for {time.monotonic() - begin:.0f} s: waiting for {self._what}")
                wait_s = self._again_s


def standard_input(introduce: Callable[[], object]) -> Iterable[bytes]:
    """Returns the lines of standard input, none if it is closed.

    :param introduce: says at a terminal what a line is; elsewhere a wait for the first line is said.
    """
    if sys.stdin is None:
        return ()
    if not sys.stdin.isatty():
        return with_notice(sys.stdin.buffer)
    introduce()
    return sys.stdin.buffer


def with_notice(
    lines: Iterable[bytes], *, after_s: float = 3.0, write: Callable[[str], object] = say_error
) -> Iterator[bytes]:
    """Yields the lines of standard input; says once that they are waited for, if the first does not come soon.

    :param after_s: the seconds until then.
    """
    notice = threading.Timer(after_s, write, [_NO_INPUT])
    notice.daemon = True
    notice.start()
    try:
        for line in lines:
            notice.cancel()
            yield line
    finally:
        notice.cancel()


_NO_INPUT = "no input yet: waiting for lines on standard input until it ends; Ctrl-C ends the command"
