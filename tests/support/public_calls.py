"""The constructors, methods and functions that the packages publish, with what they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import streams
import streams.testing


@dataclass(frozen=True)
class Call:
    """A public constructor, method or function that takes something."""

    name: str
    owner: str
    function: Callable[..., Any]
    parameters: Mapping[str, inspect.Parameter]


def calls() -> Iterator[Call]:
    for module in (streams, streams.testing):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and not issubclass(found, (BaseException, Enum, str)):
                yield from _calls_of(name, found)
            elif inspect.isfunction(found):
                yield Call(name, "", found, inspect.signature(found).parameters)


def _calls_of(name: str, found: Any) -> Iterator[Call]:
    if not getattr(found, "_is_protocol", False) and not inspect.isabstract(found):
        yield Call(name, "", found, inspect.signature(found).parameters)
    for method, function in inspect.getmembers(found, callable):
        if method.startswith("_") or method in dir(tuple) or method in dir(list):
            continue
        parameters = dict(inspect.signature(function).parameters)
        static = inspect.getattr_static(found, method)
        parameters.pop("self", None)
        if parameters:
            yield Call(f"{name}.{method}", name if inspect.isfunction(static) else "", function, parameters)
