"""A topology of operators on dicts: one task, no Kafka, for tests of the DSL alone.

Internal topics are looped back through their serdes. After each record the caches are flushed, as the test driver does.
Users' processors are not run.
"""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from processor_api.clock import Clock, SystemClock
from processor_api.record import DropReason, Forward, HeaderList
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.topology.nodes import ProcessorNode, RecordContext, SinkNode, SourceNode
from processor_api.topology.topology import Topology

__all__ = ["FakeStore", "FakeTask", "Output"]


class Output(NamedTuple):
    """A record that a sink or a changelog got."""

    key: Any
    value: Any
    timestamp: int
    headers: HeaderList | None = None


FlushCallback = Callable[[Any, Any, Any, int, "HeaderList | None"], None]


class FakeStore:
    """A timestamped key-value store in the form that operators see. Like a real one it keeps and gives copies."""

    def __init__(self, task: FakeTask, builder: StoreBuilder[Any, Any]) -> None:
        self.cached = builder.caching
        self.rows: dict[Any, tuple[Any, int]] = {}
        self.changelog: list[Output] = []
        self.builder = builder
        self._task = task
        self._dirty: dict[Any, tuple[Any, int, HeaderList | None]] = {}
        self._callback: FlushCallback | None = None
        self._old_values = False

    def on_flush(self, callback: FlushCallback, *, old_values: bool) -> None:
        assert self.cached
        self._callback, self._old_values = callback, old_values

    def get(self, key: Any) -> tuple[Any, int] | None:
        if key in self._dirty:
            value, timestamp, _ = self._dirty[key]
            return None if value is None else (copy.deepcopy(value), timestamp)
        return copy.deepcopy(self.rows.get(key))

    def put(self, key: Any, value: Any, timestamp: int, headers: Any = None) -> None:
        value = copy.deepcopy(value)
        if self.cached:
            self._dirty.pop(key, None)
            self._dirty[key] = (value, timestamp, self._task.headers)
        else:
            self._write(key, value, timestamp)

    def flush(self) -> bool:
        """Sends the dirty entries on; returns whether there were any."""
        dirty, self._dirty = self._dirty, {}
        for key, (value, timestamp, headers) in dirty.items():
            old = self.rows.get(key)
            if value is None and old is None:
                continue
            self._write(key, value, timestamp)
            if self._callback is not None:
                shown = old[0] if old is not None and self._old_values else None
                self._callback(key, value, shown, timestamp, headers)
        return bool(dirty)

    def _write(self, key: Any, value: Any, timestamp: int) -> None:
        self.changelog.append(Output(key, value, timestamp))
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = (value, timestamp)


class _Context:
    """The operator context of one node."""

    clock: Clock = SystemClock()

    def __init__(self, task: FakeTask, node: str, forward: Forward, children: Mapping[str, Forward]) -> None:
        self.node = node
        self.forward = forward
        self._task = task
        self._children = children

    def child(self, name: str) -> Forward:
        return self._children[name]

    def children(self) -> Mapping[str, Forward]:
        return self._children

    def store(self, name: str) -> Any:
        assert name in self._task.topology.stores_of(self.node), f"{self.node} is not connected to {name}"
        return self._task.stores[name]

    def fail(self, error: Exception, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        self._task.failures.append((self.node, error, Output(key, value, timestamp, headers)))
        if not self._task.continue_on_error:
            raise error

    def drop(self, reason: DropReason, why: str = "") -> None:
        self._task.drops.append(reason)

    def counting(self, reason: DropReason) -> Callable[[], None]:
        return lambda: self._task.no_results.append(reason)

    def stream_time_ms(self) -> int:
        return self._task.stream_time

    def processing_context(self) -> Any:
        return SimpleNamespace(app_configs=lambda: self._task.config, state_dir=Path())


class FakeTask:
    """Runs all subtopologies as one task.

    :param config: what ``app_configs()`` gives.
    :param continue_on_error: what the processing handler says.
    """

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, Any] | None = None,
        *,
        continue_on_error: bool = False,
        default_serde: Serde[Any] = Serdes.STRING,
    ) -> None:
        self.topology = topology
        self.config = config or {}
        self.continue_on_error = continue_on_error
        self.outputs: dict[str, list[Output]] = defaultdict(list)
        self.internal: dict[str, list[tuple[bytes | None, bytes | None, int]]] = defaultdict(list)
        self.drops: list[DropReason] = []
        self.no_results: list[DropReason] = []
        """Why records that were not dropped had no result."""
        self.failures: list[tuple[str, Exception, Output]] = []
        self.stream_time = -1
        self.headers: HeaderList | None = None
        self.stores = {name: FakeStore(self, builder) for name, builder in topology.stores.items()}
        self._default = default_serde
        self._input = ("", 0, -1)
        self._offsets: dict[str, itertools.count[int]] = defaultdict(itertools.count)
        self._queues: dict[str, deque[Output]] = defaultdict(deque)
        self._bound: dict[str, Forward] = {}
        for name in topology.nodes:
            self._bind(name)

    def pipe(self, topic: str, key: Any, value: Any, timestamp: int = 0, headers: HeaderList | None = None) -> None:
        """Processes a record, and whatever it leads to, to the end."""
        self._queues[topic].append(Output(key, value, timestamp, headers))
        while waiting := [queue[0].timestamp for queue in self._queues.values() if queue]:
            topic = next(t for t, queue in self._queues.items() if queue and queue[0].timestamp == min(waiting))
            self._process(topic, self._queues[topic].popleft())
            while sum(store.flush() for store in self.stores.values()):
                pass

    def take(self, topic: str) -> list[Output]:
        """What a topic got since the last time."""
        return self.outputs.pop(topic, [])

    def values(self, topic: str) -> list[tuple[Any, Any]]:
        """As :meth:`take`, keys and values only."""
        return [(record.key, record.value) for record in self.take(topic)]

    def _process(self, topic: str, record: Output) -> None:
        self._input = (topic, 0, next(self._offsets[topic]))
        self.headers = record.headers
        self.stream_time = max(self.stream_time, record.timestamp)
        self._bound[self._source(topic).name](*record)

    def _source(self, topic: str) -> SourceNode:
        for node in self._sources():
            if topic in node.topics or (node.pattern is not None and node.pattern.fullmatch(topic)):
                return node
        raise AssertionError(f"nobody reads {topic}")

    def _bind(self, name: str) -> Forward:
        if name not in self._bound:
            node = self.topology.nodes[name]
            if isinstance(node, SinkNode):
                self._bound[name] = self._sink(node)
            else:
                children = {child: self._bind(child) for child in self.topology.children_of(name)}
                forward = _to_all(list(children.values()))
                if isinstance(node, ProcessorNode):
                    self._bound[name] = node.supplier.bind(_Context(self, name, forward, children))
                else:
                    self._bound[name] = forward
        return self._bound[name]

    def _sink(self, node: SinkNode) -> Forward:
        def write(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            topic = node.topic
            if node.topic_extractor is not None:
                topic = node.topic_extractor(key, value, RecordContext(*self._input, timestamp, headers))
            assert topic is not None
            if topic in self.topology.repartition_topics:
                source = self._source(topic)
                key_data, key = self._round_trip(node.key_serde, source.key_serde, key)
                value_data, value = self._round_trip(node.value_serde, source.value_serde, value)
                self.internal[topic].append((key_data, value_data, timestamp))
                self._queues[topic].append(Output(key, value, timestamp, headers))
                return
            self.outputs[topic].append(Output(key, value, timestamp, headers))
            if any(topic in source.topics for source in self._sources()):
                self._queues[topic].append(Output(key, value, timestamp, headers))

        return write

    def _sources(self) -> list[SourceNode]:
        return [node for node in self.topology.nodes.values() if isinstance(node, SourceNode)]

    def _round_trip(self, writer: Serde[Any] | None, reader: Serde[Any] | None, value: Any) -> tuple[bytes | None, Any]:
        if value is None:
            return None, None
        data = self.serde(writer).serialize(value)
        return data, self.serde(reader).deserialize(data)

    def serde(self, serde: Serde[Any] | None) -> Serde[Any]:
        """A node's serde as the application uses it."""
        return self._default if serde is None else serde.with_default(self._default)


def _to_all(children: list[Forward]) -> Forward:
    def forward(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        for child in children:
            child(key, value, timestamp, headers)

    return forward
