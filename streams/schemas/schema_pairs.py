"""Compares schemas of one language: the unions, types within themselves and places that each language has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from typing import Any


class SchemaPair(ABC):
    """Compares two schemas, which may have themselves among their parts: each pair of types once.

    :param old: the schema by which values were written.
    :param new: the schema by which they are to be read.
    """

    def __init__(self, old: Any, new: Any) -> None:
        self._old, self._new = old, new
        self._found: dict[Hashable, list[str]] = {}

    def problems(self) -> list[str]:
        """Returns in words what of the values of the old schema the new one does not read."""
        return list(dict.fromkeys(self.find(self._old, self._new, "")))

    def find(self, old: Any, new: Any, place: str) -> list[str]:
        """Returns what the new type does not read of the old one, below a place: of an old union each branch must be
        read, and by one branch of a new union."""
        was, now = self.branches(old, self._old), self.branches(new, self._new)
        if len(was) != 1:
            return [one for branch in was for one in self.find(branch, new, place)]
        if len(now) != 1:
            found = [self.find(was[0], branch, place) for branch in now]
            return min(found, key=len)[:1] if found and all(found) else []
        pair = self.pair(was[0], now[0])
        if pair is None:
            return list(self.compare(was[0], now[0], place))
        if pair not in self._found:
            self._found[pair] = []
            # Types that double each other would double what is found of them.
            self._found[pair] = list(dict.fromkeys(self.compare(was[0], now[0], place)))
        return self._found[pair]

    @abstractmethod
    def branches(self, given: Any, root: Any) -> list[Any]:
        """Returns the types of a union, or the type alone; names are replaced by what they stand for in their root."""

    @abstractmethod
    def pair(self, old: Any, new: Any) -> Hashable:
        """Returns what stands for two types that may be in themselves; ``None`` if they cannot be."""

    @abstractmethod
    def compare(self, old: Any, new: Any, place: str) -> Iterator[str]:
        """Yields what one type does not read of another one; neither is a union."""


def below(place: str, name: str) -> str:
    """Returns the place of a field within the value at another place."""
    return f"{place}.{name}" if place else name


def place_name(place: str) -> str:
    """Returns how findings name a place; an empty one is the whole value."""
    return f"field {place!r}" if place else "the value"
