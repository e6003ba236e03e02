"""The group of commands `streams state`."""

from __future__ import annotations

from typing import Any

NAME = "state"


def add_parser(commands: Any, *, filled: bool) -> None:
    """Adds the parser of `streams state`.

    :param filled: with its commands, whose modules take long to load."""
    group = commands.add_parser(
        NAME,
        help="look at the state on disk, or clone it",
        description="Looks at the state on disk without a broker. Only rebuild changes it; the others work while the"
        " worker runs, and show what was committed. clone works on the topics of the cluster.",
    )
    if not filled:
        return
    from streams.cli.stored import check, clone, dump, export, listing, rebuild, verify

    subcommands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (listing, dump, verify, check, rebuild, export, clone):
        command.add_parser(subcommands)
