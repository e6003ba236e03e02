"""A store of a running application is written by the thread of its task only."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from processor_api.errors import StoreError
from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster

S = Serdes.STRING


@pytest.mark.skipif(sys.flags.dev_mode, reason="reads are refused too")
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_another_thread_may_not_write(cluster: Cluster, guarantee: str) -> None:
    """The error names store and thread, the store stays as it was, and the application goes on; reads are let pass."""
    told: list[StoreError] = []

    class Hands(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.store = context.get_state_store("s")
            assert context.get_state_store("s") is self.store

        def process(self, record: Any) -> None:
            self.store.put(record.value, "mine")
            thread = threading.Thread(target=self.meddle, args=(record.value,), name="stranger")
            thread.start()
            thread.join()
            self.context.forward(record.with_value(f"{record.value}={self.store.get(record.value)}"))

        def meddle(self, key: str) -> None:
            for call in (
                lambda: self.store.put(key, "theirs"),
                lambda: self.store.put_if_absent("other", "theirs"),
                lambda: self.store.put_all([(key, "theirs")]),
                lambda: self.store.delete(key),
            ):
                with pytest.raises(StoreError, match="store 's' is used by thread 'stranger'") as caught:
                    call()
                told.append(caught.value)
            assert self.store.get(key) == "mine"

    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), S, S)
    topology = Topology().add_source("source", "in", key_serde=S, value_serde=S)
    topology.add_processor("hands", Hands, "source").add_state_store(store, "hands")
    topology.add_sink("sink", "out", "hands", key_serde=S, value_serde=S)
    app = cluster.app(topology, {"processing.guarantee": guarantee})
    cluster.send("a", "b")
    cluster.until_out("a=mine", "b=mine")
    assert [error.store for error in told] == ["s"] * 8
    assert app.failure is None
