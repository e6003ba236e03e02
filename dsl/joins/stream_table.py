"""The nodes that joins of a stream with a table add to the plan."""

from __future__ import annotations

from typing import Any

from dsl.joins.arguments import JoinArguments, JoinKind
from dsl.joins.options import Joined
from dsl.joins.repartition import repartitioned
from dsl.options import chosen
from dsl.plan.builder import Place
from dsl.plan.nodes import Process
from dsl.processors.joins.stream_table import StreamTableJoin

__all__ = ["JoinedLike", "join"]

JoinedLike = Joined[Any, Any, Any] | str | None


def join(stream: Place, table: Place, kind: JoinKind, given: JoinArguments) -> Place:
    """Adds a join of a stream with a table, with its repartition topic if keys have changed.

    :raises TopologyError: if the table comes from another builder, or is not versioned though there is a grace period.
    """
    given.only("a table", "joined")
    stream.same_builder(table)
    how = _options(given.joined)
    place = repartitioned(stream, how.name, how.key_serde, how.value_serde)
    name = place.plan_builder.names.choose(how.name, "KSTREAM-LEFTJOIN-" if kind.keeps_left else "KSTREAM-JOIN-")
    operator = StreamTableJoin(joiner=given.joiner, takes_key=kind.takes_key, left=kind.keeps_left)
    node = Process(
        name=name,
        parents=(place.node,),
        supplier=operator,
        reads=(table.node,),
        copartitions=True,
        takes_null_keys=kind.keeps_left,
    )
    return place.then(node, sources=place.sources | table.sources, value_serde=None)


def _options(joined: JoinedLike) -> Joined[Any, Any, Any]:
    return Joined(name=joined) if isinstance(joined, str) else chosen(joined, Joined)
