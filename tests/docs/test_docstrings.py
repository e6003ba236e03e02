"""Each public name and method says what it is for, in a sentence that stands alone; examples in docstrings run."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import dsl
import processor_api
import streams
from tools.public_names import FOREIGN, MODULES

RIDDLES = re.compile(r"(Of|What|As|See) |:(param|raises)")
"""Beginnings of a sentence that does not stand alone, or is none."""
EXAMPLE = re.compile(r"^::\n\n((?:    .*\n|\n)+)|.*[^:]::\n\n((?:    .*\n|\n)+)", re.MULTILINE)
FIRST_MET = (
    *("StreamsBuilder", "KStream.map", "KStream.map_values", "KStream.flat_map_values", "KGroupedStream.aggregate"),
    *("KStream.filter", "KStream.group_by_key", "KTable", "Materialized", "Serdes"),
    *("Processor", "Topology", "KafkaStreams", "TopologyTestDriver", "KeyValueStore"),
)
"""What a newcomer meets first: each has an example."""


def modules() -> Iterator[str]:
    """The public modules, and all of the two packages that users' programs see most of."""
    yield from MODULES
    for package in (processor_api, dsl):
        yield from (found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))


@functools.cache
def documented() -> dict[str, str | None]:
    """The docstring of each public class, function, method and property, by its full name."""
    found: dict[str, str | None] = {}
    for module_name in modules():
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isclass(value):
                found[f"{module_name}.{name}"] = class_text(value)
                found |= {f"{module_name}.{name}.{member}": text for member, text in members(value)}
            elif inspect.isfunction(value):
                found[f"{module_name}.{name}"] = inspect.getdoc(value)
    return found


def class_text(kind: type[Any]) -> str | None:
    """Its own docstring, and not the signature that `dataclass` puts there."""
    text = kind.__dict__.get("__doc__")
    return None if text is None or text.startswith(f"{kind.__name__}(") else inspect.cleandoc(text)


def members(kind: type[Any]) -> Iterator[tuple[str, str | None]]:
    """Methods and properties; one that overrides another may leave the docstring to it."""
    for name in dir(kind):
        if name.startswith("_") or home(kind, name) in FOREIGN:
            continue
        found = [vars(each)[name] for each in kind.__mro__ if name in vars(each)]
        if inspect.isbuiltin(getattr(found[0], "__func__", found[0])):  # Python says what it is for
            continue
        if isinstance(found[0], property | functools.cached_property | classmethod | staticmethod) or callable(
            found[0]
        ):
            yield name, next((inspect.cleandoc(one.__doc__) for one in found if one.__doc__), None)


def home(kind: type[Any], name: str) -> str:
    """The top-level package of the class that has the member."""
    owner = next(each for each in kind.__mro__ if name in vars(each))
    return owner.__module__.partition(".")[0]


def examples(text: str) -> list[str]:
    return [textwrap.dedent(one or other) for one, other in EXAMPLE.findall(text + "\n")]


def test_each_public_name_and_method_has_a_docstring() -> None:
    assert [name for name, text in documented().items() if not text] == []


def test_a_first_sentence_stands_alone() -> None:
    riddles = {name: text for name, text in documented().items() if text and RIDDLES.match(text)}
    assert riddles == {}


def test_a_first_sentence_ends() -> None:
    first = {name: text.partition("\n\n")[0] for name, text in documented().items() if text}
    assert {name: text for name, text in first.items() if not text.rstrip().endswith((".", "::"))} == {}


def test_what_is_looked_at() -> None:
    found = documented()
    assert len(found) > 1000
    assert {"streams.KafkaStreams.close", "streams.KTable.filter", "streams.StreamsConfig.of"} <= found.keys()
    assert {"streams.engines.Engine.clear", "processor_api.durations.to_ms", "dsl.plan.nodes.Plan"} <= found.keys()
    assert not any("model_" in name for name in found)


def test_what_is_missing_is_noticed() -> None:
    class Base:
        def inherited(self) -> None:
            """Does something."""

    class Bare(Base):
        def bare(self) -> None: ...

        @property
        def nothing(self) -> int:
            return 0

        def inherited(self) -> None: ...

    assert class_text(Bare) is None
    assert dict(members(Bare)) == {"bare": None, "nothing": None, "inherited": "Does something."}
    assert RIDDLES.match("Of one thread.")
    assert not RIDDLES.match("Offers a call.")


@pytest.mark.parametrize("name", [name for name, text in documented().items() if text and examples(text)])
def test_an_example_runs(name: str) -> None:
    text = documented()[name]
    assert text is not None
    for block in examples(text):
        code = compile(block, name, "exec")
        exec(code, {"__name__": "example"})


@pytest.mark.parametrize("name", FIRST_MET)
def test_what_is_met_first_has_an_example(name: str) -> None:
    assert name.partition(".")[0] in streams.__all__
    assert examples(documented()[f"streams.{name}"] or "")
