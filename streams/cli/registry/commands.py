"""The group of commands `streams registry`."""

from __future__ import annotations

from typing import Any

NAME = "registry"


def add_parser(commands: Any, *, filled: bool) -> None:
    """Adds the parser of `streams registry`.

    :param filled: with its commands, whose modules take long to load."""
    group = commands.add_parser(
        NAME,
        help="check schemas against a schema registry",
        description="Compares the schemas of an application with its schema registry. Nothing is registered.",
    )
    if not filled:
        return
    from streams.cli.registry import check

    subcommands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check.add_parser(subcommands)
