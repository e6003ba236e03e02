"""Expectations of a test: what is compared, and what an error shows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import TopologyError
from streams import StreamsBuilder, TimeWindows, TopologyTestDriver
from streams.testing import TestInputTopic, TestRecord


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    builder.stream("in").filter(lambda key, value: value != "none").to("out")
    with TopologyTestDriver(builder) as driver:
        yield driver


@pytest.fixture
def source(driver: TopologyTestDriver) -> TestInputTopic:
    return driver.create_input_topic("in")


def failure(call: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        call()
    return str(raised.value)


def test_parts_that_are_given_are_compared(driver: TopologyTestDriver, source: TestInputTopic) -> None:
    for number in range(3):
        source.pipe_input("a", number, timestamp=1_000 * number, headers=[("n", b"%d" % number)])
    source.pipe_input(None, None)
    start = datetime(1970, 1, 1, tzinfo=UTC)
    expected = driver.expect("out").next("a", 0, timestamp=start, headers=[("n", b"0")], partition=0)
    expected.next(key="a", value=...).next(value=pytest.approx(2.0000001)).next(key=None, value=None).end()


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"key": "b"}, "key: expected 'b', got 'a'"),
        ({"value": None}, "value: expected None, got 1"),
        ({"timestamp": 6}, "timestamp: expected 6, got 5"),
        ({"headers": []}, "headers: expected [], got [('h', b'1')]"),
        ({"partition": 3}, "partition: expected 3, got 0"),
    ],
)
def test_a_part_that_differs_is_shown(
    driver: TopologyTestDriver, source: TestInputTopic, wanted: dict[str, Any], says: str
) -> None:
    source.pipe_input("a", 1, 5, [("h", b"1")])
    source.pipe_input("later", 2, 6)
    text = failure(lambda: driver.expect("out").next(**wanted))
    assert text.startswith("record 1 of topic 'out' differs:")
    assert says in text
    assert "read: TestRecord(key='a', value=1, timestamp=5" in text
    assert "not read yet:\n    TestRecord(key='later', value=2, timestamp=6)" in text


def test_of_long_values_the_lines_that_differ_are_shown(driver: TopologyTestDriver, source: TestInputTopic) -> None:
    value = {f"field {number}": "a text of some length" for number in range(9)}
    source.pipe_input("a", value)
    text = failure(lambda: driver.expect("out").next("a", {**value, "field 4": "another"}))
    differing = [line.strip() for line in text.splitlines() if line.strip()[:1] in ("-", "+")]
    assert differing == ["-  'field 4': 'another',", "+  'field 4': 'a text of some length',"]


def test_a_record_that_is_missing_says_why_there_may_be_none() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    minutes = TimeWindows.of_size_with_no_grace(60_000)
    counts = builder.stream("in").group_by_key().windowed_by(minutes).count()
    counts.to_stream(lambda windowed, count: windowed.key).to("out", value_serde="long")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input(None, "b")
        text = failure(lambda: driver.expect("out").next("a", 1))
        assert text.startswith("topic 'out' ends after 0 records, expected a record with key='a', value=1")
        assert "null-key" in text


def test_records_that_were_not_expected_are_shown(driver: TopologyTestDriver, source: TestInputTopic) -> None:
    source.pipe_key_values([("a", number) for number in range(9)])
    expected = driver.expect("out").next("a", 0)
    text = failure(expected.end)
    assert text.startswith("topic 'out' has 8 more records after 1 that were expected:")
    assert "TestRecord(key='a', value=5" in text
    assert "and 3 more" in text
    driver.create_output_topic("out").read_records()
    expected.end()


def test_any_order(driver: TopologyTestDriver, source: TestInputTopic) -> None:
    source.pipe_key_values([("a", 1), ("b", 2), ("a", 1)], 5)
    driver.expect("out").in_any_order(("a", 1), ("a", 1), TestRecord("b", 2, 5)).end()
    source.pipe_key_values([("a", 1), ("b", 2), ("c", 3)], 5)
    text = failure(lambda: driver.expect("out").in_any_order(("a", 1), ("a", 1)))
    assert "1 of 2 records of topic 'out' differ:\n  missing: a record with key='a', value=1" in text
    assert "unexpected: TestRecord(key='b', value=2, timestamp=5)" in text
    assert "not read yet:\n    TestRecord(key='c'" in text
    text = failure(lambda: driver.expect("out").in_any_order(("a", 1), ("b", 2)))
    assert "ends after 1 records, expected 2 records" in text
    with pytest.raises(TypeError, match="an expected record must be a pair"):
        driver.expect("out").in_any_order("a")  # type: ignore[arg-type]


def test_a_name_that_is_wrong_is_told(driver: TopologyTestDriver) -> None:
    with pytest.raises(TopologyError, match="did you mean 'out'"):
        driver.expect("outt")


TEST = """
from streams import StreamsBuilder, TopologyTestDriver

def test_counts():
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "b")
        driver.expect("out").next("a", "c")
"""


def test_pytest_shows_the_line_of_the_test(tmp_path: Path) -> None:
    """And not the lines of the library."""
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    (line,) = (line for line in run.stdout.splitlines() if line.startswith(">"))
    assert line.split(maxsplit=1)[1] == 'driver.expect("out").next("a", "c")'
    assert "value: expected 'c', got 'b'" in run.stdout
    assert "raise AssertionError" not in run.stdout
