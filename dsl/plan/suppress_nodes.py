"""The nodes that ``suppress`` adds to the plan."""

from __future__ import annotations

from dsl.plan.builder import PlanBuilder, PlanPlace
from dsl.plan.nodes import Answer, Ask, BufferStore, TableStep
from dsl.processors.suppress import NO_LIMIT, Suppress
from dsl.processors.windows.session_windows import SessionAggregate
from dsl.suppressed import EagerBufferConfig, Suppressed
from processor_api.errors import TopologyError
from processor_api.texts import repr_of

SUPPRESS = "KTABLE-SUPPRESS-"


def suppress(place: PlanPlace, suppressed: Suppressed) -> PlanPlace:
    """Adds a suppression with its buffer.

    :raises TopologyError: if it waits for windows and there are none.
    """
    if not isinstance(suppressed, Suppressed):
        raise TopologyError(
            f"suppress needs Suppressed.until_time_limit(...) or until_window_closes(...), got {repr_of(suppressed)}"
        )
    plan_builder, config = place.plan_builder, suppressed.buffer
    name = suppressed.name
    by_window = suppressed.wait_ms is None
    node = plan_builder.names.processor(SUPPRESS) if name is None else name
    closes_after = False
    if suppressed.wait_ms is None:
        wait_ms, closes_after = _grace(plan_builder, place.node, node)
    else:
        wait_ms = suppressed.wait_ms
    store = BufferStore(
        name=plan_builder.names.store(SUPPRESS) if name is None else f"{name}-store",
        named=name is not None,
        key_serde=place.key_serde,
        value_serde=place.value_serde,
        logging=config.logging,
        topic_config=config.topic_config,
    )
    operator = Suppress(
        buffer=store.name,
        wait_ms=wait_ms,
        closes_after=closes_after,
        by_window=by_window,
        record_limit=NO_LIMIT if config.record_limit is None else config.record_limit,
        byte_limit=NO_LIMIT if config.byte_limit is None else config.byte_limit,
        emits_early=isinstance(config, EagerBufferConfig),
    )
    step = TableStep(
        name=node,
        parents=(place.node,),
        operator=operator,
        store=None,
        answers=Answer.OWN_STORE_OR_PARENT,
        asks=Ask.FORCE,
        buffer=store,
    )
    return place.then(step, store=None)


def _grace(plan_builder: PlanBuilder, number: int, node: str) -> tuple[int, bool]:
    """Returns for how many ms windows stay open after their ends, and whether at the last of them too: the longest of
    the nearest windowed aggregations."""
    above = plan_builder.node(number)
    if isinstance(above, TableStep) and above.grace_ms is not None:
        return above.grace_ms, isinstance(above.operator, SessionAggregate)
    if not isinstance(above, TableStep):
        raise TopologyError(
            f"{node!r} waits until windows close, but {above.name!r} before it does not have windows: use"
            " until_time_limit, or suppress a windowed aggregation",
            node=node,
        )
    return max(_grace(plan_builder, parent, node) for parent in above.parents)
