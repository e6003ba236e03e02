"""Changing a recording in one place, to show that a replay notices it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

__all__ = ["changed", "without"]

Path = tuple[Any, ...]
OTHER = "something else"


def changed(document: Any, *start: Any) -> Iterator[tuple[Path, Any]]:
    """Yields the document once for each value below a place of it, with another value there."""
    for path in _leaves(_at(document, start), start):
        other = copy.deepcopy(document)
        _at(other, path[:-1])[path[-1]] = OTHER
        yield path, other


def without(document: Any, *start: Any) -> Iterator[tuple[Path, Any]]:
    """Yields the document once for each item of a list of it, without that."""
    for number in range(len(_at(document, start))):
        other = copy.deepcopy(document)
        del _at(other, start)[number]
        yield (*start, number), other


def _at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def _leaves(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict | list) and value:
        for step in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[step], (*path, step))
    else:
        yield path
