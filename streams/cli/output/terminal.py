"""Writes for people and for pipes: tables, colour and live views on a terminal, plain text everywhere else.

What a command writes may quote others: names of groups and clients, headers, keys, texts of errors. Everything goes
through the functions here, which leave nothing in it that a terminal obeys or that forges a line.

``rich`` draws on terminals. It is loaded when something is drawn, since it takes longer to load than most commands run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

from processor_api.texts import printable

if TYPE_CHECKING:
    from rich.console import Console

MEASURED = 500
"""Rows of a table that its columns are measured by; the table is written while later rows are still read."""
WIDEST = 60
"""Columns of the terminal that a column is padded to at most."""
GAP = "  "

_lock = threading.RLock()
_live: dict[TextIO, Console] = {}
"""The console of the view that is drawn on a stream now."""


def counted(number: int, noun: str) -> str:
    """Returns a number of things: ``1 record``, ``2 records``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def counted_were(number: int, noun: str) -> str:
    """Returns the begin of a sentence about things: ``1 record was``, ``2 records were``."""
    return f"{counted(number, noun)} {'was' if number == 1 else 'were'}"


def size_text(size: float | None) -> str:
    """Returns a number of bytes in the largest unit of 1024 that it fills, as `streams top`, `streams state list` and
    the live page show sizes: ``512 B``, ``1.5 KiB``; empty for ``None``."""
    if size is None:
        return ""
    unit, units = "B", iter(("KiB", "MiB", "GiB", "TiB"))
    while round(size, 1) >= 1024 and unit != "TiB":
        size, unit = size / 1024, next(units)
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


def has_colour(stream: TextIO) -> bool:
    """Whether colour may be written: to a terminal that has it, unless ``NO_COLOR`` is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(stream: TextIO) -> Console:
    """Makes a console of ``rich`` that writes to a stream, with colour as :func:`has_colour` says."""
    from rich.console import Console

    return Console(file=stream, no_color=not has_colour(stream), highlight=False, markup=False, emoji=False)


# ---------------------------------------------------------------------- lines


def say(line: str = "", *, stream: TextIO | None = None) -> None:
    """Writes one line; what cannot be printed is escaped, line breaks too.

    :param stream: standard output if not given.
    """
    (stream or sys.stdout).write(f"{printable(line)}\n")


def say_lines(text: str, *, stream: TextIO | None = None) -> None:
    """Writes several lines of the command's own, such as a script or a drawing: line breaks in what they quote must be
    escaped before, everything else is here."""
    (stream or sys.stdout).write(printable(text, keep="\n\t") + "\n")


def say_title(title: str) -> None:
    """Writes one line to standard output, which stands out on a terminal."""
    if has_colour(sys.stdout):
        sys.stdout.write(f"\x1b[1m{printable(title)}\x1b[0m\n")
    else:
        say(title)


def say_error(line: str) -> None:
    """Writes one line to standard error, behind what standard output has so far."""
    sys.stdout.flush()
    say(line, stream=sys.stderr)
    sys.stderr.flush()


def ask(question: str) -> bool:
    """Asks a person at the terminal; returns whether the answer is yes."""
    sys.stdout.write(f"{printable(question)} [y/N] ")
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # the end of the input
        say()
    return answer.strip().lower() in ("y", "yes")


def json_text(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Returns a value as JSON on one line, in which only characters that can be printed stand for themselves.

    :param default: converts what JSON has no type for.
    """
    text = json.dumps(value, ensure_ascii=False, default=default)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


# ---------------------------------------------------------------------- live views


def write_line(stream: TextIO, line: str) -> None:
    """Writes a line of the log, above the live view if one is drawn on the stream. May be called by any thread. It may
    have colours, so that its fields are escaped before (:mod:`streams.cli.output.logs`).

    :raises OSError: if it cannot be written.
    """
    with _lock:
        drawn = _live.get(stream)
        if drawn is None:
            stream.write(f"{line}\n")
            stream.flush()
            return
        from rich.text import Text

        drawn.print(Text.from_ansi(line), soft_wrap=True)


@contextmanager
def live_view(drawn: Console) -> Iterator[None]:
    """Has :func:`write_line` write above the view of a console for some time; a context manager."""
    stream = drawn.file
    with _lock:
        _live[stream] = drawn  # type: ignore[index]  # rich says IO[str]
    try:
        yield
    finally:
        with _lock:
            _live.pop(stream, None)  # type: ignore[call-overload]


# ---------------------------------------------------------------------- tables


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, stream: TextIO | None = None) -> int:
    """Writes rows in aligned columns under their headings, which are bold on a terminal; returns how many there are.

    Numbers are aligned to the right, and ``None`` is an empty cell. The columns are as wide as the first rows need, and
    not wider than 60; a longer cell moves the rest of its line. Nothing is written if there are no rows.

    :param stream: standard output if not given.
    """
    target = stream or sys.stdout
    waiting = iter(rows)
    first = list(islice(waiting, MEASURED))
    if not first:
        return 0
    right = [_is_number([row[at] for row in first]) for at in range(len(headings))]
    widths = [
        max([_width(heading), *(min(WIDEST, _width(_cell(row[at]))) for row in first)])
        for at, heading in enumerate(headings)
    ]
    heading = _line(headings, widths, right)
    if has_colour(target):
        from rich.text import Text

        console(target).print(Text(heading, style="bold"), soft_wrap=True)
    else:
        target.write(f"{heading}\n")
    count = 0
    for row in chain(first, waiting):
        count += 1
        target.write(f"{_line(row, widths, right)}\n")
    return count


def _line(row: Sequence[Any], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = []
    for cell, width, to_the_right in zip(map(_cell, row), widths, right, strict=True):
        blank = " " * (width - _width(cell))
        cells.append(blank + cell if to_the_right else cell + blank)
    return GAP.join(cells).rstrip()


def _cell(value: Any) -> str:
    return "" if value is None else printable(str(value))


def _is_number(cells: Sequence[Any]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in known)


def _width(text: str) -> int:
    """Returns the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
