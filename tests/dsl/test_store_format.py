"""``dsl.store.format``: tables keep headers beside values (KIP-1271)."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import Consumed, Grouped, Materialized, StreamsBuilder
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams.testing import TestRecord, TopologyTestDriver

S = Serdes.STRING
HEADERS = {"dsl.store.format": "HEADERS"}


def topology(config: dict[str, Any]) -> Topology:
    builder = StreamsBuilder()
    builder.global_table("everywhere", Consumed(key_serde=S, value_serde=S), materialized="g")
    builder.table("in", Consumed(key_serde=S, value_serde=S), materialized="t")
    chosen = Materialized(supplier=Stores.persistent_key_value_store("chosen"), key_serde=S, value_serde=Serdes.LONG)
    builder.stream("events", Consumed(key_serde=S, value_serde=S)).group_by_key(
        Grouped(key_serde=S, value_serde=S)
    ).count(materialized=chosen)
    return builder.build(config)


@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("cache", [0, 1000])
def test_stores_without_a_supplier_keep_headers(engine: str, cache: int) -> None:
    """Those of tables have none to keep, but deletions have those of their record on the changelog (semantics 19)."""
    config = {**HEADERS, "default.dsl.store": engine, "statestore.cache.max.bytes": cache}
    kinds = {name: builder.kind for name, builder in topology(config).stores.items()}
    assert kinds == {"t": "headers-key-value", "chosen": "timestamped-key-value"}
    headers: HeaderList = [("h", b"1")]
    with TopologyTestDriver(topology(config), config) as driver:
        table = driver.create_input_topic("in", S, S)
        log = driver.create_output_topic("test-application-t-changelog", S, S)
        for value in ("1", None):
            table.pipe_record(TestRecord("a", value, 5, headers))
        assert [(record.value, record.headers) for record in log.read_records()] == [("1", []), (None, headers)]
        driver.create_input_topic("everywhere", S, S).pipe_input("a", "1", timestamp=7)
        assert driver.get_timestamped_key_value_store_with_headers("g").get("a") == ValueTimestampHeaders("1", 7, [])


def test_such_a_store_can_be_read_and_written_without_headers() -> None:
    """By tests that know of no headers."""
    with TopologyTestDriver(topology(HEADERS), HEADERS) as driver:
        plain, timestamped = driver.get_key_value_store("t"), driver.get_timestamped_key_value_store("t")
        driver.create_input_topic("in", S, S).pipe_input("a", "1", timestamp=7)
        assert (plain.get("a"), timestamped.get("a")) == ("1", ValueAndTimestamp("1", 7))
        plain.put("b", "2")
        timestamped.put("c", ValueAndTimestamp("3", 9))
        plain.delete("a")
        with timestamped.all() as rows:
            assert list(rows) == [("b", ValueAndTimestamp("2", 0)), ("c", ValueAndTimestamp("3", 9))]
        assert driver.get_timestamped_key_value_store_with_headers("t").get("c") == ValueTimestampHeaders("3", 9, [])
