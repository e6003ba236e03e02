"""Functions of the user that operators call: marked where they are declared, checked where they are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

from processor_api.checks import check_function

__all__ = ["USER_FUNCTION", "check_user_functions"]

USER_FUNCTION: Mapping[str, bool] = MappingProxyType({"user_function": True})
"""Marks a field of an operator that holds a function of the user: ``mapper: ... = field(metadata=USER_FUNCTION)``."""


def check_user_functions(operator: Any, node: str) -> None:
    """Checks that the marked fields of an operator can be called.

    :param operator: an operator, or a supplier of processors, which has no such fields.
    :param node: the name of its node, for the error.
    :raises TopologyError: if one of them cannot be called.
    """
    if is_dataclass(operator):
        for one in fields(operator):
            if one.metadata.get("user_function"):
                check_function(getattr(operator, one.name), one.name, node)
