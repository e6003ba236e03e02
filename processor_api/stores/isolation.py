"""What a query of a running task's stores sees (KIP-892)."""

from __future__ import annotations

from enum import Enum

__all__ = ["IsolationLevel"]


class IsolationLevel(Enum):
    """Of interactive queries. The setting of consumers with the same values, ``isolation.level``, is another thing."""

    READ_UNCOMMITTED = "read_uncommitted"
    """Everything that was put, also what the next commit will write, and what may be taken back by an abort."""
    READ_COMMITTED = "read_committed"
    """What the last commit of the task wrote."""
