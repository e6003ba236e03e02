"""Levels of isolation of queries that read the stores of a running task (KIP-892)."""

from __future__ import annotations

from enum import Enum


class IsolationLevel(Enum):
    """The level of isolation of interactive queries.

    The setting of consumers with the same values, ``isolation.level``, is another thing.
    """

    READ_UNCOMMITTED = "read_uncommitted"
    """Reads everything that was put, also what is not committed and may be taken back by an abort."""
    READ_COMMITTED = "read_committed"
    """Reads what the last commit of the task wrote."""
