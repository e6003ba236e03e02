"""Runs commands whose outputs are a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["run_on_terminal"]

DEADLINE_S = 120


def run_on_terminal(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Returns the status of a command, and all that it shows on a terminal, both outputs."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    found = b""
    try:
        while more := _read(ours):
            found += more
        return process.wait(DEADLINE_S), found.decode().replace("\r\n", "\n")
    finally:
        process.kill()
        os.close(ours)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # of a terminal whose other end is closed
        return b""
