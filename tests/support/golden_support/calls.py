"""What user functions of a golden topology report about being called, line by line, as the recordings have it."""

from __future__ import annotations

__all__ = ["call", "take"]

_lines: list[str] = []


def call(text: str) -> None:
    """Reports one line; the counterpart of ``Calls.call`` in the recordings' Java text."""
    _lines.append(text)


def take() -> list[str]:
    """The lines since the last time, which are forgotten."""
    lines = _lines.copy()
    _lines.clear()
    return lines
