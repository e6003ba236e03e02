"""The topology as plain data, and the methods that build it.

Every mistake that can be seen without a broker raises :class:`~processor_api.errors.TopologyError` at the call that
made it. A topology is no longer changed once it runs; one topology serves any number of tasks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from processor_api.errors import TopologyError
from processor_api.processor import (
    FixedKeyProcessorSupplier,
    Operator,
    ProcessorSupplier,
    check_processors,
    connected_stores,
    own_time,
)
from processor_api.stores.builder import GlobalStore, StoreBuilder
from processor_api.stores.builders import StateStoreBuilder, as_builder
from processor_api.stores.suppliers import CustomStoreSupplier
from processor_api.texts import repr_of
from processor_api.timestamps import TimestampExtractor
from processor_api.topology.data import TopologyData, known_name
from processor_api.topology.describe import TopologyDescription, description
from processor_api.topology.nodes import Node, ProcessorNode, RepartitionTopic, SinkNode, SourceNode, TopicNameExtractor
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.topology.topic_names import check_topic_name, declared_topics, illegal_in_name
from processor_api.topology.wrapper import wrapped
from processor_api.user_code.calls import explain_calls, refuse_options
from processor_api.user_code.checks import check_function
from processor_api.user_code.given_serdes import SerdeLike, is_serde_like, optional_serde
from processor_api.user_code.given_values import check_flags, is_of, items_of
from processor_api.user_code.lines import Line, at, text_of, user_line
from processor_api.user_code.offset_reset import AutoOffsetReset

log = logging.getLogger("streams.topology")


@explain_calls
class Topology(TopologyData):
    """A topology: sources, processors, sinks and stores by name. The ``add_*`` methods return it, to be chained.

    ::

        from streams import Processor, Topology, TopologyTestDriver

        class Even(Processor):
            def process(self, record):
                if record.value % 2 == 0:
                    self.context.forward(record)

        topology = (
            Topology()
            .add_source("source", "numbers")
            .add_processor("even", Even, "source")
            .add_sink("sink", "even-numbers", "even")
        )
        assert "Source: source (topics: [numbers])" in topology.describe()

        settings = {"default.key.serde": "string", "default.value.serde": "long"}
        with TopologyTestDriver(topology, settings) as driver:
            driver.create_input_topic("numbers").pipe_key_values([("a", 1), ("a", 2)])
            assert driver.create_output_topic("even-numbers").read_values() == [2]
    """

    _wrapper: Any = None
    """The wrapper of its processors, if they are wrapped."""
    _line: Line | None = None
    """The line to which additions belong, instead of that of the call."""

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key_serde: SerdeLike[Any] | None = None,
        value_serde: SerdeLike[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: AutoOffsetReset | None = None,
    ) -> Topology:
        """Adds a source, which reads one or more topics, or every topic that one compiled pattern matches.

        ::

            topology = Topology().add_source("source", "lines", "more-lines", value_serde="string")
            topology.add_processor("shout", Shout, "source").add_sink("sink", "loud", "shout")
            assert topology.describe().splitlines()[2] == "    Source: source (topics: [lines, more-lines])"

        :raises TopologyError: if the name is taken, there is no topic, or another source reads one of the topics,
            by its name or by a pattern (semantics 152).
        """
        self._check_new_name(name)
        names, pattern = self._topics_or_pattern(name, topics)
        self._check_readers(name, names, pattern)
        self._put(
            SourceNode(
                name=name,
                topics=names,
                pattern=pattern,
                key_serde=optional_serde(key_serde, "key_serde", f"source {name!r}", node=name),
                value_serde=optional_serde(value_serde, "value_serde", f"source {name!r}", node=name),
                timestamp_extractor=timestamp_extractor,
                offset_reset=offset_reset,
            )
        )
        for topic in names:
            self._topic_readers[topic] = name
        return self

    def add_processor(
        self,
        name: str,
        supplier: ProcessorSupplier | FixedKeyProcessorSupplier | Operator,
        *parents: str,
    ) -> Topology:
        """Adds a processor below its parents; stores of the supplier are added and connected.

        ::

            topology = Topology().add_source("source", "lines")
            topology.add_processor("shout", Shout, "source").add_sink("sink", "loud", "shout")  # Shout is a Processor
            # lines("ann", "hi") -> loud("ann", "HI")

        :param supplier: makes a new processor at each call; it is called twice here to check that (semantics 110).
        :raises TopologyError: if the name is taken, a parent is unknown or the supplier returns one object twice.
        """
        self._check_new_name(name)
        self._check_parents(name, parents)
        fixed_key = False if is_of(supplier, Operator) else check_processors(name, supplier)
        self._put(
            ProcessorNode(
                name=name, parents=parents, supplier=supplier, fixed_key=fixed_key, own_time=own_time(supplier)
            )
        )
        for builder in connected_stores(supplier, name):
            self.add_state_store(builder, name)
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parents: str,
        key_serde: SerdeLike[Any] | None = None,
        value_serde: SerdeLike[Any] | None = None,
        partitioner: StreamPartitioner | None = None,
        topics: Collection[str] = (),
    ) -> Topology:
        """Adds a sink, which writes records to a topic, or to the topic that a function names for each record.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            topology.add_sink("sink", "loud", "shout")
            topology.add_sink("by-name", lambda name, line, record_context: f"lines_of_{name}", "shout")
            # lines("ann", "hi") -> loud("ann", "HI"), lines_of_ann("ann", "HI")

        :param topics: the topics that the function may name, where they are known: another is an error of the record.
            `streams topics` lists and creates these, and `streams doctor` looks for them.
        :raises TopologyError: if the name is taken or a parent is unknown.
        """
        self._check_new_name(name)
        unknown = [one for one in parents if type(one) is not str or one not in self._nodes]
        options = tuple(one for one in unknown if type(one) is not str or is_serde_like(one))
        taken = ("key_serde", "value_serde", "partitioner")
        refuse_options("add_sink", options, taken, f"parents of sink {name!r}", node=name)
        self._check_parents(name, parents)
        fixed = topic if isinstance(topic, str) else None
        if fixed is None and not callable(topic):
            raise TopologyError(
                f"the topic of a sink must be a name, or a function that returns one, got {repr_of(topic)}", node=name
            )
        if fixed is not None:
            check_topic_name(fixed, f"sink {name!r}", node=name)
        else:
            check_function(
                topic, "topic", f"sink {name!r}", ("key", "value", "record_context"), returns=True, node=name
            )
        self._put(
            SinkNode(
                name=name,
                parents=parents,
                topic=fixed,
                topic_extractor=None if isinstance(topic, str) else topic,
                key_serde=optional_serde(key_serde, "key_serde", f"sink {name!r}", node=name),
                value_serde=optional_serde(value_serde, "value_serde", f"sink {name!r}", node=name),
                partitioner=partitioner,
                declared_topics=declared_topics(topic, topics, f"sink {name!r}", node=name),
            )
        )
        return self

    def add_state_store(self, builder: StoreBuilder[Any, Any] | StateStoreBuilder, *processors: str) -> Topology:
        """Adds a store and connects it to the processors. The very same builder may be added again.

        ::

            class Latest(Processor):
                def process(self, record):
                    self.context.get_state_store("latest").put(record.key, record.value)

            topology = Topology().add_source("source", "lines").add_processor("latest", Latest, "source")
            topology.add_state_store(Stores.key_value_store("latest", "string", "string"), "latest")

        :raises TopologyError: if another store has the name, a processor is unknown, or no changelog can have the name.
        """
        checked = as_builder(builder)
        known = self._stores.get(checked.name)
        if known is not checked and (checked is builder or known != checked):
            self._check_new_store(checked.name)
        why = illegal_in_name(checked.name) if checked.logging else None
        if why is not None:
            raise TopologyError(
                f"store {checked.name!r} has a changelog topic that is named after it, but the name {why}: choose"
                " another name, or turn its logging off",
                store=checked.name,
            )
        self._stores[checked.name] = checked
        self.derived.clear()
        self._remember_store(checked.name)
        for processor in processors:
            self.connect_processor_and_state_stores(processor, checked.name)
        return self

    def add_read_only_state_store(
        self,
        store_builder: StoreBuilder[Any, Any],
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: ProcessorSupplier,
        *,
        key_serde: SerdeLike[Any] | None = None,
        value_serde: SerdeLike[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Adds a partitioned store that a topic fills and that no other node writes to (KIP-813).

        The topic is the store's changelog: none is made, and a restore puts the topic's records into the store as they
        are, without the processor. The processor must therefore store records unchanged. Other processors are connected
        by :meth:`connect_processor_and_state_stores`; what they get can only be read. The topic is read from its
        beginning.

        ::

            class Keep(Processor):
                def process(self, record):
                    self.context.get_state_store("cities").put(record.key, record.value)

            cities = Stores.key_value_store("cities", "string", "string")
            topology = Topology().add_read_only_state_store(cities, "cities-source", "cities", "keep", Keep)
            topology.add_source("source", "lines").add_processor("shout", Shout, "source")
            topology.connect_processor_and_state_stores("shout", "cities")  # which reads it

        :param store_builder: its logging is switched off.
        :param source_name: the name of the source node that reads the topic.
        :param processor_name: the name of the node that keeps the store up to date.
        :param supplier: makes the processor of that node.
        :raises TopologyError: if a name is taken, or another source reads the topic.
        """
        builder = as_builder(store_builder).with_logging_disabled()
        self._check_new_store(builder.name)
        self._check_lasting(builder)
        self._check_new_name(processor_name)
        self.add_source(
            source_name,
            topic,
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            offset_reset=AutoOffsetReset.earliest(),
        )
        self.add_processor(processor_name, supplier, source_name)
        self.add_state_store(builder, processor_name)
        self.use_source_as_changelog(builder.name, topic)
        self._read_only_stores[builder.name] = processor_name
        return self

    def add_global_store(
        self,
        store_builder: StoreBuilder[Any, Any],
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: ProcessorSupplier | Operator,
        *,
        key_serde: SerdeLike[Any] | None = None,
        value_serde: SerdeLike[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        reprocess_on_restore: bool = True,
    ) -> Topology:
        """Adds a store that every process fills with all partitions of a topic.

        Every processor may read it without being connected; only the processor given here writes to it. It has no
        children: what it forwards goes nowhere. The topic is the store's changelog.

        ::

            class Keep(Processor):
                def process(self, record):
                    self.context.get_state_store("cities").put(record.key, record.value)

            cities = Stores.key_value_store("cities", "string", "string").with_logging_disabled()
            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            topology.add_global_store(cities, "cities-source", "cities", "keep", Keep)

        :param store_builder: with its logging disabled.
        :param source_name: the name of the source node that reads the topic.
        :param processor_name: the name of the node that keeps the store up to date.
        :param supplier: makes the processor of that node.
        :param reprocess_on_restore: whether a restore runs the processor on each record that has a key (KAFKA-7663);
            without, records go into the store as they are, which is for processors that store records unchanged. With a
            timestamp extractor a restore always runs the processor.
        :raises TopologyError: if a name is taken, another source reads the topic, or the store logs its changes.
        """
        check_flags(reprocess_on_restore=reprocess_on_restore)
        builder = as_builder(store_builder)
        self._check_global_store(builder, source_name, processor_name, supplier)
        self.add_source(
            source_name,
            topic,
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
        )
        self._put(ProcessorNode(name=processor_name, parents=(source_name,), supplier=supplier))
        self._remember_store(builder.name)
        self._connections[processor_name] = [builder.name]
        self.derived.clear()
        self._global_stores[builder.name] = GlobalStore(
            builder=builder,
            source=source_name,
            processor=processor_name,
            topic=topic,
            reprocess=reprocess_on_restore or timestamp_extractor is not None,
        )
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Lets a processor use stores that were added; processors that share a store form one subtopology.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            topology.add_state_store(Stores.key_value_store("counts", "string", "long"))
            topology.connect_processor_and_state_stores("shout", "counts")

        :raises TopologyError: if the processor or a store is unknown, or no store is named.
        """
        if not isinstance(self._nodes.get(known_name(processor, "processor")), ProcessorNode):
            raise TopologyError(
                f"processor {repr_of(processor)} does not exist, so a store cannot be connected to it", node=processor
            )
        if processor in self.global_nodes:
            raise TopologyError(
                f"processor {processor!r} fills a global store and runs outside of tasks, so it cannot have another"
                " store",
                node=processor,
            )
        if not stores:
            raise TopologyError(f"give the names of the stores to connect to processor {processor!r}", node=processor)
        connected = self._connections.setdefault(processor, [])
        self.derived.clear()
        for store in stores:
            if type(store) is not str:
                raise TopologyError(
                    f"the stores to connect to {processor!r} must be given by name, got {repr_of(store)}",
                    node=processor,
                )
            if store in self._global_stores:
                raise TopologyError(
                    f"global store {store!r} can be used by every processor as it is: do not connect it to"
                    f" {processor!r}",
                    store=store,
                    node=processor,
                )
            if store not in self._stores:
                raise TopologyError(
                    f"store {store!r} is not added to the topology; call add_state_store first",
                    store=store,
                    node=processor,
                )
            if store not in connected:
                connected.append(store)
        return self

    def add_repartition_topic(self, topic: RepartitionTopic) -> Topology:
        """Declares an internal topic that a sink writes and a source of another subtopology reads.

        ::

            topology = Topology().add_repartition_topic(RepartitionTopic(name="by-word-repartition"))
            topology.add_source("source", "lines").add_sink("sink", "by-word-repartition", "source")
            topology.add_source("again", "by-word-repartition").add_processor("shout", Shout, "again")

        :raises TopologyError: if it is declared already with another number of partitions.
        """
        given: object = topic
        if not isinstance(given, RepartitionTopic) or type(given.name) is not str:
            raise TopologyError(f"a repartition topic must be a RepartitionTopic with a name, got {repr_of(given)}")
        known = self._repartition_topics.get(topic.name)
        if known is not None and known != topic:
            raise TopologyError(f"repartition topic {topic.name!r} is declared twice, differently", topic=topic.name)
        self._repartition_topics[topic.name] = topic
        return self

    def copartition(self, sources: Iterable[str]) -> Topology:
        """Demands that the topics of these sources have the same number of partitions (semantics 103).

        ::

            topology = Topology().add_source("left", "lines").add_source("right", "more-lines")
            topology.add_processor("shout", Shout, "left", "right").copartition(["left", "right"])
        """
        group = tuple(sorted({known_name(one, "source") for one in items_of(sources, "sources")}))
        if len(group) > 1 and group not in self._copartition_groups:
            self._copartition_groups.append(group)
        return self

    def use_source_as_changelog(self, store: str, topic: str) -> Topology:
        """Lets a source topic serve as the store's changelog (semantics 108).

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            topology.add_state_store(Stores.key_value_store("latest", "string", "string"), "shout")
            topology.use_source_as_changelog("latest", "lines")  # restored from the topic itself

        :raises TopologyError: if the store's keys expire.
        """
        builder = self._stores.get(known_name(store, "store"))
        if builder is not None:
            self._check_lasting(builder)
        if builder is not None and "history_retention_ms" in builder.supplier.parameters:
            log.warning(
                "a source topic serves as the changelog of a versioned store: compaction removes older versions,"
                " which a restored store then lacks; set the topic's min.compaction.lag.ms above the history retention",
                extra={"store": store, "topic": topic},
            )
        self._source_changelogs[store] = topic
        return self

    @contextmanager
    def on_behalf_of(self, line: Line | None) -> Iterator[None]:
        """Lets what is added meanwhile belong to a line of the user's script, and errors name it.

        Without it a node belongs to the line of the call that adds it.

        ::

            topology = Topology()
            with topology.on_behalf_of(None):  # a line of the user's script, or None for that of the call
                topology.add_source("source", "lines").add_processor("shout", Shout, "source")

        :raises TopologyError: what is raised meanwhile, with the line.
        """
        self._line = line
        try:
            yield
        except TopologyError as error:
            raise error.locate(made_at=text_of(line))  # noqa: B904 - the same error
        finally:
            self._line = None

    def describe(self) -> TopologyDescription:
        """Returns the text of Kafka Streams' ``Topology.describe()``, byte for byte (semantics 138), which has what it
        says as objects too.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            print(topology.describe())
            assert "Processor: shout (stores: [])" in topology.describe()
            assert topology.describe().subtopologies[0].nodes[1].predecessors == ("source",)
        """
        return description(self)

    def wrapped_by(self, wrapper: Any, configs: Mapping[str, Any]) -> Topology:
        """Returns a new topology with every processor wrapped; the same one if this wrapper, or another object of its
        class, made it.

        ::

            class Quiet(ProcessorWrapper):
                def wrap_processor_supplier(self, name, supplier):
                    print(f"wraps {name}")
                    return supplier

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            wrapped = topology.wrapped_by(Quiet(), {})
            assert wrapped.children_of("source") == ("shout",)

        :param wrapper: a :class:`~processor_api.topology.wrapper.ProcessorWrapper`, or a function
            ``(node name, supplier)`` that gives a supplier.
        :param configs: settings under Kafka's dotted names, for the wrapper.
        :raises TopologyError: if the wrapper fails, or gives what cannot stand at a node.
        """
        if self._wrapper is wrapper or (_is_object(wrapper) and type(self._wrapper) is type(wrapper)):
            return self  # a class that was given to the builder and to the application makes an object for each
        configure = getattr(wrapper, "configure", None)
        if configure is not None:
            configure(configs)
        made = self._copy()
        made._wrapper = wrapper
        for name, node in self._nodes.items():
            if isinstance(node, ProcessorNode):
                with made.on_behalf_of(self._lines.get(name)):
                    made._wrap(name, node, wrapped(wrapper, node))
        return made

    def _wrap(self, name: str, node: ProcessorNode, supplier: Any) -> None:
        if supplier is node.supplier:
            return
        if check_processors(name, supplier) is not node.fixed_key:
            kind = "a FixedKeyProcessor" if node.fixed_key else "a Processor"
            raise TopologyError(f"the processor wrapper must make {kind} at node {name!r}", node=name)
        self._nodes[name] = replace(node, supplier=supplier)
        self.derived.clear()
        for builder in connected_stores(supplier, name):
            if builder.name not in self.stores_of(name):
                self.add_state_store(builder, name)

    def _copy(self) -> Topology:
        """Nodes and builders are shared: they do not change."""
        made = Topology()
        for name, value in vars(self).items():
            setattr(made, name, _copied(value))
        return made

    def _put(self, node: Node) -> None:
        self._nodes[node.name] = node
        self.derived.clear()
        line = self._line or user_line()
        if line is not None:
            self._lines[node.name] = line

    def _remember_store(self, name: str) -> None:
        line = self._line or user_line()
        if line is not None:
            self._store_lines.setdefault(name, line)

    # ------------------------------------------------------------------ checks

    def _check_new_name(self, name: str) -> None:
        if type(name) is not str or not name:
            raise TopologyError(f"a node needs a name, got {repr_of(name)}")
        if name in self._nodes:
            raise TopologyError(
                f"a node named {name!r} is already added{at(self.line_of(name))}: names must be unique in a topology",
                node=name,
            )

    def _check_parents(self, name: str, parents: tuple[str, ...]) -> None:
        if not parents:
            raise TopologyError(f"node {name!r} needs at least one parent", node=name)
        for parent in parents:
            if type(parent) is not str:
                raise TopologyError(
                    f"the parents of node {name!r} must be names of nodes, got {repr_of(parent)}", node=name
                )
            if parent == name:
                raise TopologyError(f"node {name!r} cannot be its own parent", node=name)
            found = self._nodes.get(parent)
            if found is None:
                raise TopologyError(f"parent {parent!r} of node {name!r} is not added yet", node=name)
            if isinstance(found, SinkNode):
                raise TopologyError(f"sink {parent!r} cannot be the parent of node {name!r}", node=name)
            if parent in self.global_nodes:
                raise TopologyError(
                    f"node {parent!r} fills a global store and runs outside of tasks, so it cannot be the parent of"
                    f" {name!r}",
                    node=name,
                )

    def _check_readers(self, name: str, topics: tuple[str, ...], pattern: re.Pattern[str] | None) -> None:
        """A topic has one reader. Patterns do not match the topics that the application makes."""
        for topic in topics:
            reader = self._topic_readers.get(topic)
            if reader is None and topic not in self._repartition_topics:
                reader = next((one for one, other in self._patterns() if other.fullmatch(topic)), None)
            if reader is not None:
                raise self._read_twice(name, topic, reader)
        for topic, reader in self._topic_readers.items():
            if pattern is not None and topic not in self._repartition_topics and pattern.fullmatch(topic):
                raise self._read_twice(name, topic, reader, f", which {repr_of(pattern.pattern)} matches,")
        for reader, other in self._patterns():
            if other == pattern:
                raise TopologyError(
                    f"the topics that match {repr_of(other.pattern)} are already read by source {reader!r}"
                    f"{at(self.line_of(reader))}; a topic can be read by one source only",
                    node=name,
                )

    def _read_twice(self, name: str, topic: str, reader: str, matched: str = "") -> TopologyError:
        pattern = dict(self._patterns()).get(reader)
        how = "" if pattern is None else f", whose pattern {repr_of(pattern.pattern)} matches it"
        return TopologyError(
            f"topic {topic!r}{matched} is already read by source {reader!r}{at(self.line_of(reader))}{how}; a topic can"
            " be read by one source only",
            node=name,
            topic=topic,
        )

    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        sources = [node for node in self._nodes.values() if isinstance(node, SourceNode)]
        return [(node.name, node.pattern) for node in sources if node.pattern is not None]

    def _check_new_store(self, name: str) -> None:
        if name in self._stores or name in self._global_stores:
            raise TopologyError(
                f"a store named {name!r} is already added{at(self.line_of_store(name))}: store names must be unique in"
                " a topology",
                store=name,
            )

    def _check_lasting(self, builder: StoreBuilder[Any, Any]) -> None:
        if builder.time_to_live is not None:
            raise TopologyError(
                f"store {builder.name!r} cannot have a time to live: its topic is its changelog, from which this"
                " library cannot delete records; give the topic a retention",
                store=builder.name,
            )

    def _check_global_store(self, builder: StoreBuilder[Any, Any], source: str, processor: str, supplier: Any) -> None:
        self._check_new_name(source)
        self._check_new_name(processor)
        if source == processor:
            raise TopologyError(
                f"the source and the processor of a global store need different names, got {source!r} twice"
            )
        self._check_new_store(builder.name)
        self._check_global_kind(builder)
        self._check_lasting(builder)
        if builder.logging:
            raise TopologyError(
                f"global store {builder.name!r} must not log its changes: its topic is its changelog; use"
                " with_logging_disabled()",
                store=builder.name,
            )
        if not is_of(supplier, Operator) and check_processors(processor, supplier):
            raise TopologyError(
                f"the supplier of {processor!r} makes a FixedKeyProcessor; a global store needs a Processor",
                node=processor,
            )
        others = [other.name for other in connected_stores(supplier, processor) if other.name != builder.name]
        if others:
            raise TopologyError(
                f"the supplier of {processor!r} has its own store {others[0]!r}, but the processor of a global store"
                " cannot have another store",
                node=processor,
                store=others[0],
            )

    def _check_global_kind(self, builder: StoreBuilder[Any, Any]) -> None:
        if isinstance(builder.supplier, CustomStoreSupplier):
            raise TopologyError(
                f"global store {builder.name!r} cannot be a custom store, because only one task can use it; use a"
                " store of Stores on your own engine (StoreSupplier.on_engine)",
                store=builder.name,
            )
        if "max_entries" in builder.supplier.parameters:
            raise TopologyError(
                f"global store {builder.name!r} cannot be an LRU map: reading changes it, which only one processor may,"
                " and its topic would not forget what it drops; take a key-value store",
                store=builder.name,
            )

    @staticmethod
    def _refuse_options(name: str, topics: tuple[Any, ...]) -> None:
        """Refuses the options of Java's ``addSource`` in front of topics; names of serdes only where they are two."""
        options = [one for one in topics if not isinstance(one, (str, re.Pattern))]
        if not options and len(topics) > 2 and all(map(is_serde_like, topics[:2])):
            options = list(topics[:2])
        names = ("key_serde", "value_serde", "timestamp_extractor", "offset_reset")
        refuse_options("add_source", tuple(options), names, f"topics of source {name!r}", node=name)

    def _topics_or_pattern(
        self, name: str, topics: tuple[str | re.Pattern[str], ...]
    ) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
        self._refuse_options(name, topics)
        patterns = [topic for topic in topics if isinstance(topic, re.Pattern)]
        names = [topic for topic in topics if isinstance(topic, str)]
        if not topics or len(names) + len(patterns) != len(topics) or "" in names:
            raise TopologyError(f"source {name!r} needs names of topics or one compiled pattern", node=name)
        if patterns and len(topics) > 1:
            raise TopologyError(f"source {name!r} reads either topics or one pattern, not both", node=name)
        if any(isinstance(pattern.pattern, bytes) for pattern in patterns):
            raise TopologyError(f"source {name!r} needs a pattern of text, not of bytes", node=name)
        for topic in names:
            check_topic_name(topic, f"source {name!r}", node=name)
        if len(set(names)) != len(names):
            raise TopologyError(f"source {name!r} names a topic twice", node=name)
        return tuple(names), patterns[0] if patterns else None


def _is_object(wrapper: Any) -> bool:
    """Whether a wrapper is an object of a class for wrappers, and no function."""
    return hasattr(wrapper, "wrap_processor_supplier")


def _copied(value: Any) -> Any:
    """Containers copied as deep as they go; what they hold stays the same."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, (list, set)):
        return type(value)(map(_copied, value))
    return value
