"""Options by position, as lines translated from Java have them, are taken or refused with the names to give."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import dsl
from dsl.shown import ShownChain
from processor_api.errors import TopologyError
from processor_api.user_code.offset_reset import AutoOffsetReset
from streams import (
    BuiltInDslStoreSuppliers,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Named,
    Processor,
    Produced,
    Repartitioned,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    TableJoined,
    Topology,
    TopologyTestDriver,
)

WITHIN = JoinWindows.of_time_difference_with_no_grace(5)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "name": (Named.as_("a-name"), "a-name"),
    "materialized": (Materialized(name="rows"),),
    "windows": (WITHIN,),
    "joined": (Joined(), StreamJoined(), TableJoined()),
    "key_serde": (Serdes.STRING, "string"),
    "value_serde": (Serdes.LONG, "long"),
    "consumed": (Consumed(),),
    "number_of_partitions": (12,),
    "ttl": (timedelta(days=1),),
    "within": (timedelta(days=1),),
    "key_selector": (lambda key, value: key,),
}


def kinds() -> Iterator[type]:
    found = {one for one in vars(dsl).values() if isinstance(one, type) and issubclass(one, ShownChain)}
    yield from sorted(found - {ShownChain}, key=lambda kind: kind.__name__)
    yield from (
        StreamsBuilder,
        Topology,
        Consumed,
        Produced,
        Grouped,
        Repartitioned,
        Joined,
        StreamJoined,
        Materialized,
    )


def calls() -> Iterator[tuple[type, str, int, str, Any]]:
    """Calls with one option more than a method takes by position."""
    for kind in kinds():
        for name, method in vars(kind).items():
            if not inspect.isfunction(method) or (name.startswith("_") and name != "__init__"):
                continue
            taken = list(inspect.signature(method).parameters.values())
            if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in taken):
                continue
            by_position = sum(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in taken)
            for one in taken[by_position:]:
                for option in OPTIONS.get(one.name, ()):
                    yield kind, name, by_position, one.name, option


CALLS = list(calls())


@pytest.mark.parametrize(
    ("kind", "method", "by_position", "argument", "option"),
    [pytest.param(*one, id=f"{one[0].__name__}.{one[1]} {one[3]} {n}") for n, one in enumerate(CALLS)],
)
def test_the_error_names_the_argument(kind: type, method: str, by_position: int, argument: str, option: Any) -> None:
    with pytest.raises(TypeError) as raised:
        getattr(kind, method)(*[object() for _ in range(by_position)], option)
    assert f"{argument}=" in str(raised.value), str(raised.value)


def test_the_calls_are_many() -> None:
    assert len(CALLS) > 100


def stream(topic: str = "in") -> Any:
    return StreamsBuilder(key_serde="string", value_serde="string").stream(topic)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: stream().group_by_key().count(Named.as_("n"), Materialized()),
            r"^count\(\) takes no arguments by position, got 2: give name=Named\(...\), materialized=Materialized\(",
        ),
        (
            lambda: stream().group_by_key().count("store"),
            "give materialized='store' to name its store, or name='store'",
        ),
        (
            lambda: stream().join(stream("b"), lambda one, other: one, WITHIN, StreamJoined()),
            r"give windows=JoinWindows\(...\), joined=StreamJoined\(...\)",
        ),
        (
            lambda: stream().to_table().join(stream("b"), lambda value: value, lambda one, other: one),
            r"foreign_key_join\(\) takes these",
        ),
        (
            lambda: stream().to_table().left_join(stream("b"), lambda value: value, lambda one, other: one),
            r"foreign_key_left_join\(\) takes these",
        ),
        (lambda: Consumed("string", "long"), r"^Consumed .*: give key_serde='string', value_serde='long' by name"),
        (lambda: stream().filter(predikate=bool), r"^filter\(\) has no argument predikate=; did you mean predicate=\?"),
        (lambda: stream().filter(), "missing 1 required positional argument: 'predicate'"),
        (
            lambda: StreamsBuilder().stream("in", "string", "string"),
            "give key_serde='string', value_serde='string' by name",
        ),
    ],
)
def test_the_call_is_named(call: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call()


def test_errors_within_a_call_are_as_they_are() -> None:
    class Wrong:
        def __iter__(self) -> Any:
            return len(5)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len"):
        Topology().copartition(Wrong())


def test_lines_of_the_script_keep_the_name_of_the_call() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(str.upper).to("out")
    topology = builder.build()
    calls = [str(topology.call_of(node)).partition("(")[0] for node in topology.nodes]
    assert calls == ["stream", "map_values", "to"]
    assert all("test_options_by_position" in str(topology.line_of(node)) for node in topology.nodes)


SOURCE = Topology().add_source("source", "in")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Topology().add_source("s", "string", "long", "in"), "key_serde='string', value_serde='long'"),
        (lambda: Topology().add_source("s", Serdes.STRING, "in"), r"key_serde=Serde\(string\)"),
        (lambda: Topology().add_source("s", lambda record, time: time, "in"), "timestamp_extractor="),
        (lambda: Topology().add_source("s", AutoOffsetReset.earliest(), "in"), "offset_reset="),
        (lambda: Topology().add_source("s", "in").add_sink("k", "t", "string", "long", "s"), "value_serde='long'"),
        (lambda: Topology().add_source("s", "in").add_sink("k", "t", Serdes.STRING, "s"), "key_serde="),
        (lambda: Topology().add_source("s", "in").add_sink("k", "t", lambda *_: [1], "s"), "partitioner="),
        (
            lambda: Topology().add_global_store(
                Stores.key_value_store("g").with_logging_disabled(), "s", "string", "long", "t", "p", Processor
            ),
            "key_serde='string', value_serde='long'",
        ),
    ],
)
def test_options_among_names_of_a_topology_are_refused(call: Callable[[], object], says: str) -> None:
    """Names of serdes were read as topics."""
    with pytest.raises((TopologyError, TypeError), match=says):
        call()


def test_topics_may_have_names_of_serdes() -> None:
    topology = Topology().add_source("s", "string", "in").add_source("json", "json").add_sink("k", "long", "s", "json")
    assert "topics: [string, in]" in topology.describe() or "topics: [in, string]" in topology.describe()


@pytest.mark.parametrize("word", ["in_memory", "IN_MEMORY", "memory", "rocksDB", "ROCKS_DB", "rocksdb"])
def test_one_setting_takes_the_words_of_the_other(word: str) -> None:
    engine = "memory" if "memory" in word.lower() else "rocksdb"
    assert Materialized(store_type=word).store_type == engine
    assert StreamJoined(store_type=word).store_type == engine
    assert Stores.key_value_store("rows").on_engine(word).supplier.engine == engine
    config = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "localhost:9092", "default.dsl.store": word})
    for given in (config, {"default.dsl.store": word}):
        builder = StreamsBuilder(key_serde="string", value_serde="string")
        builder.stream("in").group_by_key().count(materialized="counts")
        assert builder.build(given).stores["counts"].supplier.engine == engine
        with TopologyTestDriver(builder, {"default.dsl.store": word}) as driver:
            driver.create_input_topic("in").pipe_input("a", "b")


@pytest.mark.parametrize("word", ["memroy", "in-memory", "inMemory", "RocksDB"])
def test_another_word_gets_the_nearest(word: str) -> None:
    with pytest.raises(TopologyError, match=r"did you mean '(in_)?memory'|did you mean 'rocks"):
        Materialized(store_type=word)


def test_a_choice_of_the_application_is_taken_as_it_is() -> None:
    given = Materialized(store_type=BuiltInDslStoreSuppliers.IN_MEMORY)
    assert given.store_type is BuiltInDslStoreSuppliers.IN_MEMORY


def test_explained_methods_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(StreamsBuilder.stream)) is StreamsBuilder.stream
