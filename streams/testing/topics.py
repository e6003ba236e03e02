"""Typed input and output of the test driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from processor_api.durations import Duration, to_ms
from processor_api.record import HeaderList
from processor_api.serde import Serde

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord"]


@dataclass(frozen=True)
class TestRecord:
    """A record in or out of the driver; an input's timestamp of ``None`` is the topic's own next one."""

    __test__: ClassVar[bool] = False  # not a test class, whatever pytest makes of the name

    key: Any
    value: Any
    timestamp: int | None = None
    headers: HeaderList | None = None


class TestInputTopic:
    """Made by :meth:`TopologyTestDriver.create_input_topic`."""

    __test__ = False

    def __init__(
        self,
        pipe: Callable[..., None],
        topic: str,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        start_timestamp: int,
        auto_advance_ms: int,
    ) -> None:
        self._pipe = pipe
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._now = start_timestamp
        self._step = auto_advance_ms

    def pipe_input(self, key: Any, value: Any, timestamp: int | None = None, headers: HeaderList | None = None) -> None:
        """Pipes one record; without a timestamp it takes the topic's time, which then advances."""
        if timestamp is None:
            timestamp = self._now
            self._now += self._step
        raw_key = None if key is None else self._key_serde.serialize(key)
        raw_value = None if value is None else self._value_serde.serialize(value)
        self._pipe(self._topic, raw_key, raw_value, timestamp, headers)

    def pipe_record(self, record: TestRecord) -> None:
        self.pipe_input(record.key, record.value, record.timestamp, record.headers)

    def pipe_records(self, records: Iterable[TestRecord]) -> None:
        for record in records:
            self.pipe_record(record)

    def pipe_key_values(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        for key, value in pairs:
            self.pipe_input(key, value)

    def pipe_values(self, values: Iterable[Any]) -> None:
        """Pipes records without keys."""
        for value in values:
            self.pipe_input(None, value)

    def advance_time(self, duration: Duration) -> None:
        """Moves the topic's own time, not the driver's clock."""
        self._now += to_ms(duration, "duration")


class TestOutputTopic:
    """Made by :meth:`TopologyTestDriver.create_output_topic`."""

    __test__ = False

    def __init__(self, queue: deque[Any], topic: str, key_serde: Serde[Any], value_serde: Serde[Any]) -> None:
        self._queue = queue
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_empty(self) -> bool:
        return not self._queue

    def read_record(self) -> TestRecord:
        """The oldest record that was not read.

        :raises LookupError: if there is none.
        """
        if not self._queue:
            raise LookupError(f"topic {self._topic!r} has no more records")
        produced = self._queue.popleft()
        key = None if produced.key is None else self._key_serde.deserialize(produced.key)
        value = None if produced.value is None else self._value_serde.deserialize(produced.value)
        return TestRecord(key, value, produced.timestamp, produced.headers)

    def read_value(self) -> Any:
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        record = self.read_record()
        return record.key, record.value

    def read_records(self) -> list[TestRecord]:
        """All records that were not read."""
        return [self.read_record() for _ in range(len(self._queue))]

    def read_values(self) -> list[Any]:
        return [record.value for record in self.read_records()]

    def read_key_values(self) -> list[tuple[Any, Any]]:
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """The last value of each key."""
        return dict(self.read_key_values())
