"""Times, durations and timeouts in the forms that Python has for them (semantics 192)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from processor_api.user_code.durations import to_ms, to_seconds, to_timestamp_ms, whole_ms
from streams import (
    Consumed,
    KeyQuery,
    Materialized,
    MultiVersionedKeyQuery,
    Processor,
    PunctuationType,
    Record,
    SessionWindows,
    StateQueryRequest,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    VersionedKeyQuery,
    Window,
    WindowKeyQuery,
    WindowRangeQuery,
)
from streams.remote import RemoteStreams
from streams.testing import EmbeddedKafka

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(0, 0), (15, 15), (0.25, 0.25), (3600, 3600), (np.int64(5), 5), (np.float64(0.5), 0.5), (MINUTE, 60),
     (timedelta(days=1), 86_400), (timedelta(microseconds=1500), 0.0015)],
)  # fmt: skip
def test_a_timeout_is_seconds_or_a_timedelta(given: Any, seconds: float) -> None:
    assert to_seconds(given, "timeout") == seconds


@pytest.mark.parametrize("given", [30_000, 3600.1, math.inf, math.nan, 10**400])
def test_a_timeout_that_was_meant_in_milliseconds_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"timeout is in seconds, at most 3600, got .* give a timedelta"):
        to_seconds(given, "timeout")


@pytest.mark.parametrize("given", [-1, -0.5, timedelta(seconds=-1), -math.inf])
def test_a_timeout_is_not_negative(given: Any) -> None:
    with pytest.raises(ValueError, match="timeout must not be negative"):
        to_seconds(given, "timeout")


@pytest.mark.parametrize("given", ["30", None, True, NOON, [1]])
def test_what_is_no_number_is_no_timeout(given: Any) -> None:
    with pytest.raises(TypeError, match="timeout must be a timedelta or seconds"):
        to_seconds(given, "timeout")


def test_calls_that_wait_take_seconds() -> None:
    """`close(10)` waited 10 ms, and `wait(15)` returned at once."""
    for call in (
        lambda: RemoteStreams("http://127.0.0.1:1", timeout=30_000),
        lambda: RemoteStreams("http://127.0.0.1:1", wait=30_000),
    ):
        with pytest.raises(ValueError, match="is in seconds, at most 3600"):
            call()
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out")
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        app = kafka.start(builder)
        for wait in (
            app.wait,
            app.close,
            app.remove_stream_thread,
            lambda time: kafka.read_records("in", 1, timeout=time),
        ):
            with pytest.raises(ValueError, match="timeout is in seconds, at most 3600, got 30000"):
                wait(30_000)
        assert app.remove_stream_thread(10) is not None
        assert app.close(10)
        assert app.wait(15)


def test_parts_of_a_millisecond_are_not_cut_off() -> None:
    """A window of 1.5 ms was one of 1 ms."""
    with pytest.raises(TypeError, match=r"size must be whole milliseconds, got .*, which has parts of one"):
        to_ms(timedelta(microseconds=1500), "size")
    with pytest.raises(Exception, match="must be whole milliseconds"):
        TimeWindows.of_size_with_no_grace(timedelta(microseconds=1500))
    assert to_ms(timedelta(microseconds=2000), "size") == 2


def test_a_datetime_is_the_millisecond_in_which_it_lies() -> None:
    assert whole_ms(NOON.replace(microsecond=1999)) == NOON_MS + 1
    assert whole_ms(datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)) == -1
    assert to_timestamp_ms(NOON.astimezone(ZoneInfo("Asia/Tokyo")), "x") == NOON_MS
    with pytest.raises(TypeError, match="a datetime with a time zone"):
        to_timestamp_ms(datetime(2026, 1, 1), "x")  # noqa: DTZ001 - no zone is what is wrong


def test_reads_by_datetimes_are_those_by_milliseconds() -> None:
    """Java takes an ``Instant`` there; here only milliseconds were taken."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    clicks = builder.stream("clicks").group_by_key()
    clicks.windowed_by(TimeWindows.of_size_with_no_grace(MINUTE)).count(materialized="w")
    clicks.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(MINUTE)).count(materialized="s")
    builder.table(
        "t", materialized=Materialized(supplier=Stores.persistent_versioned_key_value_store("v", timedelta(1)))
    )
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("clicks").pipe_input("a", "1", timestamp=NOON + MINUTE / 2)
        rows = driver.create_input_topic("t")
        rows.pipe_input("a", "old", timestamp=NOON)
        rows.pipe_input("a", "new", timestamp=NOON + MINUTE)
        windows, sessions = driver.get_window_store("w"), driver.get_session_store("s")
        versions = driver.get_versioned_key_value_store("v")
        reads: list[Any] = [
            lambda at: windows.fetch("a", at(0)),
            lambda at: list(windows.fetch_range("a", at(-60), at(60))),
            lambda at: list(windows.fetch_keys("a", "b", at(0), at(0))),
            lambda at: list(windows.fetch_all(at(0), at(60))),
            lambda at: sessions.fetch_session("a", at(30), at(30)),
            lambda at: list(sessions.find_sessions("a", at(0), at(60))),
            lambda at: list(sessions.find_sessions_by_end(at(0), at(60))),
            lambda at: versions.get("a", at(30)),
            lambda at: list(versions.versions("a", at(0), at(60))),
            lambda at: list(versions.range(as_of=at(1))),
        ]  # fmt: skip
        for read in reads:
            found = read(lambda seconds: NOON + timedelta(seconds=seconds))
            assert found
            assert found == read(lambda seconds: NOON_MS + seconds * 1000)
        queries: list[Any] = [
            ("w", lambda at: WindowKeyQuery("a", at(0), at(60))),
            ("w", lambda at: WindowRangeQuery.with_window_start_range(at(0), at(60))),
            ("v", lambda at: VersionedKeyQuery("a", as_of=at(30))),
            ("v", lambda at: MultiVersionedKeyQuery("a", at(0), at(60))),
        ]
        for name, query in queries:
            by_datetime = query(lambda seconds: NOON + timedelta(seconds=seconds))
            assert by_datetime == query(lambda seconds: NOON_MS + seconds * 1000)
            result = driver.query(StateQueryRequest.in_store(name).with_query(by_datetime))
            assert result.only_partition_result.is_success
    with pytest.raises(ValueError, match=r"from_time 1767268800000 .* is after to_time 0"):
        MultiVersionedKeyQuery("a", NOON, 0)
    assert KeyQuery("a") == KeyQuery("a")


def test_records_windows_and_extractors_take_datetimes() -> None:
    assert Record("k", "v", NOON).timestamp == NOON_MS
    assert Record("k", "v", 0).with_timestamp(NOON).timestamp == NOON_MS
    assert Window(NOON, NOON + MINUTE) == Window(NOON_MS, NOON_MS + 60_000)
    assert type(Window(NOON, NOON).start) is int

    class Stamps(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(MINUTE, PunctuationType.STREAM_TIME, print, start_time=NOON)

        def process(self, record: Any) -> None:
            record.timestamp = NOON + MINUTE
            self.context.forward(record)

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stamped = builder.stream("in", Consumed(timestamp_extractor=lambda record, before: NOON)).process(Stamps)
    stamped.to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("k", "v", timestamp=5)
        assert driver.create_output_topic("out").read_record().timestamp == NOON_MS + 60_000
