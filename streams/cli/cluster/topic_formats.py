"""Finds how the records of a topic are read and written: by the serdes of a topology, or by those that were named."""

from __future__ import annotations

import base64
import difflib
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.forms.times import iso
from processor_api.record import Headers
from processor_api.serde import CurrentHeaders, Serde, Serdes, with_default
from processor_api.stores.builder import StoreBuilder
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.topology.topology import Topology
from state.formats.buffer_value import BufferContext, read_any_version
from state.formats.foreign_keys import UNANSWERED, is_unanswered, read_subscription, read_unanswered
from state.formats.keys import read_window_key_by_time
from state.formats.values import read_items
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde, windowed_partitioner
from state.registry.kinds import kind_of
from state.write_buffer.changelog_form import ChangelogForm
from streams.cli.cluster.connection import Target
from streams.cli.output.causes import CannotRun
from streams.kafka.topics.application import dead_letter_topic
from streams.kafka.topics.internal import changelog_name, full_name, topic_prefix
from streams.kafka.topics.readers import reader_of, writer_of
from streams.serdes.values import json_reader

if TYPE_CHECKING:
    from dsl.processors.joins.foreign_key import OwnSerdes

Reader = Callable[[bytes], Any]
"""A function from bytes to what JSON can write."""

_LENGTH = struct.Struct(">i")
_INSTRUCTIONS = ("delete", "delete and answer", "answer", "answer if found")


@dataclass(frozen=True, kw_only=True)
class TopicFormat:
    """The way in which the records of one topic are read and written."""

    topic: str
    """The name on the cluster."""
    read_key: Reader
    key_serde: Serde[Any] | None = None
    """``None`` if records of the topic are only read: it is the application's own."""
    read_value: Reader
    value_serde: Serde[Any] | None = None
    headers: CurrentHeaders
    """Set them to those of each record before it is read."""
    partitioner: StreamPartitioner | None = None
    """Chooses the partition of a record; ``None`` for Kafka's default."""


def format_of(target: Target, topic: str, key_serde: str | None = None, value_serde: str | None = None) -> TopicFormat:
    """Returns the format of a topic.

    :param topic: its name, the name of a repartition topic without the application's id, or a store's, for its
        changelog.
    :param key_serde: as a setting names one; wins over that of the topology, as does ``value_serde``.
    :raises CannotRun: if the topology has no such topic, or nothing says which serdes it has.
    """
    named = _Named(_serde_named(key_serde, "--key-serde"), _serde_named(value_serde, "--value-serde"))
    if target.topology is None:
        config = target.config
        key = _bound(named.key, config.default_key_serde, topic, is_key=True)
        return _plain_format(topic, key, _bound(named.value, config.default_value_serde, topic, is_key=False))
    return _Finder(target, target.topology, named).find(topic)


def _bound(named: Serde[Any] | None, default: Serde[Any] | None, topic: str, *, is_key: bool) -> Serde[Any]:
    """Returns the serde of a topic without a topology: that named, the default, that of the ids in front of the data
    where there is a schema registry, or else bytes."""
    serde = with_default(named, default)
    if serde is None:
        return Serdes.BYTES
    if not serde.is_complete and (registry := getattr(default, "registry", None)) is not None:
        from streams.registry.schema_serdes import DetectedSerde

        return DetectedSerde(registry, topic, is_key=is_key)
    return serde.bind(topic, is_key=is_key)


@dataclass(frozen=True)
class _Named:
    """The serdes that were named on the command line."""

    key: Serde[Any] | None
    value: Serde[Any] | None


def _serde_named(text: str | None, option: str) -> Serde[Any] | None:
    from streams.config.values import serde

    try:
        return None if text is None else serde(text)
    except ValueError as error:
        raise CannotRun(f"{option} {text!r} {error}") from None


def _meant(topic: str, names: Iterable[str]) -> str:
    """Returns the name that was perhaps meant, for the middle of a sentence."""
    near = difflib.get_close_matches(topic, list(names), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _plain_format(
    topic: str, key: Serde[Any], value: Serde[Any], partitioner: StreamPartitioner | None = None
) -> TopicFormat:
    headers = CurrentHeaders()
    return TopicFormat(
        topic=topic,
        read_key=json_reader(key, headers),
        read_value=json_reader(value, headers),
        headers=headers,
        key_serde=key,
        value_serde=value,
        partitioner=partitioner or windowed_partitioner(key),
    )


class _Finder:
    """Finds topics of one topology."""

    def __init__(self, target: Target, topology: Topology, named: _Named) -> None:
        self._topology, self._named = topology, named
        self._prefix = topic_prefix(target.settings)
        self._dead_letters = dead_letter_topic(target.settings)
        self._headers = CurrentHeaders()
        self._defaults = (target.config.default_key_serde, target.config.default_value_serde)

    def find(self, topic: str) -> TopicFormat:
        topology = self._topology
        short = {full_name(topology, self._prefix, name): name for name in topology.repartition_topics}
        node = self._node(short.get(topic, topic))
        if node is not None:
            name = short.get(topic, topic)
            if name in topology.repartition_topics:
                return self._repartition(name, node)
            return self._of_node(topic, node)
        stores = {changelog_name(self._prefix, name): name for name in topology.stores}
        store = stores.get(topic, topic)
        if store in topology.stores:
            source = topology.source_changelogs.get(store)
            return self.find(source) if source is not None else self._changelog(store)
        if topic in topology.global_stores:
            return self.find(topology.global_stores[topic].topic)
        if topic == self._dead_letters:  # the raw keys and values of what could not be processed
            found = zip((self._named.key, self._named.value), self._defaults, (True, False), strict=True)
            key, value = (
                with_default(named or Serdes.BYTES, default).bind(topic, is_key=is_key)  # type: ignore[union-attr]
                for named, default, is_key in found
            )
            return _plain_format(topic, key, value)
        extracting = [n for n in topology.nodes.values() if isinstance(n, SinkNode) and n.topic is None]
        if len(extracting) == 1 or (self._named.key and self._named.value):
            return self._of_node(topic, extracting[0]) if extracting else self._of_node(topic, SourceNode(name=topic))
        names = [*self._names(), *stores]
        raise CannotRun(
            f"the topology does not have topic {topic!r}{_meant(topic, names)}; it has: {', '.join(names) or 'none'}."
            " For another topic give --key-serde and --value-serde"
        )

    def _names(self) -> list[str]:
        nodes = self._topology.nodes.values()
        named = [t for node in nodes if isinstance(node, SourceNode) for t in node.topics]
        named += [t for node in nodes if isinstance(node, SinkNode) for t in (*node.declared_topics, node.topic) if t]
        named += [self._dead_letters] if self._dead_letters else []
        return list(dict.fromkeys(full_name(self._topology, self._prefix, name) for name in named))

    def _node(self, topic: str) -> SourceNode | SinkNode | None:
        """Returns the node that writes a topic, otherwise the first that reads it."""
        sink = writer_of(self._topology, topic)
        if sink is not None and (sink.topic == topic or topic in sink.declared_topics):
            return sink
        for node in self._topology.nodes.values():
            if isinstance(node, SourceNode) and topic in node.topics:
                return node
        return reader_of(self._topology, topic)

    def _serdes(self, given: Any, topic: str, what: str) -> tuple[Serde[Any], Serde[Any]]:
        """Returns the serdes of a node or store for a topic."""
        found = []
        chosen = ((self._named.key, given.key_serde), (self._named.value, given.value_serde))
        for (named, own), default, part in zip(chosen, self._defaults, ("key", "value"), strict=True):
            serde = with_default(named if named is not None else own, default)
            if serde is None or not serde.is_complete:
                raise CannotRun(
                    f"{what} has no {part} serde, and the application has no default: give {part}_serde= there, set"
                    f' default.{part}.serde, or give it here by --{part}-serde, for instance "string" or "bytes"'
                )
            found.append(serde.bind(topic, is_key=part == "key"))
        return found[0], found[1]

    def _of_node(self, topic: str, node: SourceNode | SinkNode) -> TopicFormat:
        key, value = self._serdes(node, topic, f"topic {topic!r}")
        return _plain_format(topic, key, value, node.partitioner if isinstance(node, SinkNode) else None)

    # ------------------------------------------------------------------ the application's own topics

    def _repartition(self, name: str, node: SourceNode | SinkNode) -> TopicFormat:
        topic = full_name(self._topology, self._prefix, name)
        key, value = self._serdes(node, topic, f"topic {topic!r}")
        read_value = json_reader(value, self._headers)
        if self._named.value is None and value is Serdes.BYTES:
            read_value = self._subscriptions(name) or read_value
        read_key = json_reader(key, self._headers)
        return TopicFormat(topic=topic, read_key=read_key, read_value=read_value, headers=self._headers)

    def _subscriptions(self, name: str) -> Reader | None:
        """Returns the reader of the subscriptions of a foreign-key join; ``None`` if the topic has none."""
        from dsl.processors.joins.foreign_key_right import ForeignKeyAnswer

        for operator in self._operators(ForeignKeyAnswer):
            if operator.topic == name:
                return _subscription_reader(self._inner_key(operator, "key_serde"))
        return None

    def _operators(self, kind: type[Any]) -> list[Any]:
        suppliers = (getattr(node, "supplier", None) for node in self._topology.nodes.values())
        return [one for one in suppliers if isinstance(one, kind)]

    def _inner_key(self, operator: OwnSerdes, name: str) -> Reader:
        serde = with_default(operator.own_serdes()[name], self._defaults[0])
        if serde is None or not serde.is_complete:
            serde = Serdes.BYTES
        topic = f"{self._prefix}-{operator.inner_topic(name).topic}"
        return json_reader(serde.bind(topic, is_key=True).inside(), self._headers)

    def _changelog(self, store: str) -> TopicFormat:
        builder = self._topology.stores[store]
        topic = changelog_name(self._prefix, store)
        if not builder.logging:
            raise CannotRun(f"store {store!r} has no changelog because its logging is disabled")
        key, value = (serde.inside() for serde in self._serdes(builder, topic, f"store {store!r}"))
        read_key, read_value = _changelog_readers(builder, key, value, self._headers)
        subscriptions = self._subscription_store(store) if key is Serdes.BYTES and value is Serdes.BYTES else None
        if subscriptions is not None:
            read_key, read_value = subscriptions
        return TopicFormat(topic=topic, read_key=read_key, read_value=read_value, headers=self._headers)

    def _subscription_store(self, store: str) -> tuple[Reader, Reader] | None:
        """Returns the readers of the store of a foreign-key join; ``None`` for other stores."""
        from dsl.processors.joins.foreign_key_right import ForeignKeyAnswer, ForeignKeyReceive

        for operator in self._operators(ForeignKeyReceive):
            if operator.store != store:
                continue
            left = next(one for one in self._operators(ForeignKeyAnswer) if one.topic == operator.topic)
            read_left = self._inner_key(left, "key_serde")
            read_foreign = self._inner_key(operator, "foreign_key_serde")
            read_row = _unanswered_or(_subscription_reader(read_left), read_foreign)
            return _subscription_key_reader(read_foreign, read_left), read_row
        return None


def _changelog_readers(
    builder: StoreBuilder[Any, Any], key: Serde[Any], value: Serde[Any], headers: CurrentHeaders
) -> tuple[Reader, Reader]:
    """Returns the readers of keys and values on a store's changelog (formats 11)."""
    form, read_value = kind_of(builder).changelog_form, json_reader(value, headers)
    if form is ChangelogForm.WINDOWS:
        parameters = builder.supplier.parameters
        size, end = parameters.get("window_size_ms", 0), parameters.get("window_end")
        return json_reader(TimeWindowedSerde(key, size, changelog=True, window_end=end), headers), read_value
    if form is ChangelogForm.SESSIONS:
        return json_reader(SessionWindowedSerde(key), headers), read_value
    read_key = json_reader(key, headers)
    if form is ChangelogForm.LISTS:
        return read_key, lambda data: [None if item is None else read_value(item) for item in read_items(data)]
    if form is ChangelogForm.CHANGES:
        return read_key, _buffer_reader(read_value, headers)
    if form is ChangelogForm.CHANGES_BY_TIME:
        return _buffer_key_reader(read_key), _buffer_reader(read_value, headers)
    return read_key, read_value


def _buffer_key_reader(read_key: Reader) -> Reader:
    def read(data: bytes) -> Any:
        key, time, _ = read_window_key_by_time(data)
        return {"key": read_key(key), "time": iso(time)}

    return read


def _buffer_reader(read_value: Reader, headers: CurrentHeaders) -> Reader:
    def part(data: bytes | None) -> Any:
        return None if data is None else read_value(data)

    def read(data: bytes) -> Any:
        context, prior, old, new, time, _ = read_any_version(
            b"\x03", data, BufferContext(-1, -1, "", -1, []), None, is_buffered=False
        )
        headers.now = Headers(context.headers or ())  # of the record that waits
        record = {
            "topic": context.topic,
            "partition": context.partition,
            "offset": context.offset,
            "timestamp": iso(context.timestamp),
        }
        return {"new": part(new), "old": part(old), "prior": part(prior), "time": iso(time), "record": record}

    return read


def _subscription_reader(read_key: Reader) -> Reader:
    def read(data: bytes) -> Any:
        found = read_subscription(data)
        known = found.instruction < len(_INSTRUCTIONS)
        return {
            "instruction": _INSTRUCTIONS[found.instruction] if known else found.instruction,
            "key": read_key(found.key),
            "partition": found.partition,
            "hash": None if found.hash is None else base64.b64encode(found.hash).decode(),
        }

    return read


def _unanswered_or(read_row: Reader, read_foreign: Reader) -> Reader:
    def read(data: bytes) -> Any:
        if not is_unanswered(data):
            return read_row(data)
        found = read_unanswered(data)
        value = None if found.value is None else base64.b64encode(found.value).decode()
        return {"foreign_key": read_foreign(found.foreign_key), "value": value}

    return read


def _subscription_key_reader(read_foreign: Reader, read_left: Reader) -> Reader:
    def read(data: bytes) -> Any:
        if data.startswith(UNANSWERED):
            return {"unanswered": int.from_bytes(data[len(UNANSWERED) :], "big")}
        if len(data) < _LENGTH.size:
            raise ValueError(f"a key of subscriptions must have at least 4 bytes, got {len(data)}")
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        return {"foreign_key": read_foreign(data[_LENGTH.size : end]), "key": read_left(data[end:])}

    return read
