"""Each public name and method says what it is for, in a sentence that stands alone; examples in docstrings run."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import dsl
import processor_api
import streams
import streams.testing
from docs_support.docstring_examples import examples, run
from tools.public_names import FOREIGN, MODULES

RIDDLES = re.compile(r"(Of|What|As|See) |:(param|raises)")
"""Beginnings of a sentence that does not stand alone, or is none."""
USED = {
    "streams": (
        *("StreamsBuilder", "KStream", "KTable", "GlobalKTable", "KGroupedStream", "KGroupedTable"),
        *("CogroupedKStream", "TimeWindowedKStream", "SessionWindowedKStream", "TimeWindowedCogroupedKStream"),
        *("SessionWindowedCogroupedKStream", "BranchedKStream", "EmitStrategy", "TimeWindows", "SlidingWindows"),
        *("SessionWindows", "UnlimitedWindows", "JoinWindows", "BufferConfig", "Suppressed", "Named", "Consumed"),
        *("Produced", "Materialized", "Joined", "StreamJoined", "TableJoined", "Grouped", "Repartitioned", "Printed"),
        *("Branched", "AutoOffsetReset", "Record", "FixedKeyRecord", "Headers", "ProcessorContext"),
        *("FixedKeyProcessorContext", "Stores", "StoreBuilder", "KeyValueStore", "Topology", "KafkaStreams"),
        *("ClientState", "StreamsConfig", "StateQueryRequest", "StoreQueryParameters", "QueryableStoreTypes", "Serdes"),
        *("WindowedSerdes", "WindowRangeQuery", "TimestampedWindowRangeWithHeadersQuery"),
    ),
    "streams.testing": ("TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"),
}
"""Classes whose methods a user's program calls: they have an example, and so does each method."""
MENTIONED = (
    *("Windows", "EagerBufferConfig", "StrictBufferConfig", "TimeToLive", "Window", "Windowed", "Serde"),
    *("Processor", "FixedKeyProcessor", "BatchProcessor", "ValueTransformerWithKey", "StateRestoreListener"),
    "StandbyUpdateListener",
    *("PunctuationType", "Cancellable", "RecordMetadata", "RecordContext", "RepartitionTopic", "KeyValueIterator"),
    *("VersionedKeyValueStore", "WindowStore", "SessionStore", "ListStore", "StreamThreadExceptionResponse"),
    *("KeyQuery", "RangeQuery", "TimestampedKeyQuery", "TimestampedKeyWithHeadersQuery", "TimestampedRangeQuery"),
    *("TimestampedRangeWithHeadersQuery", "WindowKeyQuery", "TimestampedWindowKeyWithHeadersQuery"),
    *("VersionedKeyQuery", "MultiVersionedKeyQuery", "ResultOrder", "QueryResult", "StateQueryResult"),
    *("FailureReason", "Position", "PositionBound", "LagInfo", "ProcessorWrapper"),
    *("run", "script_config", "serde_of", "json_serde", "pydantic_serde"),
)
"""Functions, classes that are derived from, and values: they have an example of their own."""
STORES = ("name", "persistent", "is_open")
"""Members that all stores have; they are properties."""


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
        for name in getattr(module, "__all__", None) or own_names(module):
            value = getattr(module, name)
            if inspect.isclass(value):
                found[f"{module_name}.{name}"] = class_text(value)
                found |= {f"{module_name}.{name}.{member}": text for member, text in members(value)}
                if (own := vars(value).get("__init__")) and inspect.isfunction(own) and own.__doc__:
                    found[f"{module_name}.{name}.__init__"] = inspect.cleandoc(own.__doc__)
            elif inspect.isfunction(value):
                found[f"{module_name}.{name}"] = inspect.getdoc(value)
    return found


def own_names(module: ModuleType) -> list[str]:
    """The classes and functions that a module defines for others."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]


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
    assert {
        "streams.engines.Engine.clear",
        "processor_api.user_code.durations.to_ms",
        "dsl.plan.nodes.Plan",
    } <= found.keys()
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


@functools.cache
def shown() -> dict[str, str]:
    """The docstrings that have examples, each by its shortest name: what is inherited or imported is there once."""
    names: dict[str, str] = {}
    for name, text in sorted(documented().items(), key=lambda item: len(item[0])):
        if text and examples(text):
            names.setdefault(text, name)
    return {name: text for text, name in names.items()}


@pytest.mark.parametrize("name", shown())
def test_an_example_runs_and_shows_what_comes_out(name: str) -> None:
    for example in examples(shown()[name]):
        run(example, name)


def wanted() -> Iterator[str]:
    """The names that must have an example."""
    for module_name, classes in USED.items():
        for name in classes:
            kind = getattr(importlib.import_module(module_name), name)
            yield f"{module_name}.{name}"
            if getattr(vars(kind).get("__init__"), "__doc__", None):
                yield f"{module_name}.{name}.__init__"  # an editor shows it where the class is called
            for member, _ in members(kind):
                found = inspect.getattr_static(kind, member)
                if not isinstance(found, property | functools.cached_property):
                    yield f"{module_name}.{name}.{member}"
    yield from (f"streams.{name}" for name in MENTIONED)


def test_what_a_topology_is_written_with_has_an_example() -> None:
    names = list(wanted())
    assert len(names) > 300
    assert [name for name in names if not examples(documented()[name] or "")] == []


READINGS = "hot = readings.filter(lambda sensor, degrees: degrees > 30)\n"


@pytest.mark.parametrize(
    "example",
    [
        READINGS + '# ("roof", 40), ("cellar", 12) -> ("roof", 41)\n',
        READINGS + '# ("roof", 40), ("cellar", 12)\n#   -> ("roof", 40), ("cellar", 12)\n',
        READINGS + '# ("roof", 40) @ 7 -> ("roof", 40) @ 8\n',
        READINGS + '# readings("roof", 12) -> hot("roof", 12)\n',
        'lines.to("loud")\n# ("ann", "hi") -> loud("ann", "HI")\n',
        'lines.foreach(lambda name, line: print(line))\n# ("ann", "hi") -> print("HI")\n',
        "inputs.pipe_value(1)\nassert outputs.is_empty\n",
        READINGS.strip() + '  # ("roof", 40) -> ("roof", 40)\n',
        READINGS + '# ("roof", 40) -> ("roof", 40)\n# ("roof", 12) -> ("roof", 12)\n',
    ],
)
def test_an_example_that_shows_something_else_fails(example: str) -> None:
    with pytest.raises((AssertionError, streams.StreamsError, TypeError)):
        run(example, "example")


def test_an_example_whose_topology_cannot_be_built_fails() -> None:
    with pytest.raises(streams.TopologyError):
        run("hot = readings.filter(lambda degrees: degrees > 30)\n", "example")
    with pytest.raises(streams.TopologyError):
        run('stock.filter(lambda item, count: True, name="low name!")\n', "example")


def test_all_examples_of_a_docstring_are_found() -> None:
    assert examples("Does.\n\n::\n\n    a = 1\n\n    b = 2\n\nMore::\n\n    c = 3\n\n:param d: no::\n") == [
        "a = 1\n\nb = 2\n",
        "c = 3\n",
    ]
