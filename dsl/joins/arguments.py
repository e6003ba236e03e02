"""The arguments that calls of joins take: one form for joins with streams, tables and global tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from processor_api.errors import TopologyError


@dataclass(frozen=True, kw_only=True)
class JoinKind:
    """The kind of a join: which side is kept without a partner, and what the joiner takes."""

    keeps_left: bool = False
    keeps_right: bool = False
    takes_key: bool = False
    takes_mapped_key: bool = False
    """Whether it takes the key that a function selects too, after the stream's own."""


@dataclass(frozen=True, kw_only=True)
class JoinArguments:
    """The arguments of a join besides the other side; ``None`` where one is not given."""

    joiner: Callable[..., Any]
    windows: Any = None
    joined: Any = None
    key_selector: Any = None
    name: Any = None

    def only(self, what: str, *allowed: str) -> None:
        """Checks that no argument was given which belongs to a join with something else.

        :param what: the other side, for the error: ``"a table"``.
        :raises TopologyError: if one was.
        """
        for one in fields(self):
            if one.name not in ("joiner", *allowed) and getattr(self, one.name) is not None:
                known = ", ".join(allowed)
                raise TopologyError(f"a join with {what} takes {known}; {one.name} is for joins with something else")
