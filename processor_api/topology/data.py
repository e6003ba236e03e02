"""The content of a topology, for code that only reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from processor_api.errors import TopologyError
from processor_api.processor import Operator
from processor_api.stores.builder import GlobalStore, StoreBuilder
from processor_api.texts import repr_of
from processor_api.topology.nodes import Node, ProcessorNode, RepartitionTopic, SinkNode, SourceNode
from processor_api.user_code.function_code import function_name, module_of
from processor_api.user_code.lines import Line, is_of_project, text_of

_GENERATED = re.compile(r"-[0-9]{10}(-|$)")
"""The number that a generated name has."""


def known_name(given: object, what: str) -> str:
    """Returns a name by which something is looked up.

    :param what: what has the name, for the error.
    :raises TopologyError: if it is not a plain text.
    """
    if type(given) is not str:
        raise TopologyError(f"a {what} must be given by its name, a string, got {repr_of(given)}")
    return given


class TopologyData:
    """The nodes, stores and internal topics of a topology by name."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreBuilder[Any, Any]] = {}
        self._connections: dict[str, list[str]] = {}
        self._topic_readers: dict[str, str] = {}
        self._repartition_topics: dict[str, RepartitionTopic] = {}
        self._source_changelogs: dict[str, str] = {}
        self._copartition_groups: list[tuple[str, ...]] = []
        self._global_stores: dict[str, GlobalStore] = {}
        self._read_only_stores: dict[str, str] = {}
        self._lines: dict[str, Line] = {}
        self._store_lines: dict[str, Line] = {}
        self.derived: dict[str, Any] = {}
        """Results that were computed from the content, by name; forgotten when it changes."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name, parents before children."""
        return self._nodes

    @property
    def stores(self) -> Mapping[str, StoreBuilder[Any, Any]]:
        """The stores of tasks by name; global ones are not among them."""
        return self._stores

    @property
    def global_stores(self) -> Mapping[str, GlobalStore]:
        """Stores that every process holds as a whole, by name, in the order in which they were added."""
        return self._global_stores

    @property
    def global_nodes(self) -> frozenset[str]:
        """The nodes that fill global stores, outside of tasks."""
        return frozenset(name for store in self._global_stores.values() for name in (store.source, store.processor))

    @property
    def read_only_stores(self) -> Mapping[str, str]:
        """The only processor that writes to each read-only store (KIP-813), by store."""
        return self._read_only_stores

    @property
    def repartition_topics(self) -> Mapping[str, RepartitionTopic]:
        """The internal topics between subtopologies, by name without the application's id."""
        return self._repartition_topics

    @property
    def source_changelogs(self) -> Mapping[str, str]:
        """Topics that serve as changelogs, by store."""
        return self._source_changelogs

    @property
    def copartition_groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of source nodes whose topics need equal partition counts."""
        return tuple(self._copartition_groups)

    def line_of(self, node: str) -> str | None:
        """Returns the line of the user's script that made a node, such as ``orders.py:14``, if it is known.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            print(topology.line_of("shout"))  # such as: app.py:12
        """
        return text_of(self._lines.get(known_name(node, "node")))

    def call_of(self, node: str) -> str | None:
        """Returns the call of the user's script that made a node, such as ``map_values(to_cents)``, if it is known.

        It names the user's functions, topics, and the stores that the user has named. Of a call that makes several
        nodes, it says the part of this one: ``join(total): left``.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            assert topology.call_of("shout") == "add_processor(Shout)"
        """
        line = self._lines.get(known_name(node, "node"))
        if line is None or not line.call:
            return None
        found = self._nodes[node]
        call = line.call.rstrip("_")
        topics = _topics_of(found)
        if topics and all(topic in self._repartition_topics for topic in topics):
            named = "" if _GENERATED.search(topics[0]) else f" {topics[0]}"
            return f"{call}(): {'read' if isinstance(found, SourceNode) else 'write'}{named}"
        if not isinstance(found, ProcessorNode):
            return f"{call}({', '.join(topics)})"
        functions = ", ".join(_functions_of(found.supplier))
        if isinstance(found.supplier, Operator) and (part := getattr(found.supplier, "part", "")):
            return f"{call}({functions}): {part}"
        stores = [store for store in self.stores_of(node) if not _GENERATED.search(store)]
        return f"{call}({', '.join(filter(None, (functions, *stores)))})"

    def origin_of(self, node: str) -> dict[str, str | None]:
        """Returns where a node comes from, as an error says it: the line of the user's script, and the call.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            assert topology.origin_of("shout")["made_by"] == "add_processor(Shout)"
        """
        return {"made_at": self.line_of(node), "made_by": self.call_of(node)}

    def followed_serdes(self, node: str) -> tuple[str, ...]:
        """Returns which serdes of a node and its stores follow the result of a function, each with the reason.

        ::

            builder = StreamsBuilder(key_serde="string", value_serde="string", models="json")
            builder.stream("words").map_values(len).map_values(str).to("sizes")
            assert builder.build().followed_serdes("KSTREAM-SINK-0000000003") == ()  # str is the builder's own class
        """
        line = self._lines.get(known_name(node, "node"))
        return () if line is None else line.serdes

    def line_of_store(self, store: str) -> str | None:
        """Returns the line of the user's script that made a store, if it is known.

        ::

            topology = Topology().add_state_store(Stores.key_value_store("counts", "string", "long"))
            print(topology.line_of_store("counts"))  # such as: app.py:12
        """
        return text_of(self._store_lines.get(known_name(store, "store")))

    def origin_of_store(self, store: str) -> dict[str, str | None]:
        """Returns where a store comes from, as an error says it: the line of the user's script, and the call.

        ::

            topology = Topology().add_state_store(Stores.key_value_store("counts", "string", "long"))
            assert topology.origin_of_store("counts")["made_by"] == "add_state_store(counts)"
        """
        line = self._store_lines.get(known_name(store, "store"))
        made_by = None if line is None or not line.call else f"{line.call}({store})"
        return {"made_at": text_of(line), "made_by": made_by}

    def stores_of(self, processor: str) -> tuple[str, ...]:
        """Returns the names of the stores connected to a processor, in the order of connection.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            topology.add_state_store(Stores.key_value_store("counts", "string", "long"), "shout")
            assert topology.stores_of("shout") == ("counts",)
        """
        return tuple(self._connections.get(known_name(processor, "processor"), ()))

    def children_of(self, name: str) -> tuple[str, ...]:
        """Returns the names of the nodes below a node, in the order in which they were added.

        ::

            topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
            assert topology.children_of("source") == ("shout",)
        """
        known = known_name(name, "node")
        return tuple(child.name for child in self._nodes.values() if known in child.parents)


def _topics_of(node: Node) -> tuple[str, ...]:
    """Returns what a source reads, or a sink writes; nothing of other nodes."""
    if isinstance(node, SourceNode):
        return node.topics if node.pattern is None else (node.pattern.pattern,)
    if isinstance(node, SinkNode):
        return (function_name(node.topic_extractor) if node.topic is None else node.topic,)
    return ()


def _functions_of(supplier: Any) -> Iterator[str]:
    """Yields the names of the user's functions that an operator calls; of a supplier its own name."""
    if not isinstance(supplier, Operator):
        yield function_name(supplier)
        return
    for name in getattr(supplier, "__dataclass_fields__", ()):
        value = getattr(supplier, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Operator):
                yield from _functions_of(each)
            elif callable(each) and not is_of_project(module_of(each)):
                yield function_name(each)
