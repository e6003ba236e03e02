"""Input partitions: which record comes next, what becomes of bad ones, and how far a commit may go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.clock import ManualClock
from processor_api.errors import ProcessingError, UserCodeError
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.task_id import TaskId, TopicPartition
from processor_api.timestamps import ConsumedRecord, TimestampExtractor
from streams.config import StreamsConfig
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.processing.environment import Environment, TaskSettings
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.inputs import BatchLoop, BoundSource, InputQueue
from streams.runtime.processing.punctuations import Punctuations
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

PARTITION = TopicPartition("in", 3)
BAD = b"123"
"""No long."""


class Message:
    """A consumed record."""

    def __init__(self, offset: int, timestamp: int, value: bytes | None, headers: HeaderList | None = None) -> None:
        self._offset, self._timestamp, self._value, self._headers = offset, timestamp, value, headers

    def offset(self) -> int:
        return self._offset

    def leader_epoch(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, self._timestamp

    def key(self) -> bytes | None:
        return b"k"

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> HeaderList | None:
        return self._headers


class Kit:
    """A queue that reads longs; what it forwards is kept with what the cursor says then."""

    def __init__(self, extractor: TimestampExtractor | None = None, read: Callable[[bytes], Any] | None = None) -> None:
        config = StreamsConfig.of(
            {
                "application.id": "a",
                "bootstrap.servers": "b:1",
                "deserialization.exception.handler": "LogAndContinueExceptionHandler",
            }
        )
        broker = EmbeddedBroker()
        collector = RecordCollector(EmbeddedClients(broker).producer({}), broker.clock)
        task = TaskId(0, 3)
        settings = TaskSettings(
            application_id="a",
            app_configs={},
            default_key_serde=None,
            default_value_serde=None,
            default_timestamp_extractor=None,
        )
        errors = error_policy_for(config, task, collector)
        self.environment = Environment(task, settings, errors, clock=ManualClock(), state_dir=Path())
        self.cursor = self.environment.cursor
        self.forwarded: list[tuple[Any, int]] = []
        self.places: list[tuple[Any, int, int, int]] = []
        self.punctuated: list[int] = []
        source = BoundSource("source", bytes, read or Serdes.LONG.deserialize, extractor, self._forward, self._forward)
        self.queue = InputQueue(PARTITION, source, self.environment)
        self.loop = BatchLoop(self.queue, self.environment)
        self.punctuations = Punctuations(lambda schedule, now: None)

    def _forward(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        cursor = self.cursor
        self.forwarded.append((value, timestamp))
        self.places.append((cursor.source, cursor.message.offset(), cursor.timestamp, cursor.stream_time))

    def run(self, limit: int = 1000) -> int:
        return self.loop.run(limit, self.punctuations, lambda: self.punctuated.append(self.cursor.stream_time))

    @property
    def dropped(self) -> int:
        return self.environment.metrics.dropped_records


def long(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_records_run_in_the_order_of_their_offsets() -> None:
    """Also when timestamps go back; stream time does not (semantics 1, 4)."""
    kit = Kit()
    kit.queue.add([Message(7, 50, long(1)), Message(9, 20, long(2)), Message(10, 60, None)])
    assert kit.run() == 3
    assert kit.forwarded == [(1, 50), (2, 20), (None, 60)]
    assert kit.places == [(PARTITION, 7, 50, 50), (PARTITION, 9, 20, 50), (PARTITION, 10, 60, 60)]
    assert (kit.queue.position, kit.queue.partition_time) == (11, 60)


def test_nothing_processed_is_no_position() -> None:
    kit = Kit()
    assert kit.run() == 0
    assert kit.queue.position is None
    kit.queue.at_end(5)
    assert kit.queue.position is None


def test_a_limit_leaves_the_rest_for_later() -> None:
    kit = Kit()
    kit.queue.add([Message(i, i, long(i)) for i in range(5)])
    assert kit.run(2) == 2
    assert (len(kit.queue), kit.queue.position) == (3, 2)
    assert kit.run(2) == 2
    assert kit.run(2) == 1
    assert [value for value, _ in kit.forwarded] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("extractor", [None, lambda record, partition_time: record.timestamp])
def test_a_bad_record_is_dropped_and_its_offset_passed(extractor: TimestampExtractor | None) -> None:
    """Wherever it lies, and it does not move the time (semantics 5, 112)."""
    kit = Kit(extractor)
    messages = [Message(0, 90, BAD), Message(1, 1, long(1)), Message(2, 95, BAD), Message(3, 2, long(2))]
    kit.queue.add([*messages, Message(4, 99, BAD)])
    kit.run()
    assert kit.forwarded == [(1, 1), (2, 2)]
    assert (kit.dropped, kit.queue.position, kit.cursor.stream_time, kit.queue.partition_time) == (3, 5, 2, 2)


@pytest.mark.parametrize("extractor", [None, lambda record, partition_time: record.timestamp])
def test_a_serde_that_fails_only_once_loses_nothing(extractor: TimestampExtractor | None) -> None:
    """It is called again to find out what is wrong; when nothing is, the record is processed."""
    failures = [OSError("the registry is away")] if extractor is None else []

    def flaky(data: bytes) -> int:
        if data == long(2) and failures:
            raise failures.pop()
        return Serdes.LONG.deserialize(data)

    kit = Kit(extractor, flaky)
    kit.queue.add([Message(i, i, long(i)) for i in range(4)])
    kit.run()
    assert kit.forwarded == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert kit.dropped == 0


def test_an_extractor_gets_the_record_and_the_time_of_its_partition() -> None:
    """The largest timestamp seen in it; -1 before the first (semantics 2)."""
    asked: list[tuple[ConsumedRecord, int]] = []

    def extract(record: ConsumedRecord, partition_time: int) -> int:
        asked.append((record, partition_time))
        return int(record.value)

    kit = Kit(extract)
    headers: HeaderList = [("h", b"1")]
    kit.queue.add([Message(0, 999, long(30), headers), Message(1, 999, long(10)), Message(2, 999, long(20))])
    kit.run()
    assert asked[0][0] == ConsumedRecord("in", 3, 0, 999, b"k", 30, headers)
    assert [time for _, time in asked] == [-1, 30, 30]
    assert kit.forwarded == [(30, 30), (10, 10), (20, 20)]


def test_a_negative_timestamp_drops_the_record() -> None:
    """When an extractor returns it (semantics 8); its offset is passed."""
    kit = Kit(lambda record, partition_time: -1 if record.value == 1 else 5)
    kit.queue.add([Message(0, 1, long(0)), Message(1, 1, long(1))])
    kit.run()
    assert (kit.forwarded, kit.dropped, kit.queue.position) == ([(0, 5)], 1, 2)


PLACE = {"topic": "in", "partition": 3, "offset": 41, "task": "0_3", "node": "source"}


@pytest.mark.parametrize("extracted", ["5", 5.0, True, None, ValueError("no time")])
def test_an_extractor_that_gives_no_time_is_fatal(extracted: Any) -> None:
    """No handler is asked, although there is one that would go on (semantics 9)."""

    def extract(record: ConsumedRecord, partition_time: int) -> int:
        if isinstance(extracted, Exception):
            raise extracted
        return extracted  # type: ignore[no-any-return]

    kit = Kit(extract)
    kit.queue.add([Message(41, 5, long(1))])
    shown = (
        "no time"
        if isinstance(extracted, Exception)
        else f"expected an int \\(ms\\) or a datetime with a zone, got {extracted!r}"
    )
    with pytest.raises(
        ProcessingError, match=f"the timestamp extractor of source 'source' failed: .*{shown}"
    ) as caught:
        kit.run()
    assert caught.value.place() == PLACE


def test_an_extractor_may_raise_an_error_of_ours() -> None:
    """It keeps its type and gets its place."""

    def extract(record: ConsumedRecord, partition_time: int) -> int:
        raise UserCodeError("no time in it")

    kit = Kit(extract)
    kit.queue.add([Message(41, 5, long(1))])
    with pytest.raises(UserCodeError, match="no time in it") as caught:
        kit.run()
    assert caught.value.place() == PLACE


@pytest.mark.parametrize("before", [0, 1])
def test_a_record_without_a_timestamp_fails_unless_an_extractor_helps(before: int) -> None:
    """First in a batch or later."""
    kit = Kit()
    kit.queue.add([Message(40, 5, long(0))] * before + [Message(41, -1, long(1))])
    with pytest.raises(UserCodeError, match="invalid timestamp -1") as caught:
        kit.run()
    assert caught.value.place() == PLACE


def test_punctuations_run_between_records() -> None:
    """As soon as stream time has come to them, after the record; the next record is in its place again."""
    kit = Kit()
    kit.punctuations.next_stream_time = 20
    kit.queue.add([Message(0, 10, long(0)), Message(1, 20, long(1)), Message(2, 15, long(2))])

    def punctuate() -> None:
        kit.punctuated.append(len(kit.forwarded))
        kit.cursor.leave()
        kit.punctuations.next_stream_time = 1000

    kit.loop.run(10, kit.punctuations, punctuate)
    assert kit.punctuated == [2]
    assert [place[:2] for place in kit.places] == [(PARTITION, 0), (PARTITION, 1), (PARTITION, 2)]


def test_the_end_of_a_partition_moves_the_position_past_what_is_no_record() -> None:
    """Control records of transactions; but not while records wait."""
    kit = Kit()
    kit.queue.add([Message(0, 0, long(0)), Message(1, 1, long(1))])
    kit.run(1)
    kit.queue.at_end(9)
    assert (kit.queue.position, kit.queue.caught_up) == (1, True)
    kit.run(1)
    kit.queue.at_end(9)
    assert kit.queue.position == 9
    kit.queue.at_end(4)
    assert kit.queue.position == 9
    kit.queue.add([Message(9, 1, long(1))])
    assert not kit.queue.caught_up


MESSAGES = st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=20)


@given(messages=MESSAGES, limits=st.lists(st.integers(1, 8), min_size=20, max_size=20), due=st.integers(0, 60))
def test_a_batch_at_a_time_is_the_same_as_one_record_at_a_time(
    messages: list[tuple[int, bool]], limits: list[int], due: int
) -> None:
    """Records, metadata, drops, times, positions and punctuations."""
    batches, single = Kit(), Kit(lambda record, partition_time: record.timestamp)
    for kit in (batches, single):
        kit.punctuations.next_stream_time = due
        kit.queue.add([Message(i, time, BAD if bad else long(i)) for i, (time, bad) in enumerate(messages)])
        for limit in limits:
            kit.run(limit)
    for kit in (batches, single):
        assert not kit.queue
    assert batches.places == single.places
    assert batches.forwarded == single.forwarded
    assert batches.dropped == single.dropped
    assert batches.queue.position == single.queue.position
    assert batches.queue.partition_time == single.queue.partition_time
    assert [now for now in batches.punctuated if now >= due] == [now for now in single.punctuated if now >= due]
