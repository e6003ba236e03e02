"""A process that writes to a store until it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["kill_after"]

REPOSITORY = Path(__file__).resolve().parents[3]


def kill_after(commits: int, script: str, *words: str) -> int:
    """Runs a script that prints the number of each commit, and kills it some time after that many.

    Returns the number of the last commit that it is known to have made, or -1 where none is known."""
    known = -1
    command = [sys.executable, "-c", script, *words]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(commits):
            known = int(writer.stdout.readline())
        writer.kill()
        for line in writer.stdout:
            known = int(line) if line.endswith("\n") else known
    return known
