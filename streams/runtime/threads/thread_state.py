"""The states of a stream thread, and the steps between them (semantics 130)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set

from processor_api.errors import InternalError


class ThreadState(enum.StrEnum):
    """The state of one stream thread."""

    CREATED = "CREATED"
    STARTING = "STARTING"
    PARTITIONS_REVOKED = "PARTITIONS_REVOKED"
    PARTITIONS_ASSIGNED = "PARTITIONS_ASSIGNED"
    RUNNING = "RUNNING"
    """Every task it owns runs."""
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    DEAD = "DEAD"


_WORKING = frozenset(
    {
        ThreadState.PARTITIONS_REVOKED,
        ThreadState.PARTITIONS_ASSIGNED,
        ThreadState.RUNNING,
        ThreadState.PENDING_SHUTDOWN,
    }
)
NEXT: Mapping[ThreadState, Set[ThreadState]] = {
    ThreadState.CREATED: {ThreadState.STARTING, ThreadState.PENDING_SHUTDOWN},
    ThreadState.STARTING: _WORKING - {ThreadState.RUNNING},
    ThreadState.PARTITIONS_REVOKED: _WORKING - {ThreadState.RUNNING},
    ThreadState.PARTITIONS_ASSIGNED: _WORKING,
    ThreadState.RUNNING: _WORKING,
    ThreadState.PENDING_SHUTDOWN: {ThreadState.DEAD},
    ThreadState.DEAD: set(),
}


def check_step(old: ThreadState, new: ThreadState) -> None:
    """Checks a step between two states.

    :raises InternalError: if a thread cannot go from one to the other.
    """
    if new not in NEXT[old]:
        raise InternalError(f"a stream thread cannot go from {old} to {new}")
