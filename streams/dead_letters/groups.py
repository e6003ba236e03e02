"""Dead letters in groups of one cause."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from streams.dead_letters.letters import DeadLetter

_VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")
"""Parts of an error's text that differ from record to record: what is quoted, and numbers."""


@dataclass(frozen=True, kw_only=True)
class DeadLetterGroup:
    """Dead letters of one cause: of one class of error, text without quoted parts and numbers, topic and node."""

    count: int
    """How many there are."""
    left: int
    """How many of them were not replayed yet."""
    first_ms: int
    """The timestamp of the earliest, in ms since 1970."""
    last_ms: int
    """The timestamp of the latest."""
    last: DeadLetter
    """The latest; it has the topic, the node and the class of the error of all."""


class _Cause(NamedTuple):
    """The common part of some letters."""

    exception: str
    shape: str
    """The text of the error without its parts that differ."""
    topic: str
    node: str


class LetterGroups:
    """Counts letters by their causes."""

    def __init__(self) -> None:
        self._groups: dict[_Cause, DeadLetterGroup] = {}

    def add(self, letter: DeadLetter, *, is_replayed: bool) -> None:
        """Counts a letter."""
        cause = _Cause(letter.exception, _VARIES.sub("*", letter.message), letter.topic, letter.node)
        one, time_ms = self._groups.get(cause), letter.timestamp
        if one is None:
            one = DeadLetterGroup(count=0, left=0, first_ms=time_ms, last_ms=time_ms, last=letter)
        if time_ms >= one.last_ms:
            one = replace(one, last=letter, last_ms=time_ms)
        self._groups[cause] = replace(
            one, count=one.count + 1, left=one.left + (not is_replayed), first_ms=min(one.first_ms, time_ms)
        )

    def most_frequent_first(self) -> list[DeadLetterGroup]:
        """Returns the groups, the largest first."""
        return sorted(
            self._groups.values(), key=lambda one: (-one.count, one.last.exception, one.last.topic, one.last.node)
        )
