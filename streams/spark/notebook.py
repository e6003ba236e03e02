"""Tables of HTML for notebooks, and a line that shows progress in a cell."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns a table of HTML; nothing in a cell is markup."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def in_notebook() -> bool:
    """Returns whether this process runs cells of a notebook, whose output is shown by a browser.

    IPython on a terminal is not a notebook.
    """
    # Who has no IPython has no notebook: it is in the process before a cell runs.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and all(one.__name__ != "TerminalInteractiveShell" for one in type(shell).__mro__)


class CellBar:
    """Shows how many tasks are done, in one line of a cell's output that changes."""

    def __init__(self, what: str, tasks: int) -> None:
        self._what = what
        self._tasks = tasks
        self._shown: Any = None
        self._done = -1

    def draw(self, done: int) -> None:
        """Shows that this many tasks are done."""
        from IPython import display

        if done == self._done:  # a notebook keeps each message
            return
        self._done = done
        publish: Any = display.display
        line = _CellLine(self._what, done, self._tasks)
        if self._shown is None:
            self._shown = publish(line, display_id=True)
        else:
            self._shown.update(line)

    def close(self) -> None:
        """Leaves the line as it is."""


class _CellLine:
    def __init__(self, what: str, done: int, tasks: int) -> None:
        self._what = what
        self._done = done
        self._tasks = tasks

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self._done}" max="{max(1, self._tasks)}"></progress>'
        return f"{escape(self._what)} {bar} {self._done} of {self._tasks} tasks"

    def __repr__(self) -> str:
        return f"{self._what}: {self._done} of {self._tasks} tasks"
