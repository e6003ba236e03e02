"""Metadata of stream threads and their tasks (Kafka Streams' ThreadMetadata and TaskMetadata)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from processor_api.task_id import TaskId, TopicPartition
from streams.runtime.processing.idling import Idling
from streams.runtime.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class TaskMetadata:
    """Describes a task at the time of the call that returned this."""

    task_id: TaskId
    topic_partitions: frozenset[TopicPartition]
    """The input partitions."""
    committed_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, compare=False)
    """The last committed offsets that the task knows of; before its first commit, the offsets where it started."""
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
