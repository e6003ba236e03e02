"""The nodes that joins of a stream with a global table add to the plan."""

from __future__ import annotations

from dsl.joins.options import JoinArguments, JoinKind
from dsl.options import name_of
from dsl.plan.builder import PlanPlace
from dsl.plan.global_nodes import GlobalTable
from dsl.plan.nodes import Process
from dsl.processors.joins.stream_global import StreamGlobalJoin, StreamGlobalMappedJoin
from processor_api.errors import TopologyError


def join(stream: PlanPlace, table: GlobalTable, kind: JoinKind, given: JoinArguments) -> PlanPlace:
    """Adds a join of a stream with a global table; equal keys need not be in one place for it.

    :raises TopologyError: if the table comes from another builder, or no key is selected.
    """
    given.only("a global table", "key_selector", "name")
    stream.same_builder(table)
    if given.key_selector is None:
        raise TopologyError(
            f"a join with the global table {table.name!r} needs key_selector, which returns the key of the row: for the"
            " record's own key, use key_selector=lambda key, value: key"
        )
    name = stream.plan_builder.names.choose(name_of(given.name), "KSTREAM-LEFTJOIN-")  # inner or not, as in Java
    operator = (StreamGlobalMappedJoin if kind.takes_mapped_key else StreamGlobalJoin)(
        key_selector=given.key_selector,
        joiner=given.joiner,
        takes_key=kind.takes_key,
        left=kind.keeps_left,
        store=table.store,
    )
    node = Process(name=name, parents=(stream.node,), supplier=operator, takes_null_keys=kind.keeps_left)
    return stream.then(node, value_serde=stream.plan_builder.models.value(given.joiner))
