"""Runs a topology on the records of a person, one by one, in the test driver."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from processor_api.clock import SystemClock
from processor_api.errors import StreamsError, TopologyError
from processor_api.forms.json_values import bytes_as_json
from processor_api.record import HeaderList, Headers
from processor_api.serde import CurrentHeaders, Serde, Serdes
from processor_api.texts import repr_of
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.topology import Topology
from streams.cli.records.input_lines import TimeStep
from streams.cli.records.json_lines import GivenRecord
from streams.config import StreamsConfig
from streams.kafka.topics.internal import changelog_name, full_name
from streams.kafka.topics.readers import reader_of
from streams.observing.status import DropStatus, HeldStatus
from streams.runtime.processing.environment import resolve_serde
from streams.serdes.values import DoesNotFit, fitted, json_reader
from streams.testing.driver import TopologyTestDriver
from streams.testing.record_trace import RecordTrace

LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""

SerdePair = tuple[Serde[Any], Serde[Any]]
RecordInBytes = tuple[str, bytes | None, bytes | None, int, HeaderList | None]
"""``(topic, key, value, timestamp_ms, headers)``"""


class Refused(Exception):
    """A record that cannot be given to the topology; the text is the reason."""


@dataclass(frozen=True)
class Output:
    """A record that the topology wrote, with its key and value as JSON has them."""

    topic: str
    key: Any
    value: Any
    timestamp_ms: int
    headers: HeaderList
    place: tuple[int, int] | None = None
    """The partition and the offset, where there are several partitions."""


class Topics:
    """The topics that a topology reads and writes, apart from its internal ones, and their serdes.

    :raises ConfigError: if one has no serde.
    """

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        self._config = config
        self._topology = topology
        nodes = topology.nodes.values()
        internal = topology.repartition_topics
        sources = [node for node in nodes if isinstance(node, SourceNode)]
        sinks = [node for node in nodes if isinstance(node, SinkNode)]
        self._sources = {topic: node for node in sources for topic in node.topics if topic not in internal}
        self._patterns = [node for node in sources if node.pattern is not None]
        self._sinks = {node.topic: node for node in sinks if node.topic is not None and node.topic not in internal}
        self._dynamic = [node for node in sinks if node.topic is None]
        prefix = config.application_id
        stores = (*topology.stores, *topology.global_stores)
        self._internal = {full_name(topology, prefix, topic) for topic in internal}
        self._internal.update(changelog_name(prefix, store) for store in stores)

    @property
    def read(self) -> list[str]:
        """The topics that are read by name."""
        return list(self._sources)

    @property
    def patterns(self) -> list[str]:
        """The patterns by which topics are read."""
        return [node.pattern.pattern for node in self._patterns if node.pattern is not None]

    @property
    def written(self) -> list[str]:
        """The topics that are written by name."""
        return list(self._sinks)

    @property
    def only(self) -> str | None:
        """The topic that is read, if there is only one."""
        return self.read[0] if len(self._sources) == 1 and not self._patterns else None

    def is_internal(self, topic: str) -> bool:
        """Returns whether a topic is one of the application's own: between subtopologies, or a changelog."""
        return topic in self._internal

    def reads(self, topic: str) -> bool:
        """Returns whether records of a topic are read."""
        return self._source(topic) is not None

    def serdes_read(self, topic: str) -> SerdePair:
        """Returns the serdes of keys and values of a topic that is read.

        :raises Refused: if it is not read, or two patterns match it.
        """
        try:
            source = self._source(topic)
        except TopologyError as error:
            raise Refused(str(error)) from error
        if source is None:
            near = difflib.get_close_matches(topic, self.read, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Refused(f"the topology does not read topic {repr_of(topic)}; it reads {self.list_read()}{hint}")
        return self._serdes(source, topic)

    def list_read(self) -> str:
        """Returns what is read, for a sentence."""
        return ", ".join([*self.read, *(f"topics like {pattern}" for pattern in self.patterns)]) or "nothing"

    def serdes_written(self, topic: str) -> SerdePair:
        """Returns the serdes of keys and values of a topic that was written; those of bytes if no sink names it."""
        sink = self._sinks.get(topic) or next(iter(self._dynamic), None)
        return (Serdes.BYTES, Serdes.BYTES) if sink is None else self._serdes(sink, topic)

    def _source(self, topic: str) -> SourceNode | None:
        return self._sources.get(topic) or reader_of(self._topology, topic)

    def _serdes(self, node: SourceNode | SinkNode, topic: str) -> SerdePair:
        config, what = self._config, f"topic {topic!r}"
        key = resolve_serde(node.key_serde, config.default_key_serde, what, "key")
        value = resolve_serde(node.value_serde, config.default_value_serde, what, "value")
        return key.bind(topic, is_key=True), value.bind(topic, is_key=False)


def _shown(serde: Serde[Any], data: bytes | None, headers: Headers) -> Any:
    """Returns bytes that were written as JSON has them; bytes that their serde cannot read as they are."""
    current = CurrentHeaders()
    current.now = headers
    try:
        return None if data is None else json_reader(serde, current)(data)
    except Exception:  # the serde may be the user's, and so may be the bytes
        return bytes_as_json(data or b"")


class Session:
    """One run of a topology. It is a context manager; its state is gone when it is closed.

    :param start_ms: the wall clock at the start; now if not given, and then it runs while :meth:`let_pass` is
        called.
    :param trace: follows each record.
    """

    def __init__(
        self, topology: Topology, config: StreamsConfig, *, start_ms: int | None = None, trace: bool = False
    ) -> None:
        self.topology = topology
        self.config = config
        self.topics = Topics(topology, config)
        self._system = SystemClock()
        self._fixed = start_ms is not None
        self._driver = TopologyTestDriver(
            topology, config, initial_wall_clock_time=self._system.time_ms() if start_ms is None else start_ms
        )
        self._seen_s = self._system.monotonic()
        self._trace: RecordTrace | None = self._driver.trace() if trace else None
        self.given = 0
        """The number of records that were given to the topology."""

    @cached_property
    def stores(self) -> Mapping[str, Any]:
        """All stores, by name, as processors get them."""
        return self._driver.get_all_state_stores()

    @property
    def held_back(self) -> tuple[HeldStatus, ...]:
        """The results that wait for stream time."""
        return self._driver.held_back()

    @property
    def drops(self) -> tuple[DropStatus, ...]:
        """The records that gave no result, by node and reason."""
        return self._driver.drops()

    @property
    def dropped(self) -> int:
        """The number of records that nodes have dropped."""
        return int(self._driver.metrics()["dropped-records-total"])

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        return self._driver.clock.time_ms()

    def give(self, record: GivenRecord, topic: str | None) -> None:
        """Gives a record to the topology, which processes it to the end.

        :param topic: its topic if it does not say one.
        :raises Refused: if it is for no topic that is read, or does not fit its serdes; nothing has happened.
        :raises StreamsError: if the topology fails.
        """
        self.pipe(*self.in_bytes(record, topic))

    def in_bytes(self, record: GivenRecord, topic: str | None) -> RecordInBytes:
        """Returns a record in the bytes of its topic.

        :param topic: its topic if it does not say one.
        :raises Refused: if it is for no topic that is read, or does not fit its serdes.
        """
        name = record.topic or topic
        if name is None:
            raise Refused(f"it does not have a topic; the topology reads {self.topics.list_read()}")
        key_serde, value_serde = self.topics.serdes_read(name)
        headers = Headers(record.headers or ())
        key = self._part("key", key_serde, record.key, headers, is_text=record.key_is_text)
        value = self._part("value", value_serde, record.value, headers, is_text=record.is_text)
        timestamp = self.now_ms if record.timestamp_ms is None else record.timestamp_ms
        return name, key, value, timestamp, headers or record.headers

    def pipe(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: HeaderList | None
    ) -> None:
        """Gives a record in bytes to the topology, which processes it to the end.

        :raises StreamsError: if the topology fails.
        """
        self._driver.pipe_raw(topic, key, value, timestamp_ms, headers)
        self.given += 1

    def _part(self, part: str, serde: Serde[Any], given: Any, headers: Headers, *, is_text: bool) -> bytes | None:
        try:
            return fitted(serde, given, is_text=is_text, headers=headers).data
        except DoesNotFit as error:
            raise Refused(f"its {part} {error}") from error

    def step(self, step: TimeStep) -> None:
        """Moves the wall clock, and runs the punctuations that are due.

        :raises Refused: if it would go back.
        :raises StreamsError: if the topology fails.
        """
        by_ms = step.by_ms
        if by_ms is None:
            assert step.to_ms is not None
            by_ms = step.to_ms - self.now_ms
            if by_ms < 0:
                raise Refused("the wall clock cannot go back; start earlier by --start")
        if self.now_ms + by_ms > LAST_MS:
            raise Refused("the wall clock cannot exceed the year 9999")
        self._driver.advance_wall_clock_time(by_ms)

    def let_pass(self) -> None:
        """Moves the wall clock by the time that has passed; not if it was set at the start."""
        now_s = self._system.monotonic()
        passed_ms = int((now_s - self._seen_s) * 1000)
        if passed_ms > 0 and not self._fixed:
            self._seen_s += passed_ms / 1000
            self._driver.advance_wall_clock_time(passed_ms)

    def outputs(self) -> Iterator[Output]:
        """Yields the records that were written since the last call, topic by topic; not those of internal topics."""
        for topic, records in self._driver.take_produced().items():
            if self.topics.is_internal(topic):
                continue
            for record in records:
                yield self.output(topic, *record)

    def output(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: HeaderList,
        place: tuple[int, int] | None = None,
    ) -> Output:
        """Returns a record that was written, with its key and value as JSON has them."""
        key_serde, value_serde = self.topics.serdes_written(topic)
        own = Headers(headers or ())  # readers may take some off
        return Output(topic, _shown(key_serde, key, own), _shown(value_serde, value, own), timestamp_ms, headers, place)

    def take_trace(self) -> list[Any]:
        """Returns the steps of records since the last call; none if they are not followed."""
        if self._trace is None:
            return []
        steps = list(self._trace)
        self._trace.clear()
        return steps

    def close(self) -> None:
        """Closes the stores and removes them."""
        self._driver.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        try:
            self.close()
        except StreamsError:
            if kind is None:
                raise
