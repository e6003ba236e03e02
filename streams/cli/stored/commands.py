"""The group of commands `streams state`."""

from __future__ import annotations

from typing import Any

from streams.cli.stored import dump, export, listing, rebuild, verify

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    group = commands.add_parser(
        "state",
        help="look at the state on disk",
        description="Looks at the state on disk without a broker. Only rebuild changes it; the others work while the"
        " worker runs, and show what was committed.",
    )
    subcommands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (listing, dump, verify, rebuild, export):
        command.add_parser(subcommands)
