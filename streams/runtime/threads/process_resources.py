"""The resources that the threads of a process share: the configuration, the cluster, the local state, the machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from state.directory.state_directory import StateDirectory
from streams.config import StreamsConfig
from streams.kafka.membership.shutdown_requests import ShutdownRequests
from streams.kafka.ports import Admin, KafkaClients
from streams.kafka.producing.batch_limits import TopicBatchLimits
from streams.kafka.topics.left_behind import DeployCheck
from streams.metrics.registry import Metrics
from streams.platform import Platform
from streams.restore.follower import StandbyUpdateListener
from streams.restore.reports import StateRestoreListener
from streams.runtime.engines.memory import BufferMemory
from streams.runtime.engines.opener import Engines
from streams.runtime.engines.state_recovery import StateRecovery
from streams.runtime.plan.task_plan import PlanBook
from streams.runtime.processing.probe import RecordWatch
from streams.runtime.tasks.output_topics import OutputTopics
from streams.runtime.tasks.turn_timer import TurnTimer


@dataclass
class FormerMembers:
    """Holds the members of the group that a thread was, or tried to be, before in this process."""

    ids: set[str] = field(default_factory=set)
    """Their ids, also of those whose join had no answer: brokers may have taken it."""
    had_place: bool = False
    """Whether the group has given tasks, or none of them, to one of these members."""


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """Holds what the threads of a process reach the cluster with."""

    clients: KafkaClients
    """Makes the clients that each thread has for itself."""
    admin: Admin
    admin_client_id: str
    shutdown_requests: ShutdownRequests
    batch_limits: TopicBatchLimits
    """The sizes that the topics allow the producers of the threads."""
    former_members: defaultdict[str, FormerMembers] = field(default_factory=lambda: defaultdict(FormerMembers))
    """The members that each thread of this process was before, by its instance id."""


@dataclass(frozen=True, kw_only=True)
class LocalState:
    """Holds what the threads of a process open stores with."""

    directory: StateDirectory
    engines: Engines
    memory: BufferMemory
    recovery: StateRecovery


@dataclass(frozen=True, kw_only=True)
class StateListeners:
    """Holds the listeners of what happens to local state, each of which is called on the thread concerned."""

    restores: Collection[StateRestoreListener] = ()
    standbys: Collection[StandbyUpdateListener] = ()


@dataclass(frozen=True, kw_only=True)
class ProcessResources:
    """Holds what the threads of a process share."""

    config: StreamsConfig
    plans: PlanBook
    cluster: ClusterAccess
    state: LocalState
    platform: Platform
    metrics: Metrics
    deploy_check: DeployCheck
    outputs: OutputTopics
    turns: TurnTimer
    """Looks at the stream threads from a thread of its own."""
    watch: RecordWatch | None = None
    """Sees the records of the tasks, where ``trace.keys`` and ``trace.every`` do not."""
    listeners: StateListeners = StateListeners()
