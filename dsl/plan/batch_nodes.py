"""The nodes that calls for batches of records add to the plan. They have no counterpart in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl.batch_processor import BatchProcessor
from dsl.options import NamedLike, name_of
from dsl.plan.builder import PlanPlace
from dsl.plan.nodes import Process
from dsl.plan.stream_nodes import check_store_names
from dsl.processors.batch import BATCH_METHODS, MapValuesBatch, ProcessBatch
from processor_api.context import BatchLimits
from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.user_code.checks import check_methods
from processor_api.user_code.durations import Duration, to_ms


def _limits(node: str, max_records: Any, max_wait: Duration | None) -> BatchLimits:
    if type(max_records) is not int or max_records < 1:
        what = f"max_records of node {node!r} must be at least 1, got {repr_of(max_records)}"
        raise TopologyError(what, node=node)
    wait_ms = None if max_wait is None else to_ms(max_wait, f"max_wait of node {node!r}")
    if wait_ms is not None and wait_ms < 1:
        what = f"max_wait of node {node!r} must be at least 1 ms, got {repr_of(max_wait)}: remove it"
        raise TopologyError(
            f"{what}, so a batch has the records that arrive together and waits for no others", node=node
        )
    return BatchLimits(max_records=max_records, max_wait_ms=wait_ms)


def map_values_batch(
    place: PlanPlace, function: Callable[..., Any], max_records: int, max_wait: Duration | None, named: NamedLike
) -> PlanPlace:
    """Adds a node that changes the values of many records in one call."""
    name = place.plan_builder.names.choose(name_of(named), "KSTREAM-MAPVALUESBATCH-")
    operator = MapValuesBatch(function=function, limits=_limits(name, max_records, max_wait))
    node = Process(name=name, parents=(place.node,), supplier=operator, changes_value=True)
    return place.then(node, value_serde=place.plan_builder.models.value(function, several=True))


def process_batch(
    place: PlanPlace,
    supplier: Callable[[], Any],
    stores: tuple[str, ...],
    max_records: int,
    max_wait: Duration | None,
    named: NamedLike,
) -> PlanPlace:
    """Adds a node with a user's processor of batches."""
    name = place.plan_builder.names.choose(name_of(named), "KSTREAM-PROCESSBATCH-")
    check_store_names(name, stores)
    if isinstance(supplier, type):  # what a function makes may be a large model: a task makes it, and checks it then
        check_methods(supplier, BATCH_METHODS, f"node {name!r}", node=name)
    operator = ProcessBatch(supplier=supplier, limits=_limits(name, max_records, max_wait))
    node = Process(name=name, parents=(place.node,), supplier=operator, stores=stores, changes_key=True)
    key_serde, value_serde = place.plan_builder.models.forwarded(supplier, BatchProcessor)
    return place.then(node, key_serde=key_serde, value_serde=value_serde, repartition_required=True)
