"""Records that become a table."""

from typing import Any

import pytest

from dsl import Consumed, Materialized, StreamsBuilder
from dsl_support.fake_task import FakeTask, Output
from processor_api.errors import TopologyError
from processor_api.record import DropReason
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB

NAMED: Materialized[Any, Any] = Materialized(name="t")
UNCACHED: Materialized[Any, Any] = Materialized(name="t", caching=False)
H = [("h", b"1")]


def table_task(materialized: Materialized[Any, Any] | str | None, *, from_stream: bool) -> FakeTask:
    builder = StreamsBuilder()
    if from_stream:
        table = builder.stream("in").to_table(materialized=materialized)
    else:
        table = builder.table("in", Consumed(), materialized=materialized)
    table.to_stream().to("out")
    return FakeTask(builder.build())


@pytest.mark.parametrize("from_stream", [True, False])
@pytest.mark.parametrize("materialized", [None, NAMED, UNCACHED])
def test_every_record_with_a_key_is_an_update(materialized: Materialized[Any, Any] | None, from_stream: bool) -> None:
    """Semantics 22, 31, 35, 36: equal values too, deletions too; what is out of order overwrites."""
    task = table_task(materialized, from_stream=from_stream)
    for key, value, timestamp in [("a", "x", 5), ("a", "x", 6), (None, "x", 7), ("a", "y", 3), ("a", None, 2)]:
        task.pipe("in", key, value, timestamp, H)
    assert task.take("out") == [
        Output("a", "x", 5, H),
        Output("a", "x", 6, H),
        Output("a", "y", 3, H),
        Output("a", None, 2, H),
    ]
    assert task.drops == [DropReason.NULL_KEY]
    assert [store.rows for store in task.stores.values()] == ([] if materialized is None else [{}])


def test_only_a_cache_swallows_the_deletion_of_what_is_not_there() -> None:
    for materialized, expected in ((None, [("a", None)]), (UNCACHED, [("a", None)]), (NAMED, [])):
        task = table_task(materialized, from_stream=False)
        task.pipe("in", "a", None)
        assert task.values("out") == expected


def test_a_table_has_a_store_only_if_it_is_named_or_needed() -> None:
    """Semantics 109."""
    assert list(table_task(None, from_stream=False).topology.stores) == []
    assert list(table_task("t", from_stream=False).topology.stores) == ["t"]
    builder = StreamsBuilder()
    builder.table("in").group_by(lambda k, v: (v, k)).count(materialized="n")
    assert list(builder.build().stores) == ["in-STATE-STORE-0000000000", "n"]


def test_only_what_the_user_named_can_be_queried() -> None:
    builder = StreamsBuilder()
    supplied = Materialized.as_(Stores.in_memory_key_value_store("m"))
    assert builder.table("a").queryable_store_name is None
    assert builder.table("b", materialized="t").queryable_store_name == "t"
    assert builder.table("c", materialized=supplied).queryable_store_name == "m"
    assert builder.stream("d").group_by_key().count().queryable_store_name is None
    table = builder.stream("d").group_by_key().count(materialized="n")
    assert table.queryable_store_name == "n"
    assert table.filter(lambda k, v: True).queryable_store_name is None
    assert table.filter(lambda k, v: True, materialized="f").queryable_store_name == "f"


def test_one_pair_of_serdes_serves_the_topic_and_the_store() -> None:
    builder = StreamsBuilder()
    builder.table("a", Consumed(value_serde=Serdes.LONG), materialized="s")
    builder.table("b", materialized=Materialized(name="t", value_serde=Serdes.LONG))
    topology = builder.build()
    assert {topology.stores[name].value_serde for name in "st"} == {Serdes.LONG}
    sources: Any = [node for node in topology.nodes.values() if not node.parents]
    assert [source.value_serde for source in sources] == [Serdes.LONG, Serdes.LONG]


@pytest.mark.parametrize("topic", ["", None, ["a"]])
def test_a_table_reads_one_topic(topic: Any) -> None:
    with pytest.raises(TopologyError, match="a table must read exactly one topic, got "):
        StreamsBuilder().table(topic)


def test_a_store_is_what_materialized_says() -> None:
    builder = StreamsBuilder()
    builder.table("a", materialized="default")
    other: Materialized[Any, Any] = Materialized(name="other", store_type=MEMORY, caching=False, logging=False)
    builder.table("b", materialized=other)
    logged: Materialized[Any, Any] = Materialized(name="logged", topic_config={"segment.bytes": "1"})
    builder.table("c", materialized=logged)
    supplied: Materialized[Any, Any] = Materialized(supplier=Stores.in_memory_key_value_store("supplied"))
    builder.table("d", materialized=supplied)
    stores = builder.build().stores
    assert {store.kind for store in stores.values()} == {"timestamped-key-value"}
    assert [(s.supplier.engine, s.caching, s.logging) for s in stores.values()] == [
        (ROCKSDB, True, True),
        (MEMORY, False, False),
        (ROCKSDB, True, True),
        (MEMORY, True, True),
    ]
    assert stores["logged"].topic_config == {"segment.bytes": "1"}
    everything_in_memory = builder.build({"default.dsl.store": "in_memory", "statestore.cache.max.bytes": 0}).stores
    assert {(s.supplier.engine, s.caching) for s in everything_in_memory.values()} == {(MEMORY, False)}
