"""Runs a topology without a broker: one task over all subtopologies.

As Kafka Streams' driver does, a piped record is processed to the end before the call returns, internal topics and user
topics that are read again included, with a commit after each record that the task processes; wall-clock time moves only
by a call. It runs the runtime's own task code, with the topics of `streams/testing/driver_parts/driver_log.py` instead
of Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

from processor_api.clock import ManualClock
from processor_api.errors import ConfigError, StreamsError, TopologyError
from processor_api.record import HeaderList
from processor_api.stores.contracts import (
    KeyValueStore,
    SessionStore,
    SessionStoreWithHeaders,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedSessionStore,
    TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders,
    VersionedKeyValueStore,
    WindowStore,
)
from processor_api.topology.data import known_name
from processor_api.topology.function import TopologyLike
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.durations import LAST_MS, Duration, Timestamp, to_ms, to_timestamp_ms
from processor_api.user_code.given_serdes import SerdeLike
from processor_api.user_code.open_types import K, V
from streams.config import StreamsConfig
from streams.kafka.headers import sendable
from streams.kafka.topics.readers import reader_of
from streams.observing.accounting import drops_of, look_into
from streams.observing.status import DropStatus, HeldStatus
from streams.queries.queries import Queries
from streams.queries.request import StateQueryRequest
from streams.queries.results import StateQueryResult
from streams.queries.store_types import StoreQueryParameters
from streams.runtime.tasks.assembly import topology_to_run
from streams.testing.driver_parts import driver_stores
from streams.testing.driver_parts.driver_log import DriverTopic, new_message
from streams.testing.driver_parts.driver_stores import driver_queries
from streams.testing.driver_task import DriverTask
from streams.testing.expected import ExpectedRecords
from streams.testing.known_topics import IN, OUT, KnownTopics
from streams.testing.record_trace import RecordTrace
from streams.testing.settings import checked_partitions, config_for_tests, nearest
from streams.testing.topics import TestInputTopic, TestOutputTopic

log = logging.getLogger("streams.testing")

R = TypeVar("R")
S = TypeVar("S")

TRACE_SETTINGS = ("trace_keys", "trace_every", "trace_topics")


class RawRecord(NamedTuple):
    """A record that the topology produced, with its key and value as bytes and its timestamp in ms."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: HeaderList


class TopologyTestDriver:
    """Runs a topology without a broker: a record that is piped in is processed to the end before the call returns.

    It is a context manager; closing it removes its state. Wall-clock time moves only by
    :meth:`advance_wall_clock_time`::

        from streams import StreamsBuilder, TopologyTestDriver

        builder = StreamsBuilder()
        builder.stream("lines").map_values(str.upper).to("loud")

        settings = {"default.key.serde": "string", "default.value.serde": "string"}
        with TopologyTestDriver(builder, settings) as driver:
            lines, loud = driver.create_input_topic("lines"), driver.create_output_topic("loud")
            lines.pipe_input("ann", "hello", timestamp=1000)
            assert loud.read_key_value() == ("ann", "HELLO")
            assert loud.is_empty

    :param topology: a topology, a ``StreamsBuilder``, or a function that makes either and may take the configuration.
    :param config: a configuration or a mapping of settings; an application id is made up if there is none. Of settings
        that concern clients, threads or a cluster nothing is used. State is kept in a temporary directory, inside of
        ``state.dir`` if that is given.
    :param initial_wall_clock_time: the wall clock at the start: integer milliseconds since 1970, or a ``datetime`` with
        a time zone.
    :param partitions: how many partitions topics have, as partitioners and readers of the output see them; each has one
        if it is not among them. What the topology reads again is processed by one task all the same.
    :raises TopologyError: if the topology cannot run, for instance because a serde is missing.
    """

    def __init__(
        self,
        topology: TopologyLike,
        config: StreamsConfig | Mapping[str, Any] | None = None,
        *,
        initial_wall_clock_time: Timestamp = 0,
        partitions: Mapping[str, int] | None = None,
    ) -> None:
        self.config = config_for_tests(config)
        self._partitions = checked_partitions(partitions)
        self._topology = topology_to_run(topology, self.config)
        self.clock = ManualClock(to_timestamp_ms(initial_wall_clock_time, "initial_wall_clock_time"))
        self._known = KnownTopics(self._topology, self.config)
        self._topics: dict[str, DriverTopic] = {}
        self._closed = False
        self._showed_stores = False
        self._driven = self._open()

    def _open(self) -> DriverTask:
        return DriverTask(self._topology, self.config, self.clock, self._topics, self._partitions)

    # ------------------------------------------------------------------ input

    def pipe_raw(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Pipes one record of bytes and processes it to the end.

        ::

            driver.pipe_raw("lines", b"ann", b"hello", timestamp=1_000)
            assert outputs.read_key_value() == ("ann", "HELLO")

        :raises TopologyError: if no source reads the topic.
        :raises StreamsError: what the topology raises; what it produced before can be read.
        """
        if type(timestamp) is not int or not -LAST_MS <= timestamp <= LAST_MS:
            timestamp = to_timestamp_ms(timestamp, "timestamp")
        parts: tuple[object, ...] = (key, value)
        if any(isinstance(one, str) for one in parts):
            raise TypeError("pipe_raw takes bytes, got a string: pipe it by create_input_topic(...).pipe_input(...)")
        known_name(topic, "topic")
        found = self._topics.get(topic)
        if found is None or found.queue is None or self._closed:
            found = self._read_also(topic)
        queue = found.queue
        assert queue is not None
        headers = list(sendable(headers)) if headers else None
        self._driven.pipe(queue, new_message(found, key, value, timestamp, headers))

    def _read_also(self, name: str) -> DriverTopic:
        """Starts reading a topic that is piped for the first time, since a pattern matches it."""
        self._check_open()
        self._driven.read_also(name, self._matching_source(name))
        return self._topics[name]

    def _matching_source(self, topic: str) -> str:
        """Returns the source whose pattern a new topic matches."""
        self._known.check_read(topic)
        source = reader_of(self._topology, topic)
        assert source is not None
        return source.name

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Moves the wall clock, then runs the punctuations that are due and processes what they forwarded.

        ::

            driver.advance_wall_clock_time(timedelta(minutes=1))
            assert driver.clock.time_ms() == 60_000

        :param duration: a ``timedelta`` or integer milliseconds.
        :raises ValueError: if the duration is negative.
        """
        self._check_open()
        self.clock.advance(to_ms(duration, "duration"))
        self._driven.task.punctuate_wall_clock()
        self._driven.commit()
        self._driven.complete()

    def create_input_topic(
        self,
        topic: str,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        *,
        start_timestamp: Timestamp | None = None,
        auto_advance: Duration = 0,
    ) -> TestInputTopic[K, V]:
        """Returns a writer of typed records to a topic. Serdes not given are those of the topology's source, otherwise
        the application's defaults. A serde without a schema registry gets that of the topology.

        ::

            lines = driver.create_input_topic("lines", start_timestamp=1_000, auto_advance=timedelta(seconds=1))
            lines.pipe_input("ann", "hello")
            lines.pipe_input("ann", "again")
            assert [record.timestamp for record in outputs.read_records()] == [1_000, 2_000]

        :param start_timestamp: the timestamp of the first record: integer milliseconds since 1970, or a ``datetime``
            with a time zone; the driver's clock if not given.
        :param auto_advance: how much later each following record is: a ``timedelta`` or integer milliseconds.
        :raises ConfigError: if a serde is neither given nor a default.
        :raises TopologyError: if no source reads the topic.
        """
        self._check_open()
        start = self.clock.time_ms() if start_timestamp is None else to_timestamp_ms(start_timestamp, "start_timestamp")
        self._known.check_read(known_name(topic, "topic"))
        key, value = self._known.serdes(topic, key_serde, value_serde, IN)
        return TestInputTopic(self.pipe_raw, topic, key, value, start, to_ms(auto_advance, "auto_advance"))

    def create_output_topic(
        self, topic: str, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> TestOutputTopic[K, V]:
        """Returns a reader of typed records from a topic. Serdes not given are those of the topology's sink, otherwise
        the application's defaults. A serde without a schema registry gets that of the topology.

        A topic that a function chooses has the serdes of its sink. Dead letters have those of the sources, and bytes
        where these cannot read them.

        ::

            loud = driver.create_output_topic("loud", "string", "string")
            inputs.pipe_input("ann", "hello")
            assert loud.read_key_value() == ("ann", "HELLO")

        :raises ConfigError: if a serde is neither given nor a default.
        :raises TopologyError: if no sink writes to the topic, and no function or handler may do so.
        """
        self._check_open()
        if known_name(topic, "topic") not in self.produced_topic_names():
            self._known.check_written(topic)
        key, value = self._known.serdes(topic, key_serde, value_serde, OUT)
        return TestOutputTopic(self._driven.topic(topic).unread, topic, key, value, self._nothing_to_read)

    # ------------------------------------------------------------------ output

    def expect(
        self, topic: str, key_serde: SerdeLike[Any] | None = None, value_serde: SerdeLike[Any] | None = None
    ) -> ExpectedRecords:
        """Returns a checker of the next records of a topic: each call compares one, and an error shows what differs.

        ::

            inputs.pipe_key_values([("ann", "hello"), ("bob", "hi")])
            driver.expect("loud").next(key="ann", value="HELLO").next(key="bob", value="HI").end()

        The parameters are those of :meth:`create_output_topic`, with whose readers it shares the unread records.

        :raises ConfigError: if a serde is neither given nor a default.
        :raises TopologyError: if no sink writes to the topic, and no function or handler may do so.
        """
        return ExpectedRecords(self.create_output_topic(topic, key_serde, value_serde), self._why_nothing)

    def _why_nothing(self) -> str:
        """Returns what may be the reason why there are no more records: those that were dropped, or are held back."""
        if self._closed:
            return ""
        drops = [f"\n  dropped at {one.node}: {one.count} ({one.reason})" for one in self.drops()]
        return "".join([*drops, *(f"\n  held back at {one.node}: {one.amount}" for one in self.held_back())])

    def take_produced(self) -> dict[str, list[RawRecord]]:
        """Returns everything that was produced and not read yet, by topic, internal topics included.

        It counts as read then.

        ::

            inputs.pipe_input("ann", "hello")
            produced = driver.take_produced()
            assert produced["loud"][0].value == b"HELLO"
        """
        taken: dict[str, list[RawRecord]] = {}
        for name, topic in self._topics.items():
            unread = topic.unread
            if unread:
                taken[name] = [
                    RawRecord(key, value, time, list(headers or ())) for key, value, time, headers, _ in unread
                ]
                unread.clear()
        return taken

    def produced_topic_names(self) -> frozenset[str]:
        """Returns the topics to which anything was produced.

        ::

            inputs.pipe_input("ann", "hello")
            assert "loud" in driver.produced_topic_names()
        """
        return frozenset(name for name, topic in self._topics.items() if topic.written)

    def _nothing_to_read(self, topic: str) -> str:
        if self._topics[topic].written:
            return f"topic {topic!r} does not have more records"
        if self._known.writes(topic):
            return f"topic {topic!r} has no records: nothing was written to it yet"
        hint = nearest(topic, {*self.produced_topic_names(), *self._known.written_names()})
        return f"topic {topic!r} has no records: no sink of the topology writes to it{hint}"

    # ------------------------------------------------------------------ records without a result

    def drops(self) -> tuple[DropStatus, ...]:
        """Returns the records that gave no result, counted by node and reason.

        ::

            inputs.pipe_input(None, "hello")
            assert [(drop.reason, drop.count) for drop in driver.drops()] == [("null-key-or-value", 1)]
        """
        self._check_open()
        return (*drops_of(self._driven.task), *self._driven.globals.drops())

    def held_back(self) -> tuple[HeldStatus, ...]:
        """Returns what operators hold back until stream time advances: open windows, suppressed rows, unmatched
        records.

        ::

            inputs.pipe_input("ann", "hello")
            assert driver.held_back() == ()
        """
        self._check_open()
        return look_into(self._driven.task)

    # ------------------------------------------------------------------ stores

    def get_state_store(self, name: str) -> Any:
        """Returns a store as a processor gets it. What a test puts into it is committed with the next record.

        ::

            inputs.pipe_input("ann", "hello")
            counts = driver.get_state_store("counts")
            assert counts.get("ann").value == 1

        :raises TopologyError: if there is no such store.
        """
        return self._open_store(name).facade

    def get_all_state_stores(self) -> dict[str, Any]:
        """Returns all stores by name, as processors get them.

        ::

            assert list(driver.get_all_state_stores()) == ["counts"]
        """
        self._check_open()
        self._showed_stores = True
        return {name: store.facade for name, store in self._driven.stores.items()}

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """Returns a key-value store; one with timestamps is read without them.

        ::

            inputs.pipe_key_values([("ann", "hello"), ("ann", "again")])
            counts = driver.get_key_value_store("counts")
            assert counts.get("ann") == 2

        :raises TopologyError: if there is no such store, or it is of another kind; so do all typed getters.
        """
        return cast(KeyValueStore[Any, Any], self._view(name, driver_stores.KEY_VALUE))

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore[Any, Any]:
        """Returns a key-value store with timestamps.

        ::

            inputs.pipe_input("ann", "hello", timestamp=1_000)
            counts = driver.get_timestamped_key_value_store("counts")
            assert counts.get("ann") == ValueAndTimestamp(1, 1_000)
        """
        return cast(TimestampedKeyValueStore[Any, Any], self._view(name, driver_stores.TIMESTAMPED_KEY_VALUE))

    def get_timestamped_key_value_store_with_headers(self, name: str) -> TimestampedKeyValueStoreWithHeaders[Any, Any]:
        """Returns a key-value store with timestamps and headers.

        ::

            builder = StreamsBuilder(key_serde="string", value_serde="string")
            builder.add_state_store(Stores.key_value_store("seen", with_headers=True))
            builder.stream("lines").process(Shout, "seen")  # Shout is a Processor
            with TopologyTestDriver(builder) as driver:
                seen = driver.get_timestamped_key_value_store_with_headers("seen")
                seen.put("ann", ValueTimestampHeaders("hello", 1_000, []))
                assert seen.get("ann").value == "hello"
        """
        return cast(TimestampedKeyValueStoreWithHeaders[Any, Any], self._view(name, driver_stores.HEADERS_KEY_VALUE))

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]:
        """Returns a key-value store that keeps versions.

        ::

            limits = Stores.persistent_versioned_key_value_store("limits", timedelta(days=1))
            builder.table("limits", materialized=Materialized(supplier=limits, key_serde="string", value_serde="long"))
            with TopologyTestDriver(builder) as driver:
                driver.create_input_topic("limits").pipe_key_values([("ann", 500), ("ann", 100)], 1_000, advance=1_000)
                assert driver.get_versioned_key_value_store("limits").get("ann", as_of=1_500).value == 500
        """
        return cast(VersionedKeyValueStore[Any, Any], self._view(name, driver_stores.VERSIONED_KEY_VALUE))

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        """Returns a window store; one with timestamps or headers is read without them.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            clicks.group_by_key().windowed_by(minutes).count(materialized="per-minute")
            with TopologyTestDriver(builder, {"default.key.serde": "json", "default.value.serde": "json"}) as driver:
                driver.create_input_topic("clicks").pipe_input("ann", "home", timestamp=61_000)
                assert driver.get_window_store("per-minute").fetch("ann", 60_000) == 1
        """
        return cast(WindowStore[Any, Any], self._view(name, driver_stores.WINDOW))

    def get_timestamped_window_store(self, name: str) -> TimestampedWindowStore[Any, Any]:
        """Returns a window store with timestamps.

        ::

            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            clicks.group_by_key().windowed_by(minutes).count(materialized="per-minute")
            with TopologyTestDriver(builder, {"default.key.serde": "json", "default.value.serde": "json"}) as driver:
                driver.create_input_topic("clicks").pipe_input("ann", "home", timestamp=61_000)
                counts = driver.get_timestamped_window_store("per-minute")
                assert counts.fetch("ann", 60_000) == ValueAndTimestamp(1, 61_000)
        """
        return cast(TimestampedWindowStore[Any, Any], self._view(name, driver_stores.TIMESTAMPED_WINDOW))

    def get_timestamped_window_store_with_headers(self, name: str) -> TimestampedWindowStoreWithHeaders[Any, Any]:
        """Returns a window store with timestamps and headers.

        ::

            hour, minute = timedelta(hours=1), timedelta(minutes=1)
            builder = StreamsBuilder(key_serde="string", value_serde="string")
            builder.add_state_store(Stores.window_store("seen", hour, minute, with_headers=True))
            builder.stream("lines").process(Shout, "seen")  # Shout is a Processor
            with TopologyTestDriver(builder) as driver:
                seen = driver.get_timestamped_window_store_with_headers("seen")
                seen.put("ann", ValueTimestampHeaders("hello", 1_000, []), 0)
                assert seen.fetch("ann", 0).value == "hello"
        """
        return cast(TimestampedWindowStoreWithHeaders[Any, Any], self._view(name, driver_stores.HEADERS_WINDOW))

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """Returns a session store; one with timestamps or headers is read without them.

        ::

            sessions = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5))
            clicks.group_by_key().windowed_by(sessions).count(materialized="visits")
            with TopologyTestDriver(builder, {"default.key.serde": "json", "default.value.serde": "json"}) as driver:
                driver.create_input_topic("clicks").pipe_input("ann", "home", timestamp=61_000)
                assert driver.get_session_store("visits").fetch_session("ann", 61_000, 61_000) == 1
        """
        return cast(SessionStore[Any, Any], self._view(name, driver_stores.SESSION))

    def get_timestamped_session_store(self, name: str) -> TimestampedSessionStore[Any, Any]:
        """Returns a session store with timestamps.

        ::

            builder = StreamsBuilder(key_serde="string", value_serde="string")
            builder.add_state_store(Stores.session_store("visits", timedelta(hours=1), with_timestamps=True))
            builder.stream("lines").process(Shout, "visits")  # Shout is a Processor
            with TopologyTestDriver(builder) as driver:
                visits = driver.get_timestamped_session_store("visits")
                visits.put(Windowed("ann", Window(0, 9_000)), ValueAndTimestamp("hello", 1_000))
                assert visits.fetch_session("ann", 0, 9_000).value == "hello"
        """
        return cast(TimestampedSessionStore[Any, Any], self._view(name, driver_stores.TIMESTAMPED_SESSION))

    def get_session_store_with_headers(self, name: str) -> SessionStoreWithHeaders[Any, Any]:
        """Returns a session store with headers.

        ::

            builder = StreamsBuilder(key_serde="string", value_serde="string")
            builder.add_state_store(Stores.session_store("visits", timedelta(hours=1), with_headers=True))
            builder.stream("lines").process(Shout, "visits")  # Shout is a Processor
            with TopologyTestDriver(builder) as driver:
                visits = driver.get_session_store_with_headers("visits")
                visits.put(Windowed("ann", Window(0, 9_000)), AggregationWithHeaders("hello", []))
                assert visits.fetch_session("ann", 0, 9_000).aggregation == "hello"
        """
        return cast(SessionStoreWithHeaders[Any, Any], self._view(name, driver_stores.HEADERS_SESSION))

    def query(self, request: StateQueryRequest[R]) -> StateQueryResult[R]:
        """Queries a store, as ``KafkaStreams.query`` does in an application; every store has one partition, 0.

        ::

            inputs.pipe_input("ann", "hello")
            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
            assert driver.query(request).only_partition_result.result == 1

        :raises InvalidStateStoreError: if there is no such store.
        """
        return self._queries().query(request)

    def query_store(self, parameters: StoreQueryParameters[S]) -> S:
        """Returns a store for reading, as ``KafkaStreams.store`` does in an application.

        ::

            inputs.pipe_input("ann", "hello")
            parameters = StoreQueryParameters("counts", QueryableStoreTypes.key_value_store())
            assert driver.query_store(parameters).get("ann") == 1

        :raises InvalidStateStoreError: if there is no such store, or it cannot be read as that type.
        """
        return self._queries().store(parameters)

    def _queries(self) -> Queries:
        return driver_queries(self._driven.task, self._driven.globals.stores, self.clock, self._check_open)

    def _view(self, name: str, view: driver_stores.DriverStoreView) -> Any:
        return view.of(self._open_store(name))

    def _open_store(self, name: str) -> Any:
        self._check_open()
        self._showed_stores = True
        stores = self._driven.stores
        found = stores.get(known_name(name, "store"))
        if found is None:
            raise TopologyError(f"the topology does not have store {name!r}{nearest(name, stores)}", store=name)
        return found

    def metrics(self) -> dict[str, float]:
        """Returns the task's metrics under Kafka's names.

        ::

            inputs.pipe_input("ann", "hello")
            assert driver.metrics()["process-total"] == 1
        """
        metrics = self._driven.task.environment.metrics
        return {
            "dropped-records-total": metrics.dropped_records + self._driven.globals.dropped_records,
            "process-total": metrics.records_processed,
            "punctuate-total": metrics.punctuations,
        }

    # ------------------------------------------------------------------ following records

    def trace(
        self, keys: Collection[Any] | str | None = None, every: int | None = None, topics: Collection[str] | None = None
    ) -> RecordTrace:
        """Follows records through the topology: each one unless something else is asked for.

        Call it before the first record is piped: processors and stores are made again, with the trace. Without
        arguments it returns the trace that there is, also the one that the configuration asked for.

        ::

            trace = driver.trace()
            inputs.pipe_input("ann", "hello")
            print(trace)

        :param keys: follows the records that have one of these keys, when they are read or later (``trace.keys``).
        :param every: follows one record in this many (``trace.every``).
        :param topics: only records of these topics (``trace.topics``).
        :raises ConfigError: if the arguments cannot be read, or contradict each other.
        :raises TopologyError: if no source reads one of the topics.
        :raises StreamsError: if the driver was used already.
        """
        self._check_open()
        known = self._driven.trace
        if known is not None and keys is None and every is None and topics is None:
            return known
        asked = {"trace_keys": keys, "trace_every": 1 if keys is None and every is None else every}
        checked = config_for_tests({**asked, "trace_topics": () if topics is None else topics})
        if keys is not None and not checked.trace_keys:
            raise ConfigError("trace.keys is empty: give at least one key, or every=1 for all records")
        for topic in checked.trace_topics:
            if topic not in self._topics or self._topics[topic].queue is None:
                self._matching_source(topic)
        self._check_unused()
        self._driven.close()
        for found in self._topics.values():
            found.empty()
        self.config = self.config.model_copy(update={name: getattr(checked, name) for name in TRACE_SETTINGS})
        self._driven = self._open()
        assert self._driven.trace is not None
        return self._driven.trace

    def _check_unused(self) -> None:
        metrics = self.metrics()
        if any(metrics.values()) or any(one.queue is not None and one.end_offset for one in self._topics.values()):
            done = "it has processed something"
        elif self._showed_stores:
            done = "it has given out a store"
        else:
            return
        raise StreamsError(
            f"trace() creates processors and stores again, but the driver was already used: {done}. Call it before"
            " that, or set trace.keys or trace.every in the configuration of the driver"
        )

    # ------------------------------------------------------------------ end

    def _check_open(self) -> None:
        if self._closed:
            raise StreamsError("the test driver is closed: make a new one, or do this before close()")

    def close(self) -> None:
        """Closes the task and removes its state. What was produced before can still be read.

        ::

            driver.close()
            assert outputs.is_empty
        """
        if self._closed:
            return
        self._closed = True
        if self._driven.task.has_records() and not self._driven.is_endless:
            log.warning("records wait for another input (max.task.idle.ms) and were not processed")
        self._driven.close()

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


explain_calls(TopologyTestDriver, "__init__", "create_input_topic", "create_output_topic")
