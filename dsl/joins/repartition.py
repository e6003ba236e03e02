"""The internal topics before a join, where keys have changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dsl.plan.builder import PlanPlace
from dsl.plan.stream_nodes import new_repartition
from processor_api.serde import Serde


def repartitioned(
    place: PlanPlace, name: str | None, key_serde: Serde[Any] | None, value_serde: Serde[Any] | None
) -> PlanPlace:
    """Returns the place from which a join reads: below an internal topic if keys have changed.

    :param name: the beginning of the topic's name; without one it is named after the stream, and all joins of the
        stream that give no name share one topic.
    :param key_serde: the serde that the join gives, over the stream's own; so ``value_serde``.
    """
    key_serde, value_serde = key_serde or place.key_serde, value_serde or place.value_serde
    if not place.repartition_required:
        return replace(place, key_serde=key_serde, value_serde=value_serde)
    # Made also where another one is used below: it takes its numbers there, too (semantics 132).
    node = new_repartition(place, name or place.name, key_serde=key_serde, value_serde=value_serde)
    shared = place.plan_builder.shared_repartitions
    known = None if name is not None else shared.get(place.node)
    if known is not None:
        below = place.plan_builder.node(known).name
        return replace(
            place,
            node=known,
            name=below,
            sources=frozenset((below,)),
            key_serde=key_serde,
            value_serde=value_serde,
            repartition_required=False,
        )
    found = place.then(
        node,
        sources=frozenset((node.name,)),
        key_serde=key_serde,
        value_serde=value_serde,
        repartition_required=False,
    )
    shared[place.node] = found.node
    return found
