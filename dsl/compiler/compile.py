"""The compiler: makes of a plan the topology that runs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from dsl.compiler.default_serdes import NO_DEFAULTS, DefaultSerdes
from dsl.compiler.explicit_names import check_explicit_names
from dsl.compiler.merge_repartitions import merge_repartitions
from dsl.compiler.merge_sources import merge_sources
from dsl.compiler.shared_tables import NOTHING_SHARED, SharedTables, announced_by, shared_tables
from dsl.compiler.table_metadata import TableMetadata, table_metadata, table_view, with_old_values
from dsl.mistakes.functions import mistakes_of_functions
from dsl.mistakes.shapes import changed_variables, java_defects, unused_results
from dsl.plan.materialization import buffer_builder, key_value_builder, window_store_builder
from dsl.plan.models import followed_in
from dsl.plan.nodes import (
    GlobalSource,
    Materialization,
    Plan,
    PlannedStore,
    PlanNode,
    Process,
    Repartition,
    Sink,
    StreamSource,
    TableRepartition,
    TableSourceNode,
    TableStep,
)
from dsl.processors.announced import AnnouncedTable
from dsl.processors.joins.self_join import JoinResults, SelfJoin
from dsl.processors.stateless import DropNullKeys, PassThrough
from dsl.processors.tables.operator import ChangeReader, TableOperator
from dsl.settings import BuildSettings
from processor_api.errors import TopologyError
from processor_api.processor import Operator
from processor_api.timestamps import fail_on_invalid_timestamp
from processor_api.topology.nodes import ProcessorNode, RepartitionTopic
from processor_api.topology.topology import Topology
from processor_api.topology.warnings import warnings_of
from processor_api.user_code.lines import Line

# The pass that lets a stream joined with itself do with one store (``single.store.self.join``, semantics 62).


def single_store_self_joins(plan: Plan) -> Plan:
    """Returns a plan in which joins of a stream with itself have one side, and one store."""
    nodes, turns = dict(plan.nodes), dict(plan.turns)
    for number, results, alone in _self_joins(plan):
        this_join, other_join = results.parents
        this_kept, other_kept = plan.nodes[this_join].parents[0], plan.nodes[other_join].parents[0]
        nodes[number] = replace(
            results,
            supplier=alone,
            parents=(this_kept,),
            stores=(alone.store,),
            takes_null_keys=alone.keeps_left,
        )
        for gone in (this_join, other_join, other_kept):
            del nodes[gone], turns[gone]
    return Plan(nodes, turns)


def _self_joins(plan: Plan) -> Iterator[tuple[int, Process, SelfJoin]]:
    for number, node in plan.nodes.items():
        if isinstance(node, Process) and isinstance(node.supplier, JoinResults) and node.supplier.alone is not None:
            this_join, other_join = (plan.nodes[parent] for parent in node.parents)
            if _above(plan, this_join) == _above(plan, other_join):
                yield number, node, node.supplier.alone


def _above(plan: Plan, join: PlanNode) -> tuple[int, ...]:
    """Returns the nodes from which one side of a join comes."""
    return plan.nodes[join.parents[0]].parents


def repartitions_with_null_keys(plan: Plan) -> frozenset[int]:
    """Returns the numbers of the repartition nodes with an operator below that has a use for records without a key."""
    found: set[int] = set()
    waiting = [number for number, node in plan.nodes.items() if isinstance(node, Process) and node.takes_null_keys]
    seen = set(waiting)
    while waiting:
        for parent in plan.nodes[waiting.pop()].parents:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
                if isinstance(plan.nodes[parent], Repartition):
                    found.add(parent)
    return frozenset(found)


def copartition_groups(plan: Plan) -> Iterator[frozenset[str]]:
    """Yields the names of the sources of each group: those from which the two sides of a join come, or
    the streams that are aggregated together.

    It looks at the plan as it will be written, so that it knows the sources of merged repartition topics.
    """
    for node in plan.nodes.values():
        if isinstance(node, Process | TableStep) and node.copartitions:
            reads = node.reads if isinstance(node, Process) else ()
            yield frozenset().union(*(_sources(plan, number) for number in (*node.parents, *reads)))


def _sources(plan: Plan, number: int) -> frozenset[str]:
    node = plan.nodes[number]
    match node:
        case TableSourceNode():
            return frozenset((node.source,))
        case StreamSource() | Repartition() | TableRepartition():
            return frozenset((node.name,))
        case _:
            return frozenset().union(*(_sources(plan, parent) for parent in node.parents))


def compile_plan(plan: Plan, settings: BuildSettings, serdes: DefaultSerdes = NO_DEFAULTS) -> Topology:
    """Returns a new topology; the plan stays as it is.

    :param serdes: those of sources, sinks and stores that were given none.
    :raises TopologyError: for mistakes that only show in the whole: doubled names, unknown stores, overlapping sources.
    """
    warnings = [
        *mistakes_of_functions(plan, serdes.value_of),
        *changed_variables(plan),
        *unused_results(plan),
        *java_defects(plan, settings),
    ]
    metadata = table_metadata(plan)
    plan = merge_sources(plan)
    if settings.merge_repartition_topics:
        plan = merge_repartitions(plan)
    if settings.single_store_self_join:
        plan = single_store_self_joins(plan)
    if settings.explicit_names:
        check_explicit_names(plan, metadata)
    shared = NOTHING_SHARED if settings.keeps_java_defects else shared_tables(plan, metadata)
    metadata = with_old_values(plan, metadata, shared.announced)
    writer = _Writer(plan, metadata, shared, settings, serdes)
    for number in _in_order(plan):
        node = plan.nodes[number]
        with writer.topology.on_behalf_of(node.made_at):
            line = _with_serdes(node, serdes)
        with writer.topology.on_behalf_of(line):
            writer.write(number, node)
    writer.connect()
    made = writer.topology
    if settings.wrapper is not None:
        made = made.wrapped_by(settings.wrapper, settings.values)
    warnings_of(made, warnings)
    return made


def _with_serdes(node: PlanNode, serdes: DefaultSerdes) -> Line | None:
    """Returns the line that made a node, with the serdes there that follow results."""
    line = node.made_at
    return line if line is None or serdes.models.make is None else line._replace(serdes=tuple(followed_in(node)))


def _in_order(plan: Plan) -> Iterator[int]:
    """Nodes whose parents are all written, by their turns: the order decides the numbers of subtopologies."""
    children = plan.children()
    missing = {number: len(set(node.parents)) for number, node in plan.nodes.items()}
    ready = [(plan.turns[number], number) for number, count in missing.items() if count == 0]
    heapq.heapify(ready)
    while ready:
        _, number = heapq.heappop(ready)
        yield number
        for child in children[number]:
            missing[child] -= 1
            if missing[child] == 0:
                heapq.heappush(ready, (plan.turns[child], child))


class _Writer:
    def __init__(
        self,
        plan: Plan,
        metadata: TableMetadata,
        shared: SharedTables,
        settings: BuildSettings,
        serdes: DefaultSerdes,
    ) -> None:
        self.topology = Topology()
        self._serdes = serdes
        self._key, self._value = serdes.key_of, serdes.value_of
        self._plan = plan
        self._metadata = metadata
        self._shared = shared
        self._settings = settings
        self._with_null_keys = repartitions_with_null_keys(plan)
        self._stores_of: dict[str, tuple[tuple[str, ...], Line | None]] = {}

    def connect(self) -> None:
        """Connects nodes with stores of other nodes, and demands equal numbers of partitions, when all is written."""
        for name, (stores, line) in self._stores_of.items():
            with self.topology.on_behalf_of(line):
                self.topology.connect_processor_and_state_stores(name, *stores)
        for sources in copartition_groups(self._plan):
            self.topology.copartition(sources)

    def write(self, number: int, node: PlanNode) -> None:
        match node:
            case StreamSource():
                self._stream_source(node)
            case TableSourceNode():
                self._table_source(number, node)
            case GlobalSource():
                self._global_source(node)
            case PlannedStore():
                self.topology.add_state_store(self._serdes.of_store(node.builder))
            case Process():
                self._process(number, node)
            case TableStep():
                self._table_step(number, node)
            case Repartition():
                self._repartition(number, node)
            case TableRepartition():
                self._table_repartition(node)
            case Sink():
                self._sink(node)
            case _:
                assert_never(node)

    def _parents(self, node: PlanNode) -> tuple[str, ...]:
        return tuple(self._plan.nodes[parent].name for parent in node.parents)

    def _stream_source(self, node: StreamSource) -> None:
        self.topology.add_source(
            node.name,
            *((node.pattern,) if node.pattern is not None else node.topics),
            key_serde=self._key(node.consumed.key_serde),
            value_serde=self._value(node.consumed.value_serde),
            timestamp_extractor=node.consumed.timestamp_extractor,
            offset_reset=node.consumed.offset_reset,
        )

    def _table_source(self, number: int, node: TableSourceNode) -> None:
        self.topology.add_source(
            node.source,
            node.topic,
            key_serde=self._key(node.consumed.key_serde),
            value_serde=self._value(node.consumed.value_serde),
            timestamp_extractor=node.consumed.timestamp_extractor,
            offset_reset=node.consumed.offset_reset,
        )
        materialized = number in self._metadata.materialized
        operator = self._completed(number, node.operator, node.store if materialized else None)
        self.topology.add_processor(node.name, self._announced(number, operator), node.source)
        if materialized:
            reuses = self._reuses_topics and node.store.time_to_live is None  # a source topic takes no tombstones
            store = replace(node.store, logging=False, topic_config={}) if reuses else node.store
            self._add_store(store, node.name)
            if reuses:
                self.topology.use_source_as_changelog(store.name, node.topic)

    def _global_source(self, node: GlobalSource) -> None:
        is_table = isinstance(node.store, Materialization)
        self.topology.add_global_store(
            self._serdes.of_store(
                key_value_builder(node.store, self._settings) if isinstance(node.store, Materialization) else node.store
            ),
            node.source,
            node.topic,
            node.name,
            node.supplier,
            key_serde=self._key(node.consumed.key_serde),
            value_serde=self._value(node.consumed.value_serde),
            timestamp_extractor=node.consumed.timestamp_extractor,
            reprocess_on_restore=not is_table,
        )

    @property
    def _reuses_topics(self) -> bool:
        return self._settings.reuse_source_topics

    def _process(self, number: int, node: Process) -> None:
        supplier = node.supplier
        if isinstance(supplier, ChangeReader) and number in self._metadata.read_versioned:
            supplier = replace(supplier, versioned=True)
        if number in self._metadata.old_values:
            supplier = replace(supplier, old_values=True)
        views = tuple(table_view(self._plan, self._metadata, table) for table in node.reads)
        if views:
            supplier = replace(supplier, views=views)
        if number in self._shared.sides:
            supplier = replace(supplier, announced=self._shared.sides[number])
        self.topology.add_processor(node.name, self._serdes.of_supplier(supplier), *self._parents(node))
        added = self.topology.nodes[node.name]
        if node.fixed_key is not None and isinstance(added, ProcessorNode) and added.fixed_key is not node.fixed_key:
            raise TopologyError(
                f"the supplier of {node.name!r} must make a FixedKeyProcessor for process_values"
                if node.fixed_key
                else f"the supplier of {node.name!r} makes a FixedKeyProcessor; use process_values",
                node=node.name,
            )
        for store in node.own_stores:
            self.topology.add_state_store(self._serdes.of_store(store.builder(self._settings)))
        read = (store for view in views for store in view.stores)
        stores = (*node.stores, *(store.name for store in node.own_stores), *read)
        if stores:
            self._stores_of[node.name] = stores, node.made_at

    def _table_step(self, number: int, node: TableStep) -> None:
        store = node.store if number in self._metadata.materialized else None
        operator = self._announced(number, self._completed(number, node.operator, store))
        self.topology.add_processor(node.name, operator, *self._parents(node))
        if store is not None and node.shares_store:
            self.topology.connect_processor_and_state_stores(node.name, store.name)
        elif store is not None:
            self._add_store(store, node.name)
        if node.stores:
            self._stores_of[node.name] = node.stores, node.made_at
        if node.buffer is not None:
            self.topology.add_state_store(self._serdes.of_store(buffer_builder(node.buffer, self._settings)), node.name)

    def _completed(self, number: int, operator: TableOperator, store: Materialization | None) -> TableOperator:
        return replace(
            operator,
            store=None if store is None else store.name,
            old_values=number in self._metadata.old_values,
            versioned=number in self._metadata.read_versioned,
            java_defects=self._settings.keeps_java_defects,
        )

    def _announced(self, number: int, operator: TableOperator) -> Operator:
        """Returns the operator of a table with its serdes, and with announcements where a join needs them."""
        found: TableOperator = self._serdes.of_supplier(operator)
        if number not in self._shared.announced:
            return found
        return AnnouncedTable(found, str(announced_by(self._plan, self._metadata, number)))

    def _add_store(self, store: Materialization, processor: str) -> None:
        if store.windows is None:
            builder = key_value_builder(store, self._settings)
        else:
            builder = window_store_builder(store, store.windows, self._settings)
        self.topology.add_state_store(self._serdes.of_store(builder), processor)

    def _repartition(self, number: int, node: Repartition) -> None:
        self.topology.add_repartition_topic(RepartitionTopic(name=node.topic, partitions=node.partitions))
        keys = PassThrough() if number in self._with_null_keys else DropNullKeys()
        self.topology.add_processor(node.filter, keys, *self._parents(node))
        self._through_topic(node, node.filter)

    def _table_repartition(self, node: TableRepartition) -> None:
        self.topology.add_repartition_topic(RepartitionTopic(name=node.topic))
        self._through_topic(node, *self._parents(node))

    def _through_topic(self, node: Repartition | TableRepartition, *parents: str) -> None:
        self.topology.add_sink(
            node.sink,
            node.topic,
            *parents,
            key_serde=self._key(node.key_serde),
            value_serde=self._value(node.value_serde),
            partitioner=node.partitioner,
        )
        self.topology.add_source(
            node.name,
            node.topic,
            key_serde=self._key(node.key_serde),
            value_serde=self._value(node.value_serde),
            timestamp_extractor=fail_on_invalid_timestamp,
        )

    def _sink(self, node: Sink) -> None:
        self.topology.add_sink(
            node.name,
            node.topic,
            *self._parents(node),
            key_serde=self._key(node.produced.key_serde),
            value_serde=self._value(node.produced.value_serde),
            partitioner=node.produced.partitioner,
            topics=node.topics,
        )
