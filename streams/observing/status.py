"""The state of a worker at one moment, as frozen values of plain types: :func:`dataclasses.asdict` makes JSON of them.

Times are in ms since 1970 unless a field says otherwise, sizes in bytes, rates per second. ``None`` is what is not
known now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class PartitionStatus:
    """Describes an input partition of a task."""

    topic: str
    partition: int
    position: int | None
    """The next offset to process."""
    committed: int | None
    """The last committed offset that the task has."""
    end: int | None
    """Where the partition ended when that was last known."""
    lag: int | None
    """Offsets from the position to the end: what is left to process. 0 at the end, where only markers of transactions
    are left."""
    buffered: int
    """Records that were read and wait for their turn."""
    caught_up: bool
    """Whether the partition was read to its end."""
    stream_time_ms: int | None
    """The latest time of a record of it; ``None`` before the first."""
    stalled: bool = False
    """Whether it has records that the consumer does not deliver."""
    last_read_ms: int | None = None
    """When a record of it was last read, to a second of the worker's clock; ``None`` if none has come while it ran."""


@dataclass(frozen=True, kw_only=True)
class NodeStatus:
    """Describes a node of a task's topology."""

    name: str
    call: str | None
    """The call of the user's script that made it, such as ``map_values(to_cents)``."""
    made_at: str | None
    """The file and line of that call."""
    records: int | None = None
    """Records that it was given; an estimate where they are sampled."""
    rate: float | None = None
    time_share: float | None = None
    """Its own part of the time that the task processes, from 0 to 1; an estimate."""
    last_error: str | None = None
    """The last error that an exception handler was asked about, with the place of the record."""


@dataclass(frozen=True, kw_only=True)
class StoreStatus:
    """Describes a store of a task."""

    name: str
    kind: str
    engine: str
    restoring: bool
    restore_remaining: int
    """Offsets of its changelog that are still to be read."""
    entries: int | None = None
    """Entries, as estimated."""
    size: int | None = None
    """Bytes on disk or in memory, as estimated."""
    uncommitted: int | None = None
    """Entries that wait for the next commit."""


@dataclass(frozen=True, kw_only=True)
class DropStatus:
    """Counts the records that gave no result at a node, for one reason."""

    node: str
    call: str | None
    made_at: str | None
    reason: str
    """A short name for the reason, such as ``window-closed``."""
    count: int
    text: str = ""
    """The reason in words."""
    remedy: str = ""
    """Says what to do about such records."""
    dropped: bool = True
    """Whether they count as dropped; others are counted apart, such as those without a partner."""
    expected: bool = False
    """Whether they are a part of what the operator does, and no fault."""
    late_by_ms: int | None = None
    """The time by which the latest of the late records came too late."""
    setting: str | None = None
    """The setting that decides, such as ``grace of 5 s``."""


def _added(one: DropStatus, other: DropStatus) -> DropStatus:
    """Returns the sum of what two tasks have counted at one node for one reason."""
    late = [each.late_by_ms for each in (one, other) if each.late_by_ms is not None]
    return replace(one, count=one.count + other.count, late_by_ms=max(late, default=None))


def summed(drops: Iterable[DropStatus]) -> tuple[DropStatus, ...]:
    """Returns the sums of what several tasks have counted, by node and reason."""
    found: dict[tuple[str, str], DropStatus] = {}
    for drop in drops:
        other = found.get((drop.node, drop.reason))
        found[drop.node, drop.reason] = drop if other is None else _added(other, drop)
    return tuple(found.values())


@dataclass(frozen=True, kw_only=True)
class HeldStatus:
    """Describes results that an operator holds back until the stream time has passed a border."""

    node: str
    call: str | None
    made_at: str | None
    what: str
    """Names what waits, such as ``results of open windows``."""
    count: int | None
    at_least: bool = False
    """Whether there may be more than ``count``."""
    next_ms: int | None = None
    """The stream time at which the next one goes out."""
    waits_for: str | None = None
    """The partition that holds the stream time back, such as ``orders-3``."""

    @property
    def amount(self) -> str:
        """The amount in words, such as ``3 results of open windows``."""
        return f"{'at least ' if self.at_least else ''}{self.count} {self.what}"


@dataclass(frozen=True, kw_only=True)
class SnapshotStatus:
    """Describes the snapshots that this worker has written of a task (``state.snapshot.interval.ms``)."""

    made_ms: int | None
    """When the last one was made, in ms since 1970; ``None`` if none could be written."""
    size: int
    """The bytes of the last one."""
    elapsed_ms: int
    """How long writing the last one took."""
    failures: int
    """How many could not be written; the log says why."""


@dataclass(frozen=True, kw_only=True)
class CopyingStatus:
    """Describes a snapshot with which a task is to begin, while it is copied (``state.snapshot.dir``)."""

    bytes: int
    """The bytes that are here."""
    size: int
    """All bytes of the snapshot; 0 while it is looked for, or waits until those of other tasks are copied."""


@dataclass(frozen=True, kw_only=True)
class TaskStatus:
    """Describes a task that this worker owns."""

    id: str
    thread: str
    state: str
    """``created``, ``restoring``, ``running`` or ``closed``; ``assigned`` before it is opened."""
    processed: int
    """Records processed since the task was opened here."""
    rate: float
    """Records per second, over the windows of the metrics."""
    stream_time_ms: int | None
    dropped: int
    """Records dropped since the task was opened here."""
    partitions: tuple[PartitionStatus, ...] = ()
    nodes: tuple[NodeStatus, ...] = ()
    stores: tuple[StoreStatus, ...] = ()
    drops: tuple[DropStatus, ...] = ()
    held: tuple[HeldStatus, ...] = ()
    latency_ms: float | None = None
    """The mean end-to-end latency of the records that reached the end of the task (KIP-613)."""
    snapshot: SnapshotStatus | None = None
    """``None`` if none was written and none has failed."""
    copying: CopyingStatus | None = None
    """``None`` unless the task waits for a snapshot to begin with."""
    dead_letters: int = 0
    """Dead letters that handlers have sent since the task was opened here."""

    @property
    def number(self) -> tuple[int, ...]:
        """The numbers of its subtopology and partition, by which tasks are sorted."""
        return tuple(int(part) for part in self.id.split("_") if part.lstrip("-").isdigit())

    @property
    def lag(self) -> int | None:
        """The lag of all of its input partitions; ``None`` if that of one is not known."""
        lags = [one.lag for one in self.partitions]
        return sum(one for one in lags if one is not None) if lags and None not in lags else None


@dataclass(frozen=True, kw_only=True)
class StandbyStatus:
    """Describes a store of a standby task, which follows a changelog (``num.standby.replicas``), or of one that warms
    up."""

    task: str
    thread: str
    store: str
    position: int
    """The next offset of the changelog that it takes."""
    lag: int
    """Offsets of the changelog that it lacks, as far as its end is known."""
    applied: int
    """Records that the task has applied since it follows its changelogs here."""
    rate: float
    """The same in a second, over the windows of the metrics."""
    warms_up: bool = False
    """Whether the task is to move to this worker when the copy is near it (``acceptable.recovery.lag``)."""


@dataclass(frozen=True, kw_only=True)
class ThreadStatus:
    """Describes a stream thread."""

    name: str
    state: str
    processed: int
    commits: int
    rate: float
    process_ratio: float
    """The part of the time that it processes, from 0 to 1."""
    commit_ratio: float
    poll_ratio: float
    commit_latency_ms: float | None
    """The mean time of a commit, in the windows of the metrics; ``None`` if there was none."""
    commit_age_ms: int = 0
    """How long ago a commit last succeeded, or found nothing to do."""
    waits_for_topology: bool = False
    """Whether it waits until workers of another topology have left the group."""
    group_status: str | None = None
    """The reason for which the group gives it no tasks, with what to do; ``None`` if it says nothing of the kind."""
    outages: int = 0
    """How often tasks went back to their last commit because a service that a record needs, such as a schema registry,
    could not be reached."""


@dataclass(frozen=True, kw_only=True)
class ClosedTasksStatus:
    """Counts the records of tasks that a worker had before: they moved to another worker, or were opened again.

    What was not committed when a task was closed is processed again, and may count twice.
    """

    dropped: int = 0
    dead_letters: int = 0
    drops: tuple[DropStatus, ...] = ()
    """Records without a result by node and reason."""


@dataclass(frozen=True, kw_only=True)
class BrokerStatus:
    """Describes a broker as the Kafka clients of the worker know it: some seconds old (``statistics.interval.ms``)."""

    id: int
    """Its id; -1 for an address of ``bootstrap.servers``, while a client knows no broker."""
    address: str
    connected: int
    """Clients that have a connection."""
    unreachable: int
    """Clients that have none, though the broker leads partitions that they read or write."""
    partitions: int
    """Partitions that the broker leads, of those that one client reads or writes; the most of all clients."""
    latency_ms: float | None
    """The mean time of a request of a producer until its answer; ``None`` where none was sent."""
    latency_p99_ms: float | None
    queued: int
    """Requests that wait to be sent."""
    unanswered: int
    """Requests that had no answer in time, of the clients that there are now; so ``disconnects``."""
    disconnects: int


@dataclass(frozen=True, kw_only=True)
class WorkerStatus:
    """Describes a worker: one process of an application.

    ::

        status = app.status()
        assert status.state == "RUNNING"
        assert [task.id for task in status.tasks] == ["0_0"]
    """

    application_id: str
    client_id: str
    host: str
    pid: int
    version: str
    """The version of this library."""
    at_ms: int
    """When this was made."""
    started_at_ms: int | None
    """When its first thread was started."""
    state: str
    ready: bool
    """Whether each task that it owns runs."""
    paused: bool
    failure: str | None
    """The error that ended it."""
    endpoint: str | None = None
    """The address of its HTTP port, such as ``http://10.1.2.3:8080``."""
    group_protocol: str = "classic"
    """The protocol of its group: ``classic`` or ``streams``."""
    threads: tuple[ThreadStatus, ...] = ()
    tasks: tuple[TaskStatus, ...] = ()
    standbys: tuple[StandbyStatus, ...] = ()
    global_task: TaskStatus | None = None
    """Describes the filling of the global stores, with the id ``-1_-1`` as in metrics; it is none of the tasks."""

    closed_tasks: ClosedTasksStatus = ClosedTasksStatus()
    brokers_away: bool = False
    """Whether no broker of a cluster of its process answers."""
    brokers: tuple[BrokerStatus, ...] = ()

    @property
    def name(self) -> str:
        """The name of the worker for people: its host and process id."""
        return f"{self.host}:{self.pid}"

    @property
    def all_tasks(self) -> tuple[TaskStatus, ...]:
        """Its tasks, and what fills the global stores, if there are any."""
        return self.tasks if self.global_task is None else (*self.tasks, self.global_task)
