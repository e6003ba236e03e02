"""The bar that shows how far stores are restored."""

from __future__ import annotations

import io

from processor_api.clock import ManualClock
from processor_api.task_id import TopicPartition
from streams.cli.restore_bar import RestoreBar

FIRST, SECOND = TopicPartition("log", 0), TopicPartition("log", 1)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().split("\r")[1:]


def test_the_bar_grows_with_what_is_restored() -> None:
    """It counts all changelogs together, and ends its line when the last one is done."""
    stream, clock = io.StringIO(), ManualClock(0)
    bar = RestoreBar(stream, clock)
    bar.on_restore_start(FIRST, "s", 0, 60)
    bar.on_restore_start(SECOND, "s", 10, 50)
    for _ in range(5):
        clock.advance(200)
        bar.on_batch_restored(FIRST, "s", 0, 10)
    assert "2 changelogs" in lines(stream)[-1]
    assert "50%" in lines(stream)[-1]
    assert "50 of 100 records" in lines(stream)[-1]
    bar.on_restore_end(FIRST, "s", 60)
    assert not stream.getvalue().endswith("\n")
    bar.on_restore_end(SECOND, "s", 38)
    assert lines(stream)[-1].endswith("100% 100 of 100 records\n")


def test_it_is_drawn_ten_times_a_second_at_most() -> None:
    """A batch every millisecond costs no line each."""
    stream, clock = io.StringIO(), ManualClock(0)
    bar = RestoreBar(stream, clock)
    bar.on_restore_start(FIRST, "s", 0, 1000)
    for _ in range(1000):
        clock.advance(1)
        bar.on_batch_restored(FIRST, "s", 0, 1)
    assert 9 <= len(lines(stream)) <= 11


def test_the_next_restore_starts_anew() -> None:
    """What an earlier one read is not counted again."""
    stream, clock = io.StringIO(), ManualClock(0)
    bar = RestoreBar(stream, clock)
    for _ in range(2):
        bar.on_restore_start(FIRST, "s", 0, 10)
        bar.on_restore_end(FIRST, "s", 10)
    assert lines(stream)[-1].endswith("10 of 10 records\n")
