"""Sensors and statistics, with Kafka's names, tags and meanings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.clock import ManualClock
from processor_api.metrics import MetricName, RecordingLevel, Sensor, Stat
from streams.metrics import (
    Avg,
    CumulativeCount,
    CumulativeSum,
    Max,
    Min,
    Rate,
    Value,
    WindowedCount,
    WindowedSum,
)
from streams.metrics.registry import Metrics, ThreadMetrics


def values(metrics: Metrics) -> dict[str, float]:
    return {name.name: metric.metric_value() for name, metric in metrics.metrics().items()}


# ------------------------------------------------------------------ sensors


def test_a_rate_and_total_sensor_has_two_metrics_with_kafkas_names() -> None:
    clock = ManualClock(1_000_000)
    metrics = Metrics(clock.time_ms)
    sensor = ThreadMetrics(metrics, "thread-1").add_rate_total_sensor("cache", "mine", "hit", tags={"kind": "lru"})
    for _ in range(6):
        sensor.record()
    tags = {"thread-id": "thread-1", "cache-id": "mine", "kind": "lru"}
    assert set(metrics.metrics()) == {
        MetricName("hit-rate", "stream-cache-metrics", tags=tags),
        MetricName("hit-total", "stream-cache-metrics", tags=tags),
    }
    assert values(metrics) == {"hit-total": 6.0, "hit-rate": 6 / 30}


def test_a_latency_sensor_has_four() -> None:
    """Each value is one event: the rate counts them, and does not add the latencies up."""
    metrics = Metrics(ManualClock().time_ms)
    sensor = ThreadMetrics(metrics, "t").add_latency_rate_total_sensor("store", "s", "put")
    for latency in (10, 20, 60):
        sensor.record(latency)
    assert values(metrics) == {"put-latency-avg": 30.0, "put-latency-max": 60.0, "put-total": 3.0, "put-rate": 0.1}


def test_the_same_sensor_is_made_once() -> None:
    """As every task of a thread does in its ``init``; another thread, entity or tag is another sensor."""
    metrics = Metrics(ManualClock().time_ms)
    thread = ThreadMetrics(metrics, "t")
    first = thread.add_rate_total_sensor("a", "b", "c")
    assert thread.add_rate_total_sensor("a", "b", "c") is first
    others = [
        thread.add_rate_total_sensor("a", "b", "c", tags={"x": "y"}),
        thread.add_rate_total_sensor("a", "other", "c"),
        ThreadMetrics(metrics, "t2").add_rate_total_sensor("a", "b", "c"),
    ]
    assert len({id(one) for one in (first, *others)}) == 4
    assert len(metrics.metrics()) == 8


def test_a_sensor_of_ones_own_has_the_metrics_that_are_added() -> None:
    metrics = Metrics(ManualClock().time_ms)
    thread = ThreadMetrics(metrics, "t")
    sensor = thread.add_sensor("mine")
    name = MetricName("queue-size", "my-metrics", "how long the queue is")
    sensor.add(name, Value())
    sensor.add(MetricName("queue-size-max", "my-metrics"), Max())
    sensor.add(name, Value())
    sensor.record(7)
    sensor.record(3)
    assert values(metrics) == {"queue-size": 3.0, "queue-size-max": 7.0}
    with pytest.raises(
        ValueError,
        match="metric 'queue-size' of group 'my-metrics' with these tags already exists: choose another name or tags",
    ):
        thread.add_sensor("other").add(MetricName("queue-size", "my-metrics"), Value())
    assert thread.metrics()[name].metric_name.description == "how long the queue is"


def test_what_a_sensor_takes_its_parents_take_too() -> None:
    metrics = Metrics(ManualClock().time_ms)
    thread = ThreadMetrics(metrics, "t")
    parent, other = thread.add_sensor("parent"), thread.add_sensor("other")
    child = thread.add_sensor("child", RecordingLevel.INFO, parent, other)
    for sensor in (parent, other, child):
        sensor.add(MetricName(sensor.name, "g"), CumulativeSum())
    child.record(2)
    parent.record(5)
    assert values(metrics) == {"parent": 7.0, "other": 2.0, "child": 2.0}


def test_a_removed_sensor_takes_its_metrics_and_children_with_it() -> None:
    metrics = Metrics(ManualClock().time_ms)
    thread = ThreadMetrics(metrics, "t")
    parent, stays = thread.add_sensor("parent"), thread.add_sensor("stays")
    child = thread.add_sensor("child", RecordingLevel.INFO, parent)
    grandchild = thread.add_sensor("grandchild", RecordingLevel.INFO, child)
    for sensor in (parent, stays, child, grandchild):
        sensor.add(MetricName(sensor.name, "g"), CumulativeSum())
    thread.remove_sensor(parent)
    thread.remove_sensor(parent)
    assert list(values(metrics)) == ["stays"]
    again = thread.add_sensor("parent")
    assert again is not parent
    with pytest.raises(
        ValueError,
        match="sensor 'child' does not belong to this application, or was removed",
    ):
        thread.add_sensor("late", RecordingLevel.INFO, child)


@pytest.mark.parametrize("level", RecordingLevel)
def test_a_sensor_above_the_recording_level_takes_nothing(level: RecordingLevel) -> None:
    metrics = Metrics(ManualClock().time_ms, level=level)
    for own in RecordingLevel:
        sensor = ThreadMetrics(metrics, "t").add_sensor(own.name, own)
        sensor.add(MetricName(own.name, "g"), CumulativeCount())
        sensor.record()
        assert sensor.should_record() is (own <= level)
    assert values(metrics) == {own.name: float(own <= level) for own in RecordingLevel}


# ------------------------------------------------------------------ statistics


def recorded(
    stat: Stat, clock: ManualClock, samples: int = 2, window_ms: int = 1000
) -> tuple[Sensor, Callable[[], float]]:
    metrics = Metrics(clock.time_ms, samples=samples, window_ms=window_ms)
    sensor = metrics.sensor("s")
    sensor.add(MetricName("m", "g"), stat)
    (metric,) = metrics.metrics().values()
    return sensor, metric.metric_value


@pytest.mark.parametrize(
    ("stat", "empty", "both", "newest"),
    [
        (Avg, math.nan, 4.0, 8.0),
        (Max, math.nan, 8.0, 8.0),
        (Min, math.nan, 1.0, 8.0),
        (WindowedSum, 0.0, 12.0, 8.0),
        (WindowedCount, 0.0, 3.0, 1.0),
        (CumulativeSum, 0.0, 12.0, 12.0),
        (CumulativeCount, 0.0, 3.0, 3.0),
        (Value, 0.0, 8.0, 8.0),
    ],
)
def test_statistics_are_of_the_last_windows_or_of_everything(
    stat: Any, empty: float, both: float, newest: float
) -> None:
    clock = ManualClock(5000)
    sensor, value = recorded(stat(), clock)
    assert value() == pytest.approx(empty, nan_ok=True)
    sensor.record(1)
    sensor.record(3)
    clock.advance(1000)
    sensor.record(8)
    assert value() == both
    clock.advance(1000)
    assert value() == newest
    clock.advance(1000)
    sampled = stat in (Avg, Max, Min, WindowedSum, WindowedCount)
    assert value() == pytest.approx(empty if sampled else newest, nan_ok=True)


def test_a_rate_does_not_begin_with_a_peak() -> None:
    """Windows that have not begun count as full ones; later it is over the time that passed."""
    clock = ManualClock(0)
    sensor, rate = recorded(Rate(), clock)
    sensor.record(10)
    assert rate() == 10.0
    clock.advance(500)
    sensor.record(10)
    assert rate() == pytest.approx(20 / 1.5)
    clock.advance(1000)
    assert rate() == pytest.approx(20 / 1.5)
    clock.advance(499)
    assert rate() == pytest.approx(20 / 1.999)
    clock.advance(1)
    assert rate() == 0.0


@given(
    steps=st.lists(st.tuples(st.integers(0, 1500), st.integers(-5, 5)), max_size=40),
    samples=st.integers(1, 4),
    rest=st.integers(0, 5000),
)
def test_a_windowed_sum_is_that_of_the_records_in_its_windows(
    steps: list[tuple[int, int]], samples: int, rest: int
) -> None:
    """Held against a list of everything recorded."""
    clock = ManualClock(0)
    sensor, value = recorded(WindowedSum(), clock, samples)
    windows: list[list[int]] = []
    for wait, number in steps:
        clock.advance(wait)
        sensor.record(number)
        if not windows or clock.time_ms() - windows[-1][0] >= 1000:
            windows.append([clock.time_ms(), 0])
        windows[-1][1] += number
    clock.advance(rest)
    oldest = clock.time_ms() - samples * 1000
    assert value() == sum(total for start, total in windows[-samples:] if start > oldest)
