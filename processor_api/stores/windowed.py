"""Windows of time, and keys within them."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

__all__ = ["Window", "Windowed"]

K = TypeVar("K")


class Window(NamedTuple):
    """A span of time in ms since 1970. The end of a window of fixed size is not part of it; a session's is."""

    start: int
    end: int


class Windowed(NamedTuple, Generic[K]):
    """A key in a window."""

    key: K
    window: Window
