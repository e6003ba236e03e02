"""Functions of the user that operators call: marked where they are declared, checked where they are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

from processor_api.checks import check_function

__all__ = ["check_user_functions", "user_function"]


def user_function(*arguments: str, key_if: str | None = None, generates: bool = False) -> Mapping[str, Any]:
    """Marks a field of an operator that holds a function of the user, and says what it is called with.

    ``mapper: ... = field(metadata=user_function("value", key_if="with_key"))``

    :param key_if: the field of the operator that says whether the key comes first.
    :param generates: whether the function may be a generator function.
    """
    return MappingProxyType(
        {"user_function": True, "arguments": arguments, "key_if": key_if, "generates": generates},
    )


def check_user_functions(operator: Any, node: str) -> None:
    """Checks that the marked fields of an operator can be called as it calls them.

    :param operator: an operator, or a supplier of processors, which has no such fields.
    :param node: the name of its node, for the error.
    :raises TopologyError: if one of them cannot be called, takes other arguments, or is no plain function.
    """
    if not is_dataclass(operator):
        return
    for one in fields(operator):
        if not one.metadata.get("user_function"):
            continue
        arguments, hint = one.metadata["arguments"], ""
        key_if = one.metadata["key_if"]
        if key_if is not None:
            arguments, hint = _with_key(arguments, getattr(operator, key_if))
        generates = one.metadata["generates"]
        check_function(getattr(operator, one.name), one.name, node, arguments, generates=generates, hint=hint)


def _with_key(arguments: tuple[str, ...], takes_key: bool) -> tuple[tuple[str, ...], str]:
    if takes_key:
        return ("key", *arguments), "; the method without _with_key in its name leaves the key out"
    return arguments, "; the method with _with_key at the end of its name gives the key too"
