"""A call with an argument that a method does not take names the one that is meant, and so do unknown names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from dsl import (
    BranchedKStream,
    JoinWindows,
    KGroupedStream,
    KStream,
    KTable,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from dsl.mistakes.words import WORDS
from processor_api.errors import TopologyError
from processor_api.serde import Serdes


@dataclass
class Order:
    cents: int


def stream() -> KStream[Any, Any]:
    return StreamsBuilder(key_serde="string", value_serde="string").stream("in")


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: stream().to("out", "json"), "value_serde='json'"),
    (lambda: StreamsBuilder().stream("in", Order), "value_serde=Order"),
    (lambda: StreamsBuilder().stream("in", Serdes.LONG), "value_serde="),
    (lambda: StreamsBuilder().stream("in", "string", "json"), "value_serde='json'"),
    (lambda: StreamsBuilder().stream("in", "read-orders"), "Consumed(name='read-orders')"),
    (lambda: StreamsBuilder().stream("in", value_serde=dict), 'value_serde="json"'),
    (lambda: StreamsBuilder().stream("in", value_deserializer="json"), "did you mean value_serde=?"),
    (lambda: StreamsBuilder().table("in", "store"), "materialized='store'"),
    (lambda: stream().group_by_key().count("store"), "materialized='store' to name its store"),
    (lambda: stream().group_by_key().count(Materialized(name="store")), "give materialized=Materialized(...) by name"),
    (lambda: stream().group_by_key().count(store="store"), "did you mean materialized=?"),
    (lambda: stream().group_by_key().aggregate(initial=int, aggregator=max), "did you mean initializer=?"),
    (lambda: stream().group_by_key().reduce(max, "store"), "materialized='store' to name its store"),
    (lambda: stream().map_values(func=len), "did you mean mapper=?"),
    (lambda: stream().filter(condition=len), "did you mean predicate=?"),
    (
        lambda: stream().join(stream(), max, JoinWindows.of_time_difference_with_no_grace(1)),
        "give windows=JoinWindows(...) by name",
    ),
    (lambda: stream().deduplicate(timedelta(minutes=1)), "give within="),
    (lambda: stream().deduplicate(), "within=timedelta(minutes=10)"),
    (lambda: Materialized("store"), "give name='store'"),
    (lambda: TimeWindows(60_000), "TimeWindows.of_size_with_no_grace(60000)"),
    (lambda: TimeWindows.of_size_and_grace(60_000), "grace=timedelta(seconds=10)"),
    (lambda: SessionWindows(60_000), "SessionWindows.of_inactivity_gap_with_no_grace(60000)"),
    (lambda: Suppressed.until_window_closes(), "buffer=BufferConfig.unbounded()"),
]


@pytest.mark.parametrize(("call", "says"), CALLS, ids=lambda one: one if isinstance(one, str) else "")
def test_the_error_of_a_wrong_call_has_the_right_argument(call: Callable[[], Any], says: str) -> None:
    """Python's own error only counted the arguments, or said that another class was expected."""
    with pytest.raises((TypeError, TopologyError)) as caught:
        call()
    assert says in str(caught.value)


NAMES: list[tuple[type, str, str]] = [
    (KStream, "groupByKey", "it is group_by_key here"),
    (KStream, "mapValues", "it is map_values here"),
    (KStream, "branch", "call split().branch(...)"),
    (KStream, "through", "use repartition()"),
    (KStream, "apply", "use map_values(f)"),
    (KStream, "tumbling_window", "TimeWindows.of_size_with_no_grace(size)"),
    (KStream, "sink", "use to(topic)"),
    (KStream, "to_topic", "use to(topic)"),
    (KStream, "count", "call group_by_key().count(...)"),
    (KStream, "map_value", "did you mean map_values"),
    (KStream, "transformValues", "use process_values(supplier)"),
    (KTable, "to", "call to_stream().to(...)"),
    (KTable, "foreach", "call to_stream().foreach(...)"),
    (KGroupedStream, "to", "call count().to_stream().to(...)"),
    (KGroupedStream, "sum", "use reduce("),
    (BranchedKStream, "defaultBranch", "it is default_branch here"),
    (StreamsBuilder, "globalTable", "it is global_table here"),
    (StreamsBuilder, "from_topic", "use stream(topic)"),
    (StreamsBuilder, "filter", "call stream(topic).filter(...)"),
]


@pytest.mark.parametrize(("kind", "name", "says"), NAMES, ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_a_name_of_another_library_gets_the_name_here(kind: type, name: str, says: str) -> None:
    one = object.__new__(kind)
    with pytest.raises(AttributeError, match=f"^'{kind.__name__}' object has no attribute '{name}': ") as caught:
        getattr(one, name)
    assert says in str(caught.value)


def test_a_name_that_is_not_known_gets_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r": it has .*group_by_key, .*map_values"):
        getattr(stream(), "zzz")  # noqa: B009 - a type checker knows that there is none


def test_private_names_get_no_hint() -> None:
    assert not hasattr(stream(), "__deepcopy__")
    with pytest.raises(AttributeError, match=r"^'KStream' object has no attribute '_x'$"):
        getattr(stream(), "_x")  # noqa: B009 - the same


def test_no_word_hides_a_method() -> None:
    here = {name for name in dir(KStream) if not name.startswith("_")}
    assert not here & WORDS.keys()


def methods() -> list[tuple[str, Callable[..., Any], inspect.Signature]]:
    """Each method of the public classes of the DSL."""
    found: list[tuple[str, Callable[..., Any], inspect.Signature]] = []
    for kind in (getattr(dsl, name) for name in dsl.__all__):
        if not isinstance(kind, type) or not hasattr(vars(kind).get("__init__"), "__wrapped__"):
            continue
        for name, value in vars(kind).items():
            function = getattr(value, "__func__", value)
            if (not name.startswith("_") or name == "__init__") and inspect.isfunction(function):
                found.append((f"{kind.__name__}.{name}", function, inspect.signature(function)))
    return found


METHODS = methods()


def test_there_are_methods() -> None:
    assert len(METHODS) > 100


VALUES = ("json", "store", 60_000, dict, Order, timedelta(seconds=1), Serdes.LONG, len, None, Materialized(name="s"))


@given(st.data())
def test_each_wrong_call_names_an_argument_that_the_method_takes(data: st.DataObject) -> None:
    name, function, signature = data.draw(st.sampled_from(METHODS), label="method")
    parameters = list(signature.parameters.values())
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
        return
    is_static = parameters[:1] == [] or parameters[0].name not in ("self", "cls")
    named = [one for one in parameters if is_static or one is not parameters[0]]
    by_place = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    value = data.draw(st.sampled_from(VALUES), label="value")
    surplus = [one.name for one in named if one not in by_place]
    ways: list[tuple[tuple[Any, ...], dict[str, Any], list[str]]] = [
        ((object(),) * len(by_place) + (value,), {}, surplus or [""]),
        ((object(),) * len(by_place), {"nothing_like_it": value}, [one.name for one in named] or [""]),
    ]
    for one in named:
        ways.append(((object(),) * (not is_static), {one.name + "s": value}, [one.name]))
    arguments, keywords, right = data.draw(st.sampled_from(ways), label="way")
    with pytest.raises(TypeError) as caught:
        function(*arguments, **keywords)
    text = str(caught.value)
    assert any(f"{one}=" in text or not one for one in right) or ".of" in text, name


def test_an_error_inside_of_a_method_stays_as_it_is() -> None:
    def fails(branch: Any) -> Any:
        raise TypeError("takes 1 positional argument but 2 were given")

    split = stream().split()
    with pytest.raises(TypeError) as caught:
        split.branch(lambda key, value: True, dsl.Branched(function=fails))
    assert str(caught.value) == "takes 1 positional argument but 2 were given"


def test_lines_have_the_call_of_the_user() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(len).to("out")
    assert builder.build().call_of("KSTREAM-MAPVALUES-0000000001") == "map_values(len)"
