"""Provides the serdes that need more than the standard library: JSON, and classes that pydantic has a schema for."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from processor_api.serde import Serde
from streams.serdes.json import json_serde

_SORTED = json_serde(sort_keys=True)
_PLAIN = json_serde()


def provide(given: Any) -> Serde[Any] | None:
    """Returns the serde of a pydantic model, of a dataclass, or of the format ``json`` (sorted: ``json key``); ``None``
    for anything else."""
    if isinstance(given, str):
        return {"json": _PLAIN, "json key": _SORTED}.get(given)
    if not isinstance(given, type) or not (hasattr(given, "__pydantic_validator__") or is_dataclass(given)):
        return None
    from streams.serdes.pydantic_model import pydantic_serde

    return pydantic_serde(given)
