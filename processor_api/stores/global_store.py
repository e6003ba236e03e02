"""Global stores as data: every process holds all of the topic's records, outside of tasks (semantics 93)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from processor_api.stores.builder import StoreBuilder


@dataclass(frozen=True, kw_only=True)
class GlobalStore:
    """A global store: its builder, the topic that fills it, and the two nodes between them.

    The topic is its changelog as well.
    """

    builder: StoreBuilder[Any, Any]
    source: str
    """Name of the source node."""
    processor: str
    """Name of the processor node, the only one that writes to the store."""
    topic: str
    reprocess: bool
    """Whether a restore runs the processor on each record; otherwise records go into the store as they are."""

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.builder.name
