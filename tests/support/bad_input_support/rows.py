"""Bad inputs: how a user meets each, and what it gets.

A row is one input. To add one to an application, give it a case in `app.py` and a line in `table.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from last_lines import as_text
from quick_process import run

__all__ = ["Outcome", "Row", "check", "command", "run_python", "script"]

REPOSITORY = Path(__file__).resolve().parents[3]
APP = Path(__file__).with_name("app.py")
SETTINGS = ("--application-id", "app", "--bootstrap-servers", "localhost:1")


@dataclass(frozen=True)
class Outcome:
    """What is left of a process, and what its output says."""

    status: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last message, without the lines of the user's code behind it."""
        lines = self.err.strip().splitlines()
        begin = max((number for number, line in enumerate(lines) if not line.startswith(" ")), default=0)
        message = takewhile(lambda line: not line.startswith('  File "'), lines[begin:])
        return "\n".join(message)

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass(frozen=True)
class Row:
    """One bad input."""

    name: str
    run: Callable[[Path], Outcome]
    """In a folder of its own."""
    status: int
    told: tuple[str, ...]
    """What the line has in it that tells what is wrong."""
    checks: tuple[Callable[[Outcome], None], ...] = field(default=())

    def __str__(self) -> str:
        return self.name


def check(row: Row, outcome: Outcome) -> None:
    """The message, the exit status, and what the row wants besides: that nothing was committed or lost."""
    assert outcome.status == row.status, outcome.err
    assert [part for part in row.told if part not in outcome.last] == [], outcome.err
    for one in row.checks:
        one(outcome)


def run_python(arguments: list[str], cwd: Path) -> Outcome:
    """With this project, as if it were installed."""
    ended = run(arguments, cwd)
    return Outcome(ended.returncode, ended.stdout, as_text(ended.stderr))


# ---------------------------------------------------------------------- scripts


def script(case: str, kind: str, *told: str, cause: str = "", after_first: bool = True, mended: bool = True) -> Row:
    """A case of the application: its error is not caught, and so the last line of a traceback.

    :param kind: of the error, one of ours.
    :param cause: what the traceback shows of the user's own error.
    :param after_first: the mistake shows at the second record, the first being committed; otherwise at none.
    :param mended: whether it runs on when the mistake is mended.
    """

    def kind_of_error(outcome: Outcome) -> None:
        assert outcome.last.startswith(f"processor_api.errors.{kind}: "), outcome.err
        assert cause in outcome.err

    def nothing_too_much(outcome: Outcome) -> None:
        facts = outcome.facts
        assert (facts["committed"] or 0, facts["written"]) == ((1, ["good"]) if after_first else (0, []))

    def nothing_lost(outcome: Outcome) -> None:
        assert outcome.facts["in the end"] == ["good", "bad", "good"]

    return Row(
        name=case,
        run=lambda folder: run_python([str(APP), case, str(folder), *(["mend"] if mended else [])], folder),
        status=1,
        told=told,
        checks=(kind_of_error, nothing_too_much, *((nothing_lost,) if mended else ())),
    )


# ---------------------------------------------------------------------- the command line


def _one_line(outcome: Outcome) -> None:
    """Exactly one, and no traceback; `streams run` may log before."""
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, outcome.err
    assert "Traceback" not in outcome.err


def _several_lines(outcome: Outcome) -> None:
    assert outcome.err.startswith(("error: ", "usage: "))
    assert "Traceback" not in outcome.err


def command(
    name: str,
    words: tuple[str, ...],
    *told: str,
    status: int = 2,
    prepare: Callable[[Path], None] = lambda folder: None,
    lines: int = 1,
) -> Row:
    """A command line, given the application's id and a broker that is not there.

    :param words: after ``streams run``; ``{folder}`` in them is the folder of the row.
    :param lines: of the error; of several, the last one is looked at.
    """

    def run(folder: Path) -> Outcome:
        for file, text in MODULES.items():
            (folder / file).write_text(text)
        prepare(folder)
        given = [word.replace("{folder}", str(folder)) for word in words]
        return run_python(["-m", "streams", "run", *given, *SETTINGS], folder)

    return Row(name=name, run=run, status=status, told=told, checks=(_one_line if lines == 1 else _several_lines,))


MODULES = {
    "unfinished.py": "def topology(:\n",
    "raising.py": "x = {}['missing']\n",
    "importing.py": "import no_such_library\n",
    "returning.py": (
        "from streams import *\n"
        "def topology(): return None\ndef text(): return 'topology'\ndef fails(): return 1 / 0\n"
        "def asks(one, two): return None\ndef builder(): return StreamsBuilder()\n"
    ),
    "fine.py": "from streams import *\ndef topology(): return Topology().add_source('in', 'events', key_serde='bytes',"
    " value_serde='bytes')\n",
}
