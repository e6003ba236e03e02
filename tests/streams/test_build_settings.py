"""Settings that a topology is built with: read by the same rules as those of an application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import ConfigError
from processor_api.topology.topology import Topology
from streams import (
    BuiltInDslStoreSuppliers,
    JoinWindows,
    ProcessorWrapper,
    StreamsBuilder,
    StreamsConfig,
    TopologyTestDriver,
)

STRINGS = {"default.key.serde": "string", "default.value.serde": "string"}


def self_join(settings: Any, *, at_once: bool = False) -> Topology:
    builder = StreamsBuilder(settings if at_once else None)
    stream = builder.stream("a")
    stream.join(stream, lambda one, two: one, windows=JoinWindows.of_time_difference_with_no_grace(5)).to("b")
    return builder.build(None if at_once else settings)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"topology.optimization": "all"},
        {"topology_optimization": "all"},
        StreamsConfig(application_id="a", bootstrap_servers="b:9092", topology_optimization="all"),
        {**STRINGS, "application.id": "a", "consumer.fetch.min.bytes": 2, "topology_optimization": "all"},
    ],
    ids=["dotted", "snake case", "config", "with others"],
)
def test_settings_have_their_names_in_either_form(settings: Any, at_once: bool) -> None:
    """Names in snake case were left out without a word."""
    assert "JOINOTHER" in self_join(None).describe()
    assert "JOINOTHER" not in self_join(settings, at_once=at_once).describe()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"topology.optimisation": "all"},
            "topology.optimisation is not a setting, did you mean topology.optimization",
        ),
        ({"dsl.store.format": "HEADRES"}, "dsl.store.format must be one of DEFAULT, HEADERS; got 'HEADRES'"),
        ({"dsl_store_fromat": "HEADERS"}, "did you mean"),
        ({"default.dsl.store": "rocksdbb"}, "default.dsl.store must be one of"),
        ({"ensure.explicit.internal.resource.naming": "yess"}, "ensure.explicit.internal.resource.naming"),
        ({"statestore.cache.max.bytes": "much"}, "statestore.cache.max.bytes"),
        ({"commit.interval.ms": -1}, "commit.interval.ms"),
        ({"processor.wrapper.class": 3}, "processor.wrapper.class must be a ProcessorWrapper"),
    ],
)
def test_what_an_application_refuses_a_builder_refuses(settings: dict[str, Any], says: str) -> None:
    """With the same words, at the build or where the builder is made; each was left out without a word."""
    calls: list[Callable[[], object]] = [
        lambda: StreamsBuilder().build(settings),
        lambda: StreamsBuilder(settings),
        lambda: TopologyTestDriver(StreamsBuilder(), settings),
    ]
    said = []
    for call in calls:
        with pytest.raises(ConfigError) as caught:
            call()
        said.append(str(caught.value))
    assert said[0] == said[1] == said[2]
    assert says in said[0]


class Recording(ProcessorWrapper):
    """Notes the nodes that it wraps."""

    wrapped: list[str]
    configs: Any

    def configure(self, configs: Any) -> None:
        Recording.configs = configs

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        Recording.wrapped.append(name)
        return supplier


@pytest.mark.parametrize("name", ["processor.wrapper.class", "processor_wrapper_class"])
@pytest.mark.parametrize("given", [Recording, Recording(), f"{__name__}.Recording"], ids=["class", "object", "path"])
def test_a_wrapper_is_applied_however_it_is_given(name: str, given: Any) -> None:
    """A class in a mapping, the way that its own docstring shows, was left out; two of one class wrap once."""
    Recording.wrapped = []
    builder = StreamsBuilder()
    builder.stream("a").filter(lambda key, value: True).to("b")
    built = builder.build({name: given})
    assert Recording.wrapped == ["KSTREAM-FILTER-0000000001"]
    assert "application.id" not in Recording.configs
    with TopologyTestDriver(built, {**STRINGS, name: given}) as driver:
        driver.create_input_topic("a").pipe_input("k", "v")
    assert Recording.wrapped == ["KSTREAM-FILTER-0000000001"]


SHAPES: list[dict[str, Any]] = [
    {"topology.optimization": "all"},
    {"topology_optimization": "reuse.ktable.source.topics"},
    {"statestore.cache.max.bytes": 0},
    {"default.dsl.store": "in_memory"},
    {"dsl.store.suppliers.class": BuiltInDslStoreSuppliers.IN_MEMORY},
    {"dsl.store.format": "HEADERS"},
    {"dsl.java.defects": "keep"},
    STRINGS,
]


def clicks(settings: Any) -> StreamsBuilder:
    serdes = {} if "default.key.serde" in settings else {"key_serde": "string", "value_serde": "string"}
    builder = StreamsBuilder(settings, **serdes)
    clicks = builder.stream("clicks")
    users = builder.table("users", materialized="users")
    clicks.join(users, lambda click, user: f"{click} {user}").to("out")
    clicks.group_by_key().reduce(lambda one, two: two, materialized="last").to_stream().to("last")
    return builder


def shape(topology: Any) -> Any:
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("users").pipe_input("ann", "Oslo")
        driver.create_input_topic("clicks").pipe_input("ann", "home")
        made = driver._topology
        kinds = {name: (one.kind, one.caching, one.supplier.engine) for name, one in made.stores.items()}
        return made.describe(), sorted(driver.produced_topic_names()), kinds


@pytest.mark.parametrize("settings", SHAPES, ids=lambda given: next(iter(given)))
def test_a_builder_and_its_topology_run_as_the_same(settings: dict[str, Any]) -> None:
    """Settings of the builder were lost without a word where the builder was passed on."""
    assert shape(clicks(settings)) == shape(clicks(settings).build())


@pytest.mark.parametrize("name", ["commit.interval.ms", "num_stream_threads", "state.dir", "consumer.fetch.min.bytes"])
def test_what_a_builder_does_not_use_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"StreamsBuilder does not use {name.replace('_', '.')}: give it to the appl"):
        StreamsBuilder({name: 7 if name != "state.dir" else "here"})


def test_the_size_of_a_cache_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"uses statestore\.cache\.max\.bytes only if it is 0"):
        StreamsBuilder({"statestore.cache.max.bytes": 1_000})


def test_settings_that_contradict_each_other_are_refused() -> None:
    builder = StreamsBuilder({"topology.optimization": "all"})
    with pytest.raises(ConfigError, match=r"topology\.optimization is 'all' in StreamsBuilder"):
        builder.build({"topology.optimization": "reuse.ktable.source.topics"})
