"""The group of commands `streams dlq`."""

from __future__ import annotations

from typing import Any

NAME = "dlq"


def add_parser(commands: Any, *, filled: bool) -> None:
    """Adds the parser of `streams dlq`.

    :param filled: with its commands, whose modules take long to load."""
    group = commands.add_parser(
        NAME,
        help="look at the dead letters of an application, and send them again",
        description="Looks at the records that could not be read, processed or written, which the application has sent"
        " to the topic errors.dead.letter.queue.topic.name, and sends them back to where they came from.",
    )
    if not filled:
        return
    from streams.cli.dead_letters import listing, replay

    subcommands = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (listing, replay):
        command.add_parser(subcommands)
