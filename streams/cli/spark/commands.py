"""The group of commands `streams spark`."""

from __future__ import annotations

from typing import Any

NAME = "spark"


def add_parser(commands: Any, *, filled: bool) -> None:
    """Adds the parser of `streams spark`.

    :param filled: with its commands."""
    group = commands.add_parser(
        NAME,
        help="run a topology over history in Spark, and hand its tables over to live workers",
        description="Runs a topology over history in Spark, and hands its tables over to live workers. Needs the extra"
        " streams-for-kafka[spark], and Java where it starts Spark.",
    )
    if not filled:
        return
    from streams.cli.spark import backfill, diff, export, handover

    subcommands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (backfill, export, handover, diff):
        command.add_parser(subcommands)
