"""Tables and stores with a time to live, as the test driver runs them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.store_spec import Stores
from processor_api.stores import ValueAndTimestamp
from processor_api.time_to_live import TimeToLive
from streams import Consumed, Grouped, Materialized, StreamsBuilder, TopologyTestDriver

S = Serdes.STRING
MINUTE = 60_000
TTL = TimeToLive(timedelta(minutes=1))
CONSUMED: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)


def test_a_count_begins_anew_and_nothing_is_forwarded_when_a_key_goes() -> None:
    for caching in (True, False):
        builder = StreamsBuilder()
        counts: Materialized[str, int] = Materialized(
            name="counts", value_serde=Serdes.LONG, time_to_live=TTL, caching=caching
        )
        grouped = builder.stream("in", CONSUMED).group_by_key(Grouped(key_serde=S, value_serde=S))
        grouped.count(materialized=counts).to_stream().to("out")
        config = {"default.key.serde": S, "default.value.serde": Serdes.LONG}
        with TopologyTestDriver(builder.build(), config) as driver:
            source = driver.create_input_topic("in", S, S)
            target = driver.create_output_topic("out", S, Serdes.LONG)
            for key, time in (("a", 0), ("a", 10), ("b", MINUTE), ("b", MINUTE + 9), ("b", MINUTE + 10), ("a", 99_999)):
                source.pipe_input(key, "x", timestamp=time)
            assert target.read_key_values_to_list() == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("a", 1)]
            store = driver.get_key_value_store("counts")
            assert store.get("a") == 1
            assert dict(driver.get_timestamped_key_value_store("counts").all())["b"] == ValueAndTimestamp(3, 70_010)


def test_the_drivers_getters_refresh_nothing() -> None:
    """They stand for queries. A lookup by a record, in a join, does."""
    builder = StreamsBuilder()
    table: Any = builder.table(
        "table", CONSUMED, materialized=Materialized(name="t", time_to_live=TimeToLive(MINUTE, "access"))
    )
    builder.stream("in", CONSUMED).join(table, lambda left, right: f"{left}{right}").to("out")
    with TopologyTestDriver(builder.build(), {"default.key.serde": S, "default.value.serde": S}) as driver:
        source, fill = driver.create_input_topic("in", S, S), driver.create_input_topic("table", S, S)
        target = driver.create_output_topic("out", S, S)
        fill.pipe_input("a", "1", timestamp=0)
        fill.pipe_input("b", "1", timestamp=0)
        source.pipe_input("a", "x", timestamp=MINUTE - 1)
        assert driver.get_key_value_store("t").get("b") == "1"
        source.pipe_input("a", "y", timestamp=MINUTE)
        source.pipe_input("b", "y", timestamp=MINUTE)
        assert target.read_values_to_list() == ["x1", "y1"]
        assert [key for key, _ in driver.get_key_value_store("t").all()] == ["a"]


def test_a_table_whose_keys_expire_has_a_changelog_of_its_own() -> None:
    """A source topic takes no tombstones of the store's."""
    builder = StreamsBuilder()
    builder.table("one", CONSUMED, materialized=Materialized(name="one", time_to_live=TTL))
    builder.table("two", CONSUMED, materialized=Materialized(name="two"))
    made = builder.build({"topology.optimization": "reuse.ktable.source.topics"})
    assert dict(made.source_changelogs) == {"two": "two"}
    assert (made.stores["one"].logging, made.stores["one"].time_to_live) == (True, TTL)


def test_what_a_table_cannot_take() -> None:
    with pytest.raises(TopologyError, match=r"time_to_live takes a TimeToLive\(duration, by\), got 5"):
        Materialized(name="t", time_to_live=5)  # type: ignore[arg-type]
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("t", 10)
    builder.table("in", CONSUMED, materialized=Materialized(supplier=supplier, time_to_live=TTL))
    with pytest.raises(TopologyError, match="store 't' is a versioned-key-value store, which can have no time to live"):
        builder.build()
    builder = StreamsBuilder()
    builder.global_table("in", CONSUMED, materialized=Materialized(name="g", time_to_live=TTL))
    with pytest.raises(TopologyError, match="store 'g' cannot have a time to live"):
        builder.build()


def test_a_state_directory_keeps_the_time(tmp_path: Path) -> None:
    def topology() -> Any:
        builder = StreamsBuilder()
        builder.table("in", CONSUMED, materialized=Materialized(name="t", time_to_live=TTL))
        return builder.build()

    config = {"default.key.serde": S, "default.value.serde": S}
    with TopologyTestDriver(topology(), config) as driver:
        source = driver.create_input_topic("in", S, S)
        source.pipe_input("a", "1", timestamp=0)
        source.pipe_input("b", "1", timestamp=MINUTE)
        logged = [record.value for record in driver.produced("t-changelog")] if hasattr(driver, "produced") else None
        assert driver.get_key_value_store("t").get("a") is None
        assert logged is None or logged[-1] is None
