"""Runs an application: starts and stops its stream threads (semantics 130)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from processor_api.clock import Clock, SystemClock
from processor_api.errors import ConfigError, StreamsError
from processor_api.metrics import Metric, MetricName
from processor_api.standard_files import hold_standard_files
from processor_api.task_id import TaskId
from processor_api.topology.function import TopologyLike
from processor_api.user_code.checks import check_function
from processor_api.user_code.durations import Timeout, to_seconds
from state.directory.state_directory import StateDirectory
from streams.app.application_run import ApplicationRun
from streams.app.builtin_metrics import client_metrics, global_metrics, thread_metrics
from streams.app.client_metrics import client_statistics_metrics
from streams.app.listeners import GuardedRestoreListener, GuardedStandbyListener
from streams.app.opening import ApplicationParts, thread_metrics_registry
from streams.app.states import ENDED, ClientState, StateListener
from streams.app.uncaught import StreamsUncaughtExceptionHandler
from streams.config import StreamsConfig
from streams.kafka.ports import Admin, KafkaClients
from streams.platform import Platform
from streams.restore.follower import StandbyUpdateListener
from streams.restore.reports import StateRestoreListener
from streams.runtime.tasks.assembly import topology_to_run
from streams.runtime.threads.thread_state import ThreadMetadata, ThreadState
from streams.shadow.clients import as_shadow
from streams.version import __version__

if TYPE_CHECKING:
    from processor_api.record import HeaderList
    from processor_api.topology.partitioner import StreamPartitioner
    from processor_api.user_code.given_serdes import SerdeLike
    from streams.observing.status import WorkerStatus
    from streams.queries.owners import KeyQueryMetadata, Owners, StreamsMetadata
    from streams.queries.queries import Queries
    from streams.queries.request import StateQueryRequest
    from streams.queries.results import LagInfo, StateQueryResult
    from streams.queries.store_types import StoreQueryParameters

R = TypeVar("R")
S = TypeVar("S")

log = logging.getLogger("streams.client")


class KafkaStreams:
    """Runs a topology on a Kafka cluster. Its methods may be called by any thread.

    It is a context manager: it starts, and closes at the end, where it raises what it failed with. Here the cluster is
    one in memory; without ``clients`` it is the one that ``bootstrap.servers`` names::

        from tempfile import TemporaryDirectory

        from streams import ClientState, KafkaStreams, StreamsBuilder
        from streams.testing import EmbeddedKafka

        builder = StreamsBuilder()
        builder.stream("lines").map_values(str.upper).to("loud")

        with TemporaryDirectory() as state_dir, EmbeddedKafka() as kafka:
            kafka.create_topics("lines", "loud")
            settings = {
                "application.id": "shout",
                "bootstrap.servers": "localhost:9092",
                "default.key.serde": "string",
                "default.value.serde": "string",
                "commit.interval.ms": 100,
                "state.dir": state_dir,
            }
            with KafkaStreams(builder, settings, clients=kafka.clients) as app:
                assert app.wait(30, state=ClientState.RUNNING)
                kafka.create_input_topic("lines").pipe_input("ann", "hello")
                assert kafka.read_records("loud", 1)[0].value == "HELLO"

    :param topology: a topology, a ``StreamsBuilder``, or a function that makes either and may take the configuration. A
        builder is built with the configuration, which a topology that was built before should have been too.
    :param config: a configuration, or settings under Kafka's names.
    :param clients: makes the Kafka clients; librdkafka's if not given.
    :param clock: the time; the machine's if not given.
    :param platform: all that is taken from the machine, the clock among it, for simulations.
    """

    def __init__(
        self,
        topology: TopologyLike,
        config: StreamsConfig | Mapping[str, Any],
        clients: KafkaClients | None = None,
        *,
        clock: Clock | None = None,
        platform: Platform | None = None,
    ) -> None:
        hold_standard_files()
        self.config = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        self.topology = topology_to_run(topology, self.config)
        platform = platform or Platform(clock=clock or SystemClock())
        parts = ApplicationParts(
            topology=self.topology,
            config=self.config,
            clients=as_shadow(clients or _librdkafka(platform.clock), self.topology, self.config, platform.clock),
            platform=platform,
            metrics=thread_metrics_registry(self.config, platform.clock),
            endpoint=self.config.application_server or None,
        )
        self._run = ApplicationRun(parts)
        self._endpoint: str | None = None
        self.unfinished = self._run.unfinished
        """Removes what a start has made; for :func:`discard_start`."""

    # ------------------------------------------------------------------ state

    @property
    def state(self) -> ClientState:
        """The state of the application now."""
        return self._run.state

    @property
    def failure(self) -> Exception | None:
        """The error that ended the application, or the close; ``None`` if there was none."""
        return self._run.failure

    def set_state_listener(self, listener: StateListener) -> None:
        """Has ``listener(new, old)`` called at every change of state.

        An error that it raises is logged, and the application continues.

        ::

            app.set_state_listener(lambda new, old: print(f"{old} -> {new}"))
            app.start()
            assert app.wait(timedelta(seconds=30), state=ClientState.RUNNING)

        :raises StreamsError: after the start.
        :raises TopologyError: if it is not a function that can be called so, or is made by ``async def``.
        """
        self._require_created("a state listener")
        check_function(listener, "listener", "set_state_listener", ("new", "old"))
        self._run.states.listener = listener

    def set_global_state_restore_listener(self, listener: StateRestoreListener) -> None:
        """Has ``listener`` called when a store is restored; it takes the place of an earlier one.

        An error that it raises is logged, and the restore continues.

        ::

            class Restores(StateRestoreListener):
                def on_restore_end(self, partition, store, restored):
                    print(f"{store} is restored: {restored} records")

            app.set_global_state_restore_listener(Restores())

        :raises StreamsError: after the start.
        :raises TopologyError: if it is not a listener, or one of its methods takes other arguments.
        """
        self._require_created("a restore listener")
        self._run.listeners = replace(self._run.listeners, restores=(GuardedRestoreListener(listener),))

    def set_standby_update_listener(self, listener: StandbyUpdateListener) -> None:
        """Has ``listener`` called when standby tasks follow changelogs (KIP-988); it takes the place of an earlier one.

        An error that it raises is logged, and the tasks continue.

        ::

            class Copies(StandbyUpdateListener):
                def on_update_start(self, partition, store, starting_offset):
                    print(f"a copy of {store} follows {partition} from {starting_offset}")

            app.set_standby_update_listener(Copies())

        :raises StreamsError: after the start.
        :raises TopologyError: if it is not a listener, or one of its methods takes other arguments.
        """
        self._require_created("a standby update listener")
        self._run.listeners = replace(self._run.listeners, standbys=(GuardedStandbyListener(listener),))

    def set_uncaught_exception_handler(self, handler: StreamsUncaughtExceptionHandler) -> None:
        """Has ``handler(error)`` decide what to do when a stream thread fails (KIP-671).

        Without a handler the application shuts down.

        ::

            app.set_uncaught_exception_handler(lambda error: StreamThreadExceptionResponse.REPLACE_THREAD)
            app.start()

        :raises StreamsError: after the start.
        :raises TopologyError: if it is not a function that can be called so, or is made by ``async def``.
        """
        self._require_created("an uncaught exception handler")
        call = "set_uncaught_exception_handler"
        check_function(handler, "handler", call, ("error",), returns=True, result="a StreamThreadExceptionResponse")
        self._run.handler = handler

    def _require_created(self, what: str) -> None:
        if self.state is not ClientState.CREATED:
            raise StreamsError(f"{what} can be set only before start(), and the application is {self.state}")

    def wait(self, timeout: Timeout | None = None, *, state: ClientState | None = None) -> bool:
        """Waits until the application is in a state; returns whether it is.

        It also returns when the application has ended.

        ::

            with app:
                assert app.wait(timedelta(seconds=30), state=ClientState.RUNNING)

        :param timeout: a ``timedelta`` or seconds; ``None`` waits as long as it takes.
        :param state: ``None`` waits for the end.
        :raises StreamsError: without a timeout before the start, for which it could wait forever.
        :raises TypeError: if the timeout is neither a timedelta nor a number.
        :raises ValueError: if the timeout is negative, or a number above 3,600.
        """
        timeout_s = None if timeout is None else to_seconds(timeout, "timeout")
        if self._run.script.is_of_parent():
            process = self._run.script.id
            raise StreamsError(
                f"the application runs in process {process}, and this process is a forked child: call it in that"
                " process"
            )
        if timeout_s is None and self.state is ClientState.CREATED:
            raise StreamsError("the application is not started: call start() first, or give wait() a timeout")
        return self._run.states.wait(timeout_s, state)

    def is_ready(self) -> bool:
        """Whether this process does its part: every task that it owns runs, or waits for workers of another topology.

        A process without tasks is ready too. One that restores its tasks is not, nor one with an input partition that
        has records and delivers none, nor one without tasks
        that fills copies of tasks which are to move to it (semantics 100), nor one that has not reached a broker.
        Workers of a new topology are ready while they wait until those of the old one have left, so that a rolling
        update, which waits for the new ones to be ready, continues.

        ::

            assert app.is_ready()
        """
        threads = self._run.threads
        if self.state is ClientState.RUNNING:
            if any(one.stalled_partitions() for one in threads or ()):
                return False
            coming = [one for one in threads or () if one.is_warming_up()]
            return not coming or any(one.owned_tasks() for one in threads or () if one not in coming)
        if threads is None or self.state is not ClientState.REBALANCING:
            return False
        return all(one.is_ready() for one in threads)

    @property
    def has_run(self) -> bool:
        """Whether the application has been RUNNING, however short.

        ::

            assert app.has_run
        """
        return self._run.has_run

    # ------------------------------------------------------------------ start

    def start(self) -> None:
        """Checks the topics, makes the internal ones, fills the global stores and starts the threads.

        It returns when the global stores are filled, or when the application was closed by another thread. A disk that
        is full is waited for, with a line in the log, until ``task.timeout.ms``.

        ::

            app.start()
            assert app.wait(timedelta(seconds=30), state=ClientState.RUNNING)
            app.close()

        :raises TopologyError: if the topology does not fit the cluster's topics.
        :raises StateDirectoryError: if the state directory cannot be used.
        :raises RetryableError: if no broker answers.
        """
        if self.config.http_listen is not None and self.state is ClientState.CREATED:
            self._listen()
        self._run.start()

    def _listen(self) -> None:
        """Opens the HTTP port, before all else: a probe learns that the start takes long."""
        with http_room():
            from streams.http.server import HttpPort
        run, port = self._run, HttpPort(self.config)
        run.parts = replace(run.parts, endpoint=port.endpoint)
        self._endpoint = port.url
        platform = run.parts.platform

        def admin() -> Admin | None:
            return None if run.resources is None else run.resources.process.cluster.admin

        server = port.serve_application(
            self, lambda: self._queries, self._owners, platform.clock, platform.threads, admin, run.parts.clients
        )
        run.states.at_end.callback(server.close)

    # ------------------------------------------------------------------ threads

    def add_stream_thread(self) -> str | None:
        """Starts one more stream thread; the memory for caches is divided again.

        ::

            name = app.add_stream_thread()
            assert name in app.tasks()

        :returns: its name; ``None`` unless the application is running or rebalancing.
        """
        thread = None
        if self._run.threads is not None and self.state.is_running_or_rebalancing():
            thread = self._run.threads.add()
        if thread is None:
            log.warning("a stream thread cannot be added now", extra={"state": self.state.value})
            return None
        thread.start()
        return thread.name

    def remove_stream_thread(self, timeout: Timeout | None = None) -> str | None:
        """Ends one stream thread: it commits, closes its tasks and leaves the group, and the others take over.

        A stream thread that calls this ends itself, after the current record.

        ::

            app.add_stream_thread()
            name = app.remove_stream_thread(timedelta(seconds=30))
            assert name not in app.tasks()

        :param timeout: how long to wait for its end, a ``timedelta`` or seconds; it ends also if that
            takes longer. ``None`` waits as long as it takes.
        :returns: its name; ``None`` unless the application is running or rebalancing and has a thread.
        """
        timeout_s = None if timeout is None else to_seconds(timeout, "timeout")
        thread = None
        if self._run.threads is not None and self.state.is_running_or_rebalancing():
            thread = self._run.threads.choose()
        if thread is None:
            log.warning("no stream thread can be removed now", extra={"state": self.state.value})
            return None
        thread.stop(remain=False)
        if not thread.join(timeout_s) and not thread.is_current():
            log.warning("a stream thread has not ended in time", extra={"thread_name": thread.name})
        return thread.name

    def pause(self) -> None:
        """Suspends processing, punctuations and restores from the next batch on (KIP-834).

        The application stays in its group and in its state, and continues with :meth:`resume`. It may also be paused
        before the start.

        ::

            app.pause()
            assert app.is_paused()
            app.resume()
        """
        self._run.paused = True

    def resume(self) -> None:
        """Resumes the application after :meth:`pause`.

        ::

            app.pause()
            app.resume()
            assert not app.is_paused()
        """
        self._run.paused = False

    def is_paused(self) -> bool:
        """Returns whether the application is paused.

        ::

            assert not app.is_paused()
        """
        return self._run.paused

    # ------------------------------------------------------------------ stop

    def close(self, timeout: Timeout | None = None, *, leave_group: bool | None = None) -> bool:
        """Commits, closes tasks and stops the threads; returns whether all of it was done in time.

        Work that was not done in time continues. Called by a stream thread or by the state listener, it asks for the
        end and returns at once. In a child that was forked it does nothing: the application is the parent's.

        ::

            assert app.close(timedelta(seconds=30))
            assert app.state is ClientState.NOT_RUNNING

        :param timeout: a ``timedelta`` or seconds; ``None`` waits as long as it takes.
        :param leave_group: gives the tasks to other members at once; otherwise a member with a static id keeps them for
            the session timeout, to be back by then (KIP-1153). By default it leaves, unless the application was given a
            ``group.instance.id``.
        :raises ValueError: if the timeout is negative, or a number above 3,600.
        """
        timeout_s = None if timeout is None else to_seconds(timeout, "timeout")
        return self._run.close(timeout_s, remain=None if leave_group is None else not leave_group)

    def clean_up(self) -> None:
        """Deletes the local state of the application's tasks; metadata and other applications stay (semantics 118).

        ::

            app.clean_up()  # before start(), to restore all stores from Kafka
            with app:
                assert app.wait(timedelta(seconds=30), state=ClientState.RUNNING)

        :raises StreamsError: while it runs.
        :raises StateDirectoryError: while another process has a task of the application open.
        """
        if self.state not in (ClientState.CREATED, *ENDED):
            raise StreamsError(
                f"local state can be deleted only while the application does not run, and it is {self.state}: close it"
                " first"
            )
        directory = StateDirectory.open(
            self.config.state_dir,
            self.config.application_id,
            group_write=self.config.allow_os_group_write_access,
        )
        directory.clean_up()

    # ------------------------------------------------------------------ what it does

    def tasks(self) -> dict[str, list[TaskId]]:
        """Returns the tasks that each thread of this process owns, by thread name.

        ::

            [tasks] = app.tasks().values()
            assert [str(task) for task in tasks] == ["0_0"]
        """
        return {thread.name: thread.owned_tasks() for thread in self._run.threads or ()}

    def metadata_for_local_threads(self) -> frozenset[ThreadMetadata]:
        """Returns what the threads of this process do now, without those that have no clients yet.

        ::

            [thread] = app.metadata_for_local_threads()
            [task] = thread.active_tasks
            assert str(task.task_id) == "0_0"
        """
        return frozenset() if self._run.threads is None else self._run.threads.metadata()

    # ------------------------------------------------------------------ queries

    @cached_property
    def _queries(self) -> Queries:
        from streams.app.querying import make_queries  # a worker that no one asks starts without it

        run = self._run
        return make_queries(
            run.parts, state=lambda: run.state, resources=lambda: run.resources, threads=lambda: run.threads or ()
        )

    def store(self, parameters: StoreQueryParameters[S]) -> S:
        """Returns a store of this process for reading, which looks for the store's partitions again at each call.

        ::

            counts = app.store(StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()))
            assert counts.get("ann") == 1

        :raises InvalidStateStoreError: if it cannot be read now, or cannot be read as that type (KIP-216); what is
            returned raises the same later. `StreamsRebalancingError` and `StateStoreMigratedError` may pass.
        """
        return self._queries.store(parameters)

    def query(self, request: StateQueryRequest[R]) -> StateQueryResult[R]:
        """Queries the partitions of a store that are in this process (KIP-796). Each has a result or a failure.

        ::

            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
            assert app.query(request).only_partition_result.result == 1

        :raises InvalidStateStoreError: if the application does not run, or has no such store.
        """
        return self._queries.query(request)

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """Returns how far the stores of this process are behind their changelogs, by name and partition.

        A store that runs is not behind. No broker is asked.

        ::

            lags = app.all_local_store_partition_lags()
            assert lags["counts"][0].offset_lag == 0

        :raises StreamsNotStartedError: before the start.
        :raises StreamsStoppedError: at the end.
        """
        from streams.queries.results import local_lags

        self._queries.check()
        return local_lags(self._run.threads or ())

    @cached_property
    def _owners(self) -> Owners:
        from streams.app.querying import make_owners

        return make_owners(self._run.parts, lambda: self._run.resources)

    def query_metadata_for_key(
        self,
        store: str,
        key: Any,
        key_serde: SerdeLike[Any] | StreamPartitioner,
        *,
        headers: HeaderList | None = None,
    ) -> KeyQueryMetadata:
        """Returns the process that has a key of a store, by the address that it tells (``application.server``).

        The group is asked, at most once in a second; during a rebalance the process may be unavailable.

        ::

            found = app.query_metadata_for_key("counts", "ann", Serdes.STRING)
            assert found.partition == 0

        :param key_serde: the serde of the keys, or the function that chose the partition of their records, which gets
            no topic and no value.
        :param headers: the headers of the record, for a function that chose its partition by these too.
        :raises InvalidStateStoreError: if the application does not run, or has no such store.
        :raises RetryableError: if the group does not answer.
        """
        queries = self._queries
        queries.builder(store)
        return self._owners.of_key(store, key, key_serde, queries.partitions(store), headers)

    def streams_metadata_for_store(self, store: str) -> tuple[StreamsMetadata, ...]:
        """Returns the processes that have partitions of a store; all of them for a global store.

        ::

            for process in app.streams_metadata_for_store("counts"):
                print(process.host_info)

        :raises InvalidStateStoreError: if the application does not run, or has no such store.
        :raises RetryableError: if the group does not answer.
        """
        self._queries.builder(store)
        return self._owners.of_store(store)

    def metadata_for_all_streams_clients(self) -> tuple[StreamsMetadata, ...]:
        """Returns the processes of the application that tell an address, with their stores and partitions.

        ::

            for process in app.metadata_for_all_streams_clients():
                print(process.host_info, sorted(process.state_store_names))

        :raises StreamsNotStartedError: before the start.
        :raises StreamsStoppedError: at the end.
        :raises RetryableError: if the group does not answer.
        """
        self._queries.check()
        return self._owners.all()

    def metrics(self) -> dict[MetricName, Metric]:
        """Returns everything that is measured in this process now, under Kafka's names.

        That is the runtime's own counters, and what processors added by ``context.metrics()``.

        ::

            values = {name.name: metric.metric_value() for name, metric in app.metrics().items()}
            assert values["state"] == "RUNNING"
        """
        threads, resources = self._run.threads, self._run.resources
        values: dict[str, tuple[str, Callable[[], Any]]] = {
            "application-id": ("the application's id", lambda: self.config.application_id),
            "version": ("the version of this library", lambda: __version__),
            "state": ("the state of the application", lambda: self.state.value),
            "recording-level": ("0 is INFO, 1 DEBUG, 2 TRACE", lambda: int(self._run.parts.metrics.level)),
            "topology-description": ("the topology", self.topology.describe),
            "alive-stream-threads": (
                "stream threads that run or start",
                lambda: sum(thread.state is not ThreadState.DEAD for thread in threads or ()),
            ),
            "failed-stream-threads": (
                "stream threads that have failed since the start",
                lambda: 0 if threads is None else threads.failed,
            ),
            "output-topics-deleted-total": (
                "times that an output topic was deleted while the application ran",
                lambda: 0 if resources is None else resources.process.outputs.deleted,
            ),
        }
        tags = {"client-id": self.config.client_id, "application-id": self.config.application_id}
        if resources is not None:
            tags |= {"client-id": resources.client_id, "process-id": str(resources.identity)}
        of_client = client_metrics(tags, values, lambda: list(ClientState).index(self.state))
        found = {metric.metric_name: metric for metric in of_client}
        found |= {metric.metric_name: metric for metric in thread_metrics(threads or ())}
        if resources is not None:
            clients = resources.process.cluster.clients.statistics()
            found |= {metric.metric_name: metric for metric in client_statistics_metrics(clients)}
        global_thread = None if resources is None else resources.global_stores.thread
        if global_thread is not None:
            found |= {metric.metric_name: metric for metric in global_metrics(global_thread)}
        return found | self._run.parts.metrics.metrics()

    def status(self) -> WorkerStatus:
        """Returns what this process does now: its threads, and of each task its inputs, nodes and stores.

        Any thread may ask, in any state of the application; no broker is asked.

        ::

            [task] = app.status().tasks
            assert (task.state, task.lag) == ("RUNNING", 0)
        """
        from streams.app.worker_status import worker_status  # a worker that no one asks starts without it

        return worker_status(self._run, ready=self.is_ready(), endpoint=self._endpoint)

    def __enter__(self) -> KafkaStreams:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Closes it; what it failed with is raised, so that a script does not end as if all were well."""
        self.close()
        if kind is None and self.failure is not None:
            raise self.failure


@contextmanager
def http_room() -> Iterator[None]:
    """Names the extra that is needed where the libraries of the HTTP port are imported, as a context manager.

    :raises ConfigError: if one is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"http.listen needs {error.name}: pip install 'streams-for-kafka[http]'") from None


def _librdkafka(clock: Clock) -> KafkaClients:
    from streams.kafka.confluent import ConfluentClients  # loaded only where it is used

    return ConfluentClients(clock=clock)


def discard_start(application: object) -> None:
    """Removes a state directory that was made by a start which has not returned, such as one that waits for a broker.

    Only for a process that ends at once after it: the start continues without the directory.
    """
    if isinstance(application, KafkaStreams):
        application.unfinished.close()
