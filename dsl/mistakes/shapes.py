"""Mistakes in how the nodes of a plan belong together."""

from __future__ import annotations

from collections.abc import Iterator

from dsl.mistakes.functions import operator_of
from dsl.plan.nodes import GlobalSource, Plan, PlanNode, Process, Repartition, StreamSource, TableStep
from dsl.processors.aggregate import Aggregate, Count
from dsl.processors.batch import MapValuesBatch
from dsl.processors.deduplicate import Deduplicate
from dsl.processors.stateless import Filter, FlatMap, FlatMapValues, Map, MapValues, SelectKey, ToStream
from dsl.processors.suppress import Suppress
from dsl.processors.tables.aggregate import TableGroupBy
from dsl.processors.tables.operator import TableMerge
from dsl.processors.windows.emission import WindowedAggregate
from dsl.settings import BuildSettings
from processor_api.topology.warnings import TopologyWarning

_WITHOUT_EFFECTS = (
    Filter, Map, MapValues, SelectKey, FlatMap, FlatMapValues, ToStream, MapValuesBatch, Deduplicate,
)  # fmt: skip


def unused_results(plan: Plan) -> Iterator[TopologyWarning]:
    """Yields a warning for each call whose result nothing reads, so that it has no effect."""
    used = {parent for node in plan.nodes.values() for parent in node.parents}
    used |= {number for node in plan.nodes.values() if isinstance(node, Process) for number in node.reads}
    for number, node in plan.nodes.items():
        if number in used or not _has_no_effect(node):
            continue
        call = "" if node.made_at is None else node.made_at.call.rstrip("_")
        result = f"the result of {call}() ({node.name})" if call else f"the result of {node.name}"
        yield TopologyWarning(
            what="unused-result",
            text=f"nothing uses {result}: a call returns a new stream or table and does not change the one that it is"
            " called on; continue from the result",
            node=node.name,
            made_at=node.made_at,
        )


def _has_no_effect(node: PlanNode) -> bool:
    if isinstance(node, Process):
        joins = type(node.supplier).__module__.startswith("dsl.processors.joins.")
        return isinstance(node.supplier, _WITHOUT_EFFECTS) or joins
    # A table without a store: one that has its own, or that of its cogroup, can be queried or read from its changelog.
    return isinstance(node, TableStep) and node.store is None and not isinstance(node.operator, TableMerge)


def java_defects(plan: Plan, settings: BuildSettings) -> Iterator[TopologyWarning]:
    """Yields a warning for each combination of operators whose results ``dsl.java.defects=keep`` makes wrong."""
    if not settings.keeps_java_defects:
        return
    for node in plan.nodes.values():
        if not isinstance(operator_of(node), TableGroupBy):
            continue
        above = _tables_above(plan, node)
        suppressed = next((one for one in above if isinstance(operator_of(one), Suppress)), None)
        first_old = next((one for one in above if _has_first_old_value(one, settings)), None)
        if suppressed is not None:
            yield _wrong(node, suppressed, "a suppressed table has old values that were never sent on", "remove the")
        if first_old is not None:
            yield _wrong(
                node,
                first_old,
                "without a cache the first change of an aggregate has the initial value as its old value, which is"
                " removed from a group that never had it",
                "use a cache for the aggregate, or remove the",
            )


def _wrong(node: PlanNode, cause: PlanNode, why: str, remedy: str) -> TopologyWarning:
    return TopologyWarning(
        what="java-defect",
        text=f"{node.name} groups the changes of {cause.name}, and with dsl.java.defects=keep the aggregates of the"
        f" groups are wrong, as in Kafka Streams: {why}; {remedy} setting dsl.java.defects",
        node=node.name,
        made_at=node.made_at,
    )


def _has_first_old_value(node: PlanNode, settings: BuildSettings) -> bool:
    if not isinstance(node, TableStep) or node.store is None:
        return False
    is_aggregate = isinstance(node.operator, (Count, Aggregate, WindowedAggregate))
    return is_aggregate and not (settings.caching and node.store.caching)


def _tables_above(plan: Plan, node: PlanNode) -> list[PlanNode]:
    """Returns the nodes whose changes reach a node as changes of tables."""
    found: list[PlanNode] = []
    seen: set[int] = set()
    waiting = list(node.parents)
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        one = plan.nodes[number]
        found.append(one)
        ends = isinstance(one, (StreamSource, GlobalSource, Repartition)) or (
            isinstance(one, TableStep) and isinstance(one.operator, (Count, Aggregate, WindowedAggregate))
        )
        if not ends:
            waiting.extend(one.parents)
    return found


def changed_variables(plan: Plan) -> Iterator[TopologyWarning]:
    """Yields a warning for functions of one ``def`` or ``lambda`` that read one variable, which was another when each
    of them was given: in Python all of them see its last value."""
    warned: set[tuple[object, str]] = set()
    for code, given in plan.functions.items():
        last = given[-1].values
        for one in given[:-1]:
            now = one.now()
            for variable, value in one.values.items():
                name = variable[0]
                if variable not in last or now.get(variable, value) is value or (code, name) in warned:
                    continue
                warned.add((code, name))
                yield TopologyWarning(
                    what="loop-variable",
                    text=f"{one.name} reads variable {name!r} when a record comes, and a loop has changed it since:"
                    f" all nodes of the loop use its last value; bind it, as in lambda key, value, {name}={name}: ...,"
                    " or make the function in another function that takes it as an argument",
                    node=one.node,
                    made_at=one.made_at,
                )
