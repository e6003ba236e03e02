"""The builder of streams and tables, with which every topology of the DSL begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from dsl.compiler.compile import compile_plan
from dsl.compiler.default_serdes import DefaultSerdes
from dsl.global_ktable import GlobalKTable
from dsl.options import Consumed, Materialized, with_serdes
from dsl.plan import global_nodes, stream_nodes, table_nodes
from dsl.plan.builder import PlanBuilder
from dsl.plan.models import Models, read_models
from dsl.plan.nodes import PlannedStore
from dsl.settings import BuilderSettings, Dotted
from dsl.streams import KStream, KTable
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.builders import StateStoreBuilder, as_builder
from processor_api.texts import repr_of
from processor_api.topology.topology import Topology
from processor_api.user_code.calls import explain_calls
from processor_api.user_code.given_serdes import SerdeLike, optional_serde
from processor_api.user_code.given_values import attribute_of
from processor_api.user_code.open_types import K, V

Topics = str | re.Pattern[str] | Iterable[str]


@explain_calls
class StreamsBuilder:
    """Collects streams and tables, and builds a topology of them.

    ::

        from streams import StreamsBuilder, TopologyTestDriver

        builder = StreamsBuilder(key_serde="string", value_serde="string")
        lines = builder.stream("lines")
        lines.flat_map_values(str.split).group_by(lambda _, word: word).count(materialized="counts")
        topology = builder.build()

        with TopologyTestDriver(topology) as driver:
            driver.create_input_topic("lines").pipe_value("to be or not to be")
            assert driver.get_key_value_store("counts").get("be") == 2

    Nodes are numbered by one counter in the order of the calls, and unnamed stores and internal topics carry these
    numbers in their names: an operator put in between renames all that follow (semantics 111). Name what has state.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | Dotted | None = None,
        *,
        key_serde: SerdeLike[Any] | None = None,
        value_serde: SerdeLike[Any] | None = None,
        schema_registry: Any = None,
        models: Literal["json", "avro"] | Callable[[Any], Serde[Any]] | None = None,
    ) -> None:
        """Makes a builder without streams and tables.

        ::

            builder = StreamsBuilder(key_serde="string", value_serde="json")
            big = builder.stream("orders").filter(lambda customer, order: order["cents"] > 10_000)
            # ("ann", {"cents": 25_000}), ("bob", {"cents": 300}) -> ("ann", {"cents": 25_000})

        :param config: settings that shape the topology, over those of the application (Kafka Streams'
            ``TopologyConfig``): those of :meth:`build`, and the default serdes where none is given here. Others are
            rejected, unless these are all settings of an application, with its ``application.id``.
        :param key_serde: for all sources, sinks and stores of this builder that are given none, before the
            application's ``default.key.serde``; a serde, a name such as ``"string"``, a pydantic model or a dataclass.
            So ``value_serde``.
        :param schema_registry: a :class:`~streams.registry.SchemaRegistry` for all serdes of this builder that need one
            and were given none, before that of the application's settings.
        :param models: how this builder writes models and dataclasses: ``"json"``, ``"avro"``, or a function that
            returns the serde of a class, such as :class:`~streams.registry.Avro`. If a function is annotated to return
            a class, that class then decides on the serde of the result, unless you give one. ``None``: it does not.
        :raises TopologyError: if a serde is none of these, or the registry or ``models`` is none.
        :raises ConfigError: if a setting is unknown, or its value wrong.
        """
        self._settings = BuilderSettings.of(config)
        key, value = (
            optional_serde(self._settings.serde(part) if given is None else given, f"{part}_serde", "StreamsBuilder")
            for part, given in (("key", key_serde), ("value", value_serde))
        )
        follow = Models(read_models(models), key, value)
        self._plan_builder = PlanBuilder(follow)
        key, value = follow.default(key), follow.default(value)
        if schema_registry is not None:
            as_default = attribute_of(schema_registry, "as_default")
            if not callable(as_default):
                raise TopologyError(
                    f"schema_registry of StreamsBuilder must be a SchemaRegistry, got {repr_of(schema_registry)}"
                )
            key, value = as_default(key), as_default(value)
        self._serdes = DefaultSerdes(key=key, value=value, models=follow)

    def stream(
        self,
        topics: Topics,
        consumed: Consumed[K, V] | None = None,
        *,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> KStream[K, V]:
        """Returns a stream of the records of a topic, of several, or of every topic whose whole name a pattern matches.

        Streams of the same topics share one source. Serdes can be given beside ``consumed`` or in it. Types come from
        them; where they are names, annotate: ``lines: KStream[str, str] = builder.stream("lines")``.

        ::

            lines: KStream[str, str] = builder.stream("lines")
            orders = builder.stream("orders", key_serde="string", value_serde="json")
            both = builder.stream(["clicks", "pages"])
            all_logs = builder.stream(re.compile("logs-.*"))
            # orders("ann", {"item": "tea"}) -> orders("ann", {"item": "tea"})

        :raises TopologyError: if no topic is given, or a serde twice.
        """
        how = with_serdes(consumed, Consumed, "stream", key_serde, value_serde)
        return KStream(stream_nodes.stream(self._plan_builder, topics, how))

    def table(
        self,
        topic: str,
        consumed: Consumed[K, V] | None = None,
        *,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> KTable[K, V]:
        """Returns a table of the latest values of a topic: null values delete, records without a key are dropped.

        The same serdes serve the topic and the store. They can be given here or in ``consumed``, which win over those
        of ``materialized``.

        ::

            customers: KTable[str, str] = builder.table("customers", materialized="customers-by-id")
            # customers("ann", "Oslo"), customers("ann", None) -> customers("ann", "Oslo"), customers("ann", None)

        :raises TopologyError: if no topic is given, or a serde twice.
        """
        how = with_serdes(consumed, Consumed, "table", key_serde, value_serde)
        return KTable(table_nodes.table(self._plan_builder, topic, how, materialized))

    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V] | None = None,
        *,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> GlobalKTable[K, V]:
        """Returns a table of the latest values of a topic that every process holds as a whole: a :class:`GlobalKTable`.

        It always has a store. The topic is its changelog, so that the options of ``materialized`` for logging and
        caching have no effect; serdes as in :meth:`table`. ``consumed.offset_reset`` has none either: a global table
        is read from the beginning.

        ::

            catalogue: GlobalKTable[str, int] = builder.global_table("catalogue")
            orders = builder.stream("orders")
            priced = orders.join(catalogue, lambda item, cents: cents, key_selector=lambda customer, item: item)
            # catalogue("tea", 320), orders("ann", "tea") -> priced("ann", 320)

        :raises TopologyError: if no topic is given, or the store is versioned.
        """
        how = with_serdes(consumed, Consumed, "global_table", key_serde, value_serde)
        return GlobalKTable(global_nodes.global_table(self._plan_builder, topic, how, materialized))

    def add_global_store(
        self,
        builder: StoreBuilder[Any, Any],
        topic: str,
        consumed: Consumed[Any, Any] | None,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
    ) -> StreamsBuilder:
        """Adds a store that every process holds as a whole, filled from a topic by a processor; returns the builder.

        A restore runs the processor on each record that has a key. Every processor of the topology may read the store
        by its name without being connected to it; only this one writes to it. See
        :meth:`processor_api.topology.topology.Topology.add_global_store`.

        ::

            class Names(Processor):
                def process(self, record):
                    self.context.get_state_store("names").put(record.key, record.value.title())

            names = Stores.key_value_store("names", "string", "string").with_logging_disabled()
            builder.add_global_store(names, "names", Consumed(key_serde="string", value_serde="string"), Names)

        :param builder: its logging is switched off: the topic is the changelog.
        :param supplier: makes the processor; what it forwards goes nowhere.
        :raises TopologyError: if no topic is given.
        """
        global_nodes.add_global_store(self._plan_builder, builder, topic, consumed, supplier)
        return self

    def add_state_store(self, builder: StoreBuilder[Any, Any] | StateStoreBuilder) -> StreamsBuilder:
        """Adds a store for processors to be connected to by its name; returns the builder.

        ::

            class Changes(Processor):
                def process(self, record):
                    last = self.context.get_state_store("last")
                    if last.get(record.key) != record.value:
                        last.put(record.key, record.value)
                        self.context.forward(record)

            builder.add_state_store(Stores.key_value_store("last", "string", "long"))
            changes = readings.process(Changes, "last")
            # ("roof", 40), ("roof", 40), ("roof", 41) -> ("roof", 40), ("roof", 41)

        :raises TopologyError: if it is not a builder of a store.
        """
        self._plan_builder.add(PlannedStore(builder=as_builder(builder)))
        return self

    def build(self, config: Mapping[str, Any] | Dotted | None = None) -> Topology:
        """Returns the topology of all calls so far; it may be called again.

        ::

            orders.filter(lambda customer, item: item == "tea").to("teas")
            topology = builder.build({"topology.optimization": "all"})
            assert "Source: KSTREAM-SOURCE-0000000000 (topics: [orders])" in topology.describe()

        :param config: the application's settings, or some of them, as a mapping with Kafka's dotted names or in snake
            case, or as a ``StreamsConfig``. Settings that the builder was given count over them. Only with them do
            ``topology.optimization``, ``ensure.explicit.internal.resource.naming``, ``statestore.cache.max.bytes`` of
            0, ``default.dsl.store``, ``dsl.store.format`` and ``dsl.store.suppliers.class`` have an effect on the
            topology, and only then does ``processor.wrapper.class`` show in its description.
        :raises TopologyError: for mistakes that only show in the whole: a name or topic used twice, an unknown store.
        :raises ConfigError: if a setting is unknown, its value wrong, or it contradicts one that the builder was given.
        """
        return compile_plan(self._plan_builder.plan(), self._settings.over(config), self._serdes)
