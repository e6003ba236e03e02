"""Checks of what a user gives to nodes and options, made where it is given."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from processor_api.errors import TopologyError
from processor_api.offset_reset import AutoOffsetReset
from processor_api.serde import Serde

__all__ = ["check_fields", "check_function"]


def _is_serde(value: object) -> bool:
    return isinstance(value, Serde)


def _is_reset(value: object) -> bool:
    return isinstance(value, AutoOffsetReset)


_SERDE = (_is_serde, "a Serde, such as Serdes.STRING")
_FUNCTION = (callable, "a function")
_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "key_serde": _SERDE,
    "value_serde": _SERDE,
    "timestamp_extractor": _FUNCTION,
    "partitioner": _FUNCTION,
    "offset_reset": (_is_reset, "an AutoOffsetReset, such as AutoOffsetReset.earliest()"),
}


def check_fields(owner: Any, what: str, **place: Any) -> None:
    """Checks that the serdes, functions and resets among the fields of a node or an option are such.

    :param what: the name of the node or option, for the error.
    :param place: fields of the error, such as ``node``.
    :raises TopologyError: if one of them is of another kind.
    """
    for name, (fits, wanted) in _WANTED.items():
        value = getattr(owner, name, None)
        if value is not None and not fits(value):
            raise TopologyError(f"{what} takes {wanted}, as its {name}, got {value!r}", **place)


def check_function(value: object, name: str, what: str, **place: Any) -> None:
    """Checks that a value is a plain function, or something else that can be called.

    :param name: the name of the argument, for the error.
    :param what: the name of the node or option that takes it, for the error.
    :raises TopologyError: if it cannot be called, or is made by ``async def``: its result would be a coroutine.
    """
    if not callable(value):
        raise TopologyError(f"{what} takes a function as its {name}, got {value!r}", **place)
    if iscoroutinefunction(value) or iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004 - an object
        given = getattr(value, "__qualname__", value)
        raise TopologyError(
            f"{what} takes a plain function as its {name}, and {given!r} is made by async def: records are processed"
            " one after the other, so call what you wait for without await",
            **place,
        )
