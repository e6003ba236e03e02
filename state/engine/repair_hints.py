"""Repair hints: the last part of an error about damaged state, which says what to do."""

from __future__ import annotations

from pathlib import Path

STOP = "stop the application and run"


def rebuild_store(store: str) -> str:
    """Returns the repair hint for a damaged store."""
    return f"{STOP} `streams state rebuild {store}`, and it is restored from its changelog"


def rebuild_task(path: str) -> str:
    """Returns the repair hint for a damaged database."""
    directory = Path(path).parent
    task = f"global/{directory.name}" if directory.parent.name == "global" else directory.name
    return f"{STOP} `streams state rebuild --task {task}`, and its stores are restored from their changelogs"


def without_hint(message: str) -> str:
    """Returns the first part of an error: what happened, without the repair hint."""
    return message.partition(f"; {STOP}")[0]
