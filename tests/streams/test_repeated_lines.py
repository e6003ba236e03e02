"""Equal lines of the log are logged once, and then counted."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from processor_api.clock import ManualClock
from streams.log import RepeatedLines


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lines(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> RepeatedLines:
    caplog.set_level(logging.DEBUG, "test")
    return RepeatedLines(logging.getLogger("test"), clock)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any, Any]]:
    found = [(one.message, getattr(one, "error", None), getattr(one, "times", None)) for one in caplog.records]
    caplog.clear()
    return found


def test_an_equal_line_is_logged_once_and_then_counted(
    lines: RepeatedLines, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Twenty a second for three minutes filled a log with 11,291 lines: 3,600 are six here, with their number."""
    for _ in range(180 * 20):
        lines.log("not yet", error="no leader")
        clock.advance(50)
    times = [one[2] for one in logged(caplog)]
    assert times[0] is None
    assert len(times) == 5, times
    assert times[1:] == sorted(times[1:])


def test_lines_are_equal_but_for_numbers(lines: RepeatedLines, caplog: pytest.LogCaptureFixture) -> None:
    lines.log("not yet", error="no answer within 5 s from 127.0.0.1:9092")
    lines.log("not yet", error="no answer within 4.5 s from 127.0.0.1:9093")
    lines.log("not yet", error="another reason")
    lines.log("other", error="another reason")
    assert [one[:2] for one in logged(caplog)] == [
        ("not yet", "no answer within 5 s from 127.0.0.1:9092"),
        ("not yet", "another reason"),
        ("other", "another reason"),
    ]


def test_a_line_that_comes_again_later_is_a_new_one(
    lines: RepeatedLines, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        lines.log("not yet", error="x")
        clock.advance(30_000)
    assert [one[2] for one in logged(caplog)] == [None, None, None]


def test_the_level_is_that_of_requests_that_are_tried_again(
    lines: RepeatedLines, caplog: pytest.LogCaptureFixture
) -> None:
    """What is at level debug, as during an outage, is neither counted nor does it take the place of a later line."""
    lines.log("not yet", level=logging.DEBUG, error="x")
    lines.log("not yet", level=logging.DEBUG, error="x")
    lines.log("not yet", error="x")
    lines.log("note", level=logging.INFO, error="x")
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("DEBUG", "not yet"), ("DEBUG", "not yet"), ("WARNING", "not yet"), ("INFO", "note"),
    ]  # fmt: skip


def test_so_many_kinds_of_lines_are_kept_and_no_more(lines: RepeatedLines, caplog: pytest.LogCaptureFixture) -> None:
    for word in ("a" * n for n in range(1, 501)):
        lines.log("not yet", error=word)
    assert len(lines._lines) <= 100
    assert len(logged(caplog)) == 500
