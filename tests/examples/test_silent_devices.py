"""examples/02_punctuation"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

from processor_api.serde import Serdes


def test_a_device_that_is_silent_is_told_once(script: Callable[[str], ModuleType], start: Callable[..., Any]) -> None:
    """After a minute, within the half minute that the punctuation takes; and again after its next silence."""
    driver = start(script("02_punctuation/silent_devices").topology(), initial_wall_clock_time=0)
    readings = driver.create_input_topic("readings", Serdes.STRING, Serdes.BYTES)
    silent = driver.create_output_topic("silent", Serdes.STRING, Serdes.LONG)
    readings.pipe_input("a", b"1")
    readings.pipe_input("b", b"1")
    driver.advance_wall_clock_time(timedelta(seconds=30))
    readings.pipe_input("b", b"2")
    driver.advance_wall_clock_time(timedelta(seconds=30))
    assert silent.read_key_values() == [("a", 0)]
    driver.advance_wall_clock_time(timedelta(seconds=30))
    assert silent.read_key_values() == [("b", 30_000)]
    driver.advance_wall_clock_time(timedelta(minutes=10))
    assert silent.is_empty
    readings.pipe_input("a", b"2")
    driver.advance_wall_clock_time(timedelta(seconds=60))
    assert [(record.key, record.timestamp) for record in silent.read_records()] == [("a", 750_000)]
