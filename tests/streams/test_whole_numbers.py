"""Times and numbers that a user gives: whole numbers of any type are taken, all else is refused where it was given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from processor_api.errors import ProcessingError, StreamsError
from processor_api.record import FixedKeyRecord, Record, record_time
from processor_api.user_code.durations import to_ms, to_timestamp_ms, whole_number
from streams import (
    BatchProcessor,
    Consumed,
    FixedKeyProcessor,
    Processor,
    Produced,
    StreamsBuilder,
    TopologyTestDriver,
)
from streams.testing import EmbeddedKafka
from waiting import wait_until


class Number(IntEnum):
    FIVE = 5


class Indexed:
    """An integer of a user's own type."""

    def __index__(self) -> int:
        return 5


class Liar:
    """Fails whatever it is asked."""

    def __index__(self) -> int:
        raise RuntimeError("no number")

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


FIVES = [5, np.int64(5), np.uint8(5), Number.FIVE, Indexed()]
NO_NUMBERS = [5.0, 5.5, float("nan"), np.float64(5), Decimal(5), Fraction(5), True, np.bool_(True), "5", None, Liar()]
TOO_LARGE = [1 << 63, 1 << 70, np.uint64(1 << 63)]

ids = [f"{type(one).__name__}" for one in NO_NUMBERS]


@pytest.mark.parametrize("number", FIVES, ids=lambda one: type(one).__name__)
def test_whole_numbers_of_any_type_become_plain_ones(number: Any) -> None:
    found = [whole_number(number), to_ms(number, "x"), to_timestamp_ms(number, "x"), record_time(number)]
    found += [Record("k", "v", number).timestamp, FixedKeyRecord("k", "v", 0).with_timestamp(number).timestamp]
    assert found == [5] * 6
    assert {type(one) for one in found} == {int}


@pytest.mark.parametrize("given", NO_NUMBERS, ids=ids)
def test_what_is_no_whole_number_is_refused_where_it_was_given(given: Any) -> None:
    """Was that a record with a float travelled on, and what followed depended on the operators below."""
    calls: list[Callable[[], object]] = [
        lambda: to_ms(given, "x"),
        lambda: to_timestamp_ms(given, "x"),
        lambda: Record("k", "v", given),
        lambda: FixedKeyRecord("k", "v", 0).with_timestamp(given),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"integer milliseconds|a whole number of milliseconds since 1970"):
            call()


@pytest.mark.parametrize("given", TOO_LARGE)
def test_numbers_beyond_64_bits_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="at most 64 bits"):
        Record("k", "v", given)
    for call in (to_ms, to_timestamp_ms):
        with pytest.raises(TypeError, match="integer milliseconds"):
            call(given, "x")


def processors(time: Any) -> dict[str, Callable[[Any], Any]]:
    """Ways in which a time gets into a topology."""

    class Makes(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            self.context.forward(Record(record.key, record.value, time))

    class Sets(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            record.timestamp = time
            self.context.forward(record)

    class SetsOfFixedKey(FixedKeyProcessor[Any, Any, Any]):
        def process(self, record: Any) -> None:
            record.timestamp = time
            self.context.forward(record)

    class SetsInBatch(BatchProcessor[Any, Any, Any, Any]):
        def process_batch(self, records: Any) -> Any:
            for record in records:
                record.timestamp = time
            return [[record] for record in records]

    return {
        "made": lambda stream: stream.process(Makes),
        "set": lambda stream: stream.process(Sets),
        "set with a fixed key": lambda stream: stream.process_values(SetsOfFixedKey),
        "set in a batch": lambda stream: stream.process_batch(SetsInBatch),
    }


WAYS = list(processors(0))


def topology(way: str, time: Any) -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    processors(time)[way](builder.stream("in")).to("out")
    return builder


@pytest.mark.parametrize("way", WAYS)
def test_a_time_is_checked_at_the_node_that_gives_it(way: str) -> None:
    """The test driver blamed the extractor of the next source, and a worker the broker."""
    for wrong in (1500.75, "5", True, 1 << 63, -1):
        with TopologyTestDriver(topology(way, wrong)) as driver:
            with pytest.raises(ProcessingError, match="a record's timestamp") as caught:
                driver.create_input_topic("in").pipe_input("k", "v")
            assert str(caught.value.node).startswith("KSTREAM-PROCESS")
            assert driver.produced_topic_names() == frozenset()
    with TopologyTestDriver(topology(way, np.int64(7))) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
        (record,) = driver.create_output_topic("out").read_records()
    assert (record.timestamp, type(record.timestamp)) == (7, int)


def test_a_worker_says_the_same() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        app = kafka.start(topology("set", 1500.75))
        kafka.create_input_topic("in", "string", "string").pipe_input("k", "v")
        wait_until("it has failed", lambda: app.failure is not None)
        assert "a record's timestamp must be a whole number of milliseconds since 1970, or a datetime" in str(
            app.failure
        )
        assert "got 1500.75" in str(app.failure)


@pytest.mark.parametrize("time", [np.int64(7), Indexed()])
def test_an_extractor_may_return_any_whole_number(time: Any) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in", Consumed(timestamp_extractor=lambda record, before: time)).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
        (record,) = driver.create_output_topic("out").read_records()
    assert (record.timestamp, type(record.timestamp)) == (whole_number(time), int)


def test_an_extractor_that_returns_none_is_named() -> None:
    for wrong in (1.5, True, 1 << 63, Liar()):
        builder = StreamsBuilder(key_serde="string", value_serde="string")
        builder.stream("in", Consumed(timestamp_extractor=lambda record, before, time=wrong: time)).to("out")
        with TopologyTestDriver(builder) as driver, pytest.raises(StreamsError, match=r"expected an int \(ms\)"):
            driver.create_input_topic("in").pipe_input("k", "v")


# ------------------------------------------------------------------ partitions in the test driver


def to_partition(chosen: Any) -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out", Produced(partitioner=lambda topic, key, value, headers, partitions: {chosen}))
    return builder


@pytest.mark.parametrize("chosen", [10, np.int64(10)])
def test_the_driver_has_as_many_partitions_as_it_is_told(chosen: Any) -> None:
    """Was one for each topic, with no way to say more."""
    with TopologyTestDriver(to_partition(chosen), partitions={"out": 12}) as driver:
        driver.create_input_topic("in").pipe_input("k", "v")
        (record,) = driver.create_output_topic("out").read_records()
    assert (record.key, record.value, record.partition) == ("k", "v", 10)


@pytest.mark.parametrize("chosen", [12, -1, 1.0, True, "1"])
def test_a_partition_that_there_is_none_of_is_refused(chosen: Any) -> None:
    with (
        TopologyTestDriver(to_partition(chosen), partitions={"out": 12}) as driver,
        pytest.raises(StreamsError, match="chose partition"),
    ):
        driver.create_input_topic("in").pipe_input("k", "v")


def test_without_a_partitioner_the_key_decides() -> None:
    """As in Kafka's clients: with the partition of key "k" among 12, whatever the value."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out")
    with TopologyTestDriver(builder, partitions={"out": np.int64(12)}) as driver:  # type: ignore[dict-item]
        driver.create_input_topic("in").pipe_key_values([("k", "1"), ("k", "2"), ("other", "3")])
        found = [record.partition for record in driver.create_output_topic("out").read_records()]
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (3, TypeError),
        ({"out": 1.0}, TypeError),
        ({"out": True}, TypeError),
        ({1: 1}, TypeError),
        ({"out": 0}, ValueError),
    ],
)
def test_numbers_of_partitions_are_checked(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="partition"):
        TopologyTestDriver(StreamsBuilder(), partitions=given)


def test_a_time_out_of_the_world_is_not_piped() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out")
    with TopologyTestDriver(builder) as driver:
        for wrong in (1.5, 1 << 63, True):
            with pytest.raises(TypeError, match="integer milliseconds"):
                driver.pipe_raw("in", b"k", b"v", wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="integer milliseconds"):
                driver.create_input_topic("in").pipe_input("k", "v", wrong)  # type: ignore[arg-type]
        driver.create_input_topic("in").pipe_input("k", "v", np.int64(3))
        assert driver.create_output_topic("out").read_record().timestamp == 3
    assert to_ms(timedelta.max - timedelta(microseconds=999), "x") > 0
