"""Tables are aligned in a pipe, and coloured on a terminal."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.cli.output.terminal import MEASURED, has_colour, json_text, say, say_error, say_lines, size_text, table

ROWS = [("orders", 4, None), ("注文", 1200, "x"), ("a", -1, "")]
PLAIN = """\
topic   records  note
orders        4
注文       1200  x
a            -1
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def written(stream: io.StringIO) -> str:
    assert table(("topic", "records", "note"), ROWS, stream=stream) == len(ROWS)
    return stream.getvalue()


def test_columns_are_aligned_in_a_pipe() -> None:
    """By what a terminal shows of wide characters; without blanks at the end of a line."""
    assert written(io.StringIO()) == PLAIN


def test_the_headings_stand_out_on_a_terminal() -> None:
    heading, rest = written(Terminal()).split("\n", 1)
    assert heading == "\x1b[1mtopic   records  note\x1b[0m"
    assert rest == PLAIN.split("\n", 1)[1]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert not has_colour(Terminal())
    assert written(Terminal()) == PLAIN


def test_an_empty_no_color_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So says its standard, no-color.org."""
    monkeypatch.setenv("NO_COLOR", "")
    assert has_colour(Terminal())
    assert "NO_COLOR" in os.environ


def test_nothing_is_written_without_rows() -> None:
    stream = io.StringIO()
    assert table(("a",), [], stream=stream) == 0
    assert stream.getvalue() == ""


def test_a_table_is_written_while_its_rows_are_read() -> None:
    """A store may have more entries than fit in memory; a longer cell moves its own line only."""
    stream = io.StringIO()
    seen: list[int] = []

    def rows() -> Iterator[tuple[str, str]]:
        for number in range(3 * MEASURED):
            seen.append(stream.getvalue().count("\n"))
            yield ("k" * 100 if number in (1, 2 * MEASURED) else "k"), "v"

    assert table(("key", "value"), rows(), stream=stream) == 3 * MEASURED
    assert seen[-1] == 3 * MEASURED
    lines = stream.getvalue().splitlines()
    assert lines[1] == "k" + " " * 59 + "  v"
    assert lines[2] == lines[1 + 2 * MEASURED] == "k" * 100 + "  v"


EVIL = "\x1b]0;owned\x07\x1b[2J\r\nforged\x9b31m\u202e\udc80"
ESCAPED = r"\x1b]0;owned\x07\x1b[2J\r\nforged\x9b31m\u202e\udc80"


def test_nothing_that_is_written_moves_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither escapes nor a line break that forges a line, in a line, a table, or several lines."""
    say(f"group {EVIL}")
    say_error(f"group {EVIL}")
    assert table(("name",), [(EVIL,), ("b",)]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"group {ESCAPED}\nname\n{ESCAPED}\nb\n", f"group {ESCAPED}\n")
    say_lines(f"a\n\t{EVIL}")
    assert capsys.readouterr().out == f"a\n\t{ESCAPED}\n".replace(r"\n", "\n")


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With what cannot be printed escaped as JSON does, so that it means the same."""
    value = {EVIL: [EVIL, "注文", "\x7f", "\U000e0001"]}
    text = json_text(value)
    assert json.loads(text) == value
    assert text.isprintable()
    assert "注文" in text
    say(text)
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, ""),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_048_523, "1023.9 KiB"),
        (1_048_575, "1.0 MiB"),
        (3 * 1024**4, "3.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_sizes_have_units_of_1024(size: int | None, text: str) -> None:
    assert size_text(size) == text


def test_the_live_page_has_the_same_units() -> None:
    """It is written in another language, so the unit below which a number stays is compared by its text."""
    page = (Path(__file__).resolve().parents[2] / "streams" / "http" / "page" / "page.js").read_text()
    assert ">= 1024 && unit < 4; unit++) value /= 1024;" in page
    assert '["B", "KiB", "MiB", "GiB", "TiB"]' in page
