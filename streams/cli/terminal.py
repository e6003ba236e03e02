"""Writes for people and for pipes: tables, colour and live views on a terminal, plain text everywhere else.

``rich`` draws on terminals. It is loaded when something is drawn, since it takes longer to load than most commands run.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["GAP", "console", "has_colour", "live_view", "table", "write_line"]

MEASURED = 500
"""Rows of a table that its columns are measured by; the table is written while later rows are still read."""
WIDEST = 60
"""Columns of the terminal that a column is padded to at most."""
GAP = "  "

_lock = threading.RLock()
_live: dict[TextIO, Console] = {}
"""The console of the view that is drawn on a stream now."""


def has_colour(stream: TextIO) -> bool:
    """Whether colour may be written: to a terminal that has it, unless ``NO_COLOR`` is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(stream: TextIO) -> Console:
    """Makes a console of ``rich`` that writes to a stream, with colour as :func:`has_colour` says."""
    from rich.console import Console

    return Console(file=stream, no_color=not has_colour(stream), highlight=False, markup=False, emoji=False)


# ---------------------------------------------------------------------- lines and live views


def write_line(stream: TextIO, line: str) -> None:
    """Writes a line, above the live view if one is drawn on the stream. May be called by any thread.

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
    return "" if value is None else str(value)


def _is_number(cells: Sequence[Any]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in known)


def _width(text: str) -> int:
    """Returns the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
