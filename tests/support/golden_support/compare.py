"""Saying where two documents differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["UNTOLD", "count_untold", "differences", "explain"]

_MISSING = object()
UNTOLD: Any = "(not told by these recordings)"
"""Expected where nothing is known: everything is as expected."""


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    """One line for each place where ``actual`` is not as expected."""
    if expected is UNTOLD:
        return
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name in [*expected, *(name for name in actual if name not in expected)]:
            yield from differences(expected.get(name, _MISSING), actual.get(name, _MISSING), f"{path}/{name}")
    elif _is_list(expected) and _is_list(actual) and len(expected) == len(actual):
        for i, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{path}/{i}")
    elif isinstance(expected, str) and isinstance(actual, str) and "\n" in expected and expected != actual:
        yield f"{path or '/'}:\n  expected\n{_indent(expected)}\n  got\n{_indent(actual)}"
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{path or '/'}: expected {_show(expected)}, got {_show(actual)}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def _show(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    return json.dumps(value, ensure_ascii=False, default=repr)


def explain(expected: Any, actual: Any, *, most: int = 12) -> str:
    """The first differences as text; empty if there are none."""
    lines = list(differences(expected, actual))
    if len(lines) > most:
        lines[most:] = [f"... and {len(lines) - most} more differences"]
    return "\n".join(lines)


def count_untold(expected: Any) -> int:
    """How many places of a document nothing is known of."""
    if expected is UNTOLD:
        return 1
    if isinstance(expected, Mapping):
        return sum(map(count_untold, expected.values()))
    return sum(map(count_untold, expected)) if _is_list(expected) else 0
