"""Prints the way of each record through the topology, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from processor_api.texts import cut
from streams.runtime.tracing.steps import TraceStep

__all__ = ["show_steps"]

MOST_CELL = 40
"""Characters of a key or a value."""
_LEFT_OUT = frozenset(("changelog", "commit", "stop"))
"""Steps that say how the application keeps its state, not where a record goes."""


def show_steps(stream: TextIO, steps: Sequence[TraceStep]) -> None:
    """Prints steps as aligned lines, below the name of their record."""
    shown = [step for step in steps if step.step not in _LEFT_OUT]
    lines = [[step.step, _where(step), _what(step)] for step in shown]
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(2)]
    record = None
    for step, line in zip(shown, lines, strict=True):
        if step.record != record:
            record = step.record
            stream.write(f"{record}\n")
        front = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False))
        stream.write(f"  {front}  {line[2]}".rstrip() + "\n")
    stream.flush()


def _where(step: TraceStep) -> str:
    """Returns the node, and the store or the topic that it uses."""
    if step.step == "read" or not step.place:
        return step.node or ""
    return f"{step.node or ''} > {step.place}"


def _what(step: TraceStep) -> str:
    texts = step.texts
    key, value, old = (cut(text, MOST_CELL) for text in (texts.key, texts.value, texts.old))
    found = f"{key}: {value}" if key and value else key or value
    if old and old != "None":
        found += f" (was {old})"
    notes = [step.note] if step.step in ("drop", "fail") else []
    return " ".join([found, *notes]).strip()
