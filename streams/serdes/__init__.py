"""Serdes: Kafka's own, JSON, lists, pydantic models, and pairs of functions.

Settings name a serde by its place here, ``streams.serdes:Serdes.STRING``, or by a short name such as ``string``. The
serde for pydantic models is loaded when it is first asked for: only applications that use it import pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from processor_api.serde import Serde, Serdes
from streams.serdes.functions import serde_of
from streams.serdes.json import json_serde
from streams.serdes.lists import ListSerde, list_serde

if TYPE_CHECKING:
    from streams.serdes.pydantic_model import pydantic_serde

__all__ = ["ListSerde", "Serde", "Serdes", "json_serde", "list_serde", "pydantic_serde", "serde_of"]


def __getattr__(name: str) -> Any:
    if name == "pydantic_serde":
        from streams.serdes.pydantic_model import pydantic_serde

        return pydantic_serde
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
