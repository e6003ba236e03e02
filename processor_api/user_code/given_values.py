"""Reads what a user gave without trusting it: its own methods may raise anything, or lie.

What cannot be read is refused by an error that names the argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from processor_api.errors import TopologyError
from processor_api.texts import kind_and_text, repr_of


def exact_text(text: str) -> str:
    """Returns the characters of a text as a plain ``str``, whatever its own class says about them."""
    return text if type(text) is str else str.__getitem__(text, slice(None))


def is_of(given: object, kind: type) -> bool:
    """Returns whether an object is of a class, or has what a protocol asks for; ``False`` if it cannot be asked."""
    try:
        return isinstance(given, kind)
    except Exception:
        return False


def attribute_of(given: object, name: str, default: Any = None) -> Any:
    """Returns an attribute, or the default where there is none or it cannot be read."""
    try:
        return getattr(given, name, default)
    except Exception:
        return default


def with_prefix(settings: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Returns the settings whose names begin with a prefix, by the rest of their names.

    :raises TypeError: if the prefix is not a string.
    """
    given: object = prefix
    if not isinstance(given, str):
        raise TypeError(f"prefix must be the start of names of settings, got {repr_of(given)}")
    return {name[len(prefix) :]: value for name, value in settings.items() if name.startswith(prefix)}


def items_of(given: Iterable[Any], name: str) -> list[Any]:
    """Returns what is in a collection.

    :param name: the name of the argument, for the error.
    :raises TypeError: if it is none, or its iteration fails.
    """
    try:
        return list(given)
    except Exception as error:
        raise TypeError(
            f"{name} must be a collection, got {repr_of(given)}, which cannot be read: {kind_and_text(error)}"
        ) from error


def texts_by_name(given: Mapping[str, str] | None, name: str) -> dict[str, str]:
    """Returns a copy of settings given as a mapping of texts; empty if none were given.

    :param name: the name of the argument, for the error.
    :raises TopologyError: if it is not such a mapping.
    """
    if given is None:
        return {}
    try:
        found = dict(given) if is_of(given, Mapping) else None
    except Exception:
        found = None
    if found is None or not all(isinstance(one, str) for pair in found.items() for one in pair):
        raise TopologyError(
            f"{name} must be a dict of strings, such as {{'segment.bytes': '1048576'}}, got {repr_of(given)}"
        )
    return found


def check_flags(**flags: Any) -> None:
    """Checks arguments that are true or false.

    :raises TopologyError: if one is something else.
    """
    for name, given in flags.items():
        if not isinstance(given, bool):
            raise TopologyError(f"{name} must be True or False, got {repr_of(given)}")
