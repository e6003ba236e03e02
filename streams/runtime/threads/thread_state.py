"""The states of a stream thread with the steps between them (semantics 130), and the metadata of threads and tasks."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from processor_api.errors import InternalError
from processor_api.task_id import TaskId, TopicPartition
from streams.runtime.processing.idling import Idling
from streams.runtime.tasks.task import Task


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


@dataclass(frozen=True, kw_only=True)
class TaskMetadata:
    """Describes a task at the time of the call that returned this."""

    task_id: TaskId
    topic_partitions: frozenset[TopicPartition]
    """The input partitions."""
    committed_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, compare=False)
    """The last committed offsets that the task has; before its first commit, the offsets where it started."""
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, compare=False)
    """The end offset of each partition when it was last read to its end; partitions that never were are left out."""
    time_current_idling_started: int | None = field(default=None, compare=False)
    """When the task began to wait for a partition that was read to its end (``max.task.idle.ms``), in ms since 1970;
    ``None`` if it does not wait."""


@dataclass(frozen=True, kw_only=True)
class ThreadMetadata:
    """Describes a stream thread at the time of the call that returned this."""

    thread_name: str
    thread_state: str
    active_tasks: frozenset[TaskMetadata]
    standby_tasks: frozenset[TaskMetadata] = frozenset()
    main_consumer_client_id: str
    restore_consumer_client_id: str
    producer_client_ids: frozenset[str]
    admin_client_id: str


def task_metadata(task: Task, idling: Idling, now_ms: int) -> TaskMetadata:
    """Returns the metadata of a task as it is now; any thread may call it."""
    queues = dict(task.inputs.queues)
    committed = task.inputs.known_offsets
    waits = [waited for name in queues if (waited := idling.idle_s(name)) is not None]
    return TaskMetadata(
        task_id=task.id,
        topic_partitions=frozenset(queues),
        committed_offsets={name: committed[name].offset for name in queues if name in committed},
        end_offsets={name: end for name, queue in queues.items() if (end := queue.ends.reached) is not None},
        time_current_idling_started=int(now_ms - max(waits) * 1000) if waits else None,
    )
