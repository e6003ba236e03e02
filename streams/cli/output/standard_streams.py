"""Standard input, output and errors of a command that was started with one of them closed."""

from __future__ import annotations

import sys
from typing import Any

from processor_api.standard_files import hold_standard_files

_closed: set[int] = set()


def open_standard_streams() -> None:
    """Gives Python's ``sys.stdin``, ``sys.stdout`` and ``sys.stderr`` what they lack where the descriptor was closed:
    an input without bytes, an output to which writing fails, and errors that go nowhere."""
    _closed.update(hold_standard_files())
    streams: Any = sys
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(streams, name) is None:
            setattr(streams, name, open(number, mode, closefd=False, errors="backslashreplace"))  # noqa: SIM115


def is_output_closed() -> bool:
    """Whether the standard output is the one that :func:`open_standard_streams` has put there, which takes nothing."""
    return 1 in _closed
