"""Runs the wrong steps of a first hour as a user does: a file in a folder of its own, and a command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
LOG_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT|\{)")
IMPORT = "from streams import StreamsBuilder\n"
BUILDER = IMPORT + "\nbuilder = StreamsBuilder(key_serde='string', value_serde='string')\n"


class Said(NamedTuple):
    """What a process wrote, and how it ended."""

    status: int
    out: str
    err: str
    """Standard error without the lines of the log."""
    log: list[str]


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
    return {**kept, "PYTHONPATH": str(REPOSITORY), "STREAMS_STATE_DIR": str(folder / "state"), "TZ": "UTC", **more}


def python(folder: Path, *words: str, timeout_s: float = 120.0, **more: str) -> Said:
    """Runs Python in a folder to its end."""
    found = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return said(found.returncode, found.stdout, found.stderr)


def said(status: int, out: str, err: str) -> Said:
    lines = err.splitlines(keepends=True)
    log = [line for line in lines if LOG_LINE.match(line)]
    return Said(status, out, "".join(line for line in lines if not LOG_LINE.match(line)), log)


def streams(folder: Path, *words: str, **more: str) -> Said:
    """Runs a command in a folder to its end."""
    return python(folder, "-m", "streams", *words, **more)


def left_behind(folder: Path) -> list[str]:
    """The names of what is in a folder, and in its state directory, beyond the user's own files."""
    found = [path for path in folder.iterdir() if path.suffix != ".py" and path.name not in ("__pycache__", "state")]
    state = folder / "state"
    return sorted(str(path.relative_to(folder)) for path in (*found, *(state.iterdir() if state.exists() else ())))
