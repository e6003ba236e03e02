"""The nodes that calls on a stream add to the plan. A function takes the stream's place and returns that of its result.

Serdes come down as far as they still fit (the types that an operator does not change), see semantics 132 for names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from dsl.naming import looks_generated, repartition_topic
from dsl.options import Consumed, Materialized, NamedLike, Produced, Repartitioned, chosen, name_of
from dsl.plan.builder import PlanBuilder, PlanPlace
from dsl.plan.materialization import MaterializedLike, as_materialized, materialize
from dsl.plan.nodes import Answer, Process, Repartition, Sink, StreamSource, TableStep
from dsl.printed import Printed
from dsl.processors.printer import Print, pair
from dsl.processors.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    SelectKey,
)
from dsl.processors.tables.source import TableSourceOperator
from processor_api.errors import TopologyError
from processor_api.processor import FixedKeyProcessor, Processor, check_supplier
from processor_api.serde import Serde
from processor_api.stores.time_to_live import TimeToLive
from processor_api.texts import plain_str, repr_of
from processor_api.topology.nodes import TopicNameExtractor
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.topology.topic_names import check_topic_name, declared_topics
from processor_api.user_code.checks import check_function
from processor_api.user_code.durations import Duration
from processor_api.user_code.given_values import exact_text

SOURCE = "KSTREAM-SOURCE-"
SINK = "KSTREAM-SINK-"
FILTER = "KSTREAM-FILTER-"


def stream(plan_builder: PlanBuilder, topics: Any, how: Consumed[Any, Any]) -> PlanPlace:
    """Adds a source of topics, or of every topic that a pattern matches.

    :raises TopologyError: if no topic is given.
    """
    pattern = topics if isinstance(topics, re.Pattern) else None
    if pattern is not None and isinstance(pattern.pattern, bytes):
        raise TopologyError(
            f"the pattern of a stream must be a pattern of strings, not of bytes, got {repr_of(pattern)}"
        )
    names = () if pattern is not None else _topic_names(topics)
    name = plan_builder.names.choose(how.name, SOURCE)
    node = plan_builder.add(StreamSource(name=name, consumed=how, topics=names, pattern=pattern))
    return PlanPlace(
        plan_builder=plan_builder,
        node=node,
        name=name,
        sources=frozenset((name,)),
        key_serde=how.key_serde,
        value_serde=how.value_serde,
    )


def _topic_names(topics: Any) -> tuple[str, ...]:
    if isinstance(topics, (set, frozenset)):
        topics = sorted(topics, key=plain_str)  # otherwise the order of the topics would differ between processes
    given = (topics,) if isinstance(topics, str) else _all(topics)
    if not given or not all(isinstance(name, str) and exact_text(name) for name in given):
        raise TopologyError(f"a stream must read one or more topics, or a compiled pattern, got {repr_of(topics)}")
    given = tuple(map(exact_text, given))
    for topic in given:
        check_topic_name(topic, "a stream")
    return tuple(dict.fromkeys(given))


def _all(given: Any) -> tuple[Any, ...]:
    try:
        return tuple(given)
    except Exception:  # it is not a collection, or its own iteration fails
        return ()


def filter_(place: PlanPlace, predicate: Callable[[Any, Any], object], negate: bool, named: NamedLike) -> PlanPlace:
    """Adds a filter."""
    name = place.plan_builder.names.choose(name_of(named), FILTER)
    return place.then(Process(name=name, parents=(place.node,), supplier=Filter(predicate, negate)))


def select_key(place: PlanPlace, mapper: Callable[[Any, Any], Any], named: NamedLike) -> PlanPlace:
    """Adds a node that changes keys."""
    name = place.plan_builder.names.choose(name_of(named), "KSTREAM-KEY-SELECT-")
    node = Process(name=name, parents=(place.node,), supplier=SelectKey(mapper), changes_key=True)
    return place.then(node, key_serde=place.plan_builder.models.key(mapper), repartition_required=True)


def map_(place: PlanPlace, mapper: Callable[[Any, Any], Any], named: NamedLike) -> PlanPlace:
    """Adds a node that changes keys and values."""
    return _new_records(place, Map(mapper), "KSTREAM-MAP-", named, place.plan_builder.models.pair(mapper))


def flat_map(place: PlanPlace, mapper: Callable[[Any, Any], Any], named: NamedLike) -> PlanPlace:
    """Adds a node that makes any number of records of one."""
    follow = place.plan_builder.models.pair(mapper, several=True)
    return _new_records(place, FlatMap(mapper), "KSTREAM-FLATMAP-", named, follow)


def _new_records(
    place: PlanPlace,
    operator: Any,
    prefix: str,
    named: NamedLike,
    follow: tuple[Serde[Any] | None, Serde[Any] | None],
) -> PlanPlace:
    name = place.plan_builder.names.choose(name_of(named), prefix)
    node = Process(name=name, parents=(place.node,), supplier=operator, changes_key=True)
    key_serde, value_serde = follow
    return place.then(node, key_serde=key_serde, value_serde=value_serde, repartition_required=True)


def map_values(place: PlanPlace, mapper: Callable[..., Any], with_key: bool, named: NamedLike) -> PlanPlace:
    """Adds a node that changes values."""
    follow = place.plan_builder.models.value(mapper)
    return _new_values(place, MapValues(mapper, with_key), "KSTREAM-MAPVALUES-", named, follow)


def flat_map_values(place: PlanPlace, mapper: Callable[..., Any], with_key: bool, named: NamedLike) -> PlanPlace:
    """Adds a node that makes any number of records of one, with its key."""
    follow = place.plan_builder.models.value(mapper, several=True)
    return _new_values(place, FlatMapValues(mapper, with_key), "KSTREAM-FLATMAPVALUES-", named, follow)


def _new_values(place: PlanPlace, operator: Any, prefix: str, named: NamedLike, follow: Serde[Any] | None) -> PlanPlace:
    name = place.plan_builder.names.choose(name_of(named), prefix)
    node = Process(name=name, parents=(place.node,), supplier=operator, changes_value=True)
    return place.then(node, value_serde=follow)


def peek(place: PlanPlace, action: Callable[[Any, Any], object], named: NamedLike) -> PlanPlace:
    """Adds a node that calls a function for each record and passes it on."""
    name = place.plan_builder.names.choose(name_of(named), "KSTREAM-PEEK-")
    return place.then(Process(name=name, parents=(place.node,), supplier=Peek(action)))


def foreach(place: PlanPlace, action: Callable[[Any, Any], object], named: NamedLike) -> None:
    """Adds a node that calls a function for each record and ends the stream."""
    name = place.plan_builder.names.choose(name_of(named), "KSTREAM-FOREACH-")
    place.plan_builder.add(Process(name=name, parents=(place.node,), supplier=Foreach(action)))


def print_(place: PlanPlace, printed: Printed[Any, Any] | None) -> None:
    """Adds a node that prints each record and ends the stream."""
    how: Printed[Any, Any] = chosen(printed, Printed)
    name = place.plan_builder.names.choose(how.name, "KSTREAM-PRINTER-")
    operator = Print(label=how.label or place.name, mapper=how.mapper or pair, path=how.path)
    place.plan_builder.add(Process(name=name, parents=(place.node,), supplier=operator))


def merge(place: PlanPlace, other: PlanPlace, named: NamedLike) -> PlanPlace:
    """Adds a node that joins the records of two streams into one."""
    place.same_builder(other)
    name, models = place.plan_builder.names.choose(name_of(named), "KSTREAM-MERGE-"), place.plan_builder.models
    parents = tuple(dict.fromkeys((place.node, other.node)))
    return place.then(
        Process(name=name, parents=parents, supplier=PassThrough(), merges=True),
        sources=place.sources | other.sources,
        key_serde=models.common(place.key_serde, other.key_serde),
        value_serde=models.common(place.value_serde, other.value_serde),
        repartition_required=place.repartition_required or other.repartition_required,
    )


def process(
    place: PlanPlace, supplier: Callable[[], Any], stores: tuple[str, ...], fixed_key: bool, named: NamedLike
) -> PlanPlace:
    """Adds a node with a user's processor."""
    prefix = "KSTREAM-PROCESSVALUES-" if fixed_key else "KSTREAM-PROCESSOR-"
    name = name_of(named) or place.plan_builder.names.processor(prefix)
    check_supplier(name, supplier)
    check_store_names(name, stores)
    node = Process(name=name, parents=(place.node,), supplier=supplier, stores=stores, fixed_key=fixed_key)
    base = FixedKeyProcessor if fixed_key else Processor
    key_serde, value_serde = place.plan_builder.models.forwarded(supplier, base)
    if fixed_key:
        return place.then(node, value_serde=value_serde)
    return place.then(node, key_serde=key_serde, value_serde=value_serde, repartition_required=True)


def check_store_names(name: str, stores: tuple[Any, ...]) -> None:
    """Checks that a processor is connected to stores by their names.

    :raises TopologyError: if something else is given.
    """
    for store in stores:
        if not isinstance(store, str):
            raise TopologyError(
                f"processor {name!r} must be connected to stores by their names, got {type(store).__name__}: add the"
                " store to the builder, and give its name here",
                node=name,
            )


def to(
    place: PlanPlace,
    topic: str | TopicNameExtractor,
    how: Produced[Any, Any],
    topics: Collection[str] = (),
) -> None:
    """Adds a sink.

    :raises TopologyError: if it is neither the name of a topic nor a function.
    """
    if not (topic != "" if isinstance(topic, str) else callable(topic)):
        raise TopologyError(
            f"the topic of a stream must be a name, or a function that returns one, got {repr_of(topic)}"
        )
    if isinstance(topic, str):
        check_topic_name(topic, "a stream")
    else:
        check_function(topic, "topic", "to", ("key", "value", "record_context"), returns=True)
    declared = declared_topics(topic, topics, "to")
    complete: Produced[Any, Any] = Produced(
        key_serde=how.key_serde or place.key_serde,
        value_serde=how.value_serde or place.value_serde,
        partitioner=how.partitioner,
    )
    name = place.plan_builder.names.choose(how.name, SINK)
    place.plan_builder.add(Sink(name=name, parents=(place.node,), topic=topic, produced=complete, topics=declared))


def new_repartition(
    place: PlanPlace,
    prefix: str,
    *,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
    partitions: int | None = None,
    partitioner: StreamPartitioner | None = None,
    optimizable: bool = True,
) -> Repartition:
    """Returns a node for an internal topic that is not added yet.

    It uses up three numbers, also where the names are made of the topic's name.
    """
    topic = repartition_topic(prefix)
    names = place.plan_builder.names
    sink, filter_name, source = names.processor(SINK), names.processor(FILTER), names.processor(SOURCE)
    if not looks_generated(prefix):
        sink, filter_name, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    return Repartition(
        name=source,
        parents=(place.node,),
        topic=topic,
        filter=filter_name,
        sink=sink,
        key_serde=key_serde,
        value_serde=value_serde,
        partitions=partitions,
        partitioner=partitioner,
        optimizable=optimizable,
    )


def repartition(place: PlanPlace, how: Repartitioned[Any, Any]) -> PlanPlace:
    """Adds an internal topic that the user asked for."""
    prefix = how.name or place.plan_builder.names.processor("KSTREAM-REPARTITION-")
    key_serde, value_serde = how.key_serde or place.key_serde, how.value_serde or place.value_serde
    node = new_repartition(
        place,
        prefix,
        key_serde=key_serde,
        value_serde=value_serde,
        partitions=how.number_of_partitions,
        partitioner=how.partitioner,
        optimizable=False,
    )
    return place.then(
        node,
        sources=frozenset((node.name,)),
        key_serde=key_serde,
        value_serde=value_serde,
        repartition_required=False,
    )


def to_table(place: PlanPlace, ttl: Duration | None, materialized: MaterializedLike, named: NamedLike) -> PlanPlace:
    """Adds a node that reads records as updates of a table.

    :raises TopologyError: if there are two times to live.
    """
    plan_builder = place.plan_builder
    prefix = "KSTREAM-TOTABLE-"
    name = plan_builder.names.choose(name_of(named), prefix)
    if ttl is not None:
        materialized = _expiring(name, ttl, as_materialized(materialized))
    store = materialize(materialized, plan_builder, prefix, key_serde=place.key_serde, value_serde=place.value_serde)
    if place.repartition_required:
        node = new_repartition(place, name, key_serde=store.key_serde, value_serde=store.value_serde)
        place = place.then(node, sources=frozenset((node.name,)), repartition_required=False)
    table = TableStep(
        name=name,
        parents=(place.node,),
        operator=TableSourceOperator(),
        store=store,
        answers=Answer.OWN_STORE,
    )
    return place.then(
        table,
        key_serde=store.key_serde,
        value_serde=store.value_serde,
        store=store.query_name,
    )


def _expiring(node: str, ttl: Duration, materialized: Materialized[Any, Any]) -> Materialized[Any, Any]:
    if materialized.time_to_live is not None:
        raise TopologyError(
            f"table {node!r} has two times to live, ttl={repr_of(ttl)} and {repr_of(materialized.time_to_live)} in its"
            " Materialized: remove one of them",
            node=node,
        )
    return replace(materialized, time_to_live=TimeToLive(ttl))
