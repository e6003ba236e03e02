"""From a plan to a topology."""

from collections.abc import Iterable
from typing import Any

import pytest

from dsl import Consumed, Produced, Repartitioned, StreamsBuilder
from processor_api.errors import ConfigError, TopologyError
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.timestamps import fail_on_invalid_timestamp
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.subtopology import subtopologies
from processor_api.user_code.offset_reset import AutoOffsetReset

STORE: StoreBuilder[Any, Any] = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"))


class Pass(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class PassValue(FixedKeyProcessor[Any, Any, Any]):
    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record)


class Bringing:
    """A supplier that brings its store along."""

    def __call__(self) -> Pass:
        return Pass()

    def stores(self) -> Iterable[StoreBuilder[Any, Any]]:
        return [STORE]


def test_building_again_gives_an_equal_topology_and_later_calls_come_on_top() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by(lambda k, v: v).count()
    first, second = builder.build(), builder.build()
    assert first is not second
    assert first.describe() == second.describe()
    counts.to_stream().to("out")
    third = builder.build()
    assert set(first.nodes) < set(third.nodes)
    assert set(third.nodes) - set(first.nodes) == {"KTABLE-TOSTREAM-0000000007", "KSTREAM-SINK-0000000008"}


def test_subtopologies_are_numbered_in_the_order_of_the_calls() -> None:
    """Semantics 104: a node is written when its parents are, by the order in which it was asked for."""
    builder = StreamsBuilder()
    one, two = builder.stream("a"), builder.stream("b")
    two.group_by(lambda k, v: v).count()
    one.to("out")
    assert [part.topics for part in subtopologies(builder.build())] == [
        ("a",),
        ("b",),
        ("KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",),
    ]


def test_a_repartition_topic_has_the_user_s_partitions_serdes_and_partitioner() -> None:
    def to_zero(*arguments: Any) -> set[int]:
        return {0}

    builder = StreamsBuilder()
    how: Repartitioned[Any, Any] = Repartitioned(
        name="r", number_of_partitions=7, key_serde=Serdes.LONG, value_serde=Serdes.UUID, partitioner=to_zero
    )
    builder.stream("in").repartition(how).to("out")
    topology = builder.build()
    assert topology.repartition_topics["r-repartition"].partitions == 7
    sink, source = topology.nodes["r-repartition-sink"], topology.nodes["r-repartition-source"]
    assert isinstance(sink, SinkNode)
    assert isinstance(source, SourceNode)
    assert (sink.key_serde, sink.value_serde, sink.partitioner) == (Serdes.LONG, Serdes.UUID, to_zero)
    assert (source.key_serde, source.value_serde) == (Serdes.LONG, Serdes.UUID)
    assert source.timestamp_extractor is fail_on_invalid_timestamp


def test_consumed_and_produced_reach_their_nodes() -> None:
    def extractor(record: Any, partition_time: int) -> int:
        return 0

    def partitioner(*arguments: Any) -> None:
        return None

    consumed: Consumed[Any, Any] = Consumed(
        key_serde=Serdes.LONG,
        value_serde=Serdes.UUID,
        timestamp_extractor=extractor,
        offset_reset=AutoOffsetReset.latest(),
        name="src",
    )
    builder = StreamsBuilder()
    builder.stream("in", consumed).to("out", Produced(partitioner=partitioner, value_serde=Serdes.VOID, name="snk"))
    builder.table("t", consumed)
    with pytest.raises(TopologyError, match="already added"):
        builder.build()
    builder = StreamsBuilder()
    builder.stream("in", consumed).to("out", Produced(partitioner=partitioner, value_serde=Serdes.VOID, name="snk"))
    topology = builder.build()
    source, sink = topology.nodes["src"], topology.nodes["snk"]
    assert isinstance(source, SourceNode)
    assert isinstance(sink, SinkNode)
    assert (source.timestamp_extractor, source.offset_reset) == (extractor, AutoOffsetReset.latest())
    assert (sink.key_serde, sink.value_serde, sink.partitioner) == (Serdes.LONG, Serdes.VOID, partitioner)


def test_processors_are_connected_to_the_stores_they_name_or_bring() -> None:
    builder = StreamsBuilder().add_state_store(STORE)
    builder.stream("in").process(Pass, "s", name="p").process_values(PassValue, "s", name="v")
    topology = builder.build()
    assert (topology.stores_of("p"), topology.stores_of("v")) == (("s",), ("s",))
    builder = StreamsBuilder()
    builder.stream("in").process(Bringing(), name="p")
    assert builder.build().stores_of("p") == ("s",)


def test_a_processor_must_be_of_the_kind_that_the_call_is_for() -> None:
    """A processor that could change keys must not get past the question whether a repartition is needed."""
    wrong: Any = Pass
    builder = StreamsBuilder()
    builder.stream("in").process_values(wrong)
    with pytest.raises(TopologyError, match="FixedKeyProcessor"):
        builder.build()
    wrong = PassValue
    builder = StreamsBuilder()
    builder.stream("in").process(wrong)
    with pytest.raises(TopologyError, match="use process_values"):
        builder.build()


def test_after_process_keys_may_have_changed_after_process_values_not() -> None:
    """Semantics 102."""
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.process(Pass).group_by_key().count(materialized="a")
    stream.process_values(PassValue).group_by_key().count(materialized="b")
    assert list(builder.build().repartition_topics) == ["a-repartition"]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (lambda s: s.filter(lambda k, v: True).peek(lambda k, v: None).map_values(lambda v: v), True),
        (lambda s: s.flat_map_values(lambda v: [v]), True),
        (lambda s: s.merge(s), True),
        (lambda s: s.repartition(), False),
        (lambda s: s.to_table().to_stream(), False),
    ],
)
def test_a_changed_key_is_remembered_until_an_internal_topic(keep: Any, expected: bool) -> None:
    builder = StreamsBuilder()
    keep(builder.stream("in").map(lambda k, v: (v, k))).group_by_key().count(materialized="n")
    assert ("n-repartition" in builder.build().repartition_topics) is expected


def test_a_table_s_topic_may_serve_as_its_changelog() -> None:
    """Semantics 108: then the store logs nothing of its own."""
    builder = StreamsBuilder()
    builder.table("in", materialized="s")
    builder.table("other")
    plain, reusing = builder.build(), builder.build({"topology.optimization": "reuse.ktable.source.topics"})
    assert (plain.stores["s"].logging, dict(plain.source_changelogs)) == (True, {})
    assert (reusing.stores["s"].logging, dict(reusing.source_changelogs)) == (False, {"s": "in"})


def test_a_configuration_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"^topology\.optimization must be .*; got 'fast'"):
        StreamsBuilder().build({"topology.optimization": "fast"})
