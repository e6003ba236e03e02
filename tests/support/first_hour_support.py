"""Runs the wrong steps of a first hour as a user does: a file in a folder of its own, and a command."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from last_lines import ENDED, as_text
from quick_process import run

REPOSITORY = Path(__file__).resolve().parents[2]
LOG_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT|\{)")
_HEAD = ("event", "level", "logger", "timestamp", "application", "thread", "thread_name", "task")
_MASKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"for \d+ s:"), "for N s:"),
    (re.compile(r"ipv[46]#\S+ "), "ADDRESS "),
)
DERIVED = (
    "info streams.cli: the application id is the name of its file, as none is set [application_id=app,"
    " set_it_by=application.id]"
)
"""The first line of the log of an application in `app.py`."""
IMPORT = "from streams import StreamsBuilder\n"
BUILDER = IMPORT + "\nbuilder = StreamsBuilder(key_serde='string', value_serde='string')\n"


class Said(NamedTuple):
    """What a process wrote, and how it ended."""

    status: int
    out: str
    err: str
    """Standard error without the lines of the log."""
    log: list[str]

    @property
    def events(self) -> list[str]:
        """The lines of the log, of JSON, with what each says besides its time and thread, without the last one about
        the end, which is in `err`; ids, seconds and addresses are masked."""
        found = [json.loads(line) for line in self.log]
        return [_event(line) for line in found if line["event"] != ENDED]


def _event(line: dict[str, Any]) -> str:
    fields = [f"{name}={value}" for name, value in line.items() if name not in _HEAD and value not in ("", None)]
    text = f"{line['level']} {line['logger']}: {line['event']}"
    text = f"{text} [{', '.join(fields)}]" if fields else text
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
    return {**kept, "PYTHONPATH": str(REPOSITORY), "STREAMS_STATE_DIR": str(folder / "state"), "TZ": "UTC", **more}


def python(folder: Path, *words: str, **more: str) -> Said:
    """Runs Python in a folder to its end."""
    ended = run(list(words), folder, environment(folder, **more))
    return said(ended.returncode, ended.stdout, ended.stderr)


def said(status: int, out: str, err: str) -> Said:
    log = [line for line in err.splitlines(keepends=True) if LOG_LINE.match(line)]
    lines = as_text(err).splitlines(keepends=True)
    return Said(status, out, "".join(line for line in lines if not LOG_LINE.match(line)), log)


def streams(folder: Path, *words: str, **more: str) -> Said:
    """Runs a command in a folder to its end."""
    return python(folder, "-m", "streams", *words, **more)


def left_behind(folder: Path) -> list[str]:
    """The names of what is in a folder, and in its state directory, beyond the user's own files."""
    found = [path for path in folder.iterdir() if path.suffix != ".py" and path.name not in ("__pycache__", "state")]
    state = folder / "state"
    return sorted(str(path.relative_to(folder)) for path in (*found, *(state.iterdir() if state.exists() else ())))
