"""The part of a topology that membership needs, and the names of the control topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class GroupTopology:
    """Holds the part of a topology that membership needs."""

    application_id: str
    prefix: str
    task_counts: Mapping[int, int]
    """Tasks of each subtopology that has any."""
    hash: str
    growing: frozenset[int] = frozenset()
    """Subtopologies whose tasks may become more while members run."""


def control_topic(prefix: str, subtopology: int) -> str:
    """Returns the name of the control topic of a subtopology."""
    return f"{prefix}-{subtopology}-tasks"
