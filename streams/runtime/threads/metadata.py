"""Metadata of stream threads and their tasks (Kafka Streams' ThreadMetadata and TaskMetadata)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from processor_api.task_id import TaskId, TopicPartition


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
