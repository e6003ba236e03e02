"""Settings that a topology is built with: read by the same rules as those of an application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import ConfigError
from processor_api.topology.topology import Topology
from streams import JoinWindows, ProcessorWrapper, StreamsBuilder, StreamsConfig, TopologyTestDriver

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
