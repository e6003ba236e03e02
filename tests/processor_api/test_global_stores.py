"""Global and read-only stores in a topology: what may be built, and what Kafka Streams would say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import TopologyError
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.topology.subtopology import subtopologies, task_subtopologies
from processor_api.topology.topology import Topology
from processor_api.user_code.offset_reset import AutoOffsetReset

S = Serdes.STRING


class Keep(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


class KeepFixed(FixedKeyProcessor[Any, Any, Any]):
    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        pass


def logged(name: str) -> StoreBuilder[str, str]:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), S, S)


def store(name: str) -> StoreBuilder[str, str]:
    return logged(name).with_logging_disabled()


class BringsAnother(Keep):
    @classmethod
    def stores(cls) -> list[StoreBuilder[str, str]]:
        return [store("other")]


class BringsItsOwn(Keep):
    @classmethod
    def stores(cls) -> list[StoreBuilder[str, str]]:
        return [store("g")]


def with_global() -> Topology:
    return Topology().add_global_store(store("g"), "gs", "global", "gp", Keep)


def test_a_global_store_has_an_id_but_no_tasks() -> None:
    topology = Topology().add_source("a", "t1").add_processor("p", Keep, "a")
    topology.add_global_store(store("g"), "gs", "global", "gp", Keep).add_source("b", "t2")
    assert [(part.id, part.is_global) for part in subtopologies(topology)] == [(0, False), (1, True), (2, False)]
    assert [part.id for part in task_subtopologies(topology)] == [0, 2]
    assert topology.stores == {}
    assert topology.global_nodes == {"gs", "gp"}


def test_the_text_of_a_global_store_is_kafkas() -> None:
    topology = with_global().add_source("a", "t1")
    assert topology.describe() == (
        "Topologies:\n"
        "   Sub-topology: 0 for global store (will not generate tasks)\n"
        "    Source: gs (topics: [global])\n"
        "      --> gp\n"
        "    Processor: gp (stores: [g])\n"
        "      --> none\n"
        "      <-- gs\n"
        "  Sub-topology: 1\n"
        "    Source: a (topics: [t1])\n"
        "      --> none\n"
        "\n"
    )


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "logging": (lambda: Topology().add_global_store(logged("g"), "gs", "global", "gp", Keep), "with_logging_disabled"),
    "an LRU map": (
        lambda: Topology().add_global_store(
            Stores.key_value_store_builder(Stores.lru_map("g", 2)).with_logging_disabled(), "gs", "global", "gp", Keep
        ),
        "global store 'g' cannot be an LRU map",
    ),
    "a timestamped LRU map": (
        lambda: Topology().add_global_store(
            Stores.timestamped_key_value_store_builder(Stores.lru_map("g", 2)), "gs", "global", "gp", Keep
        ),
        "global store 'g' cannot be an LRU map",
    ),
    "no builder": (lambda: Topology().add_global_store("g", "gs", "global", "gp", Keep), "expected a store builder"),  # type: ignore[arg-type]
    "one topic twice": (lambda: with_global().add_global_store(store("h"), "hs", "global", "hp", Keep), "'global'"),
    "a topic of a source": (lambda: with_global().add_source("s", "global"), "'global' is already read by source 'gs'"),
    "one store twice": (lambda: with_global().add_global_store(store("g"), "hs", "h", "hp", Keep), "store named 'g'"),
    "a task's store of that name": (lambda: with_global().add_state_store(logged("g")), "store named 'g'"),
    "the name of a task's store": (
        lambda: Topology().add_state_store(logged("g")).add_global_store(store("g"), "gs", "global", "gp", Keep),
        "store named 'g'",
    ),
    "one name twice": (lambda: Topology().add_global_store(store("g"), "n", "global", "n", Keep), "different names"),
    "source name taken": (lambda: with_global().add_global_store(store("h"), "gp", "h", "hp", Keep), "named 'gp'"),
    "processor name taken": (lambda: with_global().add_global_store(store("h"), "hs", "h", "gs", Keep), "named 'gs'"),
    "child of its source": (lambda: with_global().add_processor("p", Keep, "gs"), "'gs' fills a global store"),
    "child of its processor": (lambda: with_global().add_sink("out", "out", "gp"), "'gp' fills a global store"),
    "connected": (
        lambda: (
            with_global()
            .add_source("s", "in")
            .add_processor("p", Keep, "s")
            .connect_processor_and_state_stores("p", "g")
        ),
        "global store 'g' can be used by every processor as it is",
    ),
    "another store": (lambda: with_global().add_state_store(logged("t"), "gp"), "'gp' fills a global store"),
    "a supplier's other store": (
        lambda: Topology().add_global_store(store("g"), "gs", "global", "gp", BringsAnother),
        "'other'",
    ),
    "a fixed key": (lambda: Topology().add_global_store(store("g"), "gs", "global", "gp", KeepFixed), "FixedKey"),  # type: ignore[arg-type]
    "no topic": (lambda: Topology().add_global_store(store("g"), "gs", "", "gp", Keep), "'gs' needs names of topics"),
    "read-only: store twice": (
        lambda: with_global().add_read_only_state_store(logged("g"), "rs", "r", "rp", Keep),
        "store named 'g'",
    ),
    "read-only: a topic of a source": (
        lambda: with_global().add_read_only_state_store(logged("r"), "rs", "global", "rp", Keep),
        "'global' is already read",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case: str) -> None:
    build, told = WRONG[case]
    with pytest.raises(TopologyError, match=told):
        build()


def test_a_refused_global_store_leaves_nothing_behind() -> None:
    topology = Topology()
    with pytest.raises(TopologyError, match="changelog"):
        topology.add_global_store(logged("g"), "gs", "global", "gp", Keep)
    with pytest.raises(TopologyError, match="the supplier of 'gp' has its own store 'other'"):
        topology.add_global_store(store("g"), "gs", "global", "gp", BringsAnother)
    topology.add_global_store(store("g"), "gs", "global", "gp", BringsItsOwn)
    assert topology.global_stores["g"].topic == "global"


def test_a_read_only_store_has_its_source_topic_as_changelog() -> None:
    """KIP-813: no changelog of its own, read from the beginning, written by one processor."""
    topology = Topology().add_read_only_state_store(logged("r"), "rs", "topic", "rp", Keep)
    source: Any = topology.nodes["rs"]
    assert source.offset_reset == AutoOffsetReset.earliest()
    assert topology.stores["r"].logging is False
    assert topology.source_changelogs == {"r": "topic"}
    assert topology.read_only_stores == {"r": "rp"}
    assert topology.describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: rs (topics: [topic])\n"
        "      --> rp\n"
        "    Processor: rp (stores: [r])\n"
        "      --> none\n"
        "      <-- rs\n"
        "\n"
    )


def test_processors_that_are_connected_to_a_read_only_store_are_in_its_subtopology() -> None:
    topology = Topology().add_read_only_state_store(logged("r"), "rs", "topic", "rp", Keep)
    topology.add_source("s", "in").add_processor("p", Keep, "s").connect_processor_and_state_stores("p", "r")
    assert [part.topics for part in task_subtopologies(topology)] == [("topic", "in")]


def test_only_an_extractor_makes_a_bulk_restore_run_the_processor() -> None:
    """Otherwise a restored row would have another time than one that was processed."""

    def reprocess(**how: Any) -> bool:
        return Topology().add_global_store(store("g"), "s", "t", "p", Keep, **how).global_stores["g"].reprocess

    assert reprocess()
    assert not reprocess(reprocess_on_restore=False)
    assert reprocess(reprocess_on_restore=False, timestamp_extractor=lambda record, partition_time: 1)
