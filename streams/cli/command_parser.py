"""The parser of the command line, which can be asked what commands and options it has."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # not subscriptable when it runs
    """The commands of a group."""

    @property
    def helps(self) -> dict[str, str]:
        """The help of each command, by its word."""
        return {choice.dest: choice.help or "" for choice in self._choices_actions}


class CommandParser(argparse.ArgumentParser):
    """A parser of one command or group of commands."""

    intermixed = False
    """Whether options may stand between arguments that may be left out, which the standard parser does not take."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.register("action", "parsers", Commands)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Returns the arguments, and those that it does not know."""
        if not self.intermixed:
            return super().parse_known_args(args, namespace)
        self.intermixed = False  # the other method calls this one
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = True

    @property
    def actions(self) -> list[argparse.Action]:
        """Its options, arguments and commands, in order."""
        return self._actions

    def commands(self) -> Iterator[tuple[tuple[str, ...], CommandParser]]:
        """Yields the commands and groups below this parser with their words, each before those below it."""
        for action in self._actions:
            if isinstance(action, Commands):
                for word, below in action.choices.items():
                    yield (word,), below
                    yield from (((word, *words), parser) for words, parser in below.commands())


def add_with_examples(commands: Any, name: str, help_text: str, examples: str, description: str) -> Any:
    """Adds the parser of a command whose help ends with examples, which keep their lines; returns it.

    :param commands: those of the group.
    :param help_text: the line of the command in the help of the group.
    """
    return commands.add_parser(
        name,
        help=help_text,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
