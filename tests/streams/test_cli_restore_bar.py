"""The bar that shows how far stores are restored, on a terminal."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import re
import struct
import termios
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from processor_api.task_id import TopicPartition
from streams.cli.output import logs
from streams.cli.run.restore_bar import RestoreBar

FIRST, SECOND = TopicPartition("log", 0), TopicPartition("log", 1)
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
BAR = re.compile(r"restoring (\d+) changelogs? *[━╸╺ ]+ *(\d+)% ([\d,]+) of ([\d,]+) records")


class Screen:
    """A terminal of 200 columns: the stream to write to it, and its lines as a person sees them."""

    def __init__(self) -> None:
        self._outer, inner = os.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.stream: TextIO = os.fdopen(inner, "w")
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while part := os.read(self._outer, 65536):
                self._written += part
        except OSError:  # the other end is closed
            pass
        os.close(self._outer)

    def close(self) -> str:
        """Closes the terminal, and gives what was written to it."""
        self.stream.close()
        self._reader.join(60)
        assert not self._reader.is_alive()
        return self._written.decode()

    @staticmethod
    def lines(written: str) -> list[str]:
        rows, row, column, at = [""], 0, 0, 0
        while at < len(written):
            if found := SEQUENCE.match(written, at):
                number = int(found[1]) if found[1].isdigit() else 1
                match found[2]:
                    case "A":
                        row = max(0, row - number)
                    case "K":
                        rows[row] = ""
                    case "m" | "h" | "l":
                        pass
                    case other:
                        raise AssertionError(f"an unknown sequence {other}")
                at = found.end()
                continue
            match written[at]:
                case "\r":
                    column = 0
                case "\n":
                    row += 1
                    rows += [""] * (row + 1 - len(rows))
                case char:
                    rows[row] = rows[row].ljust(column)[:column] + char + rows[row][column + 1 :]
                    column += 1
            at += 1
        return [line.rstrip() for line in rows if line.strip()]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Screen()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


def test_the_bar_ends_with_all_that_was_restored(screen: Screen) -> None:
    """It counts all changelogs together, and its last state stays on the screen."""
    bar = RestoreBar(screen.stream)
    bar.on_restore_start(FIRST, "s", 0, 6000)
    bar.on_restore_start(SECOND, "s", 1000, 5000)
    for _ in range(5):
        bar.on_batch_restored(FIRST, "s", 0, 1000)
    bar.on_restore_end(FIRST, "s", 6000)
    bar.on_restore_end(SECOND, "s", 3998)
    (line,) = Screen.lines(screen.close())
    found = BAR.search(line)
    assert found is not None, line
    assert found.groups() == ("2", "100", "10,000", "10,000")


def test_log_lines_stand_above_the_bar(screen: Screen) -> None:
    """Threads log while the bar is drawn: no line is cut, joined with another or drawn over."""
    logs.configure("text", "info", screen.stream)
    log = logging.getLogger("streams.of.the.test")
    bar = RestoreBar(screen.stream)
    log.info("before")
    bar.on_restore_start(FIRST, "s", 0, 2000)

    def work(number: int) -> None:
        for count in range(50):
            log.info("line %d of %d", count, number, extra={"long": "x" * 300})
            bar.on_batch_restored(FIRST, "s", 0, 10)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bar.on_restore_end(FIRST, "s", 2000)
    log.info("after")
    first, *between, drawn, last = Screen.lines(screen.close())
    assert "before [streams.of.the.test]" in first
    assert "after [streams.of.the.test]" in last
    assert BAR.search(drawn), drawn
    found = [re.search(r"line (\d+) of (\d) .*long=x{300} thread='Thread-\d+ \(work\)'$", line) for line in between]
    assert all(found), between
    assert sorted(match[1] + match[2] for match in found if match) == sorted(
        f"{count}{number}" for count in range(50) for number in range(4)
    )


def test_nothing_to_restore_shows_nothing(screen: Screen) -> None:
    bar = RestoreBar(screen.stream)
    bar.on_restore_start(FIRST, "s", 5, 5)
    bar.on_restore_end(FIRST, "s", 0)
    assert screen.close() == ""


def test_the_next_restore_starts_anew(screen: Screen) -> None:
    """What an earlier one read is not counted again; one that is given up ends the bar where it is."""
    bar = RestoreBar(screen.stream)
    bar.on_restore_start(FIRST, "s", 0, 10)
    bar.on_restore_end(FIRST, "s", 10)
    bar.on_restore_start(FIRST, "s", 0, 30)
    bar.on_batch_restored(FIRST, "s", 0, 20)
    bar.on_restore_suspended(FIRST, "s", 20)
    first, second = Screen.lines(screen.close())
    assert "10 of 10 records" in first
    assert "20 of 20 records" in second


def test_a_hard_end_leaves_the_cursor(screen: Screen) -> None:
    """A second Ctrl-C ends the process in the middle of it."""
    bar = RestoreBar(screen.stream)
    bar.on_restore_start(FIRST, "s", 0, 10)
    screen.stream.flush()
    bar.on_batch_restored(FIRST, "s", 0, 1)
    bar.close()
    written = screen.close()
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_without_colour_it_has_none(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bar = RestoreBar(screen.stream)
    bar.on_restore_start(FIRST, "s", 0, 10)
    bar.on_restore_end(FIRST, "s", 10)
    written = screen.close()
    assert "10 of 10 records" in written
    assert re.findall(r"\x1b\[[0-9;]*3\dm", written) == []


def test_a_stream_that_is_no_terminal_is_not_needed() -> None:
    """Only the last state is written there."""
    stream = io.StringIO()
    bar = RestoreBar(stream)
    bar.on_restore_start(FIRST, "s", 0, 10)
    bar.on_restore_end(FIRST, "s", 10)
    assert "\x1b" not in stream.getvalue()
