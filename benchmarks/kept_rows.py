"""The application of the benchmarks of starts: it puts each record into one store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams import Processor

__all__ = ["topology"]


class Keep(Processor[Any, Any, Any, Any]):
    """Puts each record, as an application does with its store."""

    def process(self, record: Any) -> None:
        self.context.get_state_store("kept").put(record.key, record.value)


def topology(make: Callable[[str], Any] = Stores.persistent_key_value_store) -> Topology:
    """Returns the application.

    :param make: makes the supplier of its store.
    """
    made = Topology().add_source("source", "bench-input").add_processor("keep", Keep, "source")
    return made.add_state_store(Stores.key_value_store_builder(make("kept"), Serdes.BYTES, Serdes.BYTES), "keep")
