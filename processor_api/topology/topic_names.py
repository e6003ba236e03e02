"""The names that Kafka allows for topics, which names of nodes and stores have to keep to as well."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.user_code.given_values import items_of

LONGEST_NAME = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def illegal_in_name(name: str) -> str | None:
    """Returns why Kafka allows no topic of that name, as the end of a sentence; ``None`` if it does."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is not allowed for a topic"
    if len(name) > LONGEST_NAME:
        return f"has {len(name)} characters; {LONGEST_NAME} are the limit"
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
        raise TopologyError(
            f"{what} needs a legal name of a topic: the name {repr_of(name)} {why}", topic=name, **place
        )


def declared_topics(topic: Any, topics: Collection[str], what: str, **place: Any) -> tuple[str, ...]:
    """Returns the topics that a sink may choose from, checked and without repetitions.

    :param topic: a topic's name, or the function that chooses one.
    :param what: the node that writes them, for the error.
    :raises TopologyError: if one has no legal name, or nothing is chosen, since the sink has one topic.
    """
    if isinstance(topics, str):
        raise TopologyError(
            f"topics of {what} must be a list of names, such as [{repr_of(topics)}], got {repr_of(topics)}", **place
        )
    given = items_of(topics, f"topics of {what}")
    if given and isinstance(topic, str):
        raise TopologyError(
            f"{what} writes to topic {repr_of(topic)} only: topics are those that a function may name for each record",
            **place,
        )
    for name in given:
        if type(name) is not str:
            raise TopologyError(f"{what} needs names of topics, got {repr_of(name)}", **place)
        check_topic_name(name, what, **place)
    return tuple(sorted(set(given)))
