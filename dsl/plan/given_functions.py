"""The functions that a user gave, with the variables outside of them that their code reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import CodeType, FunctionType
from typing import Any

from processor_api.user_code.function_code import named_function
from processor_api.user_code.given_values import attribute_of
from processor_api.user_code.lines import Line
from processor_api.user_code.result_code import outer_values

Values = Mapping[tuple[str, int], Any]
"""The value of each variable by its name and the identity of its place."""


@dataclass(frozen=True, kw_only=True)
class GivenFunction:
    """A function with the values that its outer variables had when it was given."""

    function: FunctionType
    node: str
    made_at: Line | None
    values: Values

    @property
    def name(self) -> str:
        """The name of the function, with the line that defines it."""
        return named_function(self.function)

    def now(self) -> Values:
        """Returns the values that the variables have now."""
        return values_of(self.function)


def values_of(function: FunctionType) -> Values:
    """Returns the values of the outer variables of a function."""
    return {(name, id(place)): value for name, place, value in outer_values(function)}


class GivenFunctions:
    """The functions that were given to the nodes of a plan, by their code: a loop gives one code several times."""

    def __init__(self) -> None:
        self.by_code: dict[CodeType, list[GivenFunction]] = {}

    def add(self, node: Any) -> None:
        """Adds the functions of a node of a plan; each function counts once."""
        for function in _functions(node):
            known = self.by_code.setdefault(function.__code__, [])
            if all(one.function is not function for one in known[-1:]):
                values = values_of(function)
                known.append(GivenFunction(function=function, node=node.name, made_at=node.made_at, values=values))


def _functions(node: Any) -> Iterator[FunctionType]:
    supplier = getattr(node, "supplier", None)
    operator = getattr(node, "operator", None) if supplier is None else supplier
    given: list[Any] = [operator, getattr(node, "topic", None), *attribute_of(operator, "predicates", ())]
    kind: Any = type(operator)
    if is_dataclass(kind):
        given += [getattr(operator, one.name) for one in fields(kind) if one.metadata.get("user_function")]
    yield from (one for one in given if isinstance(one, FunctionType))
