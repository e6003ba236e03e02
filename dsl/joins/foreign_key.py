"""The nodes that foreign-key joins of tables add to the plan, and their options.

Two internal topics: subscriptions go from the left table's tasks to those of the right one, and answers come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from dsl.naming import validate_name
from dsl.options import chosen
from dsl.plan.builder import PlanPlace
from dsl.plan.materialization import (
    MaterializedLike,
    as_materialized,
    key_value_builder,
    materialize,
    values_of,
)
from dsl.plan.nodes import Answer, Ask, Materialization, Process, TableRepartition, TableStep
from dsl.processors.joins.foreign_key import AnswerPartitioner, AnswerSerde, KeyPartitioner
from dsl.processors.joins.foreign_key_left import ForeignKeyAnswers, ForeignKeySubscribe
from dsl.processors.joins.foreign_key_right import ForeignKeyAnswer, ForeignKeyReceive, ForeignKeyRightChanges
from dsl.processors.tables.source import TableSourceOperator
from dsl.settings import BuildSettings
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.checks import check_fields

K = TypeVar("K")
KO = TypeVar("KO")

PREFIX = "KTABLE-FK-JOIN-"
SUBSCRIPTION = f"{PREFIX}SUBSCRIPTION-"
PROCESSOR = f"{SUBSCRIPTION}PROCESSOR-"
RESPONSE = f"{SUBSCRIPTION}RESPONSE-"
SINK, SOURCE = "KTABLE-SINK-", "KTABLE-SOURCE-"
TOPIC_SUFFIX = "-topic"


@explain_calls
@dataclass(frozen=True, kw_only=True)
class TableJoined(Generic[K, KO]):
    """Options of a foreign-key join: the name of its nodes, topics and store, and how its messages are partitioned.

    With a name N the internal topics are ``N-subscription-registration-topic`` and ``N-subscription-response-topic``.

    ::

        sent = baskets.foreign_key_join(
            customers,
            lambda basket: basket["of"],
            lambda basket, city: f"{basket['item']} to {city}",
            joined=TableJoined(name="with-city"),
        )
        # baskets("7", {"of": "ann", "item": "tea"}), customers("ann", "Oslo") -> ("7", "tea to Oslo")
    """

    name: str | None = None
    partitioner: StreamPartitioner | None = None
    """Chooses the partition of a key of the left table, for answers. It gets ``None`` for the value, and chooses one
    partition. Left out, an answer goes back to the partition from which its subscription came."""
    other_partitioner: StreamPartitioner | None = None
    """Chooses the partition of a key of the right table, if its topic was not written with Kafka's default."""

    def __post_init__(self) -> None:
        if self.name is not None:
            validate_name(self.name)
        check_fields(self, type(self).__name__)

    @classmethod
    def as_(cls, name: str) -> TableJoined[Any, Any]:
        """Returns options with a name, and nothing else set (Java: ``TableJoined.as``).

        ::

            cities = baskets.foreign_key_join(
                customers, lambda basket: basket["of"], lambda basket, city: city, joined=TableJoined.as_("with-city")
            )
            assert "with-city-subscription-registration-topic" in builder.build().describe()
        """
        return TableJoined(name=name)


TableJoinedLike = TableJoined[Any, Any] | str | None


@dataclass(frozen=True)
class SubscriptionStore:
    """The store of the subscriptions to the right table's rows: bytes, without a cache."""

    name: str
    named: bool
    logging: bool = True

    def builder(self, settings: BuildSettings) -> StoreBuilder[Any, Any]:
        """Returns the builder of the store, on the application's engine; headers are logged and not kept."""
        store = Materialization(
            name=self.name, queryable=False, key_serde=Serdes.BYTES, value_serde=Serdes.BYTES, caching=False
        )
        return replace(key_value_builder(store, replace(settings, headers=False)), logs_headers=True)


@dataclass(frozen=True)
class _Names:
    """The names of a join's nodes, topics and store; they take numbers of the builder in Kafka Streams' order."""

    topic: str
    subscribe: str
    sink: str
    source: str
    store: str
    receive: str
    answer: str
    right_changes: str
    response_topic: str
    response_sink: str
    response_source: str
    resolve: str
    result: str

    @classmethod
    def chosen(cls, place: PlanPlace, name: str | None) -> _Names:
        def named(suffix: str, prefix: str) -> str:
            return place.plan_builder.names.suffixed(name, suffix, prefix)

        registration = f"{SUBSCRIPTION}REGISTRATION-"
        return cls(
            topic=named("-subscription-registration", registration) + TOPIC_SUFFIX,
            subscribe=named("-subscription-registration-processor", registration),
            sink=named("-subscription-registration-sink", SINK),
            source=named("-subscription-registration-source", SOURCE),
            store=named("-subscription-store", f"{SUBSCRIPTION}STATE-STORE-"),
            receive=named("-subscription-receive", PROCESSOR),
            answer=named("-subscription-join-foreign", PROCESSOR),
            right_changes=named("-foreign-join-subscription", PROCESSOR),
            response_topic=named("-subscription-response", RESPONSE) + TOPIC_SUFFIX,
            response_sink=named("-subscription-response-sink", SINK),
            response_source=named("-subscription-response-source", SOURCE),
            resolve=named("-subscription-response-resolver", f"{RESPONSE}RESOLVER-PROCESSOR-"),
            result=named("-result", f"{PREFIX}OUTPUT-"),
        )


def join(
    left: PlanPlace,
    right: PlanPlace,
    extractor: Callable[..., Any],
    joiner: Callable[[Any, Any], Any],
    joined: TableJoinedLike,
    materialized: MaterializedLike,
    *,
    with_key: bool,
    left_join: bool,
) -> PlanPlace:
    """Adds a foreign-key join.

    :param with_key: whether the extractor takes the left row's key too.
    :raises TopologyError: if the tables come from different builders.
    """
    left.same_builder(right)
    given = as_materialized(materialized)
    how: TableJoined[Any, Any] = TableJoined(name=joined) if isinstance(joined, str) else chosen(joined, TableJoined)
    names = _Names.chosen(left, how.name)
    follow = left.plan_builder.models.value(joiner)
    store = materialize(
        materialized, left.plan_builder, f"{PREFIX}OUTPUT-", key_serde=left.key_serde, value_serde=follow
    )
    subscribe = ForeignKeySubscribe(
        extractor=extractor,
        with_key=with_key,
        left_join=left_join,
        topic=names.topic,
        key_serde=left.key_serde,
        value_serde=left.value_serde,
        foreign_key_serde=right.key_serde,
    )
    subscribed = left.then(Process(name=names.subscribe, parents=(left.node,), supplier=subscribe, asks=Ask.FORCE))
    answered = _answered(_received(subscribed, right, how, names), right, left.key_serde, how, names)
    answers = ForeignKeyAnswers(joiner=joiner, left_join=left_join, topic=names.topic, value_serde=left.value_serde)
    resolved = answered.then(
        Process(name=names.resolve, parents=(answered.node,), supplier=answers, reads=(left.node,), copartitions=True)
    )
    result = TableStep(
        name=names.result,
        parents=(resolved.node,),
        operator=TableSourceOperator(),
        store=store,
        answers=Answer.OWN_STORE,
    )
    return resolved.then(
        result,
        key_serde=store.key_serde,
        value_serde=values_of(given, follow),
        store=store.query_name,
    )


def _received(subscribed: PlanPlace, right: PlanPlace, how: TableJoined[Any, Any], names: _Names) -> PlanPlace:
    """The topic of subscriptions, and the node that keeps them."""
    topic = TableRepartition(
        name=names.source,
        parents=(subscribed.node,),
        topic=names.topic,
        sink=names.sink,
        key_serde=right.key_serde,
        value_serde=Serdes.BYTES,
        partitioner=None if how.other_partitioner is None else KeyPartitioner(how.other_partitioner),
    )
    below = subscribed.then(topic, sources=frozenset((names.source,)))
    receive = ForeignKeyReceive(store=names.store, topic=names.topic, foreign_key_serde=right.key_serde)
    store = SubscriptionStore(names.store, named=how.name is not None)
    return below.then(Process(name=names.receive, parents=(below.node,), supplier=receive, own_stores=(store,)))


def _answered(
    received: PlanPlace, right: PlanPlace, key_serde: Serde[Any] | None, how: TableJoined[Any, Any], names: _Names
) -> PlanPlace:
    """The nodes that answer, and the topic of answers."""
    answer = ForeignKeyAnswer(topic=names.topic, key_serde=key_serde)
    answered = received.then(
        Process(name=names.answer, parents=(received.node,), supplier=answer, reads=(right.node,), copartitions=True)
    )
    changes = ForeignKeyRightChanges(
        store=names.store,
        topic=names.topic,
        response_topic=names.response_topic,
        key_serde=key_serde,
        value_serde=right.value_serde,
        foreign_key_serde=right.key_serde,
    )
    changed = right.then(
        Process(
            name=names.right_changes,
            parents=(right.node,),
            supplier=changes,
            stores=(names.store,),
            asks=Ask.FORCE,
        )
    )
    topic = TableRepartition(
        name=names.response_source,
        parents=(answered.node, changed.node),
        topic=names.response_topic,
        sink=names.response_sink,
        key_serde=key_serde,
        value_serde=AnswerSerde(right.value_serde),
        partitioner=AnswerPartitioner() if how.partitioner is None else KeyPartitioner(how.partitioner),
    )
    below = answered.then(topic, sources=frozenset((names.response_source,)))
    return replace(below, store=None, repartition_required=False)
