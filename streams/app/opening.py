"""What an application opens when it starts, and what its threads are made with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import ProductionError
from processor_api.metrics import RecordingLevel
from processor_api.topology import Topology
from state.directory.state_directory import ProcessIdentity, Slot, StateDirectory
from streams.app.global_part import GlobalPart
from streams.app.housekeeping import Housekeeper
from streams.app.open_files import raise_open_files
from streams.app.topics import TopicFitter, TopicWatch, warn_of_lost_history
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.ports import Admin, KafkaClients
from streams.kafka.shutdown_requests import ShutdownRequests
from streams.metrics.registry import Metrics
from streams.platform import Platform
from streams.restore.restorer import StateRestoreListener
from streams.runtime.engines.memory import BufferMemory
from streams.runtime.engines.opener import Engines, rocksdb_memory
from streams.runtime.engines.state_recovery import Rebuilds
from streams.runtime.plan.plans import PlanBook
from streams.runtime.threads.thread_resources import Shared, ThreadIdentity, ThreadLife

__all__ = ["Opened", "open_application", "thread_metrics_registry"]

log = logging.getLogger("streams.client")


class Opened:
    """The state directory, the admin client and the plans of an application that runs."""

    shared: Shared
    directory: StateDirectory
    identity: ProcessIdentity
    rebuilds: Rebuilds

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        clients: KafkaClients,
        platform: Platform,
        metrics: Metrics,
        global_part: GlobalPart,
    ) -> None:
        self.topology = topology
        self.config = config
        self.clients = clients
        self.platform = platform
        self.clock = platform.clock
        self.metrics = metrics
        self.client_id = config.client_id
        self.admin: Admin | None = None
        self.watch: TopicWatch | None = None
        self.global_part = global_part
        self._slot: Slot | None = None
        self._instance = client_configs.group_instance_id(config)

    def claim(self) -> None:
        """Takes a slot of the state directory, which names the clients."""
        config = self.config
        self.directory = StateDirectory.open(
            config.state_dir,
            config.application_id,
            group_write=config.allow_os_group_write_access,
            locks=self.platform.file_locks,
        )
        self.rebuilds = Rebuilds(config.application_id, self.directory, config.state_on_damage)
        self._slot = self.directory.claim_slot()
        self.identity = self.directory.identity(self._slot)
        self.client_id = config.client_id or f"{config.application_id}-{self.identity}"
        if config.state_cleanup_dir_max_age_ms >= 0:
            self._remove_obsolete(config.state_cleanup_dir_max_age_ms)

    def release(self) -> None:
        """Gives everything back; also after a start that failed."""
        try:
            self.global_part.close()
        finally:
            admin, self.admin = self.admin, None
            if admin is not None:
                admin.close()
            if self._slot is not None:
                self._slot.release()
                self._slot = None

    def open_global_stores(
        self, settings: Mapping[str, Any], engines: Engines, listeners: Collection[StateRestoreListener]
    ) -> None:
        """In the directory of this process; they are not filled yet."""
        assert self.admin is not None
        assert self._slot is not None
        self.global_part.open(
            self.topology,
            self.config,
            settings,
            client_id=self.client_id,
            clients=self.clients,
            admin=self.admin,
            engines=engines,
            directory=self.directory,
            slot=self._slot,
            clock=self.clock,
            listeners=listeners,
            metrics=self.metrics,
            rebuilds=self.rebuilds,
        )

    def thread(self, number: int) -> tuple[str, Callable[[], ThreadLife]]:
        """The name of a stream thread, and what makes its lives."""
        own = f"{self.config.application_id}-{self.identity}"
        identity = ThreadIdentity(
            thread=f"{self.client_id}-StreamThread-{number}",
            instance_id=f"{self._instance or own}-{number}",
            transactional_id=f"{own}-{number}",
        )
        return identity.thread, lambda: ThreadLife(self.shared, identity)

    def housekeeper(self, is_running: Callable[[], bool]) -> Housekeeper:
        """Removes the directories of tasks that went elsewhere, and looks for new topics and partitions."""
        found = Housekeeper(f"{self.client_id}-housekeeping", self.clock, self.platform.threads)
        delay_ms = self.config.state_cleanup_delay_ms
        found.every(delay_ms, lambda: self._remove_obsolete(delay_ms) if is_running() else None)
        interval_ms = client_configs.topic_refresh_ms(self.config)
        if self.global_part.exists:
            found.every(interval_ms, self.global_part.look)
        if self.watch is not None:
            found.every(interval_ms, self.watch.look, wanted=self.shared.plans.outdated)
        return found

    def _remove_obsolete(self, older_than_ms: int) -> None:
        removed = self.directory.remove_obsolete(older_than_ms, self.clock.time_ms())
        if removed:
            log.info("state of tasks that are elsewhere removed", extra={"tasks": " ".join(map(str, removed))})

    def send_request(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        """Writes a record and waits for it.

        :raises ProductionError: if the broker does not take it.
        """
        producer = self.clients.producer(client_configs.producer(self.config, f"{self.client_id}-requests"))
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


def open_application(opened: Opened, restore_listeners: Collection[StateRestoreListener]) -> None:
    """Fills it in. What was opened until it fails is in it, to be released.

    :raises StreamsError: see `KafkaStreams.start`.
    """
    config, clock = opened.config, opened.clock
    raise_open_files(opened.topology)
    opened.claim()
    admin_id = f"{opened.client_id}-admin"
    admin = opened.admin = opened.clients.admin(client_configs.admin(config, admin_id))
    settings = config.dotted()
    warn_of_lost_history(opened.topology)
    fitter = TopicFitter(opened.topology, config, settings, admin)
    existing = fitter.existing()
    readable = fitter.readable(existing)
    plans = PlanBook(fitter.fit(readable, existing), opened.platform.threads)
    if fitter.growing:
        opened.watch = TopicWatch(fitter, readable, plans)
    engines = Engines(clock, config.rocksdb_config_setter, rocksdb_memory(config), settings, opened.platform.engines)
    opened.open_global_stores(settings, engines, restore_listeners)
    opened.shared = Shared(
        config=config,
        settings=settings,
        plans=plans,
        clients=opened.clients,
        admin=admin,
        admin_client_id=admin_id,
        engines=engines,
        directory=opened.directory,
        clock=clock,
        threads=opened.platform.threads,
        memory=BufferMemory(
            config.statestore_cache_max_bytes,
            config.statestore_uncommitted_max_bytes,
            config.input_buffer_max_bytes,
            config.num_stream_threads,
        ),
        rebuilds=opened.rebuilds,
        metrics=opened.metrics,
        shutdown_requests=ShutdownRequests(opened.send_request, opened.platform.threads),
        restore_listeners=tuple(restore_listeners),
        global_store=opened.global_part.reader,
    )


def thread_metrics_registry(config: StreamsConfig, clock: Clock) -> Metrics:
    """Where processors add metrics of their own."""
    return Metrics(
        clock.time_ms,
        samples=config.metrics_num_samples,
        window_ms=config.metrics_sample_window_ms,
        level=RecordingLevel[config.metrics_recording_level],
    )
