"""Prints what a topology writes: a table that grows on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TextIO
from unicodedata import combining, east_asian_width

from processor_api.texts import MOST_VALUE, cut, printable
from streams.cli.output.terminal import has_colour, json_text, say
from streams.cli.records.json_lines import record_line, writable
from streams.cli.records.times import iso
from streams.cli.records.values import as_text, bytes_as_json
from streams.cli.trial.session import Output

MOST_CELL = 60
"""Characters of a key in a table."""
_GAP = "  "
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


class Printer(Protocol):
    """Prints records that were written."""

    def show(self, outputs: Iterable[Output]) -> None: ...

    def title(self, text: str) -> None:
        """Begins another part of the output, such as the rows of a store."""
        ...

    def row(self, entry: dict[str, Any]) -> None:
        """Prints a row of a store, with values of JSON by name."""
        ...


def json_line(output: Output) -> str:
    """Returns a record as a line of JSON, which is also a line of input."""
    return record_line(output.topic, output.key, output.value, output.timestamp_ms, output.headers)


class JsonLines:
    """Prints a JSON object a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, outputs: Iterable[Output]) -> None:
        """Prints records."""
        for output in outputs:
            say(writable(self._stream, json_line(output)), stream=self._stream)
        self._stream.flush()

    def title(self, text: str) -> None:
        """Prints nothing: each line says where it belongs."""

    def row(self, entry: dict[str, Any]) -> None:
        """Prints a row of a store."""
        say(writable(self._stream, json_text(entry)), stream=self._stream)


class Table:
    """Prints aligned columns, row by row: a column that grows is wider from then on.

    :param topics: names that the first column will have.
    :param styled: whether titles are bold and times dim.
    """

    def __init__(self, stream: TextIO, topics: Sequence[str], *, styled: bool) -> None:
        self._stream = stream
        self._styled = styled
        self._widths = [max(map(_width, ("topic", *topics))), 8, 0]
        self._begun = self._used = False

    def show(self, outputs: Iterable[Output]) -> None:
        """Prints records, below a title before the first one."""
        for output in outputs:
            if not self._begun:
                self._begun = self._used = True
                self._line(["time".ljust(12), "topic", "key", "value"], bold=True)
            self._line([_clock(output.timestamp_ms), output.topic, *_pair(output.key, output.value)])
            if output.headers:
                named = ", ".join(f"{as_text(name)}={as_text(_header(value))}" for name, value in output.headers)
                self._write(f"{' ' * 12}{_GAP}headers: {named}\n")
        self._stream.flush()

    def title(self, text: str) -> None:
        """Prints a line of its own."""
        self._write("\n" * self._used + (f"{_BOLD}{text}{_PLAIN}" if self._styled else text) + "\n")
        self._used = True
        self._widths[1] = 8

    def row(self, entry: dict[str, Any]) -> None:
        """Prints a row of a store: its key and value, and what else it has."""
        more = [
            f"{name} {printable(str(value))}" for name, value in entry.items() if name not in ("store", "key", "value")
        ]
        key, value = _pair(entry["key"], entry["value"])
        self._write(_GAP + self._padded(key, 1) + _GAP + _GAP.join([value, *more]) + "\n")

    def _line(self, cells: list[str], *, bold: bool = False) -> None:
        time, topic, key, value = cells
        if self._styled and not bold:
            time = f"{_DIM}{time}{_PLAIN}"
        text = _GAP.join((time, self._padded(printable(topic), 0), self._padded(key, 1), value))
        self._write((f"{_BOLD}{text}{_PLAIN}" if bold and self._styled else text).rstrip() + "\n")

    def _write(self, text: str) -> None:
        """Writes a text; characters that the encoding of the stream lacks are escaped."""
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def _padded(self, text: str, column: int) -> str:
        width = _width(text)
        self._widths[column] = max(self._widths[column], width)
        return text + " " * (self._widths[column] - width)


def _pair(key: Any, value: Any) -> tuple[str, str]:
    return cut(as_text(key), MOST_CELL), cut(as_text(value), MOST_VALUE)


def _header(value: bytes | None) -> Any:
    return None if value is None else bytes_as_json(value)


def _clock(ms: int) -> str:
    """Returns the time of day, which is what differs between records that are looked at."""
    text = iso(ms)
    return text[11:23] if isinstance(text, str) else str(ms)


def _width(text: str) -> int:
    """Returns the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def printer_of(form: str | None, topics: Sequence[str]) -> Printer:
    """Returns the printer to standard output.

    :param form: ``text`` or ``json``; by itself text on a terminal, and JSON lines elsewhere.
    :param topics: the topics that will be written.
    """
    if form == "json" or (form is None and not sys.stdout.isatty()):
        return JsonLines(sys.stdout)
    return Table(sys.stdout, topics, styled=has_colour(sys.stdout))
