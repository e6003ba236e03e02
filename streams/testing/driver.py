"""Runs a topology without a broker: one task over all subtopologies, each topic with one partition.

As Kafka Streams' driver does, a piped record is processed to the end before the call returns, internal topics and user
topics that are read again included, with a commit after each record that the task processes; wall-clock time moves only
when told. It runs the runtime's own task code on an embedded broker's log.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, cast

from processor_api.clock import ManualClock
from processor_api.durations import Duration, to_ms
from processor_api.errors import StreamsError, TopologyError
from processor_api.nodes import SourceNode
from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.stores import SessionStore, TimestampedWindowStore, WindowStore
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology import Topology
from state.budget import Budget
from state.kinds import OpenStore
from streams.config import StreamsConfig
from streams.kafka.embedded import EmbeddedBroker, EmbeddedClients
from streams.kafka.internal_topics import source_topics
from streams.kafka.record_collector import RecordCollector
from streams.runtime.engines import Engines
from streams.runtime.environment import Environment
from streams.runtime.error_policy import error_policy_for
from streams.runtime.task import Task
from streams.runtime.task_plan import plan_all
from streams.runtime.task_stores import TaskStores
from streams.testing.timed_views import session_view, timestamped_window_view, window_view
from streams.testing.topics import TestInputTopic, TestOutputTopic

__all__ = ["Produced", "TopologyTestDriver"]

DEFAULTS: Mapping[str, Any] = {"application.id": "test-application", "bootstrap.servers": "embedded:9092"}


class Produced(NamedTuple):
    """A record that the topology produced, as bytes."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: HeaderList


class TopologyTestDriver:
    """See the module's text. A context manager; close it to remove its state.

    :param config: a configuration or a mapping of settings; an application id is made up if there is none.
    :param initial_wall_clock_ms: the wall clock at the start, ms since 1970.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | Mapping[str, Any] | None = None,
        *,
        initial_wall_clock_ms: int = 0,
    ) -> None:
        self.config = config if isinstance(config, StreamsConfig) else StreamsConfig.of({**DEFAULTS, **(config or {})})
        wrapper = self.config.processor_wrapper_class
        if wrapper is not None:
            topology = topology.wrapped_by(wrapper, self.config.dotted())
        self.clock = ManualClock(initial_wall_clock_ms)
        self._broker = EmbeddedBroker(self.clock, default_partitions=1, auto_create_topics=True)
        clients = EmbeddedClients(self._broker)
        self._input = clients.producer({})
        self._collector = RecordCollector(clients.producer({}), self.clock)
        self._read: dict[str, int] = {}
        self._outputs: dict[str, deque[Produced]] = {}
        self._taken: dict[str, list[Produced]] = {}
        self._produced_topics: set[str] = set()
        self._directory = Path(tempfile.mkdtemp(prefix="streams-driver-"))
        try:
            self._task = self._open_task(topology)
            self._task.start(self._collector, {})
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def _open_task(self, topology: Topology) -> Task:
        config = self.config
        settings = config.dotted()
        plan = plan_all(topology, settings, {})
        task_id = TaskId(plan.subtopology, 0)
        environment = Environment(
            application_id=config.application_id,
            task_id=task_id,
            clock=self.clock,
            state_dir=self._directory / str(task_id),
            app_configs=lambda: settings,
            default_key_serde=config.default_key_serde,
            default_value_serde=config.default_value_serde,
            default_timestamp_extractor=config.default_timestamp_extractor,
            errors=error_policy_for(config, task_id, self._collector),
            log_each_put=config.changelog_updates != "last",
        )
        budget = Budget(config.statestore_cache_max_bytes)
        return Task(
            plan,
            environment,
            TaskStores(plan, task_id, environment, budget, Engines(self.clock, config.rocksdb_config_setter).open),
        )

    # ------------------------------------------------------------------ input

    def pipe_raw(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Pipes one record of bytes and processes it to the end.

        :raises TopologyError: if no source reads the topic.
        """
        partition = TopicPartition(topic, 0)
        if partition not in self._task.queues:
            self._task.read_also(partition, self._matching_source(topic))
        self._capture()
        self._input.produce(topic, value, key, 0, None, None, timestamp, headers)
        self._input.poll(0)
        run, self._read[topic] = self._broker.log(partition).read(self._read.get(topic, 0), 1, False)
        self._task.add(partition, run)
        with self._handing_out_what_was_sent():
            self._complete()

    def _matching_source(self, topic: str) -> str:
        """The source whose pattern a new topic matches."""
        topology = self._task.plan.topology
        for name, node in topology.nodes.items():
            if isinstance(node, SourceNode) and topic in source_topics(topology, node, {topic: 1}):
                return name
        raise TopologyError(f"no source of the topology reads topic {topic!r}", topic=topic)

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Moves the wall clock, then runs what is due and processes what came of it."""
        self.clock.advance(to_ms(duration, "duration"))
        with self._handing_out_what_was_sent():
            self._task.punctuate_wall_clock()
            self._commit()
            self._complete()

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        *,
        start_timestamp: int | None = None,
        auto_advance: Duration = 0,
    ) -> TestInputTopic:
        """A writer of typed records to a topic.

        :param start_timestamp: of the first record, in ms; the driver's clock if not given.
        :param auto_advance: how much later each following record is.
        """
        start = self.clock.time_ms() if start_timestamp is None else start_timestamp
        key, value = self._serdes(topic, key_serde, value_serde)
        return TestInputTopic(self.pipe_raw, topic, key, value, start, to_ms(auto_advance, "auto_advance"))

    def create_output_topic(
        self, topic: str, key_serde: Serde[Any] | None = None, value_serde: Serde[Any] | None = None
    ) -> TestOutputTopic:
        """A reader of typed records from a topic."""
        key, value = self._serdes(topic, key_serde, value_serde)
        return TestOutputTopic(self._outputs.setdefault(topic, deque()), topic, key, value)

    def _serdes(self, topic: str, key: Serde[Any] | None, value: Serde[Any] | None) -> tuple[Serde[Any], Serde[Any]]:
        environment = self._task.environment
        what = f"topic {topic!r}"
        return environment.key_serde(key, what, topic), environment.value_serde(value, what, topic)

    # ------------------------------------------------------------------ output

    def take_produced(self) -> dict[str, list[Produced]]:
        """Everything produced since the last call, internal topics included, in order for each topic."""
        taken, self._taken = self._taken, {}
        return taken

    def produced_topic_names(self) -> frozenset[str]:
        """The topics that anything was produced to."""
        return frozenset(self._produced_topics)

    def store(self, name: str) -> Any:
        """A store as a processor sees it.

        :raises TopologyError: if there is no such store.
        """
        return self._open_store(name).facade

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        """A window store; one with timestamps is shown without them.

        :raises TopologyError: if there is no such store, or it is of another kind.
        """
        return cast(WindowStore[Any, Any], window_view(self._open_store(name)))

    def get_timestamped_window_store(self, name: str) -> TimestampedWindowStore[Any, Any]:
        """A window store with timestamps.

        :raises TopologyError: if there is no such store, or it is of another kind.
        """
        return cast(TimestampedWindowStore[Any, Any], timestamped_window_view(self._open_store(name)))

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """A session store; one with timestamps is shown without them.

        :raises TopologyError: if there is no such store, or it is of another kind.
        """
        return cast(SessionStore[Any, Any], session_view(self._open_store(name)))

    def _open_store(self, name: str) -> OpenStore:
        found = self._task.stores.stores.get(name)
        if found is None:
            raise TopologyError(f"the topology has no store {name!r}", store=name)
        return found

    def stores(self) -> dict[str, Any]:
        """All stores by name."""
        return {name: store.facade for name, store in self._task.stores.stores.items()}

    def metrics(self) -> dict[str, float]:
        """The task's metrics under Kafka's names."""
        metrics = self._task.environment.metrics
        return {
            "dropped-records-total": metrics.dropped_records,
            "process-total": metrics.records_processed,
            "punctuate-total": metrics.punctuations,
        }

    # ------------------------------------------------------------------ running

    def _complete(self) -> None:
        self._capture()
        while self._task.process(1):
            self._commit()

    @contextmanager
    def _handing_out_what_was_sent(self) -> Iterator[None]:
        """Also when the topology fails: what it had produced until then is there to be looked at."""
        try:
            yield
        except BaseException:
            self._collector.producer.flush()
            self._capture()
            raise

    def _commit(self) -> None:
        task = self._task
        try:
            task.drain()
            self._collector.flush()
        finally:
            self._capture()
        task.apply()
        task.committed()

    def _capture(self) -> None:
        """Hands out what was produced, and feeds topics that are read again."""
        for name, topic in self._broker.topics.items():
            log = topic.partitions[0]
            position = self._read.get(name, 0)
            if log.end_offset <= position:
                continue
            run, self._read[name] = log.read(position, log.end_offset - position, False)
            log.delete_before(log.end_offset)
            self._produced_topics.add(name)
            produced = [Produced(m.key(), m.value(), m.timestamp()[1], m.headers() or []) for m in run]
            self._taken.setdefault(name, []).extend(produced)
            self._outputs.setdefault(name, deque()).extend(produced)
            partition = TopicPartition(name, 0)
            if partition in self._task.queues:
                self._task.add(partition, run)

    # ------------------------------------------------------------------ end

    def close(self) -> None:
        """Closes the task and removes its state."""
        try:
            self._task.close()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StreamsError:
            if error is None:
                raise
