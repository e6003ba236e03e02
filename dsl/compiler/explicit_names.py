"""The check that refuses names which would change when the topology does (KIP-1111)."""

from __future__ import annotations

import re

from dsl.compiler.table_metadata import TableMetadata
from dsl.plan.nodes import Plan, Process, Repartition, TableRepartition, TableSourceNode, TableStep
from processor_api.errors import TopologyError
from processor_api.user_code.lines import at

_GENERATED = re.compile(r".*-[0-9]{10}-(repartition|topic)")


def check_explicit_names(plan: Plan, metadata: TableMetadata) -> None:
    """Checks for ``ensure.explicit.internal.resource.naming`` that names were given by the user.

    :raises TopologyError: if the name of a store (and so of its changelog) or of a repartition topic is generated.
    """
    stores = [
        node.store.name + at(node.made_at)
        for number, node in plan.nodes.items()
        if isinstance(node, TableSourceNode | TableStep)
        and number in metadata.materialized
        and node.store is not None
        and not node.store.queryable
    ]
    buffers = [
        node.buffer.name + at(node.made_at)
        for node in plan.nodes.values()
        if isinstance(node, TableStep) and node.buffer is not None and node.buffer.logging and not node.buffer.named
    ]
    kept = [
        store.name + at(node.made_at)
        for node in plan.nodes.values()
        if isinstance(node, Process)
        for store in node.own_stores
        if store.logging and not store.named
    ]
    topics = [
        node.topic + at(node.made_at)
        for node in plan.nodes.values()
        if isinstance(node, Repartition | TableRepartition) and _GENERATED.fullmatch(node.topic)
    ]
    if not stores and not buffers and not kept and not topics:
        return
    parts = []
    if stores:
        parts.append(f"the stores {', '.join(stores)} (name them with Materialized)")
    if buffers:
        parts.append(f"the buffers {', '.join(buffers)} (name them with Suppressed.with_name)")
    if kept:
        parts.append(
            f"the stores of operators {', '.join(kept)} (name them with StreamJoined, Joined or TableJoined, or"
            " with Materialized)"
        )
    if topics:
        parts.append(
            f"the repartition topics {', '.join(topics)} (name them with Grouped, Repartitioned, TableJoined or the"
            " operator)"
        )
    raise TopologyError(
        f"ensure.explicit.internal.resource.naming is on, but these names are generated: {'; '.join(parts)}"
    )
