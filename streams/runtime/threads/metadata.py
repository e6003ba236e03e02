"""What an application tells of its threads and their tasks (Kafka Streams' ThreadMetadata and TaskMetadata)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from processor_api.task_id import TaskId, TopicPartition

__all__ = ["TaskMetadata", "ThreadMetadata"]


@dataclass(frozen=True, kw_only=True)
class TaskMetadata:
    """A task as it was when it was asked for."""

    task_id: TaskId
    topic_partitions: frozenset[TopicPartition]
    """The input partitions."""
    committed_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, compare=False)
    """The last of the group that the task knows of; where it started, before its first commit."""
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict, compare=False)
    """Where each partition ended when it was last read to its end; without those that never were."""
    time_current_idling_started: int | None = field(default=None, compare=False)
    """Since when the task has been waiting for a partition that was read to its end (``max.task.idle.ms``), in ms since
    1970; ``None`` if it does not."""


@dataclass(frozen=True, kw_only=True)
class ThreadMetadata:
    """A stream thread as it was when it was asked for."""

    thread_name: str
    thread_state: str
    active_tasks: frozenset[TaskMetadata]
    standby_tasks: frozenset[TaskMetadata] = frozenset()
    main_consumer_client_id: str
    restore_consumer_client_id: str
    producer_client_ids: frozenset[str]
    admin_client_id: str
