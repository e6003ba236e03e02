"""Typed input and output of the test driver."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, NoReturn, Protocol

from processor_api.errors import DeserializationError, SerializationError, StreamsError
from processor_api.record import HeaderList, Headers, Record
from processor_api.serde import Serde
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.durations import Duration, Timestamp, to_ms, to_timestamp_ms
from processor_api.user_code.given_values import items_of
from processor_api.user_code.open_types import K, V


class TestRecord(Generic[K, V]):
    """A record in or out of the driver, with key, value, timestamp in ms and headers.

    An input's timestamp of ``None`` is the topic's own next one. Equal to a record with equal parts. One that was read
    has its partition as attribute ``partition``, which does not count for equality.

    ::

        record = TestRecord("ann", "hello", timestamp=1_000, headers=[("source", b"web")])
        inputs.pipe_record(record)
        assert outputs.read_record() == TestRecord("ann", "HELLO", 1_000, [("source", b"web")])
    """

    __test__ = False  # not a test class, despite its name
    __slots__ = ("headers", "key", "partition", "timestamp", "value")
    __match_args__ = ("key", "value", "timestamp", "headers")

    def __init__(
        self, key: K | None, value: V | None, timestamp: Timestamp | None = None, headers: HeaderList | None = None
    ) -> None:
        if type(timestamp) is not int and timestamp is not None:
            timestamp = _time(timestamp)
        self.key: K = key  # type: ignore[assignment]  # null has the type of the others, as in streams and tables
        self.value: V = value  # type: ignore[assignment]
        self.timestamp: int | None = timestamp
        self.headers: Headers = _headers(headers)
        self.partition: int | None = None

    @property
    def record_time(self) -> datetime | None:
        """Returns the timestamp as a time in UTC."""
        return None if self.timestamp is None else datetime.fromtimestamp(self.timestamp / 1000, UTC)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TestRecord):
            return NotImplemented
        return (self.key, self.value, self.timestamp, self.headers) == (
            other.key,
            other.value,
            other.timestamp,
            other.headers,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        headers = f", headers={list(self.headers)!r}" if self.headers else ""
        return f"TestRecord(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp}{headers})"


class Pipe(Protocol):
    """A function that pipes bytes, as :meth:`streams.testing.driver.TopologyTestDriver.pipe_raw`."""

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderList | None = None
    ) -> None: ...


class TestInputTopic(Generic[K, V]):
    """A writer of records to a topic, made by :meth:`TopologyTestDriver.create_input_topic`.

    It has a time of its own, which records without a timestamp get, and which advances after each of them.

    ::

        lines = driver.create_input_topic("lines", start_timestamp=1_000)
        lines.pipe_input("ann", "hello")
        assert outputs.read_record().timestamp == 1_000
    """

    __test__ = False

    def __init__(
        self,
        pipe: Pipe,
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        start_timestamp: int,
        auto_advance_ms: int,
    ) -> None:
        self._pipe = pipe
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._now = start_timestamp
        self._step = _forward(auto_advance_ms, "auto_advance")

    def pipe_input(
        self, key: K | None, value: V | None, timestamp: Timestamp | None = None, headers: HeaderList | None = None
    ) -> None:
        """Pipes one record; without a timestamp it takes the topic's time, which then advances.

        ::

            inputs.pipe_input("ann", "hello", timestamp=1_000, headers=[("source", b"web")])
            assert outputs.read_key_value() == ("ann", "HELLO")

        :raises SerializationError: if a serde cannot write the key or the value.
        :raises StreamsError: what the topology raises.
        """
        if timestamp is None:
            timestamp = self._now
            self._now += self._step
        elif type(timestamp) is not int:
            timestamp = _time(timestamp)
        own = _headers(headers)
        raw_key = self._write("key", self._key_serde, key, own)
        raw_value = self._write("value", self._value_serde, value, own)
        self._pipe(self._topic, raw_key, raw_value, timestamp, own or headers)

    def _write(self, part: str, serde: Serde[Any], value: Any, headers: Headers) -> bytes | None:
        try:
            return None if value is None else serde.with_headers(headers).serialize(value)
        except StreamsError as error:
            raise error.locate(topic=self._topic)  # noqa: B904 - the same error, with its place
        except Exception as error:
            raise SerializationError(
                f"the {part} of a record of topic {self._topic!r} cannot be written by the test:"
                f" {kind_and_text(error)}; give {part}_serde= to create_input_topic, or another {part}",
                topic=self._topic,
            ) from error

    def pipe_value(self, value: V | None, timestamp: Timestamp | None = None) -> None:
        """Pipes one record without a key.

        ::

            inputs.pipe_value("hello", timestamp=1_000)
            assert outputs.read_key_value() == (None, "HELLO")
        """
        self.pipe_input(None, value, timestamp)

    def pipe_record(self, record: TestRecord[K, V]) -> None:
        """Pipes one record with its timestamp, if it has one, and its headers.

        ::

            inputs.pipe_record(TestRecord("ann", "hello", timestamp=1_000))
            assert outputs.read_record() == TestRecord("ann", "HELLO", 1_000)
        """
        given: object = record
        if not isinstance(given, (TestRecord, Record)):
            raise TypeError(
                f"pipe_record takes a TestRecord, got {repr_of(given)}: for a pair call pipe_input(key, value)"
            )
        self.pipe_input(record.key, record.value, record.timestamp, record.headers)

    def pipe_records(self, records: Iterable[TestRecord[K, V]]) -> None:
        """Pipes records in order, each as :meth:`pipe_record` does.

        ::

            inputs.pipe_records([TestRecord("ann", "hello"), TestRecord("bob", "hi")])
            assert outputs.read_values() == ["HELLO", "HI"]
        """
        for record in items_of(records, "records"):
            self.pipe_record(record)

    def pipe_key_values(
        self,
        pairs: Iterable[tuple[K | None, V | None]],
        start_timestamp: Timestamp | None = None,
        advance: Duration = 0,
    ) -> None:
        """Pipes records by the topic's time, or from ``start_timestamp`` on, each ``advance`` later than the one
        before; then the topic's time stays as it is.

        ::

            inputs.pipe_key_values([("ann", "hello"), ("bob", "hi")], 1_000, advance=timedelta(seconds=1))
            assert [record.timestamp for record in outputs.read_records()] == [1_000, 2_000]
        """
        for timestamp, pair in zip(self._times(start_timestamp, advance), items_of(pairs, "pairs"), strict=False):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                hint = ": of a dict give its items()" if isinstance(pairs, Mapping) else ""
                raise TypeError(f"pairs must be pairs of a key and a value, got {repr_of(pair)}{hint}")
            self.pipe_input(pair[0], pair[1], timestamp)

    def pipe_values(
        self, values: Iterable[V | None], start_timestamp: Timestamp | None = None, advance: Duration = 0
    ) -> None:
        """Pipes records without keys, with timestamps as :meth:`pipe_key_values` gives them.

        ::

            inputs.pipe_values(["hello", "hi"])
            assert outputs.read_values() == ["HELLO", "HI"]
        """
        self.pipe_key_values([(None, value) for value in items_of(values, "values")], start_timestamp, advance)

    def advance_time(self, duration: Duration) -> None:
        """Moves the topic's own time, not the driver's clock.

        ::

            inputs.advance_time(timedelta(minutes=1))
            inputs.pipe_input("ann", "hello")
            assert outputs.read_record().timestamp == 60_000

        :param duration: a ``timedelta`` or integer milliseconds.
        :raises ValueError: if the duration is negative.
        """
        self._now += _forward(to_ms(duration, "duration"), "duration")

    def _times(self, start: Timestamp | None, advance: Duration) -> Iterable[int | None]:
        step = _forward(to_ms(advance, "advance"), "advance")
        if start is None:
            if step:
                raise ValueError("advance needs start_timestamp; the topic's own step is auto_advance")
            return itertools.repeat(None)
        first = to_timestamp_ms(start, "start_timestamp")
        return itertools.count(first, step)


class TestOutputTopic(Generic[K, V]):
    """A reader of records from a topic, made by :meth:`TopologyTestDriver.create_output_topic`.

    Two readers of one topic share the unread records.

    ::

        inputs.pipe_key_values([("ann", "hello"), ("bob", "hi")])
        assert outputs.queue_size == 2
        assert outputs.read_key_values() == [("ann", "HELLO"), ("bob", "HI")]
    """

    __test__ = False

    def __init__(
        self,
        queue: deque[Any],
        topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        nothing_to_read: Callable[[str], str],
    ) -> None:
        self._queue = queue
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._nothing_to_read = nothing_to_read

    @property
    def queue_size(self) -> int:
        """The number of records that were not read."""
        return len(self._queue)

    @property
    def is_empty(self) -> bool:
        """Whether all records were read."""
        return not self._queue

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self._topic

    def shown(self, most: int) -> list[str]:
        """Returns the first records that were not read, as text. They stay there.

        ::

            inputs.pipe_input("ann", "hello", timestamp=1_000)
            assert outputs.shown(1) == ["TestRecord(key='ann', value='HELLO', timestamp=1000)"]

        :param most: how many, at most.
        """
        return [self._shown(written) for written in itertools.islice(self._queue, most)]

    def _shown(self, written: Any) -> str:
        try:
            return repr(self._record(written))
        except DeserializationError:
            return f"a record that the test cannot read: key {written[0]!r}, value {written[1]!r}"

    def read_record(self) -> TestRecord[K, V]:
        """Returns the oldest record that was not read.

        ::

            inputs.pipe_input("ann", "hello", timestamp=1_000)
            record = outputs.read_record()
            assert (record.key, record.value, record.timestamp) == ("ann", "HELLO", 1_000)

        :raises LookupError: if there is none.
        :raises DeserializationError: if a serde cannot read it; it stays there.
        """
        if not self._queue:
            self._fail()
        return self._next()

    def _next(self) -> TestRecord[K, V]:
        record = self._record(self._queue[0])
        self._queue.popleft()
        return record

    def _record(self, written: Any) -> TestRecord[K, V]:
        key, value, timestamp, headers, partition = written
        record: TestRecord[K, V] = TestRecord(None, None, timestamp, headers)
        read_parts(record, self._topic, (self._key_serde, key), (self._value_serde, value), "create_output_topic")
        record.partition = partition
        return record

    def _fail(self) -> NoReturn:
        raise LookupError(self._nothing_to_read(self._topic))

    def read_value(self) -> V:
        """Returns the value of the oldest record that was not read.

        ::

            inputs.pipe_input("ann", "hello")
            assert outputs.read_value() == "HELLO"
        """
        return self.read_record().value

    def read_key_value(self) -> tuple[K, V]:
        """Returns key and value of the oldest record that was not read.

        ::

            inputs.pipe_input("ann", "hello")
            assert outputs.read_key_value() == ("ann", "HELLO")
        """
        record = self.read_record()
        return record.key, record.value

    def read_records(self) -> list[TestRecord[K, V]]:
        """Returns all records that were not read, in order.

        ::

            inputs.pipe_input("ann", "hello", timestamp=1_000)
            assert outputs.read_records() == [TestRecord("ann", "HELLO", 1_000)]
        """
        return [self._next() for _ in range(len(self._queue))]

    def read_values(self) -> list[V]:
        """Returns the values of all records that were not read, in order.

        ::

            inputs.pipe_values(["hello", "hi"])
            assert outputs.read_values() == ["HELLO", "HI"]
        """
        return [record.value for record in self.read_records()]

    def read_key_values(self) -> list[tuple[K, V]]:
        """Returns the keys and values of all records that were not read, in order.

        ::

            inputs.pipe_key_values([("ann", "hello"), ("bob", "hi")])
            assert outputs.read_key_values() == [("ann", "HELLO"), ("bob", "HI")]
        """
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[K, V]:
        """Returns the last value of each key, of the records that were not read.

        ::

            inputs.pipe_key_values([("ann", "hello"), ("bob", "hi"), ("ann", "bye")])
            assert outputs.read_key_values_to_map() == {"ann": "BYE", "bob": "HI"}

        :raises ValueError: if a record has no key; then nothing counts as read.
        """
        if any(written[0] is None for written in self._queue):
            raise ValueError(f"topic {self._topic!r} has a record without a key: read it with read_key_values()")
        return dict(self.read_key_values())


def _time(given: Any) -> int:
    if isinstance(given, (list, tuple)):
        raise TypeError(f"the timestamp is before the headers, got {repr_of(given)} as the timestamp: give headers=")
    return to_timestamp_ms(given, "timestamp")


def _headers(given: HeaderList | None) -> Headers:
    found: object = given
    if isinstance(found, (Mapping, str, bytes)):
        raise TypeError(f"headers must be a list of pairs of a name and bytes, got {repr_of(found)}")
    return Headers(given or ())


def read_parts(
    record: TestRecord,
    topic: str,
    key: tuple[Serde[Any], bytes | None],
    value: tuple[Serde[Any], bytes | None],
    call: str,
) -> None:
    """Reads the key and the value of a record, whose headers are there, by their serdes.

    :param call: the call that takes the serdes, for the error.
    :raises DeserializationError: if a serde cannot read its part.
    """
    for part, (serde, data) in (("key", key), ("value", value)):
        try:
            found = None if data is None else serde.with_headers(record.headers).deserialize(data)
        except Exception as error:
            raise DeserializationError(
                f"the {part} of a record of topic {topic!r} cannot be read by the test: {kind_and_text(error)}; give"
                f" {call} the serdes with which the topic is written",
                topic=topic,
            ) from error
        setattr(record, part, found)


def _forward(duration_ms: int, name: str) -> int:
    if duration_ms < 0:
        raise ValueError(f"{name} must not be negative, got {duration_ms} ms")
    return duration_ms
