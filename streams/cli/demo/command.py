"""The command `streams demo`."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from streams.cli.run.signals import on_stop_signals

LIVE_ADDRESS = "127.0.0.1:8080"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="take a tour of small applications, without Kafka",
        description="Shows a count, a window, a join, and a crash in the middle of all three with the exact result"
        " after it. Press a key for the next one; in a pipe it does not wait. It takes about a minute, and leaves no"
        " files. Exit status: 0 if the result after the crash is exact, otherwise 1. With --http, an"
        " application runs until Ctrl-C, and a browser shows its topology.",
    )
    parser.add_argument("--fast", action="store_true", help="do not wait for a key")
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        nargs="?",
        const=LIVE_ADDRESS,
        help="instead of the tour, run one of its applications with its live page in a browser, by default at"
        f" http://{LIVE_ADDRESS}/",
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    if arguments.http is not None:
        from streams.cli.demo.live import show

        return show(arguments.http)
    from streams.cli.demo.tour import Tour

    with on_stop_signals(_interrupt):
        return Tour(waits=not arguments.fast).show()


def _interrupt(number: signal.Signals) -> None:
    """Ends the command where it is, with its process and its folder."""
    raise KeyboardInterrupt
