"""Names of nodes, stores and topics (semantics 132).

Generated names carry the number of one counter per builder, and every operator uses up a number even where the user
gave it a name, so that the numbers, and with them the names of internal topics, are those of Kafka Streams.
"""

from __future__ import annotations

import re
from typing import Any

from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.topology.topic_names import illegal_in_name

REPARTITION_SUFFIX = "-repartition"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


def validate_name(name: Any) -> str:
    """Returns the name if it is legal.

    :raises TopologyError: if it could not be part of a topic's name: empty, ``.`` or ``..``, longer than 249
        characters, or with a character other than ASCII letters, digits, ``.``, ``_`` and ``-``.
    """
    if not isinstance(name, str) or not name:
        raise TopologyError(f"a name must be a string that is not empty, got {repr_of(name)}")
    why = illegal_in_name(name)
    if why is not None:
        raise TopologyError(f"the name {repr_of(name)} {why}")
    return name


class Names:
    """The counter of one builder, from which generated names get their numbers."""

    def __init__(self) -> None:
        self._next = 0

    def processor(self, prefix: str) -> str:
        """Returns a new name of a node."""
        number = self._next
        self._next = number + 1
        return f"{prefix}{number:010d}"

    def store(self, prefix: str) -> str:
        """Returns a new name of a store."""
        return self.processor(f"{prefix}STATE-STORE-")

    def choose(self, given: str | None, prefix: str) -> str:
        """Returns the given name, or a generated one; uses up a number either way."""
        generated = self.processor(prefix)
        return generated if given is None else given

    def suffixed(self, given: str | None, suffix: str, prefix: str) -> str:
        """Returns the given name with a suffix, or a generated one; uses up a number either way.

        :raises TopologyError: if the name with its suffix is too long.
        """
        generated = self.processor(prefix)
        return generated if given is None else validate_name(given + suffix)


def repartition_topic(prefix: str) -> str:
    """Returns the name of a repartition topic, without the application's id."""
    return prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX


def looks_generated(prefix: str) -> bool:
    """Returns whether the nodes around a repartition topic of this prefix get numbered names, not names made of it."""
    return _GENERATED.fullmatch(prefix) is not None
