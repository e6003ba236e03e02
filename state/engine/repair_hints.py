"""What to do about state that is damaged, as the ends of sentences."""

from __future__ import annotations

from pathlib import Path

__all__ = ["rebuild_store", "rebuild_task", "without_advice"]

STOP = "stop the application and run"


def rebuild_store(store: str) -> str:
    """Of a damaged store."""
    return f"{STOP} `streams state rebuild {store}`, and it is restored from its changelog"


def rebuild_task(path: str) -> str:
    """Of a damaged database."""
    directory = Path(path).parent
    task = f"global/{directory.name}" if directory.parent.name == "global" else directory.name
    return f"{STOP} `streams state rebuild --task {task}`, and its stores are restored from their changelogs"


def without_advice(message: str) -> str:
    """What an error says happened."""
    return message.partition(f"; {STOP}")[0]
