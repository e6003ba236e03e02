"""Serdes beyond Kafka's own: JSON, lists, pydantic models, and pairs of functions.

Kafka's built-in ones are in `processor_api.serde.Serdes`. The serde for pydantic models is loaded when it is first
asked for, since only who uses it should import pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streams.serdes.functions import serde_of
from streams.serdes.json import json_serde
from streams.serdes.lists import ListSerde, list_serde

if TYPE_CHECKING:
    from streams.serdes.pydantic_model import pydantic_serde

__all__ = ["ListSerde", "json_serde", "list_serde", "pydantic_serde", "serde_of"]


def __getattr__(name: str) -> Any:
    if name == "pydantic_serde":
        from streams.serdes.pydantic_model import pydantic_serde

        return pydantic_serde
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
