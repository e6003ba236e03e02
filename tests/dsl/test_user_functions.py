"""What an operator calls of the user's is a function, which is checked where it is given."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_origin, get_type_hints

import pytest

import dsl.processors
from dsl import StreamsBuilder, TimeWindows
from processor_api.errors import TopologyError


def operators() -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages(dsl.processors.__path__, "dsl.processors."):
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and is_dataclass(found) and found.__module__ == module.name:
                views = {"above"} & {one.name for one in fields(found)}  # their operators have checked their functions
                yield from [] if views else [found]


@pytest.mark.parametrize("operator", list(operators()), ids=lambda operator: operator.__name__)
def test_each_field_that_holds_a_function_is_marked(operator: type[Any]) -> None:
    hints = get_type_hints(operator)
    functions = {name for name, hint in hints.items() if get_origin(hint) is get_origin(Callable[[], None])}
    assert {one.name for one in fields(operator) if "user_function" in one.metadata} == functions


def test_there_are_operators_with_functions() -> None:
    assert sum("user_function" in one.metadata for operator in operators() for one in fields(operator)) >= 15


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
        (lambda stream: stream.map_values_batch(1, name="m"), "m takes a function as its function, got 1"),
        (lambda stream: stream.process_batch(1, name="p"), "p takes a function as its supplier, got 1"),
    ],
)
def test_what_is_no_function_is_refused_where_it_is_given(call: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        call(StreamsBuilder().stream("in"))


async def slow(*arguments: Any) -> Any:
    return arguments


class Slow:
    async def __call__(self, *arguments: Any) -> Any:
        return arguments


async def slowly(*arguments: Any) -> Any:
    yield arguments


AWAITED = {
    "function": slow,
    "object": Slow(),
    "generator": slowly,
    "method": Slow().__call__,
    "partial": functools.partial(slow, 1),
    "partial of an object": functools.partial(functools.partial(Slow()), 1),
    "partial of a generator": functools.partial(slowly),
    "cached": functools.lru_cache(slow),
    "cached object": functools.cache(functools.partial(Slow())),
}


@pytest.mark.parametrize("function", AWAITED.values(), ids=AWAITED)
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda stream, function: stream.filter(function),
            "0001 takes a plain function as its predicate",
        ),
        (
            lambda stream, function: stream.group_by_key().aggregate(str, function),
            "takes a plain function as its aggreg",
        ),
        (lambda stream, function: stream.to_table().map_values(function), "takes a plain function as its mapper"),
        (lambda stream, function: stream.map_values_batch(function), "takes a plain function as its function"),
        (
            lambda stream, function: stream.deduplicate(within=1, id_selector=function),
            "takes a plain function as its id_selector",
        ),
        (
            lambda stream, function: stream.group_by_key().windowed_by(TimeWindows(size_ms=1)).reduce(function),
            "reduce takes a plain function as its reducer",
        ),
    ],
    ids=["stream", "group", "table", "batch", "deduplicate", "windows"],
)
def test_a_function_that_is_awaited_is_refused(call: Callable[[Any, Any], Any], says: str, function: Any) -> None:
    """Its coroutine would be taken for the result: every record would pass the filter."""
    with pytest.raises(TopologyError, match=f"{says}.* is made by async def: records are"):
        call(StreamsBuilder().stream("in"), function)
