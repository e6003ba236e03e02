"""Whatever stands before a store shows what every store has, to ``isinstance`` as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import StateStore
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster

S = Serdes.STRING
NAMES = ("plain", "windows", "global", "global-windows")


class Tell(Processor[Any, Any, Any, Any]):
    """Forwards what each store says of itself."""

    def process(self, record: Record[Any, Any]) -> None:
        stores = [self.context.get_state_store(name) for name in NAMES]
        told = [f"{store.name}:{isinstance(store, StateStore)}:{store.persistent}:{store.is_open}" for store in stores]
        self.context.forward(record.with_value(" ".join(told)))


class Keep(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        """Nothing is needed of it."""


def topology() -> Topology:
    made = Topology().add_source("source", "in").add_processor("tell", Tell, "source").add_sink("sink", "out", "tell")
    for name in ("plain", "global"):
        builder = Stores.key_value_store_builder(Stores.persistent_key_value_store(name), S, S)
        windows = "windows" if name == "plain" else f"{name}-windows"
        timed = Stores.window_store_builder(Stores.in_memory_window_store(windows, 600_000, 60_000), S, S)
        for store in (builder, timed):
            if name == "plain":
                made.add_state_store(store, "tell")
            else:
                source, topic = f"{store.name}-source", f"{store.name}-topic"
                made.add_global_store(store.with_logging_disabled(), source, topic, f"{store.name}-keep", Keep)
    return made


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    for name in ("global", "global-windows"):
        found.broker.create_topic(f"{name}-topic", 1)
    yield found
    found.close()


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_what_a_processor_gets_is_a_store(cluster: Cluster, level: str) -> None:
    """Its own and the global ones, with and without measured calls."""
    cluster.app(topology(), {"metrics.recording.level": level})
    cluster.send("x")
    persistent = {"plain": True, "windows": False, "global": True, "global-windows": False}
    cluster.until_out(" ".join(f"{name}:True:{persistent[name]}:True" for name in NAMES))
