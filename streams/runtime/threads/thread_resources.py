"""The resources of a stream thread: its Kafka clients, its membership in the group, its tasks.

A thread makes new ones each time it joins the group; what it had before is closed first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from processor_api.errors import DamagedStateError, RetryableError, StreamsError
from processor_api.forks import belongs_to_this_process
from processor_api.texts import plain_str
from streams.config import clients as client_configs
from streams.kafka.membership.control_topic_membership import ControlTopicMembership
from streams.kafka.membership.port import Membership, Tasks
from streams.kafka.membership.topology_gate import client_id_with_hash, other_topologies
from streams.kafka.producing.record_collector import RecordCollector
from streams.log import RepeatedLines
from streams.metrics.registry import ThreadMetrics
from streams.restore.restorer import Restorer
from streams.runtime.processing.environment import GlobalStoreReader, TaskSettings, TaskThread
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.pace import Pace
from streams.runtime.start.lost_offsets import LostOffsets
from streams.runtime.start.task_opener import TaskOpener
from streams.runtime.tasks.assembly import TaskAssembly
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.expired_windows import CutChangelogs, ExpiredWindows
from streams.runtime.tasks.purge import RepartitionPurge
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.thread_clients import ThreadClients
from streams.runtime.threads.metadata import TaskMetadata, ThreadMetadata
from streams.runtime.threads.partition_watch import PartitionWatch
from streams.runtime.threads.process_resources import ProcessResources
from streams.runtime.threads.task_manager import TaskManager
from streams.runtime.tracing.task_trace import traced_by
from streams.runtime.tracing.tracer import Tracer
from streams.threads import Event
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.thread")

OTHER_TOPOLOGY_WAIT_S = 0.25
"""Records wait meanwhile, once the last member of the other topology has left."""
REFRESH_PAUSE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class ThreadIdentity:
    """The ids of one thread (semantics 137)."""

    thread: str
    """Its name, and the start of its client ids."""
    instance_id: str
    transactional_id: str


class ThreadResources:
    """Holds the Kafka clients, the membership and the tasks of a stream thread, from one join to the end of that.

    :param global_store: finds the global stores, for reading.
    """

    def __init__(self, process: ProcessResources, identity: ThreadIdentity, global_store: GlobalStoreReader) -> None:
        self._process = process
        self._identity = identity
        self._plans = process.plans.current
        self._memory = process.state.memory
        self._clock = process.platform.clock
        self._repeated = RepeatedLines(log, self._clock)
        self.assigned = False
        """Whether membership has said which tasks this thread owns."""
        self.revoked = False
        """Whether tasks were taken away; the thread resets it when it has noticed."""
        self._waits = False
        """Whether it has not joined yet, since members of the group run another topology."""
        self._refresh_after = 0.0
        config, clock, threads = process.config, self._clock, process.platform.threads
        producer_config = self._producer_config()
        written = {topic for plan in self._plans.tasks.values() for topic in plan.topics_written}
        if config.errors_dead_letter_queue_topic_name is not None:
            written.add(config.errors_dead_letter_queue_topic_name)
        batches = process.cluster.batch_limits.for_producer(producer_config, written)
        producer_config["batch.size"] = batches.bytes
        self._consumer_config = client_configs.main_consumer(config, self._consumer_id, identity.instance_id)
        clients = process.cluster.clients
        self.clients = ThreadClients(
            producer=clients.producer(producer_config),
            consumer=clients.consumer(self._consumer_config),
            restore_consumer=clients.consumer(client_configs.restore_consumer(config, self._restore_consumer_id)),
            admin=process.cluster.admin,
        )
        self.consumer, admin = self.clients.consumer, self.clients.admin
        self._tracer, sent = Tracer.of(config, clock), None
        producer = self.clients.producer
        if self._tracer is not None:
            by_key = str(producer_config.get("partitioner")).startswith("murmur2")
            sent = self._tracer.sent(producer.partition_count, chooses_by_key=by_key)
        self.collector = RecordCollector(producer, clock, batches, sent)
        self.membership: Membership = ControlTopicMembership(
            self.consumer, admin, clock, leave_static=self._leave, requests=process.cluster.shutdown_requests
        )
        self._budget = self._memory.budget(identity.thread)
        transaction_s = producer_config["transaction.timeout.ms"] / 1000 if config.exactly_once else None
        poll_s = client_configs.max_poll_interval_ms(config) / 1000
        self.pace = Pace(clock, transaction_s, poll_s, self._budget.is_full)
        self.committer = Committer(self.collector, self.membership, clock, self.pace, exactly_once=config.exactly_once)
        self.restorer = Restorer(
            self.clients.restore_consumer, clock, process.restore_listeners, process.metrics, config.task_timeout_ms
        )
        self.idling = Idling(config.max_task_idle_ms, clock, self.consumer)
        self.lost_offsets = LostOffsets(self.consumer, clock, client_configs.auto_offset_reset(config))
        cut = CutChangelogs(admin, clock)
        expired = ExpiredWindows(admin, cut, config.windowstore_changelog_additional_retention_ms)
        self.purge = RepartitionPurge(admin, clock, config.repartition_purge_interval_ms, expired, threads)
        self.watch = PartitionWatch(admin, clock, client_configs.topic_refresh_ms(config), threads)
        opener = self._task_opener(global_store)
        self.tasks = TaskManager(process.plans, self.clients, self.restorer, self.committer, opener, config, clock)
        belongs_to_this_process(self)

    def leave_to_parent(self) -> Collection[str]:
        """Has the copy in a forked child begin no further record."""
        self.pace.stopping = self.collector.stopping = lambda: True
        return ()

    @property
    def _consumer_id(self) -> str:
        return client_id_with_hash(f"{self._identity.thread}-consumer", self._plans.group.hash)

    @property
    def _producer_id(self) -> str:
        return f"{self._identity.thread}-producer"

    @property
    def _restore_consumer_id(self) -> str:
        return f"{self._identity.thread}-restore-consumer"

    def _producer_config(self) -> dict[str, Any]:
        config = self._process.config
        transactional_id = self._identity.transactional_id if config.exactly_once else None
        return client_configs.producer(config, self._producer_id, transactional_id)

    def _task_opener(self, global_store: GlobalStoreReader) -> TaskOpener:
        config, metrics, state = self._process.config, self._process.metrics, self._process.state
        assembly = TaskAssembly(
            settings=TaskSettings.of(
                config,
                log_each_put=config.changelog_updates == "each",
                global_store=global_store,
                registry=metrics,
            ),
            error_policy=partial(error_policy_for, config, collector=self.collector),
            clock=self._clock,
            open_engine=state.engines.open,
            budget=self._budget,
            thread=TaskThread(
                pace=self.pace,
                store_owner=threading.get_ident(),
                metrics=ThreadMetrics(metrics, self._identity.thread),
                probe=traced_by(self._tracer),
            ),
        )
        return TaskOpener(assembly, state.directory)

    # ------------------------------------------------------------------ membership

    def join(self, stopping: Event) -> None:
        """Joins the group, once no member of it runs another topology.

        :raises TopologyError: if members of another topology have left records behind that this one would never read.
        """
        self.pace.stopping = stopping.is_set
        self.collector.stopping = stopping.is_set
        if self._process.config.exactly_once:
            # ends what a former producer of this id left open, before offsets are read
            self.clients.producer.init_transactions()
        self._wait_for_other_topologies(stopping)
        if not stopping.is_set():
            self._process.deploy_check.run(self.clients.restore_consumer)
        self.membership.join(self._plans.group, self)

    def waits_for_another_topology(self) -> bool:
        """Whether it has no tasks running only because members of the group run another topology; any thread may call
        it."""
        return self._waits or self.membership.is_blocked()

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        """Takes over new ownership (:class:`streams.kafka.membership.port.Owner`)."""
        self.assigned = True
        self.revoked = self.revoked or not self.tasks.owned <= tasks.active
        self.tasks.own(tasks, lost=lost)

    def _wait_for_other_topologies(self, stopping: Event) -> None:
        group, admin = self._plans.group, self.clients.admin
        logged = False
        while not stopping.is_set():
            try:
                others = other_topologies(admin.group_members(group.application_id), group.hash)
            except RetryableError as error:
                self._repeated.log("the group cannot be described yet", error=str(error))
                others = []
            self._waits = bool(others)
            if not others:
                return
            if not logged:
                logged = True
                log.warning(
                    "waiting: the application runs another topology already; this worker joins when its workers have"
                    " left. If it is another application, give this one an application.id of its own",
                    extra={"members": ", ".join(others)},
                )
            self._clock.wait(OTHER_TOPOLOGY_WAIT_S)

    def _leave(self) -> None:
        clients, config = self._process.cluster.clients, self._process.config
        clients.leave_group(self._consumer_config, config.application_id, self._identity.instance_id)

    # ------------------------------------------------------------------ for the loop

    def refresh(self) -> None:
        """Takes over the plans in force, if they have changed.

        :raises StreamsError: if the application does not fit the topics any more.
        """
        plans = self._process.plans
        if plans.refusal is not None:
            raise plans.refusal
        current = plans.current
        if current is self._plans or self._clock.monotonic() < self._refresh_after:
            return
        try:
            self.membership.extend(current.group)
        except RetryableError as error:
            self._repeated.log("new tasks cannot be announced yet", error=str(error))
            self._refresh_after = self._clock.monotonic() + REFRESH_PAUSE_S
            return
        self.tasks.replan(current.tasks)
        self._plans = current

    def input_bytes_limit(self) -> int:
        """Returns how many bytes one partition may buffer; a negative number is no limit.

        That is the thread's part of ``input.buffer.max.bytes``, divided among the partitions that it reads.
        """
        total = self._memory.input_bytes
        return total // max(1, len(self.tasks.running)) if total > 0 else total

    def metadata(self, thread_state: str) -> ThreadMetadata:
        """Returns the metadata of the thread and its tasks as they are now; any thread may call it."""
        thread = self._identity.thread
        return ThreadMetadata(
            thread_name=thread,
            thread_state=thread_state,
            active_tasks=frozenset(map(self._task_metadata, self.tasks.all_running())),
            main_consumer_client_id=self._consumer_id,
            restore_consumer_client_id=self._restore_consumer_id,
            producer_client_ids=frozenset({self._producer_id}),
            admin_client_id=self._process.cluster.admin_client_id,
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
            time_current_idling_started=int(self._clock.time_ms() - max(waits) * 1000) if waits else None,
        )

    def wants_commit(self) -> bool:
        """Whether the write buffers are over their limit."""
        return self._budget.wants_commit()

    # ------------------------------------------------------------------ the end

    def recovery_refusal(self, error: DamagedStateError) -> DamagedStateError | None:
        """Returns the error to fail with if damaged state is not to be restored; ``None`` if it is."""
        return self._process.state.recovery.refusal(error, self._plans.tasks)

    def recover(self, error: DamagedStateError) -> None:
        """Removes damaged state, to be restored by the next owner of the task; to be called after :meth:`end`."""
        self._process.state.recovery.recover(error, self._plans.tasks)

    def end(self, *, clean: bool, remain: bool) -> None:
        """Closes everything, in order; errors after the first are logged.

        :param clean: whether everything was committed: else the open transaction is aborted.
        :param remain: whether a static member remains in the group, to come back.
        """
        failure: Exception | None = None
        steps: list[Callable[[], None]] = [] if clean else [self._abort]
        steps += [
            lambda: self.tasks.close_all(dirty=not clean),
            lambda: self.membership.leave(remain=remain),
            self.restorer.close,
            self.purge.close,
            self.watch.close,
            self.clients.producer.close,
        ]
        for step in steps:
            try:
                step()
            except BaseException as error:
                if passes(error):
                    raise
                log.warning("not closed in order", extra={"error": plain_str(error)}, exc_info=error)
                failure = failure or as_error(error, "while a stream thread was closed")
        if failure is not None and clean:
            raise failure

    def _abort(self) -> None:
        try:
            self.committer.abort()
        except StreamsError as error:  # a fenced producer cannot: its successor has ended the transaction
            log.info("open transaction left to the broker", extra={"error": str(error)})
