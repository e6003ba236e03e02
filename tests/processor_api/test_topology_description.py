"""What `describe()` says, as objects beside the text."""

from __future__ import annotations

import pickle
import re
from typing import Any

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.stores.factory import Stores
from processor_api.topology.describe import (
    GlobalStoreDescription,
    ProcessorDescription,
    SinkDescription,
    SourceDescription,
    SubtopologyDescription,
    TopologyDescription,
)
from processor_api.topology.topology import Topology

PATTERN = re.compile("more-.*")


class Ignore(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def topic_of(key: Any, value: Any, record_context: Any) -> str:
    return "out"


def topology() -> Topology:
    store = Stores.key_value_store("rows", "string", "string")
    filled = Stores.key_value_store("cities", "string", "string").with_logging_disabled()
    return (
        Topology()
        .add_source("a", "x", "y")
        .add_processor("b", Ignore, "a")
        .add_state_store(store, "b")
        .add_sink("c", "z", "b")
        .add_sink("d", topic_of, "b")
        .add_global_store(filled, "cities-source", "cities", "keep", Ignore)
        .add_source("more", PATTERN)
    )


def test_each_node_is_there_with_its_neighbours() -> None:
    """Under Java's names in snake case; neighbours by name."""
    found = topology().describe()
    a = SourceDescription(name="a", successors=("b",), topic_set=frozenset({"x", "y"}))
    b = ProcessorDescription(name="b", predecessors=("a",), successors=("c", "d"), stores=frozenset({"rows"}))
    c = SinkDescription(name="c", predecessors=("b",), topic="z")
    d = SinkDescription(name="d", predecessors=("b",), topic_name_extractor=topic_of)
    more = SourceDescription(name="more", topic_pattern=PATTERN)
    assert found.subtopologies == (
        SubtopologyDescription(id=0, nodes=(a, b, c, d)),
        SubtopologyDescription(id=2, nodes=(more,)),
    )
    source = SourceDescription(name="cities-source", successors=("keep",), topic_set=frozenset({"cities"}))
    keep = ProcessorDescription(name="keep", predecessors=("cities-source",), stores=frozenset({"cities"}))
    assert found.global_stores == (GlobalStoreDescription(id=1, source=source, processor=keep),)


def test_it_is_the_text_too() -> None:
    """A text like any other: it is printed, compared, searched and pickled."""
    found, again = topology().describe(), topology().describe()
    assert isinstance(found, str)
    assert found == again == str(found)
    assert hash(found) == hash(str(found))
    assert found.startswith("Topologies:\n   Sub-topology: 0\n    Source: a (topics: [")
    order = re.findall(r"(?:Source|Processor|Sink): (\S+)", found)
    assert order == ["a", "b", "c", "d", "cities-source", "keep", "more"]
    loaded: TopologyDescription = pickle.loads(pickle.dumps(found))
    assert (loaded, loaded.subtopologies, loaded.global_stores) == (found, found.subtopologies, found.global_stores)


def test_an_empty_topology_has_no_parts() -> None:
    found = Topology().describe()
    assert (found.subtopologies, found.global_stores) == ((), ())
