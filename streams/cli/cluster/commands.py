"""The commands on a cluster: `streams topics`, `produce`, `consume`, `groups`, `recommend` and `reset`."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any

from streams.cli import completion

_HELPS = {
    "topics": "show the topics of an application, and create those that are missing",
    "produce": "write records to a topic of an application",
    "consume": "print the records of a topic of an application",
    "groups": "show the members, tasks and lags of an application",
    "recommend": "say how many workers an application needs",
    "reset": "have an application process its input again",
}


def add_parser(commands: Any, words: Collection[str] | None) -> None:
    """Adds the parsers of all of them.

    :param words: those of the command line; commands that they cannot name are left empty, since their modules take
        long to load. ``None`` leaves out nothing.
    """
    for name, help_text in _HELPS.items():
        if words is None or not {name, completion.NAME}.isdisjoint(words):
            import_module(f"streams.cli.cluster.{name}").add_parser(commands, help_text)
        else:
            commands.add_parser(name, help=help_text)
