"""The error that ends a command, whichever form its log has."""

from __future__ import annotations

import json

__all__ = ["ENDED", "as_text"]

ENDED = "ended by an error"


def as_text(written: str) -> str:
    """Returns a log in which the line of JSON about the end is the text that a terminal has instead."""
    return "".join(map(_line, written.splitlines(keepends=True)))


def _line(line: str) -> str:
    if not line.startswith("{") or ENDED not in line:
        return line
    found = json.loads(line)
    if found["event"] != ENDED:
        return line
    assert found["level"] == "error"
    assert found["remedy"]
    trace = found.get("exception", "").splitlines()
    return "".join(f"{one}\n" for one in (*trace, f"error: {found['error']}", *found.get("user_code", ())))
