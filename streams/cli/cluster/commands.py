"""The commands on a cluster: `streams topics`, `produce`, `consume`, `groups` and `reset`."""

from __future__ import annotations

from typing import Any

from streams.cli.cluster import consume, groups, produce, reset, topics

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Adds the parsers of all of them."""
    for command in (topics, produce, consume, groups, reset):
        command.add_parser(commands)
