"""Bytes of internal topics and stores as JSON, also in the forms that only the DSL writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from processor_api.serde import CurrentHeaders, Serde
from processor_api.times import iso
from streams.serdes.values import as_json, form_of


def json_reader(serde: Serde[Any], headers: CurrentHeaders | None = None) -> Callable[[bytes], Any]:
    """Returns the function that reads bytes by a serde, and returns what JSON has for the object.

    The function raises what the serde raises for bytes that it cannot read. What it returns, :func:`fitted` takes.

    :param headers: those of the record whose bytes are read, for a serde that takes headers.
    """
    from dsl.change import ChangeSerde
    from dsl.joins.stores import SideValueSerde, TimedSideKeySerde
    from dsl.processors.joins.foreign_key import AnswerSerde

    read = (serde if headers is None else headers.handed_to(serde)).deserialize
    if isinstance(serde, ChangeSerde):
        return lambda data: _named(("new", "old", "latest"), read(data))
    if isinstance(serde, AnswerSerde):
        return lambda data: _named(("hash", "value"), read(data))
    if isinstance(serde, TimedSideKeySerde):
        return lambda data: _timed_side(*read(data))
    if isinstance(serde, SideValueSerde):
        return lambda data: _with_side(read(data))
    if form_of(serde) == "model":
        return lambda data: _model(read(data), data)
    to_json = getattr(serde, "to_json", None)
    return lambda data: as_json(read(data) if to_json is None else to_json(read(data)))


def _named(names: tuple[str, ...], parts: Any) -> dict[str, Any]:
    return {name: as_json(part) for name, part in zip(names, parts, strict=False)}


def _timed_side(key: Any, time: int, left: bool) -> dict[str, Any]:
    return {"key": as_json(key), "time": iso(time), "side": "left" if left else "right"}


def _with_side(found: tuple[Any, bool]) -> dict[str, Any]:
    return {"side": "left" if found[1] else "right", "value": as_json(found[0])}


def _model(value: Any, data: bytes) -> Any:
    """Returns the JSON that was read itself, which has the names and forms that the model writes; what the object has
    where the bytes are no JSON."""
    try:
        return as_json(json.loads(data))
    except ValueError:
        return as_json(value)
