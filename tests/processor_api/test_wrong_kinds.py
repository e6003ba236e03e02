"""What is of the wrong kind is refused where it is given, with its name and what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, Repartitioned, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.function import topology_of
from processor_api.topology.topology import Topology
from processor_api.user_code.lines import Line

S = Serdes.STRING
ANY: Any = None
A_SERDE = "takes as its"
TAKEN = "a serde, one of the names avro, boolean, bytes, double, float, integer, json, long"


KEPT = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), S, S)


class Passing(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class Bringing(Passing):
    def stores(self) -> list[Any]:
        return [KEPT]


@dataclass
class Point:
    x: int


@dataclass
class Unmade:
    x: Passing


def source(**parts: Any) -> Topology:
    return Topology().add_source("source", "in", **parts)


def stream() -> Any:
    return StreamsBuilder().stream("in")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: source(key_serde=str), f"source 'source' {A_SERDE} key_serde {TAKEN}"),
        (lambda: source(value_serde="String"), """a dataclass; got 'String'; did you mean value_serde="string"?"""),
        (lambda: source(value_serde=int), """got <class 'int'>; give value_serde="long" or "integer\""""),
        (lambda: source(value_serde=Serdes), "got <class 'processor_api.serde.Serdes'>; give an object"),
        (lambda: source(value_serde=Passing), "write a serde with serde_of, or give pydantic_serde"),
        (lambda: source(value_serde=Line("f", 1)), "a pydantic model or a dataclass; got Line("),
        (lambda: source(value_serde=Point(1)), "got Point(x=1); give the class Point, not an object of it"),
        (lambda: source(value_serde=Unmade), "a serde as its value_serde: none can be made from <class"),
        (lambda: StreamsBuilder(key_serde="text"), f"StreamsBuilder {A_SERDE} key_serde {TAKEN}"),
        (lambda: source(timestamp_extractor=5), "source 'source' takes a function as its timestamp_extractor, got 5"),
        (lambda: source(offset_reset="earliest"), "as its offset_reset, got 'earliest'"),
        (lambda: source().add_sink("sink", "out", "source", key_serde=str), f"sink 'sink' {A_SERDE} key_serde"),
        (lambda: source().add_sink("sink", "out", "source", partitioner=0), "takes a function as its partitioner"),
        (
            lambda: Topology().add_state_store(
                Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), str, S)
            ),
            f"store 'kept' {A_SERDE} key_serde {TAKEN}",
        ),
        (lambda: Consumed(key_serde=int), f"Consumed {A_SERDE} key_serde {TAKEN}"),
        (lambda: Materialized(value_serde="x"), f"Materialized {A_SERDE} value_serde {TAKEN}"),
        (lambda: StreamsBuilder().stream("in", S), r"expected Consumed(...), got Serde(string)"),  # type: ignore[call-overload]
        (lambda: StreamsBuilder().table("in", S), "expected Consumed(...), got Serde(string)"),  # type: ignore[call-overload]
        (lambda: StreamsBuilder().global_table("in", S), "expected Consumed(...), got Serde(string)"),  # type: ignore[call-overload]
        (lambda: stream().to("out", Consumed()), "expected Produced(...), got Consumed("),
        (lambda: stream().repartition(Grouped()), "expected Repartitioned(...), got Grouped("),
        (lambda: stream().group_by_key(Repartitioned()), "expected Grouped(...), got Repartitioned("),
        (lambda: stream().group_by_key().count(materialized=Produced()), "expected Materialized(...), got Produced("),
        (lambda: stream().filter(ANY), "KSTREAM-FILTER-0000000001 takes a function as its predicate, got None"),
        (lambda: stream().map_values("x", name="mine"), "mine takes a function as its mapper, got 'x'"),
        (lambda: stream().filter(bool, name=5), "expected a name, got 5"),
        (lambda: stream().group_by_key().reduce(ANY), "takes a function as its reducer, got None"),
        (lambda: stream().merge(5), "a stream can be merged with another stream only, got 5"),
        (
            lambda: stream().merge(StreamsBuilder().table("t")),
            "a stream can be merged with another stream only, got KTable(",
        ),
        (lambda: stream().split(name="s-").branch(ANY), "branch s-1 takes a function as its predicate, got None"),
        (lambda: stream().split().branch(bool, print), "expected Branched(...), got <built-in function print>"),
        (lambda: stream().split().default_branch("rest"), "expected Branched(...), got 'rest'"),
        (lambda: stream().process(Passing()), "processor 'KSTREAM-PROCESSOR-0000000001' needs a supplier, a class or"),
        (lambda: stream().process_values(Passing(), name="mine"), "processor 'mine' needs a supplier, a class or"),
        (lambda: stream().process(Passing, KEPT), "must be connected to stores by their names, got StoreBuilder"),
        (
            lambda: StreamsBuilder().add_global_store(KEPT, "in", None, Passing()),  # type: ignore[arg-type]
            "processor 'KTABLE-SOURCE-0000000001' needs a supplier, a class or",
        ),
        (
            lambda: source().add_processor("p", Bringing, "source"),
            "stores() of the supplier of processor 'p' must return builders of stores, and failed: TypeError: "
            "Bringing.stores() missing 1 required positional argument: 'self'; make it a staticmethod",
        ),
    ],
)
def test_it_is_told_at_once(wrong: Callable[[], Any], says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        wrong()
    assert says in str(caught.value)


def test_a_supplier_of_the_user_may_have_fields_of_any_kind() -> None:
    """Only operators of the DSL are looked into."""
    from dataclasses import dataclass

    @dataclass
    class Makes:
        callback: Callable[..., Any] | None = None

        def __call__(self) -> Passing:
            return Passing()

    builder = StreamsBuilder()
    builder.stream("in").process(Makes())
    assert builder.build().describe()


def test_what_stands_for_a_topology() -> None:
    """Itself, a builder, or a function of either that may take the configuration."""
    told: list[Any] = []
    topology = source()

    class Builder:
        def build(self, config: Any) -> Topology:
            told.append(config)
            return topology

    def with_config(config: Any) -> Builder:
        told.append(config)
        return Builder()

    for given in (topology, Builder(), lambda: topology, with_config):
        assert topology_of(given, "config") is topology
    assert told == ["config"] * 3


@pytest.mark.parametrize("given", [None, 5, "app:topology", Topology, StreamsBuilder, lambda: None])
def test_what_is_no_topology_is_told(given: Any) -> None:
    with pytest.raises(TopologyError, match="expected a topology, a StreamsBuilder or a function that makes one, got"):
        topology_of(given, {})
