"""The consumer of global stores is replaced after errors that a new one may not have, and goes on where it was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import AuthorizationError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import ClientUnusable
from streams.runtime.global_stores.topic_reader import ReaderStopped, TopicReader
from streams.runtime.tasks.retry import Retry, TaskTimeoutError
from streams.testing.broker.messages import PARTITION_EOF, ErrorInfo, PartitionEvent

ONE, TWO = TopicPartition("global", 0), TopicPartition("global", 1)
TIMEOUT_MS = 10_000


class Stopping:
    """The event by which a thread is asked to stop; waiting moves the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.asked = False
        self._clock = clock

    def is_set(self) -> bool:
        return self.asked

    def set(self) -> None:
        self.asked = True

    def clear(self) -> None:
        self.asked = False

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.advance(int((timeout or 0) * 1000))
        return self.asked


def record(partition: TopicPartition, offset: int) -> Any:
    class Found:
        def error(self) -> None: ...

        def topic(self) -> str:
            return partition.topic

        def partition(self) -> int:
            return partition.partition

        def offset(self) -> int:
            return offset

    return Found()


def event(name: str, partition: TopicPartition | None = None) -> Any:
    topic, number = ("", -1) if partition is None else partition
    return PartitionEvent(topic, number, -1, ErrorInfo(name, f"text of {name}"))


class Scripted:
    """A consumer whose calls give what was written down: a list of messages, or an error to raise."""

    partition_eof = PARTITION_EOF

    def __init__(self, *polls: Sequence[Any] | StreamsError, calls: Mapping[str, StreamsError] | None = None) -> None:
        self._polls = list(polls)
        self._calls = dict(calls or {})
        self.assigned: dict[TopicPartition, int] = {}
        self.closed = False

    def _call(self, name: str) -> None:
        if name in self._calls:
            raise self._calls.pop(name)

    def consume(self, most: int, timeout_s: float) -> Sequence[Any]:
        found = self._polls.pop(0) if self._polls else ()
        if isinstance(found, StreamsError):
            raise found
        return found

    def poll(self, timeout_s: float) -> Any: ...

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._call("assign")
        self.assigned.update(partitions)

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        self._call("unassign")
        for name in partitions:
            del self.assigned[name]

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self._call("end_offsets")
        return dict.fromkeys(partitions, 7)

    def close(self) -> None:
        self.closed = True
        self._call("close")


class Kit:
    """A reader on consumers that are given one after the other."""

    def __init__(self, *consumers: Scripted) -> None:
        self.clock = ManualClock()
        self.stopping = Stopping(self.clock)
        made = iter(consumers)
        make: Callable[[], Any] = lambda: next(made)  # noqa: E731
        self.reader = TopicReader(make, Retry(self.clock, 100, 1000, TIMEOUT_MS), self.stopping, self.clock)

    def offsets(self) -> list[tuple[TopicPartition, int]]:
        found = self.reader.poll(100, 0.0)
        return [(partition, one.offset()) for partition, run in found.runs for one in run]


UNUSABLE: list[StreamsError] = [
    ClientUnusable("its connections are gone"),
    RetryableError("no broker answers"),
    TaskMigratedError("fatal"),
]


@pytest.mark.parametrize("error", UNUSABLE, ids=lambda error: type(error).__name__)
def test_a_new_consumer_goes_on_behind_what_was_read(error: StreamsError, caplog: pytest.LogCaptureFixture) -> None:
    """An error of the consumer ended the thread, and so the application."""
    first = Scripted([record(ONE, 3), record(ONE, 4), record(TWO, 0)], error)
    second = Scripted([record(ONE, 5)])
    kit = Kit(first, second)
    kit.reader.assign({ONE: 3, TWO: -2})
    assert kit.offsets() == [(ONE, 3), (ONE, 4), (TWO, 0)]
    assert kit.offsets() == []
    assert first.closed
    assert second.assigned == {ONE: 5, TWO: 1}
    assert kit.offsets() == [(ONE, 5)]
    assert [one.message for one in caplog.records] == ["the topics of global stores are read on by a new consumer"]


@pytest.mark.parametrize("name", ["_STATE", "_FATAL", "_DESTROY", "UNHEARD_OF"])
def test_what_came_before_an_event_is_processed_and_what_came_behind_is_read_again(name: str) -> None:
    """Records may be missing between an event that is not known to pass, and the next record."""
    first = Scripted([record(ONE, 0), event(name), record(ONE, 9)])
    second = Scripted([record(ONE, 1)])
    kit = Kit(first, second)
    kit.reader.assign({ONE: 0})
    assert kit.offsets() == [(ONE, 0)]
    assert kit.offsets() == [(ONE, 1)]
    assert second.assigned == {ONE: 1}


def test_an_event_that_passes_keeps_the_consumer(caplog: pytest.LogCaptureFixture) -> None:
    kit = Kit(Scripted([record(ONE, 0), event("_TRANSPORT"), record(ONE, 1)], [event("FENCED_LEADER_EPOCH", ONE)]))
    kit.reader.assign({ONE: 0})
    assert kit.offsets() == [(ONE, 0), (ONE, 1)]
    assert kit.offsets() == []
    assert {one.message for one in caplog.records} == {"client event"}


def test_ends_and_lost_positions_are_handed_on() -> None:
    told = [event("_PARTITION_EOF", ONE), event("OFFSET_OUT_OF_RANGE", TWO), event("UNKNOWN_TOPIC_OR_PART", TWO)]
    kit = Kit(Scripted(told))
    kit.reader.assign({ONE: 0, TWO: 0})
    found = kit.reader.poll(100, 0.0).events
    assert [one.error().name() for one in found] == [one.error().name() for one in told]
    assert [kit.reader.is_end(one) for one in found] == [True, False, False]


def test_errors_that_last_end_it_after_the_time_out() -> None:
    """Each new consumer has the same error; records in between begin a new time."""
    failing = [Scripted(ClientUnusable("gone")) for _ in range(100)]
    kit = Kit(*failing)
    kit.reader.assign({ONE: 0})
    begin = kit.clock.monotonic()
    with pytest.raises(TaskTimeoutError, match=r"10 s \(task.timeout.ms\); the last error was: gone"):
        any(kit.offsets() for _ in failing)
    assert TIMEOUT_MS / 1000 <= kit.clock.monotonic() - begin < 2 * TIMEOUT_MS / 1000


def test_records_end_the_count_of_errors() -> None:
    consumers = [Scripted([record(ONE, n)], ClientUnusable("gone")) for n in range(60)]
    kit = Kit(*consumers, Scripted())
    kit.reader.assign({ONE: 0})
    read = [found for _ in range(120) for found in kit.offsets()]
    assert read == [(ONE, n) for n in range(60)]


def test_a_missing_right_ends_it_at_once() -> None:
    kit = Kit(Scripted([event("TOPIC_AUTHORIZATION_FAILED", ONE)]))
    kit.reader.assign({ONE: 0})
    with pytest.raises(AuthorizationError, match="READ on the topic"):
        kit.offsets()


@pytest.mark.parametrize("error", [ClientUnusable("gone"), TaskMigratedError("fatal")], ids=["unusable", "fatal"])
@pytest.mark.parametrize("call", ["assign", "unassign", "end_offsets"])
def test_a_call_is_made_again_by_a_new_consumer(call: str, error: StreamsError) -> None:
    first, second = Scripted(calls={call: error, "close": ClientUnusable("closed already")}), Scripted()
    kit = Kit(first, second)
    kit.reader.assign({ONE: 4, TWO: 6})
    kit.reader.unassign([TWO])
    assert kit.reader.end_offsets([ONE]) == {ONE: 7}
    assert first.closed
    assert second.assigned == {ONE: 4}


def test_a_request_that_was_not_answered_is_sent_again_by_the_same_consumer() -> None:
    only = Scripted(calls={"end_offsets": RetryableError("not now")})
    kit = Kit(only)
    assert kit.reader.end_offsets([ONE]) == {ONE: 7}
    assert not only.closed


def test_a_stop_ends_the_wait_for_errors_that_last() -> None:
    """The close of an application waited until ``task.timeout.ms`` where its global stores could not be filled."""
    kit = Kit(Scripted(calls={"end_offsets": RetryableError("not now")}))
    kit.stopping.set()
    with pytest.raises(ReaderStopped, match="not now"):
        kit.reader.end_offsets([ONE])


def test_close_may_be_called_again(caplog: pytest.LogCaptureFixture) -> None:
    kit = Kit(Scripted(calls={"close": ClientUnusable("closed already")}))
    kit.reader.assign({ONE: 0})
    kit.reader.close()
    kit.reader.close()
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == []
