"""`streams top`: shows what the workers of an application do, live on a terminal, or once."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from processor_api.texts import printable
from streams.cli.cluster.workers import Look, Seen, add_worker_options, everywhere, over_http, token_of
from streams.cli.command_parser import add_with_examples
from streams.cli.output.causes import CLEAN, FAILED, CannotRun
from streams.cli.output.terminal import console, json_text, say, say_title, table
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import APP_HELP

if TYPE_CHECKING:
    from rich.console import RenderableType

    from streams.cli.top.keys import Keys
    from streams.cli.top.view import Choice, View

_EXAMPLES = """
examples:
  streams top app.py
  streams top app.py --sort lag
  streams top app.py --once --json | jq '.workers[].tasks[].id'
  streams top --url http://10.0.0.4:8080 --url http://10.0.0.5:8080
"""
_KEYS = "q end   up, down choose   enter open   esc back   sort by t task  r rate  l lag  d dropped  h held  s size"
_SORTS = ("task", "rate", "lag", "drops", "held", "size")


def add_parser(commands: Any) -> None:
    parser = add_with_examples(
        commands,
        "top",
        "show the workers of an application",
        _EXAMPLES,
        "Shows all workers of APP: those that you run on this machine and, if one of them or --url has an HTTP port,"
        " those of other machines. It lists totals, records without a result, and for each task rate, lag, stream"
        " time, held-back results, dropped records and sizes of stores, and the likely causes if no output appears."
        " On a terminal it runs until you press q; otherwise, and with --once, it prints the current state. Exit"
        " status: 1 if no worker was found, otherwise 0.",
    )
    parser.add_argument("topology", metavar="APP", nargs="?", help=APP_HELP)
    add_worker_options(parser)
    parser.add_argument("--once", action="store_true", help="print the current state, and end")
    parser.add_argument("--json", action="store_true", help="with --once: print one JSON object")
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between refreshes (default: %(default)s)",
    )
    parser.add_argument("--sort", choices=_SORTS, default="task", help="order of the tasks (default: %(default)s)")
    add_settings_options(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from streams.cli.top.view import Choice

    name, look = _look(arguments)
    choice = Choice(sort=arguments.sort)
    if arguments.json or arguments.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        return _once(name, look, choice, arguments)
    from streams.cli.top.keys import keys_of

    with keys_of(sys.stdin) as keys:
        return _live(name, look, choice, arguments.interval, keys)


def _look(arguments: argparse.Namespace) -> tuple[str, Look]:
    if arguments.url:
        return ", ".join(arguments.url), over_http(arguments.url, token_of(arguments.token_file))
    if arguments.topology is None and not _has_id(arguments):
        raise CannotRun("give the application as APP or by --application-id, or the HTTP ports of its workers by --url")
    from streams.config import StreamsConfig

    given = {"bootstrap.servers": "not-asked:9092", **given_settings(arguments, derives_id=True).settings}
    config = StreamsConfig.of(given)
    token = token_of(arguments.token_file)
    if token is None and config.http_token_file is not None:
        with suppress(CannotRun):  # others may run the workers; what the ports require is reported then
            token = token_of(str(config.http_token_file))
    return config.application_id, everywhere(config.application_id, token)


def _has_id(arguments: argparse.Namespace) -> bool:
    return "application.id" in given_settings(arguments, derives_id=True).settings


def _once(name: str, look: Look, choice: Choice, arguments: argparse.Namespace) -> int:
    from streams.cli.top.view import view_of, why

    seen = look()
    if arguments.json:
        workers = [dataclasses.asdict(one) for one in seen.workers]
        reasons = [*seen.problems, *why(seen, None)]
        say(json_text({"application": name, "reasons": reasons, "workers": workers}))
    else:
        view = view_of(name, seen, None, choice)
        for line in (*view.lines, *view.reasons):
            say(line)
        for section in view.sections:
            say()
            say_title(section.title)
            table(section.headings, section.rows)
    return CLEAN if seen.workers else FAILED


def _live(
    name: str, look: Look, choice: Choice, interval_s: float, keys: Keys, now: Callable[[], float] = time.monotonic
) -> int:
    from rich.live import Live

    from streams.cli.top.view import view_of

    before: Seen | None = None
    seen = look()
    view = view_of(name, seen, None, choice)
    with Live(_drawn(view), console=console(sys.stdout), screen=True, auto_refresh=False) as live:
        due = now() + interval_s
        while True:
            live.update(_drawn(view), refresh=True)
            key = keys.wait(due - now())
            if key == "q":
                return CLEAN if seen.workers else FAILED
            if key is not None:
                choice = choice.after(key, view.tasks)
            if now() >= due:
                before, seen, due = seen, look(), now() + interval_s
            view = view_of(name, seen, before, choice)


def _drawn(view: View) -> RenderableType:
    """Draws a view with ``rich``; what it quotes is escaped."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [Text(printable(line), style="bold") for line in view.lines]
    parts += [Text(printable(reason), style="yellow") for reason in view.reasons]
    for section in view.sections:
        drawn = Table(title=section.title, title_justify="left", title_style="bold", box=None, header_style="dim")
        for heading in section.headings:
            right = heading in _NUMBER_COLUMNS
            drawn.add_column(heading, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
        for at, row in enumerate(section.rows):
            style = "reverse" if at == section.selected else ""
            drawn.add_row(*(Text(printable("" if cell is None else str(cell))) for cell in row), style=style)
        parts += [Text(), drawn]
    return Group(*parts, Text(), Text(_KEYS, style="dim"))


_NUMBER_COLUMNS = frozenset(
    "THREADS,TASKS,RECORDS/S,DEAD LETTERS,BUSY,COMMITTING,COMMIT,LAG,BEHIND,HELD,DROPPED,LATENCY,STATE SIZE,"  # noqa: SIM905
    "POSITION,COMMITTED,END,BUFFERED,ENTRIES,SIZE,UNCOMMITTED,TIME,COUNT".split(",")
) | {"LATENCY 99%", "QUEUED", "TIMEOUTS", "DISCONNECTS"}


def _seconds(text: str) -> float:
    number = float(text)
    if not 0.1 <= number <= 3600:
        raise argparse.ArgumentTypeError(f"must be from 0.1 to 3600 seconds, got {text}")
    return number
