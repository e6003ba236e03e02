"""The contexts of one node: one for operators, one for users' processors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from processor_api.context import BatchLimits, HandleTogether, HeldRecord, LookForHeld, TakeRun
from processor_api.errors import TopologyError
from processor_api.metrics import StreamsMetrics
from processor_api.processor import FixedKeyProcessor, Operator, Processor
from processor_api.punctuation import Cancellable, PunctuationType, Punctuator
from processor_api.record import (
    DropReason,
    FixedKeyRecord,
    Forward,
    HeaderList,
    Record,
    RecordMetadata,
    TimestampType,
    record_time,
)
from processor_api.serde import Serde
from processor_api.task_id import TaskId
from processor_api.texts import repr_of
from processor_api.user_code.durations import LAST_MS, Duration, Timestamp, to_ms
from processor_api.user_code.given_values import with_prefix
from state.guards.guard import GuardedStore, guarded
from state.guards.policies import OneThread
from state.write_buffer.store_kind import OpenStore
from streams.runtime.processing.drops import Setting
from streams.runtime.processing.environment import Environment, NodeErrors
from streams.runtime.processing.held_records import HoldingNode
from streams.runtime.processing.punctuations import Punctuations


def forward_to(children: list[Forward]) -> Forward:
    """Returns one function that forwards to all children, in order."""
    if not children:
        return lambda key, value, timestamp, headers: None
    # One or two children, as nearly all nodes have, cost no loop.
    if len(children) == 1:
        return children[0]
    if len(children) == 2:
        first, second = children

        def to_two(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            first(key, value, timestamp, headers)
            second(key, value, timestamp, headers)

        return to_two

    def to_all(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        for child in children:
            child(key, value, timestamp, headers)

    return to_all


T = TypeVar("T")

Ignores = Callable[[Serde[Any], Serde[Any]], bool]
"""``(key serde, value serde)`` to whether a node ignores a change whose key and new value these give back exactly."""


def heeds_all(key_serde: Serde[Any], value_serde: Serde[Any]) -> bool:
    """Says of a node that it ignores nothing."""
    return False


class Children(dict[str, Forward]):
    """The functions of the children of a node, by name and in order.

    :param ignoring: says of each child whether it ignores a change.
    """

    def __init__(self, functions: Mapping[str, Forward], ignoring: Collection[Ignores] = (heeds_all,)) -> None:
        super().__init__(functions)
        self.ignoring = ignoring
        self.take_run: TakeRun | None = None
        """Takes a run of records in the place of the node's function, if its operator does."""


class NodeContext:
    """The context of an operator (`processor_api.context.OperatorContext`).

    :param forward: forwards to all children; made from them if it is not given.
    """

    def __init__(
        self,
        node: str,
        environment: Environment,
        children: Children,
        stores: Mapping[str, OpenStore],
        punctuations: Punctuations,
        closers: list[Callable[[], None]],
        forward: Forward | None = None,
    ) -> None:
        self.node = node
        self.environment = environment
        self.clock = environment.clock
        self.forward = forward or forward_to(list(children.values()))
        self.fail = NodeErrors(environment, node).fail
        self._children = children
        self._stores = stores
        self._punctuations = punctuations
        self._closers = closers
        self._opened: dict[str, OpenStore] = {}
        self._owned: dict[str, GuardedStore] = {}
        self.drop = environment.dropping(node)
        """``(reason, why)``: counts a record that was dropped."""

    def through(self, forward: Callable[..., None]) -> NodeContext:
        """Returns the same context, but whatever goes to the children goes through ``forward`` as a `Record`.

        :param forward: the call of a user's context: ``(record)`` or ``(record, child)``.
        """

        def to_all(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            forward(Record(key, value, timestamp, headers))

        def to_child(name: str) -> Forward:
            return lambda key, value, timestamp, headers: forward(Record(key, value, timestamp, headers), name)

        children = Children({name: to_child(name) for name in self._children})
        return NodeContext(
            self.node, self.environment, children, self._stores, self._punctuations, self._closers, to_all
        )

    def child(self, name: str) -> Forward:
        """Returns the function that forwards to one child.

        :raises TopologyError: if the node has no such child.
        """
        found = self._children.get(name)
        if found is None:
            known = ", ".join(self._children) or "none"
            raise TopologyError(
                f"node {self.node!r} does not have child {name!r}; its children are: {known}", node=self.node
            )
        return found

    def children(self) -> Mapping[str, Forward]:
        """Returns the functions that forward to each child, by name."""
        return self._children

    def open_store(self, name: str) -> OpenStore:
        """Returns a store that is connected to the node, or a global one.

        :raises TopologyError: if there is no such store.
        """
        found = self._opened.get(name)
        if found is None:
            found = self._opened[name] = self._find_store(name)
        return found

    def _find_store(self, name: str) -> OpenStore:
        """Every node may read a global store, without being connected to it."""
        found = self._stores.get(name) or self.environment.settings.global_store(name, self.node)
        if found is None:
            raise TopologyError(
                f"store {name!r} is not connected to node {self.node!r}; connect it with add_state_store or"
                " connect_processor_and_state_stores, or name it in the supplier's stores()",
                node=self.node,
                store=name,
            )
        probe = self.environment.probe
        return found if probe is None else probe.store(self.node, found)

    def facade(self, name: str) -> Any:
        """Returns a store for a user's processor; only the thread of the task can write it.

        A custom store is returned as it is, except in Python's development mode.

        :raises TopologyError: if there is no such store.
        """
        found, owner, checks_reads = self.open_store(name), self.environment.thread.store_owner, sys.flags.dev_mode
        if owner is None or name not in self._stores or (not found.kind.has_rows and not checks_reads):
            return found.facade
        owned = self._owned.get(name)
        if owned is None:
            checked = None if checks_reads else found.kind.writes
            owned = self._owned[name] = guarded(OneThread(found.facade, owner, checked))
        return owned

    def store(self, name: str) -> Any:
        """Returns the form of a store that operators use."""
        return self.open_store(name).operator

    def ignores(self, key_serde: Serde[Any], value_serde: Serde[Any]) -> bool:
        """Whether no child does anything with changes whose keys and new values these serdes give back exactly."""
        return all(ignores(key_serde, value_serde) for ignores in self._children.ignoring)

    def take_runs(self, take: TakeRun) -> None:
        """Lets the operator take runs of records."""
        self._children.take_run = take

    def dropping_late(self, reason: DropReason, setting: str, ms: int) -> Callable[[int], None]:
        """Returns the function that drops a record which arrived this many ms too late."""
        return self.environment.dropping_late(self.node, reason, Setting(setting, ms))

    def counting(self, reason: DropReason) -> Callable[[], None]:
        """Returns the function that counts a record which is not dropped and gives no result."""
        return self.environment.metrics.drops.of(self.node).counting(reason)

    def stream_time_ms(self) -> int:
        """Returns the stream time of the task."""
        return self.environment.cursor.stream_time

    def origin(self) -> tuple[str | None, int, int]:
        """Returns the topic, partition and offset of the current record."""
        cursor = self.environment.cursor
        topic, partition = cursor.source
        return topic, partition, cursor.message.offset()

    def keep_time(self, name: str, current: Callable[[], int], *, named: bool = False) -> int:
        """Returns the time that was committed under a name; each commit takes that of ``current()``."""
        return self.environment.operators.times.keep(name, current, named=named)

    def keep_progress(self, name: str, current: Callable[[], int], *, since: str) -> int:
        """Returns the number that was committed beside the latest time of a name; each commit takes that of
        ``current()``."""
        return self.environment.operators.times.keep_progress(name, current, since=since)

    def with_record(self, do: Callable[[], T]) -> Callable[[], T]:
        """Returns a function that does something with what is the current record now."""
        cursor = self.environment.cursor
        message, source, timestamp, headers = cursor.own_message(), cursor.source, cursor.timestamp, cursor.headers

        def done() -> T:
            saved = cursor.message, cursor.source, cursor.timestamp, cursor.headers
            cursor.message, cursor.source, cursor.timestamp, cursor.headers = message, source, timestamp, headers
            try:
                return do()
            finally:
                cursor.message, cursor.source, cursor.timestamp, cursor.headers = saved

        return done

    def handing_headers(self, serde: Serde[Any]) -> Serde[Any]:
        """Returns a serde that gets the headers of the current record, if it takes any."""
        return self.environment.cursor.handing(serde, f"node {self.node!r}")

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """Returns the object that operators of the task share under a name."""
        known = self.environment.operators.shared
        if name not in known:
            known[name] = make()
        found: T = known[name]
        return found

    def schedule(
        self, interval: Duration, kind: PunctuationType, callback: Punctuator, *, start_time: Timestamp | None = None
    ) -> Cancellable:
        """Schedules a punctuation of the node."""
        by_stream = kind is PunctuationType.STREAM_TIME
        now = self.environment.cursor.stream_time if by_stream else self.clock.time_ms()
        return self._punctuations.schedule(
            self.node, to_ms(interval, "interval"), kind, callback, now_ms=now, start=start_time
        )

    def processing_context(self, *, fixed_key: bool = False) -> UserContext:
        """Returns the context for a user's processor of this node."""
        return FixedKeyContext(self) if fixed_key else UserContext(self)

    def hold_back(self, handle: HandleTogether, limits: BatchLimits) -> Forward:
        """Returns the function of an operator that holds records back and handles them together."""
        environment, name = self.environment, self.node
        probe, samples, together = environment.probe, environment.metrics.nodes, handle

        def sampled(records: list[HeldRecord], resume: Callable[[HeldRecord], None]) -> None:
            samples.together("batch", name, len(records), lambda: together(records, resume))

        handle = sampled if probe is None else probe.batch(name, sampled)
        node = HoldingNode(name, handle, limits, environment.cursor, environment.clock)
        environment.operators.held.add(node)
        return node.hold if probe is None else probe.holding(name, node.hold)

    def report_held(self, store: str, look: LookForHeld) -> None:
        """Has ``look`` say what the operator holds back in a store."""
        self.environment.operators.held_results.add(self.node, store, look)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Has a function called when the task is closed."""
        self._closers.append(callback)

    def on_end(self, callback: Callable[[], bool]) -> None:
        """Has a function called when the task has processed the last record that there will ever be."""
        self.environment.operators.enders.append(callback)

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Has a function called behind each commit of all that the task has done."""
        self.environment.operators.committers.append(callback)

    def in_parts(self, send: Callable[[], bool], *, left: bool) -> Callable[[], None]:
        """Returns the function that sends on what is due, a part at once and the rest before the next record.

        :param left: whether something was left by a former life of the task.
        """
        remainders, wake = self.environment.operators.remainders, self._punctuations.wake

        def send_all() -> None:
            while send():
                pass

        def send_part() -> None:
            if send not in remainders and send():
                remainders.add(send)
                wake()

        if left:
            remainders.add(send)
        pace = self.environment.thread.pace
        if pace is None or remainders.meets_again(self.node):  # without a thread, nothing else is due
            return send_all
        return send_part


class UserContext:
    """The context of a user's processor (`processor_api.context.ProcessorContext`)."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._environment = node.environment
        self._cursor = node.environment.cursor

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self._environment.settings.application_id

    @property
    def task_id(self) -> TaskId:
        """The id of the task that runs the processor."""
        return self._environment.task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The place and time of the current record; ``None`` while processors are initialised."""
        if not self._environment.users.initialised:
            return None
        cursor = self._cursor
        kind, timestamp = cursor.message.timestamp()
        topic, partition = cursor.source
        # records of a history may have no offset to show
        metadata = getattr(cursor.message, "metadata_type", RecordMetadata)
        found: RecordMetadata = metadata(topic, partition, cursor.message.offset(), TimestampType(kind), timestamp)
        return found

    @property
    def key_serde(self) -> Serde[Any] | None:
        """The application's default serde of keys."""
        return self._environment.settings.default_key_serde

    @property
    def value_serde(self) -> Serde[Any] | None:
        """The application's default serde of values."""
        return self._environment.settings.default_value_serde

    @property
    def state_dir(self) -> Path:
        """The directory of the task's state."""
        return self._environment.state_dir

    def get_state_store(self, name: str) -> Any:
        """Returns a store that is connected to the processor, or a global one."""
        return self._node.facade(name)

    def schedule(
        self, interval: Duration, kind: PunctuationType, callback: Punctuator, *, start_time: Timestamp | None = None
    ) -> Cancellable:
        """Schedules a punctuation of the processor."""
        return self._node.schedule(interval, kind, callback, start_time=start_time)

    def commit(self) -> None:
        """Asks for a commit soon."""
        self._environment.users.request_commit()

    def app_configs(self) -> Mapping[str, Any]:
        """Returns every setting in effect, under Kafka's names."""
        return self._environment.settings.app_configs

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Returns the settings in effect whose names begin with a prefix, by the rest of their names."""
        return with_prefix(self._environment.settings.app_configs, prefix)

    def metrics(self) -> StreamsMetrics:
        """Returns what takes metrics of the processor's own."""
        return self._environment.users.metrics()

    def current_system_time_ms(self) -> int:
        """Returns the wall-clock time."""
        return self._environment.clock.time_ms()

    def current_stream_time_ms(self) -> int:
        """Returns the stream time of the task.

        :raises TopologyError: in a processor that fills a global store.
        """
        if self._environment.settings.is_global:
            raise TopologyError(
                f"processor {self._node.node!r} fills a global store, and only tasks have a stream time",
                node=self._node.node,
            )
        return self._cursor.stream_time

    def bind_operator(self, operator: Operator, context: Any) -> Forward:
        """Binds a wrapped operator of the DSL, so that it forwards through ``context``.

        :param context: this one, or one that a wrapper has put before it.
        """
        return operator.bind(self._node if context is self else self._node.through(context.forward))

    def forward(self, record: Record[Any, Any] | FixedKeyRecord[Any, Any], child: str | None = None) -> None:
        """Forwards a record to one child, or to all."""
        target = self._node.forward if child is None else self._node.child(child)
        cursor = self._cursor
        try:
            # As they are given: `headers` would make an object of them for each record.
            headers: Any = record.raw_headers
        except AttributeError:
            raise TypeError(f"forward needs a Record, got {repr_of(record)}") from None
        timestamp = record.timestamp
        if type(timestamp) is not int or not 0 <= timestamp <= LAST_MS:  # it was set after the record was made
            timestamp = record_time(timestamp)
        saved = cursor.timestamp, cursor.headers
        cursor.timestamp, cursor.headers = timestamp, headers
        try:
            target(record.key, record.value, timestamp, headers)
        finally:
            cursor.timestamp, cursor.headers = saved


class FixedKeyContext(UserContext):
    """The context of a user's `FixedKeyProcessor`, which refuses records with another key."""

    def forward(self, record: Record[Any, Any] | FixedKeyRecord[Any, Any], child: str | None = None) -> None:
        """Forwards a record with the same key to one child, or to all.

        :raises TypeError: for a record that was not made from the one that the processor was given.
        """
        if not isinstance(record, FixedKeyRecord):
            raise TypeError(
                "a FixedKeyProcessor must forward the record that it received, or one made by its with_value() and"
                f" similar methods, got {repr_of(record)}: to change the key, use a Processor"
            )
        super().forward(record, child)


def run_processor(
    context: NodeContext, processor: Processor[Any, Any, Any, Any] | FixedKeyProcessor[Any, Any, Any]
) -> Forward:
    """Returns the function of a node that runs a user's processor.

    The caller calls the processor's ``init`` and ``close``.
    """
    make: Any = FixedKeyRecord if isinstance(processor, FixedKeyProcessor) else Record
    process: Callable[[Any], None] = processor.process
    cursor, fail = context.environment.cursor, context.fail

    def run(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        cursor.timestamp, cursor.headers = timestamp, headers
        try:
            process(make(key, value, timestamp, headers))
        except Exception as error:
            fail(error, key, value, timestamp, headers)

    return run
