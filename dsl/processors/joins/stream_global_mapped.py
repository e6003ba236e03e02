"""The operator that joins a stream with a global table by a joiner that also takes the selected key (KIP-1340)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.joins.stream_global import StreamGlobalJoin
from dsl.processors.user_functions import user_function


@dataclass(frozen=True, kw_only=True)
class StreamGlobalMappedJoin(StreamGlobalJoin):
    """Joins as its base does; the joiner takes the record's key, the selected one, and both values."""

    joiner: Callable[..., Any] = field(metadata=user_function("key", "mapped_key", "value", "other"))

    def four(self) -> Callable[[Any, Any, Any, Any], Any]:
        """Returns the user's joiner as it is."""
        return self.joiner
