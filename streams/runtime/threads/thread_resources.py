"""The resources of a stream thread: its Kafka clients, its membership in the group, its tasks.

A thread makes new ones each time it joins the group; what it had before is closed first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import DamagedStateError, RetryableError, StreamsError
from processor_api.forks import belongs_to_this_process
from processor_api.texts import plain_str
from state.write_buffer.memory_budget import Budget
from streams.config import clients as client_configs
from streams.kafka.client_errors import instance_fenced
from streams.kafka.membership.control_topic_membership import ControlTopicMembership
from streams.kafka.membership.group_heartbeats import StreamsGroupMember
from streams.kafka.membership.group_picture import thread_name_at
from streams.kafka.membership.port import GroupTopology, Membership
from streams.kafka.membership.standby_places import MemberCopies, StandbySettings
from streams.kafka.membership.streams_group_membership import StreamsGroupMembership
from streams.kafka.membership.topology_gate import client_id_with_hash, other_topologies
from streams.kafka.membership.warm_up import WarmUpSettings
from streams.kafka.ports import Admin, ClientUnusable, GroupInfo, Producer
from streams.kafka.producing.batch_limits import ProducerBatches
from streams.kafka.producing.record_collector import RecordCollector, Sent
from streams.log import RepeatedLines
from streams.metrics.registry import ThreadMetrics
from streams.restore.follower import Follower
from streams.restore.restorer import Restorer
from streams.runtime.plan.task_plan import PlanBook, Plans
from streams.runtime.processing.environment import GlobalStoreReader, TaskSettings, TaskThread
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.pace import Pace
from streams.runtime.snapshots.committed_snapshots import CommittedSnapshots
from streams.runtime.snapshots.snapshot_places import SnapshotPlace
from streams.runtime.snapshots.snapshot_starts import SnapshotStarts
from streams.runtime.snapshots.task_snapshots import TaskSnapshots
from streams.runtime.start.orphaned_transactions import OrphanedTransactions
from streams.runtime.start.standby_tasks import MarkReader, StandbyStarts, StandbyTasks
from streams.runtime.start.start_offsets import StartOffsets
from streams.runtime.start.stored_schemas import SchemaChecks
from streams.runtime.start.task_opener import TaskOpener
from streams.runtime.start.task_restores import TaskRestores
from streams.runtime.start.task_starts import TaskStarts
from streams.runtime.start.topic_ids import TopicIdentity
from streams.runtime.start.write_back import WriteBack, WriteBackClients
from streams.runtime.tasks.assembly import TaskAssembly, ThreadClients
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.expired_windows import CutChangelogs, ExpiredWindows
from streams.runtime.tasks.purge import RepartitionPurge
from streams.runtime.tasks.retry import Retry
from streams.runtime.threads.partition_watch import PartitionWatch
from streams.runtime.threads.process_resources import FormerMembers, ProcessResources
from streams.runtime.threads.task_manager import Ownership, TaskManager, ThreadTasks
from streams.runtime.threads.thread_state import TaskMetadata, ThreadMetadata, task_metadata
from streams.runtime.tracing.task_trace import traced_by
from streams.runtime.tracing.tracer import Tracer
from streams.threads import Event
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.thread")

OTHER_TOPOLOGY_WAIT_S = 0.25
"""Records wait meanwhile, once the last member of the other topology has left."""
REFRESH_PAUSE_S = 1.0
_OTHER_TOPOLOGY = (
    "waiting: the application already runs another topology; this worker joins when its workers have left. If it is"
    " another application, give this one its own application.id"
)


@dataclass(frozen=True, kw_only=True)
class ThreadIdentity:
    """The ids of one thread (semantics 137)."""

    thread: str
    """Its name, and the start of its client ids."""
    instance_id: str
    transactional_id: str
    endpoint: str | None = None
    """The address at which the process answers queries, which its consumer's client id tells."""
    process_id: str = ""
    """The id of the process, which its threads share."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Those of the process by which standby tasks are spread, which its consumer's client id tells too."""

    def consumer_id(self, group: GroupTopology) -> str:
        """Returns the client id of the consumer that is a member of the group."""
        return client_id_with_hash(f"{thread_name_at(self.thread, self.endpoint, self.tags)}-consumer", group.hash)

    @property
    def producer_id(self) -> str:
        """The client id of the producer."""
        return f"{self.thread}-producer"

    @property
    def restore_consumer_id(self) -> str:
        """The client id of the consumer that reads changelogs."""
        return f"{self.thread}-restore-consumer"

    @property
    def standby_consumer_id(self) -> str:
        """The client id of the consumer that follows the changelogs of standby tasks."""
        return f"{self.thread}-standby-consumer"


class GroupEntry:
    """Keeps a thread out of its group until no member of that runs another topology.

    :param instance_id: that of the thread, if the brokers keep it for a member until that has said that it ends: in
        groups of the streams protocol.
    :param former: the members that the thread was before in this process.
    """

    def __init__(
        self,
        admin: Admin,
        clock: Clock,
        instance_id: str | None = None,
        former: FormerMembers | None = None,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self._instance_id = instance_id
        self._former = former or FormerMembers()
        self._repeated = RepeatedLines(log, clock)
        self.waits = False
        """Whether the thread waits; any thread may read it."""

    def wait(self, group: GroupTopology, stopping: Event) -> None:
        """Waits until the last of those members has left, or the thread is asked to end.

        :raises InstanceFenced: if another process has taken the place of this thread.
        """
        logged = False
        while not stopping.is_set():
            try:
                others = self._others(group)
            except RetryableError as error:
                self._repeated.log("the group cannot be described yet", error=str(error))
                others = []
            self.waits = bool(others)
            if not others:
                return
            if not logged:
                logged = True
                log.warning(_OTHER_TOPOLOGY, extra={"members": ", ".join(others)})
            self._clock.wait(OTHER_TOPOLOGY_WAIT_S)

    def _others(self, group: GroupTopology) -> list[str]:
        """Returns the members that this thread has to wait for; none if it may join."""
        if self._instance_id is None:
            return other_topologies(self._admin.group_members(group.application_id), group.hash)
        found = self._admin.describe_group(group.application_id)
        others = [one for one in found.members if one.instance_id != self._instance_id]
        names = other_topologies(others, group.hash)
        if not names and found.protocol == "streams":  # otherwise the brokers refuse its join, which is logged
            self._take_over(found)
        return names

    def _take_over(self, found: GroupInfo) -> None:
        """Ends the former member of this thread, if that has not left: its process was killed. In the classic protocol
        the brokers do so where another member joins with the same instance id.

        A thread that had a place takes none from a member that it was not itself: that is of another process, which
        has the newer right, and the two would keep replacing each other. One that had none may find a
        former member late: a coordinator that comes back can read the request of a killed process then.
        """
        for former in found.members:
            if former.instance_id != self._instance_id or former.has_left:
                continue
            if self._former.had_place and former.member_id not in self._former.ids:
                raise instance_fenced()
            try:
                self._admin.release_instance(found.name, former)
            except RetryableError:
                raise
            except StreamsError as error:
                log.warning(
                    "this thread joins when the session of its former member has ended", extra={"error": str(error)}
                )
            else:
                log.info("takes the place of its former member in the group", extra={"member": former.member_id})


class FollowedPlans:
    """Holds the plans by which a thread works, and replaces them when others are in force."""

    def __init__(
        self, book: PlanBook, current: Plans, membership: Membership, manager: TaskManager, clock: Clock
    ) -> None:
        self._book = book
        self.current = current
        self._membership = membership
        self._manager = manager
        self._clock = clock
        self._repeated = RepeatedLines(log, clock)
        self._not_before = 0.0

    def follow(self) -> None:
        """Takes over the plans in force, if they have changed.

        :raises StreamsError: if the application no longer fits the topics.
        """
        if self._book.refusal is not None:
            raise self._book.refusal
        current = self._book.current
        if current is self.current or self._clock.monotonic() < self._not_before:
            return
        try:
            self._membership.extend(current.group)
        except RetryableError as error:
            self._repeated.log("new tasks cannot be announced yet", error=str(error))
            self._not_before = self._clock.monotonic() + REFRESH_PAUSE_S
            return
        self._manager.replan(current.tasks)
        self.current = current


@dataclass(frozen=True, kw_only=True, eq=False)
class ThreadResources:
    """Holds the Kafka clients, the membership and the tasks of a stream thread, from one join to the end of that."""

    process: ProcessResources
    identity: ThreadIdentity
    clients: ThreadClients
    collector: RecordCollector
    entry: GroupEntry
    membership: Membership
    plans: FollowedPlans
    tasks: ThreadTasks
    manager: TaskManager
    restorer: Restorer
    idling: Idling
    budget: Budget
    """The thread's part of the memory for write buffers."""
    pace: Pace
    committer: Committer
    purge: RepartitionPurge
    snapshots: CommittedSnapshots
    watch: PartitionWatch

    def leave_to_parent(self) -> Collection[str]:
        """Has the copy in a forked child begin no further record."""
        self.pace.stopping = self.collector.patience.stopping = lambda: True
        return ()

    def join(self, stopping: Event) -> None:
        """Joins the group, once no member of it runs another topology.

        :raises TopologyError: if members of another topology have left records behind that this one would never read.
        """
        self.pace.stopping = self.collector.patience.stopping = stopping.is_set
        self.process.turns.watch(self.pace, self.identity.thread)
        if self.process.config.exactly_once:
            # ends what a former producer of this id left open, before offsets are read
            self.clients.producer.init_transactions()
        group = self.plans.current.group
        self.membership.check(group)
        self.entry.wait(group, stopping)
        if not stopping.is_set():
            self.process.deploy_check.run(self.clients.restore_consumer)
        self.membership.join(group, self.manager)

    def waits_for_another_topology(self) -> bool:
        """Whether it has no tasks running only because members of the group run another topology; any thread may call
        it."""
        return self.entry.waits or self.membership.is_blocked()

    def input_bytes_limit(self) -> int:
        """Returns how many bytes one partition may buffer; a negative number removes the limit.

        That is the thread's part of ``input.buffer.max.bytes``, divided among the partitions that it reads.
        """
        total = self.process.state.memory.input_bytes
        return total // max(1, len(self.tasks.running)) if total > 0 else total

    def metadata(self, thread_state: str) -> ThreadMetadata:
        """Returns the metadata of the thread and its tasks as they are now; any thread may call it."""
        identity, now_ms = self.identity, self.process.platform.clock.time_ms()
        return ThreadMetadata(
            thread_name=identity.thread,
            thread_state=thread_state,
            active_tasks=frozenset(task_metadata(task, self.idling, now_ms) for task in self.tasks.all_running()),
            standby_tasks=frozenset(
                TaskMetadata(task_id=copy.id, topic_partitions=frozenset(copy.plan.partitions(copy.id.partition)))
                for copy in self.manager.standbys.copies()
            ),
            main_consumer_client_id=identity.consumer_id(self.plans.current.group),
            restore_consumer_client_id=identity.restore_consumer_id,
            producer_client_ids=frozenset({identity.producer_id}),
            admin_client_id=self.process.cluster.admin_client_id,
        )

    # ------------------------------------------------------------------ the end

    def recovery_refusal(self, error: DamagedStateError) -> DamagedStateError | None:
        """Returns the error to fail with if damaged state is not to be restored; ``None`` if it is."""
        return self.process.state.recovery.refusal(error, self.plans.current.tasks)

    def recover(self, error: DamagedStateError) -> None:
        """Removes damaged state, to be restored by the next owner of the task; to be called after :meth:`end`."""
        self.process.state.recovery.recover(error, self.plans.current.tasks)

    def end(self, *, clean: bool, remain: bool) -> None:
        """Closes everything, in order; errors are logged.

        If everything was committed, the first one is raised too, unless it says that a client takes no more calls: then
        nothing is left to do for it.

        :param clean: whether everything was committed: otherwise the open transaction is aborted.
        :param remain: whether a static member remains in the group, to come back.
        """
        failure: Exception | None = None
        steps: list[Callable[[], None]] = [] if clean else [self._abort]
        steps += [
            lambda: self.process.turns.forget(self.identity.thread),
            self._remember_member,
            # The tasks first: once this member has left, another one opens them.
            lambda: self.manager.close_all(dirty=not clean),
            lambda: self.membership.leave(remain=remain),
            self.restorer.close,
            self.purge.close,
            self.snapshots.close,
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
                if not isinstance(error, ClientUnusable):
                    failure = failure or as_error(error, "while a stream thread was closed")
        if failure is not None and clean:
            raise failure

    def _remember_member(self) -> None:
        found = self.clients.consumer.member_id()
        if found is not None:
            former = self.process.cluster.former_members[self.identity.instance_id]
            former.ids.add(found)
            former.had_place = former.had_place or self.manager.ownership.assigned

    def _abort(self) -> None:
        try:
            self.committer.abort()
        except StreamsError as error:  # a fenced producer cannot: its successor has ended the transaction
            log.info("open transaction left to the broker", extra={"error": str(error)})


def make_resources(
    process: ProcessResources, identity: ThreadIdentity, global_store: GlobalStoreReader
) -> ThreadResources:
    """Makes the resources of a thread for its next join; to be called on that thread, which alone may use its stores.

    :param global_store: finds the global stores, for reading.
    """
    config, clock = process.config, process.platform.clock
    admin, plans = process.cluster.admin, process.plans.current
    consumer_config = client_configs.main_consumer(config, identity.consumer_id(plans.group), identity.instance_id)
    producer_config, batches = _producer_config(process, identity, plans)
    clients = _make_clients(process, identity, consumer_config, producer_config)
    tracer = Tracer.of(config, clock)
    sent = _traced(clients.producer, producer_config, tracer)
    collector = RecordCollector(
        clients.producer, clock, batches, sent, None if process.watch is None else process.watch.with_headers
    )
    membership = _membership(process, identity, clients, consumer_config)
    budget = process.state.memory.budget(identity.thread)
    transaction_s = producer_config["transaction.timeout.ms"] / 1000 if config.exactly_once else None
    pace = Pace(clock, transaction_s, client_configs.max_poll_interval_ms(config) / 1000, budget.is_full)
    topics = TopicIdentity(admin, process.outputs)
    committer = Committer(
        collector,
        membership,
        clock,
        pace,
        exactly_once=config.exactly_once,
        session_timeout_s=client_configs.session_timeout_ms(config) / 1000,
        check_topics=topics.check,
    )
    committer.note_leaders = topics.note_leaders
    restorer = Restorer(
        clients.restore_consumer, clock, process.listeners.restores, process.metrics, config.task_timeout_ms
    )
    opener = _task_opener(process, identity, global_store, collector, budget, pace, tracer)
    place = _snapshot_place(process)
    tasks, manager = _thread_tasks(process, identity, plans, clients, opener, restorer, committer, place)
    resources = ThreadResources(
        process=process,
        identity=identity,
        clients=clients,
        collector=collector,
        entry=_group_entry(process, identity),
        membership=membership,
        plans=FollowedPlans(process.plans, plans, membership, manager, clock),
        tasks=tasks,
        manager=manager,
        restorer=restorer,
        idling=Idling(config.max_task_idle_ms, clock, clients.consumer),
        budget=budget,
        pace=pace,
        committer=committer,
        purge=_purge(process),
        snapshots=CommittedSnapshots(place, config.state_snapshot_interval_ms, clock, topics.note_leaders),
        watch=PartitionWatch(admin, clock, client_configs.topic_refresh_ms(config), process.platform.threads),
    )
    belongs_to_this_process(resources)
    return resources


def _producer_config(
    process: ProcessResources, identity: ThreadIdentity, plans: Plans
) -> tuple[dict[str, Any], ProducerBatches]:
    """Returns the settings of the producer, and how large the topics that it writes allow its batches to be."""
    config = process.config
    transactional_id = identity.transactional_id if config.exactly_once else None
    found = client_configs.producer(config, identity.producer_id, transactional_id)
    written = {topic for plan in plans.tasks.values() for topic in plan.topics_written}
    if config.errors_dead_letter_queue_topic_name is not None:
        written.add(config.errors_dead_letter_queue_topic_name)
    batches = process.cluster.batch_limits.for_producer(found, written)
    return {**found, "batch.size": batches.bytes}, batches


def _make_clients(
    process: ProcessResources, identity: ThreadIdentity, consumer: dict[str, Any], producer: dict[str, Any]
) -> ThreadClients:
    make = process.cluster.clients
    return ThreadClients(
        producer=make.producer(producer),
        consumer=make.consumer(consumer),
        restore_consumer=make.consumer(client_configs.restore_consumer(process.config, identity.restore_consumer_id)),
        admin=process.cluster.admin,
    )


def _traced(producer: Producer, config: dict[str, Any], tracer: Tracer | None) -> Sent | None:
    """Returns what takes down each record that is sent, if records are followed."""
    if tracer is None:
        return None
    by_key = str(config.get("partitioner")).startswith("murmur2")
    return tracer.sent(producer.partition_count, chooses_by_key=by_key)


def _membership(
    process: ProcessResources, identity: ThreadIdentity, clients: ThreadClients, consumer_config: dict[str, Any]
) -> Membership:
    cluster, config = process.cluster, process.config
    if config.group_protocol == "streams":
        return StreamsGroupMembership(
            cluster.clients.streams_group(consumer_config),
            _group_member(process, identity),
            clients.consumer,
            clients.admin,
            process.platform.clock,
            process.platform.threads,
        )
    leave = partial(cluster.clients.leave_group, consumer_config, config.application_id, identity.instance_id)
    return ControlTopicMembership(
        clients.consumer,
        clients.admin,
        process.platform.clock,
        leave_static=leave,
        requests=cluster.shutdown_requests,
        copies=_copies(process, identity, clients, consumer_config),
    )


def _copies(
    process: ProcessResources, identity: ThreadIdentity, clients: ThreadClients, consumer_config: dict[str, Any]
) -> MemberCopies:
    config, platform = process.config, process.platform
    standbys = StandbySettings(
        member=identity.instance_id,
        replicas=config.num_standby_replicas,
        tags=config.rack_aware_assignment_tags,
        threads=platform.threads,
    )
    warm_ups = WarmUpSettings(
        member=identity.instance_id,
        client_id=str(consumer_config["client.id"]),
        acceptable_lag=config.acceptable_recovery_lag,
        filled_at_once=config.max_warmup_replicas,
        probing_s=config.probing_rebalance_interval_ms / 1000,
        stored=process.state.directory.tasks,
    )
    return MemberCopies(clients.admin, platform.clock, standbys, warm_ups)


def _group_member(process: ProcessResources, identity: ThreadIdentity) -> StreamsGroupMember:
    config = process.config
    host, _, port = (identity.endpoint or "").partition("/")[0].rpartition(":")
    return StreamsGroupMember(
        name=identity.thread,
        process_id=identity.process_id,
        max_poll_s=client_configs.max_poll_interval_ms(config) / 1000,
        instance_id=identity.instance_id,
        must_be_static=client_configs.group_instance_id(config) is not None,
        endpoint=(host.strip("[]"), int(port)) if port else None,
        rack_id=client_configs.client_rack(config),
        client_tags=tuple(sorted(config.client_tag.items())),
    )


def _group_entry(process: ProcessResources, identity: ThreadIdentity) -> GroupEntry:
    admin, clock, instance_id = process.cluster.admin, process.platform.clock, identity.instance_id
    if process.config.group_protocol == "classic":
        return GroupEntry(admin, clock)
    return GroupEntry(admin, clock, instance_id, process.cluster.former_members[instance_id])


def _purge(process: ProcessResources) -> RepartitionPurge:
    config, platform, admin = process.config, process.platform, process.cluster.admin
    cut = CutChangelogs(admin, platform.clock)
    expired = ExpiredWindows(admin, cut, config.windowstore_changelog_additional_retention_ms)
    return RepartitionPurge(admin, platform.clock, config.repartition_purge_interval_ms, expired, platform.threads)


def _snapshot_place(process: ProcessResources) -> SnapshotPlace | None:
    config, platform = process.config, process.platform
    if config.state_snapshot_dir is None:
        return None
    return SnapshotPlace(platform.snapshots(config.state_snapshot_dir), config.application_id, platform.threads)


def _task_opener(
    process: ProcessResources,
    identity: ThreadIdentity,
    global_store: GlobalStoreReader,
    collector: RecordCollector,
    budget: Budget,
    pace: Pace,
    tracer: Tracer | None,
) -> TaskOpener:
    config = process.config
    assembly = TaskAssembly(
        settings=TaskSettings.of(
            config,
            log_each_put=config.changelog_updates == "each",
            global_store=global_store,
            registry=process.metrics,
        ),
        error_policy=partial(error_policy_for, config, collector=collector),
        clock=process.platform.clock,
        open_engine=process.state.engines.open,
        budget=budget,
        thread=TaskThread(
            pace=pace,
            store_owner=threading.get_ident(),
            metrics=ThreadMetrics(process.metrics, identity.thread),
            probe=traced_by(tracer) or (None if process.watch is None else process.watch.probe),
        ),
    )
    return TaskOpener(assembly, process.state.directory)


def _write_back_clients(process: ProcessResources, identity: ThreadIdentity) -> WriteBackClients:
    make, config = process.cluster.clients, process.config
    return WriteBackClients(
        producer=lambda: make.producer(client_configs.producer(config, identity.producer_id)),
        consumer=lambda: make.consumer(client_configs.restore_consumer(config, identity.restore_consumer_id)),
    )


def _thread_tasks(
    process: ProcessResources,
    identity: ThreadIdentity,
    plans: Plans,
    clients: ThreadClients,
    opener: TaskOpener,
    restorer: Restorer,
    committer: Committer,
    place: SnapshotPlace | None,
) -> tuple[ThreadTasks, TaskManager]:
    config, clock = process.config, process.platform.clock
    application = config.application_id
    orphans = (
        OrphanedTransactions(application, identity.instance_id, clients.admin, clock) if config.exactly_once else None
    )
    write_back = WriteBack(
        _write_back_clients(process, identity),
        clients.admin,
        clock,
        committer.offsets.start_at,
        enabled=config.state_on_changelog_loss == "write",
    )
    offsets = StartOffsets(clients, committer, clock, client_configs.auto_offset_reset(config), write_back)
    handed_over = config.state_snapshot_dir if isinstance(config.state_snapshot_dir, Path) else None
    restores = TaskRestores(restorer, clients, TaskSnapshots(handed_over, application, clock), clock, write_back)
    follower = Follower(
        lambda: process.cluster.clients.consumer(client_configs.standby_consumer(config, identity.standby_consumer_id)),
        clock,
        process.listeners.standbys,
        process.metrics,
    )
    marks = MarkReader(application, clients.admin, clock, process.platform.threads)
    snapshots = SnapshotStarts(place, clients, clock)
    begins = StandbyStarts(application, clients.admin, opener, restores, snapshots)
    standbys = StandbyTasks(begins, follower, marks, clock)
    schemas = SchemaChecks(clock, committer.offsets.start_at, clients.admin.log_ends)
    starts = TaskStarts(opener, orphans, offsets, snapshots, restores, standbys, schemas)
    tasks, ownership = ThreadTasks(), Ownership(process.plans, plans)
    retry = Retry(clock, 0, 0, config.task_timeout_ms)
    return tasks, TaskManager(tasks, ownership, starts, clients.consumer, committer, retry, clock)
