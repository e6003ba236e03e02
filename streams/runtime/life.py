"""Makes the parts of one life of a stream thread: clients, membership, tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TaskId
from state.budget import Budget
from state.directory import StateDirectory
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.group import (
    ControlTopicMembership,
    GroupTopology,
    Membership,
    Tasks,
    client_id_with_hash,
    other_topologies,
)
from streams.kafka.ports import Admin, KafkaClients
from streams.kafka.record_collector import RecordCollector
from streams.restore.restorer import RestoreListener, Restorer
from streams.runtime.commit import Committer
from streams.runtime.engines import Engines
from streams.runtime.environment import Environment
from streams.runtime.error_policy import error_policy_for
from streams.runtime.idling import Idling
from streams.runtime.purge import RepartitionPurge
from streams.runtime.source_watch import SourceWatch
from streams.runtime.task_manager import TaskManager
from streams.runtime.task_plan import TaskPlan
from streams.runtime.task_stores import TaskStores

__all__ = ["Shared", "ThreadIdentity", "ThreadLife"]

log = logging.getLogger("streams.thread")

OTHER_TOPOLOGY_WAIT_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the threads of a process share."""

    config: StreamsConfig
    settings: Mapping[str, Any]
    plans: Mapping[int, TaskPlan]
    group: GroupTopology
    clients: KafkaClients
    admin: Admin
    engines: Engines
    directory: StateDirectory
    clock: Clock
    restore_listeners: Collection[RestoreListener] = ()


@dataclass(frozen=True, kw_only=True)
class ThreadIdentity:
    """The ids of one thread (reference 3.10)."""

    thread: str
    instance_id: str
    transactional_id: str
    fixed_instance: bool
    """The user chose the instance id: the place in the group is kept at a close, unless told otherwise."""


class ThreadLife:
    """Implements `streams.runtime.stream_thread.Life`."""

    def __init__(self, shared: Shared, identity: ThreadIdentity) -> None:
        config, clock, clients = shared.config, shared.clock, shared.clients
        self._shared = shared
        self._identity = identity
        self.assigned = False
        eos = config.exactly_once
        producer_config = client_configs.producer(
            config, f"{identity.thread}-producer", identity.transactional_id if eos else None
        )
        self._producer = clients.producer(producer_config)
        consumer_id = client_id_with_hash(f"{identity.thread}-consumer", shared.group.hash)
        self._consumer_config = client_configs.main_consumer(config, consumer_id, identity.instance_id)
        self.consumer = clients.consumer(self._consumer_config)
        restore_consumer = clients.consumer(
            client_configs.restore_consumer(config, f"{identity.thread}-restore-consumer")
        )
        self.collector = RecordCollector(self._producer, clock)
        self.membership: Membership = ControlTopicMembership(
            self.consumer, shared.admin, clock, leave_static=self._leave
        )
        self.committer = Committer(self.collector, self.membership, clock, exactly_once=eos)
        self.restorer = Restorer(restore_consumer, clock, shared.restore_listeners)
        threads = config.num_stream_threads
        uncommitted = config.statestore_uncommitted_max_bytes
        self._budget = Budget(
            config.statestore_cache_max_bytes // threads, uncommitted // threads if uncommitted > 0 else uncommitted
        )
        self.idling = Idling(config.max_task_idle_ms, clock, self.consumer)
        self.purge = RepartitionPurge(shared.admin, clock, config.repartition_purge_interval_ms)
        self.watch = SourceWatch(shared.admin, clock, client_configs.topic_refresh_ms(config))
        self.tasks = TaskManager(
            plans=shared.plans,
            consumer=self.consumer,
            restore_consumer=restore_consumer,
            restorer=self.restorer,
            collector=self.collector,
            committer=self.committer,
            directory=shared.directory,
            clock=clock,
            offset_reset=client_configs.auto_offset_reset(config),
            task_timeout_ms=config.task_timeout_ms,
            make_environment=self._environment,
            make_stores=self._stores,
        )

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
            log_each_put=config.changelog_updates == "each",
        )

    def _stores(self, plan: TaskPlan, task: TaskId, environment: Environment) -> TaskStores:
        return TaskStores(plan, task, environment, self._budget, self._shared.engines.open)

    # ------------------------------------------------------------------ membership

    def join(self, stopping: threading.Event) -> None:
        """Joins the group, once no member of it runs another topology."""
        if self._shared.config.exactly_once:
            self._producer.init_transactions()  # fences the dead self and ends its transaction before offsets are read
        self._wait_for_other_topologies(stopping)
        self.membership.join(self._shared.group, self)

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        self.assigned = True
        self.tasks.own(tasks, lost=lost)

    def _wait_for_other_topologies(self, stopping: threading.Event) -> None:
        group, clock = self._shared.group, self._shared.clock
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

    def wants_commit(self) -> bool:
        return self._budget.wants_commit()

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
