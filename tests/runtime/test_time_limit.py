"""How far the time of a record may be ahead of the wall clock (semantics 160)."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import ProcessingError, UserCodeError
from streams import Consumed, Materialized, StreamsBuilder, TimeToLive, TimeWindows, TopologyTestDriver
from streams.runtime.processing.environment import DROP, FAIL, TAKE, TimeLimit

HOUR = 3_600_000
NOW = int(time.time() * 1000)
S = Consumed(key_serde="string", value_serde="string")


def topology(extractor: Any = None, *, two: bool = False) -> StreamsBuilder:
    """A table with a time to live, and counts of windows."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    consumed = Consumed(key_serde="string", value_serde="string", timestamp_extractor=extractor)
    stream = builder.stream(["in", "other"] if two else "in", consumed)
    life = TimeToLive(timedelta(days=30), "record_time")
    stream.to_table(
        materialized=Materialized(name="table", key_serde="string", value_serde="string", time_to_live=life)
    )
    windows = TimeWindows.of_size_and_grace(60_000, HOUR)
    stream.group_by_key().windowed_by(windows).count(materialized="counts").to_stream().map(
        lambda window, count: (window.key, str(count))
    ).to("out")
    return builder


def driver(builder: StreamsBuilder, **settings: Any) -> TopologyTestDriver:
    return TopologyTestDriver(builder, {name.replace("_", "."): value for name, value in settings.items()})


def outputs(made: TopologyTestDriver) -> list[Any]:
    return made.create_output_topic("out", "string", "string").read_key_values()


@pytest.mark.parametrize("extractor", [None, lambda record, partition_time: record.timestamp])
def test_a_time_in_microseconds_fails_by_default(extractor: Any) -> None:
    """It deleted a table with a time to live, and closed all windows for ever."""
    with driver(topology(extractor)) as made:
        source = made.create_input_topic("in", "string", "string")
        source.pipe_input("a", "v", timestamp=NOW)
        with pytest.raises(ProcessingError, match=r"is \d+ days ahead .* microseconds .* timestamp\.after") as caught:
            source.pipe_input("bad", "v", timestamp=NOW * 1000)
        assert {**caught.value.place(), "node": None} == {
            "topic": "in", "partition": 0, "offset": 1, "task": "0_0", "node": None,
        }  # fmt: skip
        assert made.get_state_store("table").get("a").value == "v"


@pytest.mark.parametrize("extractor", [None, lambda record, partition_time: record.timestamp])
@pytest.mark.parametrize("two", [False, True])
def test_such_records_are_dropped_if_a_setting_says_so(
    extractor: Any, two: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Counted, with a line in the log, and without an effect on any time; with one input and with several."""
    with (
        caplog.at_level(logging.WARNING),
        driver(topology(extractor, two=two), timestamp_after_max_handler="drop") as made,
    ):
        source = made.create_input_topic("in", "string", "string")
        for number in range(4):
            source.pipe_input("a", "v", timestamp=NOW + number)
            source.pipe_input("bad", "v", timestamp=(NOW + number) * 1000)
        assert [value for _, value in outputs(made)] == ["1", "2", "3", "4"]
        assert made.get_state_store("table").get("bad") is None
        assert made.metrics()["dropped-records-total"] == 4
    lines = [one for one in caplog.records if "further ahead of the clock" in one.getMessage()]
    assert [(vars(one)["topic"], vars(one)["offset"], vars(one)["records"]) for one in lines] == [
        ("in", 1, 1), ("in", 3, 2), ("in", 7, 4),
    ]  # fmt: skip


def test_such_records_are_taken_if_a_setting_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """As Kafka Streams does, but with a line in the log."""
    with driver(topology(), timestamp_after_max_handler="take") as made:
        source = made.create_input_topic("in", "string", "string")
        source.pipe_input("a", "v", timestamp=NOW)
        source.pipe_input("bad", "v", timestamp=NOW * 1000)
        source.pipe_input("a", "v", timestamp=NOW)
        assert outputs(made) == [("a", "1"), ("bad", "1")]
    assert any("stream time moves to a record" in one.getMessage() for one in caplog.records)


@pytest.mark.parametrize("limit", [-1, HOUR])
def test_records_within_the_limit_are_processed(limit: int) -> None:
    """Those of the past, of now, and of the time that is allowed; without a limit all are."""
    times = [0, NOW - 10**11, NOW, NOW + HOUR]
    with driver(topology(), timestamp_after_max_ms=limit) as made:
        source = made.create_input_topic("in", "string", "string")
        for one in times:
            source.pipe_input("a", "v", timestamp=one)
        assert [value for _, value in outputs(made)] == ["1"] * 4
        ahead = NOW * 10
        if limit < 0:
            source.pipe_input("a", "v", timestamp=ahead)
        else:
            with pytest.raises(ProcessingError, match="ahead of the clock"):
                source.pipe_input("a", "v", timestamp=ahead)


def test_the_limit_moves_with_the_clock() -> None:
    """The time that is allowed is looked up again only when a record seems to be ahead of it."""
    clock = ManualClock(NOW * 2)  # later than the machine's
    limit = TimeLimit(clock, HOUR, DROP)
    at = clock.time_ms()
    assert not limit.leaves_out(at + HOUR, {})
    assert limit.leaves_out(at + HOUR + 1, {})
    clock.advance(1)
    assert not limit.leaves_out(at + HOUR + 1, {})
    assert limit.latest == at + HOUR + 1
    assert not TimeLimit(clock, HOUR, TAKE).leaves_out(at * 9, {})
    with pytest.raises(UserCodeError, match=r"is 1 ms ahead of the clock, more than timestamp.after.max.ms \(0\)\."):
        TimeLimit(clock, 0, FAIL).leaves_out(at + 2, {})


def test_a_clock_that_stands_still_in_the_past_is_no_guide() -> None:
    """That of a test driver begins in 1970: the machine's counts too."""
    limit = TimeLimit(ManualClock(0), HOUR, FAIL)
    assert not limit.leaves_out(NOW, {})


def test_without_a_limit_no_time_is_too_late() -> None:
    assert TimeLimit(ManualClock(0), -1, FAIL).latest > (1 << 63) - 1
