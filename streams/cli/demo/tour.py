"""The tour: each application's code, what goes in, and what comes out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from processor_api.forms.times import time_ms
from processor_api.topology.function import topology_of
from streams.cli.demo.crash import Crash
from streams.cli.output.causes import CLEAN, FAILED
from streams.cli.output.terminal import has_colour, say, say_lines, say_title
from streams.cli.records.input_lines import LineReader, TimeStep
from streams.cli.records.json_lines import BadRecord
from streams.cli.try_command.output import Table
from streams.cli.try_command.session import Session
from streams.testing.settings import config_for_tests

START = "2025-01-01T12:00:00Z"
"""The time at which the applications run: that of the machine would make each tour another one."""


@dataclass(frozen=True)
class Stop:
    """An application of the tour."""

    title: str
    module: str
    before: str
    """The words before the records: what to look at."""
    lines: Sequence[str]
    """The lines that go in, as `streams try` takes them."""
    after: str


STOPS = (
    Stop(
        "A count",
        "streams.cli.demo.counting",
        "Each line in topic lines changes counts, which are written to topic counts-by-word:",
        ("to be or not to be", "be quick"),
        "The counts are in a store. The words went through an internal topic of the application, so one task counts"
        "\nall occurrences of a word, even if many processes share the work.",
    ),
    Stop(
        "A window",
        "streams.cli.demo.windows",
        "The count of a minute is emitted once, when the minute has ended by the times of the records. Visits have"
        "\na page as key and a visitor as value, and @+40s lets 40 seconds pass:",
        ("home\tann", "@+40s", "home\tbob", "@+30s", "help\tcid"),
        "The visit at 12:01:10 has shown that the first minute is over.",
    ),
    Stop(
        "A join",
        "streams.cli.demo.joins",
        "A table has the latest value of each key. An order is joined with the current row of its customer:",
        (
            "customers\tann\tAnn Lee",
            "orders\tann\ttea",
            "customers\tann\tAnn Day",
            "orders\tann\tcake",
            "orders\tbob\tjam",
        ),
        "Bob is not a customer yet: an inner join drops his order.",
    ),
)


def code_of(module: ModuleType) -> str:
    """Returns the lines of a module behind its first docstring."""
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    return text.partition('"""')[2].partition('"""')[2].strip()


class Tour:
    """Shows the applications one after the other.

    :param waits: whether a key must be pressed between them, on a terminal.
    """

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits and sys.stdin.isatty() and sys.stdout.isatty()
        self._styled = has_colour(sys.stdout)

    def show(self) -> int:
        """Shows all of them; returns the exit status."""
        self._say("A tour of small applications, without Kafka. They run on Kafka unchanged.")
        number = 0
        for number, stop in enumerate(STOPS, 1):
            self._title(number, stop.title)
            self._application(stop)
            self._pause()
        self._title(number + 1, "A crash")
        exact = self._crash()
        self._say(
            "\nYour own: put an application into app.py, and type records for it with\n  streams try app.py\n"
            "Those of the tour can be tried too, such as\n"
            f"  streams try {STOPS[0].module}\n"
            "A browser shows an application while it works, if the extra http is installed:\n"
            "  streams demo --http"
        )
        return CLEAN if exact else FAILED

    def _application(self, stop: Stop) -> None:
        module = import_module(stop.module)
        self._code(code_of(module))
        self._say(stop.before + "\n")
        config = config_for_tests({"application.id": "tour"})
        topology = topology_of(module.builder, config)
        with Session(topology, config, start_ms=time_ms(START)) as session:
            table = Table(sys.stdout, session.topics.written, styled=self._styled)
            only = session.topics.only
            reader = LineReader(has_topics=only is None)
            for line in stop.lines:
                self._say(f"> {line.expandtabs(12)}")
                item = reader.item("tour", line)
                assert not isinstance(item, BadRecord), item
                if isinstance(item, TimeStep):
                    session.step(item)
                else:
                    session.give(item, only)
                table.show(session.outputs())
            waiting = session.held_back
        self._say("\n" + stop.after)
        for held in waiting:
            self._say(f"Held back still: {held.amount}.")

    def _crash(self) -> bool:
        """Shows the crash; returns whether the result after it is exact."""
        from streams.cli.demo import shop

        self._code(code_of(shop))
        with Crash(self._say) as crash:
            return crash.show()

    # ------------------------------------------------------------------ the terminal

    def _title(self, number: int, title: str) -> None:
        text = f"{number}. {title}"
        say()
        say_title(text)

    def _code(self, text: str) -> None:
        self._say("\n" + "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines()))

    def _say(self, text: str) -> None:
        say_lines(text)
        sys.stdout.flush()

    def _pause(self) -> None:
        if self._waits:
            _wait_for_key(lambda: self._say("\nPress a key for the next one."))


def _wait_for_key(ask: Callable[[], None]) -> None:
    """Asks for a key and waits for it; for Enter where the terminal gives only lines."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        ask()
        sys.stdin.readline()
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        ask()
        os.read(sys.stdin.fileno(), 1)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
