"""Opens an application: the state directory, the admin client, the plans, the global stores."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from processor_api.clock import Clock
from processor_api.errors import DiskFullError, ProductionError
from processor_api.metrics import RecordingLevel
from processor_api.texts import plain_str
from processor_api.topology.topology import Topology
from state.directory.no_home import NO_STATE_DIRECTORY
from state.directory.state_directory import ProcessIdentity, Slot, StateDirectory
from streams.app.global_stores import GlobalStoresLifecycle
from streams.app.open_files import raise_open_files
from streams.app.topics import TopicFitter, TopicWatch, warn_of_lost_history
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.membership.shutdown_requests import ShutdownRequests
from streams.kafka.own_names import thread_id
from streams.kafka.ports import Admin, KafkaClients
from streams.kafka.producing.batch_limits import TopicBatchLimits
from streams.kafka.suspects import ProcessMembers, end_transactions
from streams.kafka.topics.left_behind import DeployCheck
from streams.metrics.registry import Metrics
from streams.platform import Platform
from streams.runtime.engines.memory import BufferMemory
from streams.runtime.engines.opener import Engines
from streams.runtime.engines.state_recovery import StateRecovery
from streams.runtime.plan.task_plan import PlanBook
from streams.runtime.tasks.full_disk import FullDisk, Waiting
from streams.runtime.tasks.output_topics import OutputTopics
from streams.runtime.tasks.turn_timer import TurnTimer
from streams.runtime.threads.process_resources import ClusterAccess, LocalState, ProcessResources, StateListeners
from streams.runtime.threads.thread_resources import ThreadIdentity, ThreadResources, make_resources
from streams.telemetry import spans_by
from streams.threads import SYSTEM_THREADS, Event, StoppableThread, Threads
from streams.user_exits import passes

log = logging.getLogger("streams.client")


T = TypeVar("T")

SHORTEST_NAP_S = 0.05
LONGEST_NAP_S = 1.0


@dataclass
class _Job:
    """Holds a function and when to call it."""

    interval_s: float
    run: Callable[[], None]
    due: float
    wanted: Event | None


class Housekeeper:
    """Runs each job at its interval. What a job raises is logged, and it runs again the next time."""

    def __init__(self, name: str, clock: Clock, threads: Threads = SYSTEM_THREADS) -> None:
        self._clock = clock
        self._jobs: list[_Job] = []
        self._thread = StoppableThread(threads, self._run, name)

    def every(self, interval_ms: int, run: Callable[[], None], *, wanted: Event | None = None) -> None:
        """Adds a job; to be called before the start.

        :param wanted: when it is set, the job runs at once; it is cleared then.
        """
        interval_s = max(SHORTEST_NAP_S, interval_ms / 1000)
        self._jobs.append(_Job(interval_s, run, self._clock.monotonic() + interval_s, wanted))

    def start(self) -> None:
        """Starts the thread, if there are any jobs."""
        if self._jobs:
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread; returns when no job is running."""
        self._thread.stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            now = self._clock.monotonic()
            for job in self._jobs:
                if job.wanted is not None and job.wanted.is_set():
                    job.wanted.clear()
                    job.due = now
                if job.due <= now and not self._thread.stopping.is_set():
                    job.due = now + job.interval_s
                    self._do(job)
            nap_s = min(job.due for job in self._jobs) - self._clock.monotonic()
            self._thread.stopping.wait(min(LONGEST_NAP_S, max(SHORTEST_NAP_S, nap_s)))

    def _do(self, job: _Job) -> None:
        try:
            job.run()
        except Exception as error:
            log.warning("housekeeping failed; it is tried again", extra={"error": plain_str(error)}, exc_info=error)


def when_there_is_room(open_all: Callable[[], T], full_disk: FullDisk, ends: Callable[[float], bool]) -> T | None:
    """Opens an application; where the disk is full, waits for room and begins again from the start.

    :param open_all: opens everything, or nothing if it fails.
    :param ends: the number of seconds to wait for a request to end; returns whether there is one.
    :returns: what is open; ``None`` if it was asked to end before there was room.
    :raises TaskTimeoutError: if the disk stays full for ``task.timeout.ms``.
    """
    while True:
        try:
            found = open_all()
        except DiskFullError as error:
            full_disk.met(error, Waiting.START)
        else:
            full_disk.passed(Waiting.START)
            return found
        if not full_disk.wait_unless(ends):
            return None


@dataclass(frozen=True, kw_only=True)
class ApplicationParts:
    """Holds what an application is made of, before it opens anything."""

    topology: Topology
    config: StreamsConfig
    clients: KafkaClients
    platform: Platform
    metrics: Metrics
    endpoint: str | None = None
    """The ``host:port`` at which this process answers queries of others; ``None`` if it does not."""


@dataclass(frozen=True, kw_only=True)
class ApplicationResources:
    """Holds what an application has opened, from its start to its end."""

    process: ProcessResources
    global_stores: GlobalStoresLifecycle
    identity: ProcessIdentity
    client_id: str
    watch: TopicWatch | None
    """Looks for new topics and partitions, where the topology may read some."""
    closing: ExitStack
    """Closes all of it."""

    def release(self) -> None:
        """Closes everything, in order; the last error is raised after all was closed."""
        self.closing.close()

    def thread(self, number: int, endpoint: str | None) -> tuple[str, Callable[[], ThreadResources]]:
        """Returns the name of a stream thread, and the function that makes its resources.

        :param endpoint: the address that it tells the others.
        """
        config = self.process.config
        own = thread_id(config.application_id, str(self.identity), number)
        instance = client_configs.group_instance_id(config)
        identity = ThreadIdentity(
            thread=f"{self.client_id}-StreamThread-{number}",
            instance_id=f"{instance}-{number}" if instance else own,
            transactional_id=own,
            endpoint=endpoint,
            process_id=str(self.identity),
            tags={
                name: str(value)
                for name, value in config.client_tag.items()
                if config.num_standby_replicas and name in config.rack_aware_assignment_tags
            },
        )
        return identity.thread, lambda: make_resources(self.process, identity, self.global_stores.reader)

    def keep_house(self, is_running: Callable[[], bool]) -> None:
        """Starts the thread that removes state of tasks that are elsewhere and looks for new topics and partitions; it
        ends at the release."""
        process = self.process
        config, clock, directory = process.config, process.platform.clock, process.state.directory
        found = Housekeeper(f"{self.client_id}-housekeeping", clock, process.platform.threads)
        delay_ms = config.state_cleanup_delay_ms
        found.every(delay_ms, lambda: _remove_obsolete(directory, clock, delay_ms) if is_running() else None)
        interval_ms = client_configs.topic_refresh_ms(config)
        if self.global_stores.exists:
            found.every(interval_ms, self.global_stores.check_partitions)
        if self.watch is not None:
            found.every(interval_ms, self.watch.check, wanted=process.plans.outdated)
        self.closing.callback(found.stop)
        found.start()


def open_application(
    parts: ApplicationParts,
    listeners: StateListeners,
    on_global_failure: Callable[[Exception], None],
    made: ExitStack,
) -> ApplicationResources:
    """Opens an application; if that fails, closes again what was opened.

    :param on_global_failure: called on the thread of global stores when it dies of an error.
    :param made: takes what releases the state directory, and removes one that this start has made and did not need.
    :raises StreamsError: see `KafkaStreams.start`.
    """
    topology, config, platform = parts.topology, parts.config, parts.platform
    closing, started = ExitStack(), False
    try:
        raise_open_files(topology)
        clock, directory = platform.clock, _open_directory(topology, config, platform)
        closing.callback(made.close)
        made.callback(lambda: None if started else directory.discard_new())
        slot = directory.claim_slot()
        made.callback(slot.release)
        identity = directory.identity(slot)
        client_id = config.client_id or f"{config.application_id}-{identity}"
        if config.state_cleanup_dir_max_age_ms >= 0:
            _remove_obsolete(directory, clock, config.state_cleanup_dir_max_age_ms)
        cluster = _open_cluster(config, parts.clients, platform, client_id)
        closing.callback(cluster.admin.close)
        former_ends = _end_former(config, cluster.admin, slot, identity, platform.threads)
        closing.callback(former_ends)
        process, watch = _process(parts, cluster, directory, listeners)
        global_stores = GlobalStoresLifecycle(topology, process, slot, client_id, on_global_failure)
        closing.callback(global_stores.close)
        global_stores.open()
        former_ends()  # before a producer has one of its names
        started = True
    except BaseException:
        _close_after_failure(closing)
        raise
    return ApplicationResources(
        process=process,
        global_stores=global_stores,
        identity=identity,
        client_id=client_id,
        watch=watch,
        closing=closing,
    )


def _end_former(
    config: StreamsConfig, admin: Admin, slot: Slot, identity: ProcessIdentity, threads: Threads
) -> Callable[[], None]:
    """Begins to end the transactions of the process that had these names before, on a thread of its own: readers of
    committed records wait for that, also those of other workers, and a start may fill global stores for long.

    :returns: the function that waits until they are ended.
    """
    if not config.exactly_once or slot.is_new:
        return lambda: None
    former = ProcessMembers.of(config, str(identity), config.num_stream_threads)
    thread = threads.thread(lambda: end_transactions(admin, former), "former-process")
    thread.start()
    return thread.join


def _open_directory(topology: Topology, config: StreamsConfig, platform: Platform) -> StateDirectory:
    root = config.state_dir
    if root == NO_STATE_DIRECTORY and not topology.stores and not topology.global_stores:
        # Only the name of the process is kept there, which then lives as long as the process.
        root = Path(tempfile.mkdtemp(prefix="streams-"))
        log.info("there is no home directory, and no store: the name of the process is kept in %s", root)
    return StateDirectory.open(
        root,
        config.application_id,
        group_write=config.allow_os_group_write_access,
        locks=platform.file_locks,
    )


def _open_cluster(config: StreamsConfig, clients: KafkaClients, platform: Platform, client_id: str) -> ClusterAccess:
    admin_id = f"{client_id}-admin"
    writer = _RequestWriter(clients, config, f"{client_id}-requests", platform.clock)
    admin = clients.admin(client_configs.admin(config, admin_id))
    return ClusterAccess(
        clients=clients,
        admin=admin,
        admin_client_id=admin_id,
        shutdown_requests=ShutdownRequests(writer.send, platform.threads),
        batch_limits=TopicBatchLimits(admin, platform.threads),
    )


def _process(
    parts: ApplicationParts,
    cluster: ClusterAccess,
    directory: StateDirectory,
    listeners: StateListeners,
) -> tuple[ProcessResources, TopicWatch | None]:
    """Plans the tasks on the topics that exist; returns what the threads share, and what looks for other topics."""
    topology, config, platform = parts.topology, parts.config, parts.platform
    settings, threads = config.dotted(), platform.threads
    fitter = TopicFitter(topology, config, settings, cluster.admin)
    existing = fitter.existing()
    warn_of_lost_history(topology)
    readable = fitter.readable(existing)
    fitter.check_written(existing)
    plans = PlanBook(fitter.fit(readable, existing), threads)
    process = ProcessResources(
        config=config,
        plans=plans,
        cluster=cluster,
        state=_local_state(config, directory, platform),
        platform=platform,
        metrics=parts.metrics,
        deploy_check=DeployCheck(topology, settings, existing, cluster.admin, platform.clock, threads),
        outputs=OutputTopics(config, platform.clock, threads),
        turns=TurnTimer(threads, platform.clock),
        listeners=listeners,
        watch=spans_by(config),
    )
    return process, TopicWatch(fitter, readable, plans) if fitter.growing else None


def _local_state(config: StreamsConfig, directory: StateDirectory, platform: Platform) -> LocalState:
    return LocalState(
        directory=directory,
        engines=Engines.of(config, platform.clock, platform.engines),
        memory=BufferMemory(
            config.statestore_cache_max_bytes,
            config.statestore_uncommitted_max_bytes,
            config.input_buffer_max_bytes,
            config.num_stream_threads,
        ),
        recovery=StateRecovery(config.application_id, directory, config.state_on_damage),
    )


def _close_after_failure(closing: ExitStack) -> None:
    try:
        closing.close()
    except BaseException as error:  # such as one of a processor that fills a global store
        if passes(error):
            raise
        log.warning("not closed in order", extra={"error": plain_str(error)}, exc_info=error)


def _remove_obsolete(directory: StateDirectory, clock: Clock, older_than_ms: int) -> None:
    removed = directory.remove_obsolete(older_than_ms, clock.time_ms())
    if removed:
        log.info("state of tasks that are elsewhere removed", extra={"tasks": " ".join(map(str, removed))})


@dataclass(frozen=True)
class _RequestWriter:
    """Writes requests to the members of the application, each with a producer of its own."""

    clients: KafkaClients
    config: StreamsConfig
    client_id: str
    clock: Clock

    def send(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        """Writes a record and waits for it.

        :raises ProductionError: if the broker does not take it.
        """
        producer = self.clients.producer(client_configs.producer(self.config, self.client_id))
        refused: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                refused.append(error)

        try:
            producer.produce(topic, value, key, partition, delivered, None, self.clock.time_ms(), None)
            producer.flush()
        finally:
            producer.close()
        if refused:
            raise ProductionError(f"a request cannot be written: {refused[0]}", topic=topic, partition=partition)


def thread_metrics_registry(config: StreamsConfig, clock: Clock) -> Metrics:
    """Returns the registry of an application's metrics, which processors may add to."""
    return Metrics(
        clock.time_ms,
        samples=config.metrics_num_samples,
        window_ms=config.metrics_sample_window_ms,
        level=RecordingLevel[config.metrics_recording_level],
    )
