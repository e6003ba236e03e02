"""What a stream thread is made of, as its loop sees it: the parts of a life, and the configuration."""

from __future__ import annotations

from typing import Protocol

from processor_api.errors import DamagedStateError
from streams.kafka.group import Membership
from streams.kafka.ports import Consumer
from streams.kafka.record_collector import RecordCollector
from streams.restore.restorer import Restorer
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.lost_offsets import LostOffsets
from streams.runtime.tasks.purge import RepartitionPurge
from streams.runtime.tasks.task_manager import TaskManager
from streams.runtime.threads.metadata import ThreadMetadata
from streams.runtime.threads.partition_watch import SourceWatch
from streams.threads import Event

__all__ = ["Life", "ThreadSettings"]


class Life(Protocol):
    """The parts of one life, made by the application."""

    consumer: Consumer
    collector: RecordCollector
    membership: Membership
    committer: Committer
    tasks: TaskManager
    restorer: Restorer
    idling: Idling
    lost_offsets: LostOffsets
    pace: Pace
    purge: RepartitionPurge
    watch: SourceWatch
    assigned: bool
    """Whether membership has said what this thread owns."""
    revoked: bool
    """Whether tasks were taken away; the thread takes the mark away when it has seen it."""

    def join(self, stopping: Event) -> None: ...

    def refresh(self) -> None:
        """Looks for what concerns all threads: topics that a pattern reads, and requests of other members."""
        ...

    def input_bytes_limit(self) -> int:
        """What one partition may buffer, in bytes; -1 is no limit."""
        ...

    def metadata(self, thread_state: str) -> ThreadMetadata: ...

    def wants_commit(self) -> bool:
        """Whether the buffers are over their limit."""
        ...

    def refuses_rebuild(self, error: DamagedStateError) -> DamagedStateError | None:
        """What to fail with where damaged state is not to be rebuilt; ``None`` where it is."""
        ...

    def rebuild(self, error: DamagedStateError) -> None:
        """After the end: takes damaged state out, for the next life to restore."""
        ...

    def end(self, *, clean: bool, stay: bool) -> None: ...


class ThreadSettings(Protocol):
    """What the loop needs to know of the configuration."""

    commit_interval_ms: int
    poll_ms: int
    max_poll_records: int
    buffered_records_per_partition: int
    log_summary_interval_ms: int
    paused: bool
    """Whether processing is suspended; may change at any time."""
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    task_timeout_ms: int
