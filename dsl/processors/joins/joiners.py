"""The user's joiners, in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def with_key(joiner: Callable[..., Any], takes_key: bool) -> Callable[[Any, Any, Any], Any]:
    """Returns a function ``(key, left, right)``, whether the user's joiner takes the key or not."""
    if takes_key:
        return joiner

    def join(key: Any, left: Any, right: Any) -> Any:
        return joiner(left, right)

    return join


def reversed_joiner(joiner: Callable[..., Any], takes_key: bool) -> Callable[[Any, Any, Any], Any]:
    """Returns a function ``(key, right, left)`` of the user's joiner."""

    def join_with_key(key: Any, right: Any, left: Any) -> Any:
        return joiner(key, left, right)

    def join(key: Any, right: Any, left: Any) -> Any:
        return joiner(left, right)

    return join_with_key if takes_key else join
