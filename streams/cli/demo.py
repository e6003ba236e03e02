"""`streams demo`: a small application on a broker in memory, to look at."""

from __future__ import annotations

import argparse
from typing import Any

from streams.cli.failures import CLEAN

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="run a small application without Kafka",
        description="Runs a small application on a broker in memory and shows what it does.",
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    from streams.app.demo import main  # type: ignore[import-not-found,unused-ignore]

    return int(main() or CLEAN)
