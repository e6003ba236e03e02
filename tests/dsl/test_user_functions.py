"""What an operator calls of the user's is a function, which is checked where it is given."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_origin, get_type_hints

import pytest

import dsl.processors
from dsl import StreamsBuilder
from dsl.user_functions import USER_FUNCTION
from processor_api.errors import TopologyError


def operators() -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages(dsl.processors.__path__, "dsl.processors."):
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and is_dataclass(found) and found.__module__ == module.name:
                yield found


@pytest.mark.parametrize("operator", list(operators()), ids=lambda operator: operator.__name__)
def test_each_field_that_holds_a_function_is_marked(operator: type[Any]) -> None:
    hints = get_type_hints(operator)
    functions = {name for name, hint in hints.items() if get_origin(hint) is get_origin(Callable[[], None])}
    assert {one.name for one in fields(operator) if one.metadata == USER_FUNCTION} == functions


def test_there_are_operators_with_functions() -> None:
    assert sum(one.metadata == USER_FUNCTION for operator in operators() for one in fields(operator)) >= 15


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda stream: stream.filter("x"), "KSTREAM-FILTER-0000000001 takes a function as its predicate, got 'x'"),
        (lambda stream: stream.map_values(5, name="m"), "m takes a function as its mapper, got 5"),
        (
            lambda stream: stream.group_by_key().reduce(None),
            "KSTREAM-REDUCE-0000000002 takes a function as its reducer",
        ),
        (lambda stream: stream.to_table().filter(1), "takes a function as its predicate, got 1"),
    ],
)
def test_what_is_no_function_is_refused_where_it_is_given(call: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        call(StreamsBuilder().stream("in"))
