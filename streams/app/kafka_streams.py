"""The client of an application: starts and stops its stream threads (reference 2.8)."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.durations import Duration, to_ms
from processor_api.errors import StreamsError
from processor_api.task_id import TaskId
from processor_api.topology import Topology
from state.directory import Slot, StateDirectory
from streams.app.topics import plan_and_create
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.ports import Admin, KafkaClients
from streams.restore.restorer import RestoreListener
from streams.runtime.engines import Engines
from streams.runtime.garbage import relax_collector, restore_collector
from streams.runtime.life import Shared, ThreadIdentity, ThreadLife
from streams.runtime.stream_thread import StreamThread, ThreadState

__all__ = ["ClientState", "KafkaStreams"]

log = logging.getLogger("streams.client")


class ClientState(enum.StrEnum):
    """Where an application is in its life."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


StateListener = Callable[[ClientState, ClientState], None]
"""``(new_state, old_state)``, called by whichever thread changed it."""

_ENDED = (ClientState.NOT_RUNNING, ClientState.ERROR)


class _LoopSettings:
    def __init__(self, config: StreamsConfig) -> None:
        self.commit_interval_ms = config.commit_interval_ms
        self.poll_ms = config.poll_ms
        self.max_poll_records = client_configs.max_poll_records(config)
        self.buffered_records_per_partition = config.buffered_records_per_partition
        self.retry_backoff_ms, self.retry_backoff_max_ms = client_configs.retry_backoff_ms(config)
        self.task_timeout_ms = config.task_timeout_ms


class KafkaStreams:
    """Runs a topology on a Kafka cluster.

    :param topology: built by `Topology` or by ``StreamsBuilder.build``.
    :param config: a configuration, or settings under Kafka's names.
    :param clients: makes the Kafka clients; librdkafka's if not given.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | Mapping[str, Any],
        clients: KafkaClients | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.config = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        self.topology = topology
        self.failure: Exception | None = None
        self._clock = clock or SystemClock()
        self._clients = clients or _librdkafka(self._clock)
        self._changed = threading.Condition(threading.RLock())
        self._state = ClientState.CREATED
        self._state_listener: StateListener | None = None
        self._restore_listeners: list[RestoreListener] = []
        self._threads: list[StreamThread] = []
        self._slot: Slot | None = None
        self._admin: Admin | None = None
        self._closer: threading.Thread | None = None
        self._collector_before: tuple[int, int, int] | None = None

    # ------------------------------------------------------------------ state

    @property
    def state(self) -> ClientState:
        return self._state

    def set_state_listener(self, listener: StateListener) -> None:
        """Calls ``listener`` at every change of state. To be set before the start."""
        self._require_created("a state listener")
        self._state_listener = listener

    def add_restore_listener(self, listener: RestoreListener) -> None:
        """Tells ``listener`` of restores. To be added before the start."""
        self._require_created("a restore listener")
        self._restore_listeners.append(listener)

    def _require_created(self, what: str) -> None:
        if self._state is not ClientState.CREATED:
            raise StreamsError(f"{what} can be set only before the start; the application is {self._state}")

    def _become(self, state: ClientState) -> None:
        with self._changed:
            old = self._state
            if old is state or old in _ENDED:
                return
            self._state = state
            self._changed.notify_all()
        log.info("state", extra={"state": state.value, "before": old.value})
        if self._state_listener is not None:
            try:
                self._state_listener(state, old)
            except Exception as error:
                log.error("the state listener raised", extra={"error": str(error)}, exc_info=error)

    def wait(self, timeout_s: float | None = None, *, state: ClientState | None = None) -> bool:
        """Waits for a state (the end if none is given); tells whether it came. It also returns at the end."""

        def reached() -> bool:
            return self._state in _ENDED or self._state is state

        with self._changed:
            self._changed.wait_for(reached, timeout_s)
            return self._state is state if state is not None else self._state in _ENDED

    # ------------------------------------------------------------------ start

    def start(self) -> None:
        """Checks the topics, makes the internal ones and starts the threads.

        :raises TopologyError: if the topology does not fit the cluster's topics.
        :raises StateDirectoryError: if the state directory cannot be used.
        :raises RetryableError: if no broker answers.
        """
        self._require_created("an application")
        self._become(ClientState.REBALANCING)
        try:
            shared = self._open()
            instance = client_configs.group_instance_id(self.config)
            for number in range(1, self.config.num_stream_threads + 1):
                self._threads.append(self._make_thread(shared, number, instance))
        except BaseException as error:
            self.failure = error if isinstance(error, Exception) else None
            self._release()
            self._become(ClientState.PENDING_ERROR)
            self._become(ClientState.ERROR)
            raise
        self._collector_before = relax_collector()
        for thread in self._threads:
            thread.start()

    def _open(self) -> Shared:
        config = self.config
        directory = StateDirectory.open(
            config.state_dir, config.application_id, group_write=config.allow_os_group_write_access
        )
        self._slot = directory.claim_slot()
        self._identity = directory.identity(self._slot)
        self._client_id = config.client_id or f"{config.application_id}-{self._identity}"
        self._admin = self._clients.admin(client_configs.admin(config, f"{self._client_id}-admin"))
        settings = config.dotted()
        plans, group = plan_and_create(self.topology, config, settings, self._admin)
        return Shared(
            config=config,
            settings=settings,
            plans=plans,
            group=group,
            clients=self._clients,
            admin=self._admin,
            engines=Engines(self._clock),
            directory=directory,
            clock=self._clock,
            restore_listeners=tuple(self._restore_listeners),
        )

    def _make_thread(self, shared: Shared, number: int, instance: str | None) -> StreamThread:
        own = f"{self.config.application_id}-{self._identity}"
        identity = ThreadIdentity(
            thread=f"{self._client_id}-StreamThread-{number}",
            instance_id=f"{instance or own}-{number}",
            transactional_id=f"{own}-{number}",
            fixed_instance=instance is not None,
        )
        return StreamThread(
            identity.thread,
            lambda: ThreadLife(shared, identity),
            _LoopSettings(self.config),
            self._clock,
            self._thread_changed,
        )

    def _thread_changed(self, thread: StreamThread, state: ThreadState) -> None:
        if self._state in (ClientState.PENDING_SHUTDOWN, ClientState.CREATED, *_ENDED):
            return
        if thread.failure is not None and state is ThreadState.DEAD:
            self.failure = self.failure or thread.failure
            self._become(ClientState.PENDING_ERROR)
            self._close_soon(ClientState.ERROR)
        elif all(one.state is ThreadState.RUNNING for one in self._threads):
            self._become(ClientState.RUNNING)
        elif self._state is ClientState.RUNNING:
            self._become(ClientState.REBALANCING)

    # ------------------------------------------------------------------ stop

    def close(self, timeout: Duration | None = None, *, leave_group: bool | None = None) -> bool:
        """Commits, closes tasks and stops the threads; tells whether all of it was done in time.

        :param timeout: ``None`` waits as long as it takes.
        :param leave_group: gives the tasks to other members at once; otherwise a member with a static id keeps them for
            the session timeout, to be back by then. By default it leaves, unless the application was given a
            ``group.instance.id``.
        """
        if self._state is ClientState.CREATED:
            self._become(ClientState.PENDING_SHUTDOWN)
            self._become(ClientState.NOT_RUNNING)
            return True
        stay = client_configs.group_instance_id(self.config) is not None if leave_group is None else not leave_group
        if self._state not in (*_ENDED, ClientState.PENDING_ERROR):
            self._become(ClientState.PENDING_SHUTDOWN)
            self._close_soon(ClientState.NOT_RUNNING, stay=stay)
        return self.wait(None if timeout is None else to_ms(timeout, "timeout") / 1000)

    def _close_soon(self, final: ClientState, *, stay: bool = False) -> None:
        with self._changed:
            if self._closer is not None:
                return
            self._closer = threading.Thread(target=self._finish, args=(final, stay), name="close", daemon=True)
        self._closer.start()

    def _finish(self, final: ClientState, stay: bool) -> None:
        for thread in self._threads:
            thread.stop(stay=stay)
        for thread in self._threads:
            thread.join(None)
            if thread.failure is not None:
                self.failure = self.failure or thread.failure
                final = ClientState.ERROR
        self._release()
        restore_collector(self._collector_before)
        self._become(final)

    def _release(self) -> None:
        if self._admin is not None:
            self._admin.close()
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    def clean_up(self) -> None:
        """Deletes the local state of the application's tasks (conformance 118).

        :raises StreamsError: while it runs.
        """
        if self._state not in (ClientState.CREATED, *_ENDED):
            raise StreamsError(
                f"local state can be deleted only while the application does not run; it is {self._state}"
            )
        directory = StateDirectory.open(
            self.config.state_dir,
            self.config.application_id,
            group_write=self.config.allow_os_group_write_access,
        )
        directory.clean_up()

    def tasks(self) -> dict[str, list[TaskId]]:
        """The tasks that each thread of this process owns, by thread name."""
        return {thread.name: thread.owned_tasks() for thread in self._threads}

    def __enter__(self) -> KafkaStreams:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Closes it; what it failed with is raised, so that a script does not end as if all were well."""
        self.close()
        if kind is None and self.failure is not None:
            raise self.failure


def _librdkafka(clock: Clock) -> KafkaClients:
    from streams.kafka.confluent import ConfluentClients  # loaded only where it is used

    return ConfluentClients(clock=clock)
