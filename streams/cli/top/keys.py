"""The keys that a person presses while a view is drawn."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_SEQUENCES = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[D": "left", b"\x1bOA": "up", b"\x1bOB": "down"}
_SINGLE = {b"\r": "enter", b"\n": "enter", b"\x1b": "esc", b"\x7f": "backspace", b"\x03": "q", b"\x04": "q"}


class Keys:
    """Reads keys of a terminal, one at a time.

    :param descriptor: of the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = b""
        """The bytes that were read and not returned as a key: several may be pressed before one is asked for."""

    def wait(self, seconds: float) -> str | None:
        """Returns the next key, ``None`` if there is none within the time, ``q`` at the end of the input."""
        if not self._pending:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, seconds))
            if not ready:
                return None
            self._pending = os.read(self._descriptor, 256)
            if not self._pending:
                return "q"
        length = next((len(known) for known in _SEQUENCES if self._pending.startswith(known)), 1)
        data, self._pending = self._pending[:length], self._pending[length:]
        return _SEQUENCES.get(data) or _SINGLE.get(data) or data.decode("ascii", "replace").lower()


@contextmanager
def keys_of(stream: TextIO) -> Iterator[Keys]:
    """Gives the keys of a terminal as they are pressed, without an echo; a context manager."""
    import termios
    import tty

    descriptor = stream.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
