"""Makes the parts of one life of a stream thread: clients, membership, tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import DamagedStateError, RetryableError, StreamsError
from processor_api.task_id import TaskId
from state.directory.state_directory import StateDirectory
from state.registry.kinds import OpenStore
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.group import (
    ControlTopicMembership,
    Membership,
    Tasks,
    client_id_with_hash,
    other_topologies,
)
from streams.kafka.ports import Admin, KafkaClients
from streams.kafka.record_collector import RecordCollector
from streams.kafka.shutdown_requests import ShutdownRequests
from streams.metrics.registry import Metrics, ThreadMetrics
from streams.restore.restorer import Restorer, StateRestoreListener
from streams.runtime.engines.memory import BufferMemory
from streams.runtime.engines.opener import Engines
from streams.runtime.engines.state_recovery import Rebuilds
from streams.runtime.plan.plans import PlanBook
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment, no_global_store
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.lost_offsets import LostOffsets
from streams.runtime.tasks.purge import RepartitionPurge
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_manager import TaskManager
from streams.runtime.tasks.task_stores import TaskStores
from streams.runtime.threads.metadata import TaskMetadata, ThreadMetadata
from streams.runtime.threads.partition_watch import SourceWatch
from streams.runtime.tracing.producer import TracedProducer
from streams.runtime.tracing.tracer import Tracer
from streams.threads import Event, Threads

__all__ = ["Shared", "ThreadIdentity", "ThreadLife"]

log = logging.getLogger("streams.thread")

OTHER_TOPOLOGY_WAIT_S = 1.0
REFRESH_PAUSE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the threads of a process share."""

    config: StreamsConfig
    settings: Mapping[str, Any]
    plans: PlanBook
    clients: KafkaClients
    admin: Admin
    engines: Engines
    directory: StateDirectory
    clock: Clock
    threads: Threads
    memory: BufferMemory
    rebuilds: Rebuilds
    metrics: Metrics
    shutdown_requests: ShutdownRequests
    admin_client_id: str
    restore_listeners: Collection[StateRestoreListener] = ()
    global_store: Callable[[str, str], OpenStore | None] = no_global_store
    """``(store, node)`` to the global store, for reading."""


@dataclass(frozen=True, kw_only=True)
class ThreadIdentity:
    """The ids of one thread (reference 3.10)."""

    thread: str
    """Its name, and the start of its client ids."""
    instance_id: str
    transactional_id: str


class ThreadLife:
    """Implements `streams.runtime.threads.thread_parts.Life`."""

    def __init__(self, shared: Shared, identity: ThreadIdentity) -> None:
        config, clock, clients = shared.config, shared.clock, shared.clients
        self._shared = shared
        self._identity = identity
        self.assigned = False
        self.revoked = False
        self._refresh_after = 0.0
        self._planned = shared.plans.current
        eos = config.exactly_once
        transactional_id = identity.transactional_id if eos else None
        producer_config = client_configs.producer(config, self._producer_id, transactional_id)
        self._producer = clients.producer(producer_config)
        consumer_id = client_id_with_hash(f"{identity.thread}-consumer", self._planned.group.hash)
        self._consumer_config = client_configs.main_consumer(config, consumer_id, identity.instance_id)
        self.consumer = clients.consumer(self._consumer_config)
        restore_consumer = clients.consumer(client_configs.restore_consumer(config, self._restore_consumer_id))
        self._tracer = Tracer.of(config, clock)
        sends_by = self._producer if self._tracer is None else TracedProducer(self._producer, self._tracer)
        self.collector = RecordCollector(sends_by, clock)
        self.membership: Membership = ControlTopicMembership(
            self.consumer, shared.admin, clock, leave_static=self._leave, requests=shared.shutdown_requests
        )
        self._budget = shared.memory.budget(identity.thread)
        transaction_s = producer_config["transaction.timeout.ms"] / 1000 if eos else None
        poll_s = client_configs.max_poll_interval_ms(config) / 1000
        self.pace = Pace(clock, transaction_s, poll_s, self._budget.is_full)
        self.committer = Committer(self.collector, self.membership, clock, self.pace, exactly_once=eos)
        listeners, timeout_ms = shared.restore_listeners, config.task_timeout_ms
        self.restorer = Restorer(restore_consumer, clock, listeners, shared.metrics, timeout_ms)
        self.idling = Idling(config.max_task_idle_ms, clock, self.consumer)
        offset_reset = client_configs.auto_offset_reset(config)
        self.lost_offsets = LostOffsets(self.consumer, clock, offset_reset)
        self.purge = RepartitionPurge(shared.admin, clock, config.repartition_purge_interval_ms, shared.threads)
        self.watch = SourceWatch(shared.admin, clock, client_configs.topic_refresh_ms(config), shared.threads)
        self.tasks = TaskManager(
            plans=self._planned.tasks,
            consumer=self.consumer,
            restore_consumer=restore_consumer,
            restorer=self.restorer,
            collector=self.collector,
            committer=self.committer,
            directory=shared.directory,
            clock=clock,
            offset_reset=offset_reset,
            task_timeout_ms=config.task_timeout_ms,
            make_environment=self._environment,
            make_stores=self._stores,
            topic_ids=shared.admin.topic_ids,
            log_ends=shared.admin.log_ends,
            on_unknown=shared.plans.outdated.set,
        )

    @property
    def _producer_id(self) -> str:
        return f"{self._identity.thread}-producer"

    @property
    def _restore_consumer_id(self) -> str:
        return f"{self._identity.thread}-restore-consumer"

    def _environment(self, task: TaskId) -> Environment:
        config, settings = self._shared.config, self._shared.settings
        return Environment(
            application_id=config.application_id,
            task_id=task,
            clock=self._shared.clock,
            state_dir=self._shared.directory.task_directory(task),
            app_configs=lambda: settings,
            default_key_serde=config.default_key_serde,
            default_value_serde=config.default_value_serde,
            default_timestamp_extractor=config.default_timestamp_extractor,
            errors=error_policy_for(config, task, self.collector),
            global_store=self._shared.global_store,
            user_metrics=ThreadMetrics(self._shared.metrics, self._identity.thread),
            registry=self._shared.metrics,
            log_each_put=config.changelog_updates == "each",
            exactly_once=config.exactly_once,
            pace=self.pace,
            store_owner=threading.get_ident(),
            tracer=self._tracer,
        )

    def _stores(self, plan: TaskPlan, task: TaskId, environment: Environment) -> TaskStores:
        return TaskStores(plan, task, environment, self._budget, self._shared.engines.open)

    # ------------------------------------------------------------------ membership

    def join(self, stopping: Event) -> None:
        """Joins the group, once no member of it runs another topology."""
        self.pace.stopping = stopping.is_set
        self.collector.stopping = stopping.is_set
        if self._shared.config.exactly_once:
            self._producer.init_transactions()  # fences the dead self and ends its transaction before offsets are read
        self._wait_for_other_topologies(stopping)
        self.membership.join(self._planned.group, self)

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        self.assigned = True
        self.revoked = self.revoked or not self.tasks.owned <= tasks.active
        self.tasks.own(tasks, lost=lost)

    def _wait_for_other_topologies(self, stopping: Event) -> None:
        group, clock = self._planned.group, self._shared.clock
        told = False
        while not stopping.is_set():
            try:
                others = other_topologies(self._shared.admin.group_members(group.application_id), group.hash)
            except RetryableError as error:
                log.warning("the group cannot be described yet", extra={"error": str(error)})
                others = []
            if not others:
                return
            if not told:
                told = True
                log.warning(
                    "waiting: the application runs another topology already; this worker joins when its workers have"
                    " left",
                    extra={"members": ", ".join(others)},
                )
            clock.wait(OTHER_TOPOLOGY_WAIT_S)

    def _leave(self) -> None:
        self._shared.clients.leave_group(
            self._consumer_config, self._shared.config.application_id, self._identity.instance_id
        )

    # ------------------------------------------------------------------ for the loop

    def refresh(self) -> None:
        """Takes over plans that changed.

        :raises StreamsError: if none fits the topics any more.
        """
        if self._shared.plans.refusal is not None:
            raise self._shared.plans.refusal
        current = self._shared.plans.current
        if current is self._planned or self._shared.clock.monotonic() < self._refresh_after:
            return
        try:
            self.membership.extend(current.group)
        except RetryableError as error:
            log.warning("new tasks cannot be announced yet", extra={"error": str(error)})
            self._refresh_after = self._shared.clock.monotonic() + REFRESH_PAUSE_S
            return
        self.tasks.replan(current.tasks)
        self._planned = current

    def input_bytes_limit(self) -> int:
        """The thread's part of ``input.buffer.max.bytes``, in equal parts for the partitions that it reads."""
        total = self._shared.memory.input_bytes
        return total // max(1, len(self.tasks.running)) if total > 0 else total

    def metadata(self, thread_state: str) -> ThreadMetadata:
        thread = self._identity.thread
        return ThreadMetadata(
            thread_name=thread,
            thread_state=thread_state,
            active_tasks=frozenset(map(self._task_metadata, self.tasks.all_running())),
            main_consumer_client_id=client_id_with_hash(f"{thread}-consumer", self._planned.group.hash),
            restore_consumer_client_id=self._restore_consumer_id,
            producer_client_ids=frozenset({self._producer_id}),
            admin_client_id=self._shared.admin_client_id,
        )

    def _task_metadata(self, task: Task) -> TaskMetadata:
        queues = dict(task.queues)
        committed = task.known_offsets
        waits = [waited for name in queues if (waited := self.idling.idle_s(name)) is not None]
        return TaskMetadata(
            task_id=task.id,
            topic_partitions=frozenset(queues),
            committed_offsets={name: committed[name].offset for name in queues if name in committed},
            end_offsets={name: end for name, queue in queues.items() if (end := queue.end_offset) is not None},
            time_current_idling_started=int(self._shared.clock.time_ms() - max(waits) * 1000) if waits else None,
        )

    def wants_commit(self) -> bool:
        return self._budget.wants_commit()

    def refuses_rebuild(self, error: DamagedStateError) -> DamagedStateError | None:
        return self._shared.rebuilds.refusal(error, self._planned.tasks)

    def rebuild(self, error: DamagedStateError) -> None:
        self._shared.rebuilds.rebuild(error, self._planned.tasks)

    def end(self, *, clean: bool, stay: bool) -> None:
        """Closes everything, in order; errors after the first are logged."""
        failure: Exception | None = None
        steps: list[Callable[[], None]] = [] if clean else [self._abort]
        steps += [
            lambda: self.tasks.close_all(dirty=not clean),
            lambda: self.membership.leave(stay=stay),
            self.restorer.close,
            self.purge.close,
            self.watch.close,
            self._producer.close,
        ]
        for step in steps:
            try:
                step()
            except Exception as error:
                log.warning("not closed in order", extra={"error": str(error)}, exc_info=error)
                failure = failure or error
        if failure is not None and clean:
            raise failure

    def _abort(self) -> None:
        try:
            self.committer.abort()
        except StreamsError as error:  # a fenced producer cannot: its successor has ended the transaction
            log.info("open transaction left to the broker", extra={"error": str(error)})
