"""Compiles the nodes of a plan into closures, children before parents, once for each task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import get_ident
from typing import Any

from processor_api.context import TakeRun
from processor_api.errors import ProcessingError, StreamsError
from processor_api.handlers import origin_header, origin_in, without_origin
from processor_api.processor import FixedKeyProcessor, Operator, Processor
from processor_api.record import Forward, HeaderList, Headers
from processor_api.serde import Serde, Serdes, never_null
from processor_api.texts import kind_and_text, plain_str, repr_of
from processor_api.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from state.registry.kinds import read_only
from state.row_format.record_context import Cursor
from state.write_buffer.store_kind import OpenStore
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.context import Children, Ignores, NodeContext, forward_to, heeds_all, run_processor
from streams.runtime.processing.environment import Environment, NodeErrors
from streams.runtime.processing.inputs import BoundSource
from streams.runtime.processing.punctuations import Punctuations
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.tasks")


@dataclass
class NodeChain:
    """Holds the compiled nodes of a task."""

    sources: dict[str, BoundSource]
    """The sources by real topic name."""
    bind_source: Callable[[str, str], BoundSource]
    """``(node, real topic name)`` to the source as it reads that topic."""
    contexts: Mapping[str, NodeContext]
    _initialisers: list[Callable[[], None]]
    _closers: list[Callable[[], None]]

    @property
    def initialises(self) -> bool:
        """Whether there are users' processors, which may write and forward when they are initialised."""
        return bool(self._initialisers)

    def init(self) -> None:
        """Initialises the users' processors, parents before children."""
        for initialise in self._initialisers:
            initialise()

    def close(self) -> None:
        """Closes the users' processors; raises the first error after all were closed, and logs others."""
        failure: Exception | None = None
        for close in self._closers:
            try:
                close()
            except BaseException as error:
                if passes(error):
                    raise
                if failure is not None:
                    log.warning("not closed in order", extra={"error": plain_str(error)}, exc_info=error)
                failure = failure or as_error(error, "by the close of a processor")
        self._closers.clear()
        if failure is not None:
            raise failure


def _init(context: NodeContext, processor: Any) -> None:
    processor.init(context.processing_context(fixed_key=isinstance(processor, FixedKeyProcessor)))


def _called(call: Callable[[], None], what: str, **place: Any) -> None:
    """Calls a user's ``init`` or ``close``.

    :param place: the node with its line, and the task.
    :raises ProcessingError: if it fails, with the name of the node.
    """
    try:
        call()
    except StreamsError as error:
        raise error.locate(**place)  # noqa: B904 - the same error, with its place
    except Exception as error:
        failed = f"processor {place['node']!r} could not be {what}: {kind_and_text(error)}"
        raise ProcessingError(failed, **place) from error


def _made(node: str, supplier: Any, task: str) -> Any:
    """Returns the processor that a user's supplier makes.

    :raises ProcessingError: if the supplier fails, or makes no processor, with the name of the node.
    """
    try:
        processor = supplier()
    except StreamsError as error:
        raise error.locate(node=node, task=task)  # noqa: B904 - the same error, with its place
    except Exception as error:
        what = f"the supplier of processor {node!r} failed: {kind_and_text(error)}"
        raise ProcessingError(what, node=node, task=task) from error
    if not isinstance(processor, (Processor, FixedKeyProcessor)):
        what = f"the supplier of processor {node!r} made {repr_of(processor)}, which is neither a Processor nor a"
        raise ProcessingError(f"{what} FixedKeyProcessor", node=node, task=task)
    return processor


def _readers(
    key_serde: Serde[Any], value_serde: Serde[Any], headers: Headers
) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    """Returns the functions that read key and value of a record with these headers."""
    return key_serde.with_headers(headers).deserialize, value_serde.with_headers(headers).deserialize


def _handing_headers(cursor: Cursor, function: Forward) -> Forward:
    """Returns the function of a node whose serdes may take the headers of its record."""

    def handed(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        saved = cursor.headers
        cursor.headers, cursor.thread = headers, get_ident()
        try:
            function(key, value, timestamp, headers)
        finally:
            cursor.headers = saved

    return handed


def _are_these(own_key: Serde[Any], own_value: Serde[Any], key_serde: Serde[Any], value_serde: Serde[Any]) -> bool:
    return own_key is key_serde and own_value is value_serde


def _unless_ignored(written: Forward, exact_key: Callable[[Any], bool], exact_value: Callable[[Any], bool]) -> Forward:
    """Returns the function of a sink whose records nobody keeps: those that can be written surely are not written."""

    def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        if headers or timestamp <= 0 or not (value is None or exact_value(value)) or not exact_key(key):
            written(key, value, timestamp, headers)

    return sink


class _ChainBuilder:
    """Compiles one node after the other, and collects what the chain is made of."""

    def __init__(
        self,
        plan: TaskPlan,
        environment: Environment,
        collector: RecordCollector,
        stores: Mapping[str, OpenStore],
        punctuations: Punctuations,
    ) -> None:
        self.plan = plan
        self.environment = environment
        self.collector = collector
        self.stores = stores
        self.punctuations = punctuations
        self.children: dict[str, dict[str, Forward]] = {name: {} for name in plan.nodes}
        self.ignoring: dict[str, Ignores] = {}
        """Sinks, and what only passes on to them, that ignore some changes or all."""
        self.runs: dict[str, TakeRun | None] = {}
        """Functions that take runs of records in the place of those of nodes."""
        self.contexts: dict[str, NodeContext] = {}
        self.initialisers: list[Callable[[], None]] = []
        self.closers: list[Callable[[], None]] = []
        names = plan.topology.repartition_topics if environment.settings.keeps_origins else ()
        self.repartitions = frozenset(map(plan.real_name, names))
        """The repartition topics whose records name their origin."""

    def add(self, node: Node) -> dict[str, BoundSource]:
        """Compiles one node; returns its sources by real topic name, if it is one."""
        if isinstance(node, SourceNode):
            topics = [topic for topic, reader in self.plan.topics.items() if reader == node.name]
            return {topic: self.source(node.name, topic) for topic in topics}
        function = self.sink(node) if isinstance(node, SinkNode) else self.processor(node)
        # Before a probe wraps it: samples know a node by the code of its own function.
        self.environment.metrics.nodes.add(node.name, function, is_terminal=not self.children.get(node.name))
        if self.environment.cursor.hands_headers and isinstance(node, ProcessorNode):
            function = _handing_headers(self.environment.cursor, function)
        written = node.topic if isinstance(node, SinkNode) else None
        function = self.probed(node, function, None if written is None else self.plan.real_name(written))
        for parent in node.parents:
            self.children[parent][node.name] = function
        return {}

    def processor(self, node: ProcessorNode) -> Forward:
        connected = {store: self._connected(store, node.name) for store in self.plan.topology.stores_of(node.name)}
        # Nodes are compiled from the last to the first, so their children stand the other way round.
        functions = dict(reversed(self.children[node.name].items()))
        children = Children(functions, [self.ignoring.get(name, heeds_all) for name in functions])
        context = NodeContext(node.name, self.environment, children, connected, self.punctuations, self.closers)
        self.contexts[node.name] = context
        supplier = node.supplier
        if isinstance(supplier, Operator):
            if getattr(supplier, "passes_on", False):
                self.ignoring[node.name] = context.ignores
            function = supplier.bind(context)
            self.runs[node.name] = children.take_run
            return function
        task = str(self.environment.task_id)
        processor = _made(node.name, supplier, task)
        init = partial(_init, context, processor)
        place = {"node": node.name, "task": task, **self.plan.topology.origin_of(node.name)}
        self.initialisers.insert(0, partial(_called, init, "initialised", **place))
        context.on_close(partial(_called, processor.close, "closed", **place))
        return run_processor(context, processor)

    def _connected(self, store: str, node: str) -> OpenStore:
        found = self.stores[store]
        if self.environment.probe is not None:
            found = replace(found, is_shared=store in self.plan.shared_stores)
        writer = self.plan.topology.read_only_stores.get(store, node)
        if writer == node:
            return found
        return read_only(found, node, f"only node {writer!r} writes to it, from its topic (KIP-813)")

    def sink(self, node: SinkNode) -> Forward:
        environment, collector = self.environment, self.collector
        errors = NodeErrors(environment, node.name)

        def to(topic: str) -> Forward:
            what = f"sink {node.name!r}"
            key_serde = environment.key_serde(node.key_serde, what, topic)
            value_serde = environment.value_serde(node.value_serde, what, topic)
            written = collector.sink(node, topic, key_serde, value_serde, errors)
            if topic in self.repartitions:
                written = _naming_origin(written, environment.cursor, self.repartitions)
            kept, exact_key, exact_value = environment.settings.kept_outputs, key_serde.exact, value_serde.exact
            if kept is None or topic in kept or node.partitioner or exact_key is None or exact_value is None:
                return written
            if node.topic is not None:
                self.ignoring[node.name] = partial(_are_these, key_serde, value_serde)
            return _unless_ignored(written, exact_key, exact_value)

        if node.topic is not None:
            return to(self.plan.real_name(node.topic))
        return collector.dynamic_sink(node, to, errors, environment.cursor)

    def source(self, name: str, topic: str) -> BoundSource:
        node: Any = self.plan.topology.nodes[name]
        what = f"source {name!r}"
        self.environment.metrics.nodes.add_source(name, topic)
        forward = forward_to(list(reversed(self.children[name].values())))
        if topic in self.repartitions:
            forward = _hiding_origin(forward)
        key_serde = self.environment.key_serde(node.key_serde, what, topic)
        value_serde = self.environment.value_serde(node.value_serde, what, topic)
        takes_headers = key_serde.takes_headers or value_serde.takes_headers
        return BoundSource(
            node=name,
            read_key=never_null(key_serde.deserialize),
            read_value=never_null(value_serde.deserialize),
            extractor=node.timestamp_extractor or self.environment.settings.default_timestamp_extractor,
            forward=self.probed(node, forward, topic),
            unprobed=forward,
            with_headers=partial(_readers, key_serde, value_serde) if takes_headers else None,
            checks_values=value_serde is not Serdes.BYTES,
            take_run=self._take_run(name),
        )

    def _take_run(self, source: str) -> TakeRun | None:
        """Returns what takes runs of records below a source, if only one node is there and it does."""
        children = list(self.children[source])
        is_seen = self.environment.probe is not None or self.environment.cursor.hands_headers
        return None if len(children) != 1 or is_seen else self.runs.get(children[0])

    def probed(self, node: Node, function: Forward, topic: str | None) -> Forward:
        """Returns the function of a node, as a probe sees it, if there is one.

        :param topic: what the node reads or writes.
        """
        probe = self.environment.probe
        if probe is None:
            return function
        is_internal = topic in self.plan.internal_topics
        return probe.node(node, function, is_internal=is_internal, is_below_users=self._is_below_users(node))

    def _is_below_users(self, node: Node) -> bool:
        nodes, found = self.plan.topology.nodes, list(node.parents)
        for name in found:  # which grows
            above = nodes[name]
            if isinstance(above, ProcessorNode) and not isinstance(above.supplier, Operator):
                return True
            found += [parent for parent in above.parents if parent not in found]
        return False


def _naming_origin(write: Forward, cursor: Cursor, repartitions: Container[str]) -> Forward:
    """Returns a sink that adds the place of the current record to the headers: its own, or that which it has from a
    repartition topic itself."""

    def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        topic, partition = cursor.source
        message, place = cursor.message, None
        if topic in repartitions:
            place = origin_in(message.headers())
        elif topic is not None:
            place = topic, partition, message.offset()
        if place is not None:
            headers = [*(headers or ()), origin_header(*place)]
        write(key, value, timestamp, headers)

    return sink


def _hiding_origin(forward: Forward) -> Forward:
    """Returns a source that passes on records without the header that a sink before a repartition topic has added."""

    def source(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        if headers:
            kept = without_origin(headers)
            headers = Headers(kept) if isinstance(headers, Headers) else kept or None
        forward(key, value, timestamp, headers)

    return source


def build_chain(
    plan: TaskPlan,
    environment: Environment,
    collector: RecordCollector,
    stores: Mapping[str, OpenStore],
    punctuations: Punctuations,
) -> NodeChain:
    """Compiles a plan for one task. Users' processors are made here and initialised by :meth:`NodeChain.init`.

    :raises StreamsError: if a serde is missing, a store is not there, or a user's supplier fails: with the node.
    """
    environment.metrics.nodes.begin()
    environment.operators.remainders.meets_again = plan.branches.meet_again
    builder = _ChainBuilder(plan, environment, collector, stores, punctuations)
    sources: dict[str, BoundSource] = {}
    for name in reversed(plan.nodes):
        try:
            sources |= builder.add(plan.topology.nodes[name])
        except StreamsError as error:
            raise error.locate(node=name, **plan.topology.origin_of(name))  # noqa: B904 - the same, with its place
    return NodeChain(sources, builder.source, builder.contexts, builder.initialisers, builder.closers)
