"""The names that Kafka allows for topics, which names of nodes and stores have to keep to as well."""

from __future__ import annotations

import re
from typing import Any

from processor_api.errors import TopologyError

__all__ = ["check_topic_name", "illegal_in_name"]

LONGEST_NAME = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def illegal_in_name(name: str) -> str | None:
    """Returns why Kafka allows no topic of that name, as the end of a sentence; ``None`` if it does."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "cannot be, since no topic can be called so"
    if len(name) > LONGEST_NAME:
        return f"has {len(name)} characters; the most is {LONGEST_NAME}"
    if not _LEGAL.fullmatch(name):
        return "contains a character other than ASCII letters, digits, '.', '_' and '-'"
    return None


def check_topic_name(name: str, what: str, **place: Any) -> None:
    """Checks that there can be a topic of that name.

    :param what: the node that reads or writes the topic, for the error.
    :raises TopologyError: if Kafka does not allow it.
    """
    why = illegal_in_name(name)
    if why is not None:
        raise TopologyError(f"{what} needs a legal name of a topic: the name {name!r} {why}", topic=name, **place)
