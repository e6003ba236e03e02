"""The configuration of an application: settings under Kafka's names, checked before anything starts.

`StreamsConfig` is loaded when it is first asked for, since pydantic takes a tenth of a second to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.config.model import StreamsConfig

__all__ = ["StreamsConfig"]


def __getattr__(name: str) -> Any:
    if name == "StreamsConfig":
        from streams.config.model import StreamsConfig

        return StreamsConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
