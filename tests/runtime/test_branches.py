"""Where a record meets the results that it made due by another branch."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.topology.topology import Topology
from streams import Processor, Stores
from streams.runtime.plan.task_plan import Branches


class Passed(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        self.context.forward(record)


def topology(edges: dict[str, tuple[str, ...]], stores: dict[str, tuple[str, ...]] | None = None) -> Any:
    """Nodes with their parents, none of which is a source, and stores with the nodes that have them."""
    made = Topology()
    for name, parents in edges.items():
        if parents:
            made.add_processor(name, Passed, *parents)
        else:
            made.add_source(name, f"topic-of-{name}")
    for name, nodes in (stores or {}).items():
        made.add_state_store(Stores.key_value_store(name, "string", "string"), *nodes)
    return made


LINE = {"a": (), "before": ("a",), "waits": ("before",), "after": ("waits",)}


@pytest.mark.parametrize(
    ("edges", "stores", "meets"),
    [
        (LINE, {}, False),
        ({**LINE, "other": ("before",), "end": ("other",)}, {}, False),
        ({**LINE, "other": ("before",), "end": ("other", "after")}, {}, True),
        ({**LINE, "b": (), "end": ("b", "after")}, {}, False),
        ({**LINE, "end": ("before", "waits")}, {}, True),
        ({**LINE, "other": ("a",)}, {"s": ("other", "waits")}, True),
        ({**LINE, "other": ("a",)}, {"s": ("other", "after")}, True),
        ({**LINE, "other": ("a",)}, {"s": ("other",), "t": ("waits", "after")}, False),
        ({**LINE, "b": (), "other": ("b",)}, {"s": ("other", "waits")}, False),
        ({**LINE, "b": (), "both": ("a", "b")}, {"s": ("both", "waits")}, True),
    ],
)
def test_a_record_meets_results_by_a_node_or_a_store(
    edges: dict[str, tuple[str, ...]], stores: dict[str, tuple[str, ...]], meets: bool
) -> None:
    assert Branches(topology(edges, stores)).meet_again("waits") is meets
