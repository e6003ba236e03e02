"""The nodes that joins of a stream with a table add to the plan."""

from __future__ import annotations

from typing import Any

from dsl.joins.options import JoinArguments, Joined, JoinKind
from dsl.joins.repartition import repartitioned
from dsl.joins.stores import GraceBuffer
from dsl.options import chosen
from dsl.plan.builder import PlanBuilder, PlanPlace
from dsl.plan.nodes import Process, TableSourceNode, TableStep
from dsl.processors.joins.stream_table import StreamTableJoin
from processor_api.errors import TopologyError
from processor_api.user_code.durations import to_ms
from processor_api.user_code.lines import at

JoinedLike = Joined[Any, Any, Any] | str | None


def join(stream: PlanPlace, table: PlanPlace, kind: JoinKind, given: JoinArguments) -> PlanPlace:
    """Adds a join of a stream with a table, with its repartition topic if keys have changed.

    :raises TopologyError: if the table comes from another builder, or is not versioned though there is a grace period.
    """
    given.only("a table", "joined")
    stream.same_builder(table)
    how = _options(given.joined)
    place = repartitioned(stream, how.name, how.key_serde, how.value_serde)
    name = place.plan_builder.names.choose(how.name, "KSTREAM-LEFTJOIN-" if kind.keeps_left else "KSTREAM-JOIN-")
    buffer = None if how.grace is None else _buffer(place, table, how, name)
    operator = StreamTableJoin(
        joiner=given.joiner,
        takes_key=kind.takes_key,
        left=kind.keeps_left,
        buffer=None if buffer is None else buffer.name,
    )
    node = Process(
        name=name,
        parents=(place.node,),
        supplier=operator,
        own_stores=() if buffer is None else (buffer,),
        reads=(table.node,),
        copartitions=True,
        takes_null_keys=kind.keeps_left,
    )
    follow = place.plan_builder.models.value(given.joiner)
    return place.then(node, sources=place.sources | table.sources, value_serde=follow)


def _options(joined: JoinedLike) -> Joined[Any, Any, Any]:
    return Joined(name=joined) if isinstance(joined, str) else chosen(joined, Joined)


def _buffer(stream: PlanPlace, table: PlanPlace, how: Joined[Any, Any, Any], node: str) -> GraceBuffer:
    grace_ms = to_ms(how.grace or 0, "grace")
    history_ms = _history(stream.plan_builder, table.node)
    its = f"{table.name!r}{at(table.plan_builder.node(table.node).made_at)}"
    if history_ms is None:
        raise TopologyError(
            f"a join with a grace period reads earlier versions of the table, but {its} does not keep them: give it"
            " Materialized(supplier=Stores.persistent_versioned_key_value_store(...)), or remove grace= of Joined",
            node=node,
        )
    if history_ms < grace_ms:
        raise TopologyError(
            f"a join with a grace period of {grace_ms} ms needs a table that keeps its versions as long, but the"
            f" history retention of {its} is {history_ms} ms: give its store a longer history_retention=, or Joined a"
            " shorter grace=",
            node=node,
        )
    return GraceBuffer(
        name=f"{node}-Buffer",
        named=how.name is not None,
        grace_ms=grace_ms,
        key_serde=stream.key_serde,
        value_serde=stream.value_serde,
    )


def _history(plan_builder: PlanBuilder, number: int) -> int | None:
    """Returns for how many ms a table keeps older versions; ``None`` if it is not versioned (semantics 39)."""
    node = plan_builder.node(number)
    if not isinstance(node, TableSourceNode | TableStep):
        return None
    if node.store is None:
        return _history(plan_builder, node.parents[0]) if len(node.parents) == 1 else None
    if node.store.supplier is None:
        return None
    history: int | None = node.store.supplier.parameters.get("history_retention_ms")
    return history
