"""The topics of a test as their topology has them: their names, their serdes, and its schema registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from processor_api.errors import ConfigError, StreamsError, TopologyError
from processor_api.serde import Serde, Serdes, with_default
from processor_api.texts import kind_and_text
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.user_code.given_serdes import SerdeLike, check_serde, optional_serde
from streams.config import StreamsConfig
from streams.kafka.topics.internal import changelog_name, full_name, topic_prefix
from streams.kafka.topics.readers import choosing_sinks, reader_of, writer_of
from streams.testing.settings import nearest

IN, OUT = "create_input_topic", "create_output_topic"


class KnownTopics:
    """The topics of one topology under their real names."""

    def __init__(self, topology: TopologyData, config: StreamsConfig) -> None:
        self._topology = topology
        self._defaults = {"key_serde": config.default_key_serde, "value_serde": config.default_value_serde}
        self._prefix = topic_prefix(config.dotted())
        self._dead_letters = config.errors_dead_letter_queue_topic_name
        handlers = (
            config.deserialization_exception_handler,
            config.processing_exception_handler,
            config.production_exception_handler,
        )
        self._has_handlers = any(handlers)
        """A handler may send dead letters to any topic."""
        self._internal = {full_name(topology, self._prefix, name): name for name in topology.repartition_topics}

    def reads(self, topic: str) -> bool:
        """Returns whether a source reads a topic."""
        return self._reader(topic) is not None

    def writes(self, topic: str) -> bool:
        """Returns whether the topology may write to a topic, as far as that is known."""
        if self._has_handlers or topic == self._dead_letters or topic in self._changelogs():
            return True
        if choosing_sinks(self._topology):
            return True
        return writer_of(self._topology, self._internal.get(topic, topic)) is not None

    def knows(self, topic: str) -> bool:
        """Returns whether a source or a sink of the topology has a topic by its name, or it is of dead letters."""
        written = writer_of(self._topology, self._internal.get(topic, topic))
        return self.reads(topic) or (written is not None and written.topic is not None) or topic == self._dead_letters

    def check_read(self, topic: str) -> None:
        """Checks that a source reads a topic.

        :raises TopologyError: if none does; it has the topics that were perhaps meant.
        """
        if not self.reads(topic):
            hint = nearest(topic, self.read_names())
            raise TopologyError(f"no source of the topology reads topic {topic!r}{hint}", topic=topic)

    def check_written(self, topic: str) -> None:
        """Checks that the topology may write to a topic, or read it.

        :raises TopologyError: if it certainly does neither; it has the topics that were perhaps meant.
        """
        if not self.writes(topic) and not self.reads(topic):
            hint = nearest(topic, self.written_names())
            raise TopologyError(f"no sink of the topology writes to topic {topic!r}{hint}", topic=topic)

    def written_names(self) -> set[str]:
        """Returns the names of the topics that the topology may write, where they are known."""
        sinks = [node for node in self._topology.nodes.values() if isinstance(node, SinkNode)]
        names = {name for node in sinks for name in (node.topic, *node.declared_topics) if name is not None}
        found = {full_name(self._topology, self._prefix, name) for name in names} | self._changelogs()
        return found | ({self._dead_letters} if self._dead_letters else set())

    def serdes(
        self, topic: str, key: SerdeLike[Any] | None, value: SerdeLike[Any] | None, call: str
    ) -> tuple[Serde[Any], Serde[Any]]:
        """Returns the serdes of a topic, bound to it: those given, otherwise those of its source or sink.

        What a function of a sink chooses has the serdes of that sink. Dead letters have those of the sources, and bytes
        where these cannot read them.

        :param call: the call that takes them, for errors.
        :raises ConfigError: if there is none.
        """
        key_serde = self._serde(topic, "key_serde", key, call)
        return key_serde, self._serde(topic, "value_serde", value, call)

    def registry(self) -> Serde[Any] | None:
        """Returns the first serde with a schema registry, which gives it to serdes without one."""
        return next(filter(None, map(_with_registry, [*self._own(), *self._defaults.values()])), None)

    def _serde(self, topic: str, part: str, given: SerdeLike[Any] | None, call: str) -> Serde[Any]:
        found = optional_serde(given, part, f"topic {topic!r}", topic=topic)
        nodes = self._nodes(topic, call)
        own = next((serde for node in nodes if (serde := getattr(node, part)) is not None), None)
        if found is None and topic == self._dead_letters:
            return self._of_letters(topic, part)
        found = found or own
        if found is not None:
            found = with_default(with_default(found, _with_registry(own)), self.registry())
        found = with_default(found, self._defaults[part])
        if found is None or not found.is_complete:
            raise ConfigError(self._why_none(topic, part, bool(nodes), call), topic=topic)
        return bound(found, topic, part)

    def _nodes(self, topic: str, call: str) -> list[SourceNode | SinkNode]:
        """Returns the nodes with the serdes of a topic, the first that has one decides."""
        source, sink = self._reader(topic), writer_of(self._topology, self._internal.get(topic, topic))
        return [node for node in ((sink, source) if call != IN else (source, sink)) if node is not None]

    def _of_letters(self, topic: str, part: str) -> Serde[Any]:
        sources = [node for node in self._topology.nodes.values() if isinstance(node, SourceNode)]
        serdes = [with_default(getattr(node, part), self._defaults[part]) for node in sources]
        first = serdes[0] if serdes else None
        if first is None or not first.is_complete or any(one is not first for one in serdes):
            return Serdes.BYTES
        serde = bound(first, topic, part)

        def read(data: bytes) -> Any:
            try:
                return serde.deserialize(data)
            except Exception:  # that may be why it is a dead letter
                return data

        return Serde(serde.serialize, read, name=f"{serde.name} or bytes")

    def _why_none(self, topic: str, part: str, is_known: bool, call: str) -> str:
        if is_known:
            return (
                f"topic {topic!r} has no {part.partition('_')[0]} serde in the topology: give {part}= to {call}, to the"
                f" source or sink, or to StreamsBuilder, or set default.{part.replace('_', '.')}"
            )
        if sinks := choosing_sinks(self._topology):
            names = ", ".join(repr(node.name) for node in sinks)
            return (
                f"topic {topic!r} may be chosen by functions of the sinks {names}, which have different serdes: give"
                f" {part}= to {call}"
            )
        if topic in self._changelogs():
            return (
                f"topic {topic!r} is a changelog, whose values have the format of its store: give {part}= to {call},"
                ' such as "bytes"'
            )
        return f"the topology does not have topic {topic!r}: give {part}= to {call}"

    def _reader(self, topic: str) -> SourceNode | None:
        name = self._internal.get(topic)
        if name is None:
            return reader_of(self._topology, topic)
        nodes = self._topology.nodes.values()
        return next((node for node in nodes if isinstance(node, SourceNode) and name in node.topics), None)

    def read_names(self) -> set[str]:
        """Returns the names of the topics that sources read by their names."""
        sources = [node for node in self._topology.nodes.values() if isinstance(node, SourceNode)]
        return {name for node in sources for name in node.topics if name not in self._topology.repartition_topics}

    def _changelogs(self) -> set[str]:
        return {changelog_name(self._prefix, name) for name in self._topology.stores}

    def _own(self) -> Iterator[Serde[Any] | None]:
        nodes = [node for node in self._topology.nodes.values() if isinstance(node, (SourceNode, SinkNode))]
        for one in [*nodes, *self._topology.stores.values()]:
            yield from (one.key_serde, one.value_serde)


def other_serde(topic: str, part: str, given: SerdeLike[Any] | None, registry: Serde[Any] | None) -> Serde[Any]:
    """Returns the serde of a topic that no topology has: that given, otherwise strings.

    :param registry: a serde whose registry those without one get.
    """
    found = check_serde(Serdes.STRING if given is None else given, part, f"topic {topic!r}", topic=topic)
    return bound(found if registry is None else found.with_default(registry), topic, part)


def bound(serde: Serde[Any], topic: str, part: str) -> Serde[Any]:
    """Returns a serde for a topic of a test.

    :param part: ``key_serde`` or ``value_serde``.
    :raises ConfigError: if it needs a schema registry, and there is none.
    :raises TopologyError: if it cannot be used for the topic.
    """
    if getattr(serde, "registry", serde) is None:
        raise ConfigError(
            f"the serde {serde.name!r} of topic {topic!r} does not have a schema registry in this test: give registry="
            " to the serde",
            topic=topic,
        )
    try:
        return serde.bind(topic, is_key=part == "key_serde")
    except StreamsError as error:
        raise error.locate(topic=topic)  # noqa: B904 - the same error, with its place
    except Exception as error:
        raise TopologyError(
            f"the {part} of topic {topic!r} cannot be used: {kind_and_text(error)}", topic=topic
        ) from error


def _with_registry(serde: Serde[Any] | None) -> Serde[Any] | None:
    """Returns the serde with a registry: it, or one inside of it."""
    while serde is not None and getattr(serde, "registry", None) is None:
        serde = getattr(serde, "inner", None)
    return serde
