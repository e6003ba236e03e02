"""Contexts: what a processor may ask of the task that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from processor_api.clock import Clock
from processor_api.metrics import StreamsMetrics
from processor_api.punctuation import Cancellable, PunctuationType, Punctuator
from processor_api.record import DropReason, FixedKeyRecord, Forward, HeaderList, Record, RecordMetadata
from processor_api.serde import Serde
from processor_api.task_id import TaskId
from processor_api.user_code.durations import Duration, Timestamp

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")


class ProcessingContext(Protocol):
    """The part of a context that does not depend on record types. Use it only on the thread that runs the task.

    ::

        class Located(FixedKeyProcessor):
            def process(self, record):
                self.context.forward(record.with_value(f"{record.value} in task {self.context.task_id}"))

        located = orders.process_values(Located)
        # ("ann", "tea") -> ("ann", "tea in task 0_0")
    """

    @property
    def application_id(self) -> str:
        """The setting ``application.id``."""
        ...

    @property
    def task_id(self) -> TaskId:
        """The task: the number of its subtopology and its partition."""
        ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The topic, partition and offset of the current record; in a punctuation the topic is ``None``; ``None``
        inside of ``init``."""
        ...

    @property
    def key_serde(self) -> Serde[Any] | None:
        """The application's default key serde."""
        ...

    @property
    def value_serde(self) -> Serde[Any] | None:
        """The application's default value serde."""
        ...

    @property
    def state_dir(self) -> Path:
        """The task's own directory on disk."""
        ...

    def get_state_store(self, name: str) -> Any:
        """Returns a store that is connected to this processor, or a global store.

        ::

            class Latest(Processor):
                def process(self, record):
                    latest = self.context.get_state_store("latest")
                    self.context.forward(record.with_value([latest.get(record.key), record.value]))
                    latest.put(record.key, record.value)

            builder.add_state_store(Stores.key_value_store("latest", "string", "long"))
            pairs = readings.process(Latest, "latest")
            # ("roof", 40), ("roof", 41) -> ("roof", [None, 40]), ("roof", [40, 41])

        :raises TopologyError: if the store is not connected to it.
        """
        ...

    def schedule(
        self, interval: Duration, kind: PunctuationType, callback: Punctuator, *, start_time: Timestamp | None = None
    ) -> Cancellable:
        """Calls ``callback`` every ``interval``; anchored at ``start_time`` if given (semantics 90, 91).

        ::

            class Hourly(Processor):
                def init(self, context):
                    super().init(context)
                    self.count = 0
                    context.schedule(timedelta(hours=1), PunctuationType.STREAM_TIME, self.send)

                def process(self, record):
                    self.count += 1

                def send(self, time):
                    self.context.forward(Record("orders so far", self.count, time))

            counts = orders.process(Hourly)
            # ("ann", "tea") @ 0, ("bob", "milk") @ 3_600_000
            #   -> ("orders so far", 1) @ 0, ("orders so far", 2) @ 3_600_000

        :param interval: a ``timedelta`` or integer milliseconds.
        :param kind: which time it follows.
        :param start_time: a point in that time, in ms.
        :returns: a handle with which it is cancelled.
        :raises ValueError: if the interval is below 1 ms, or the start negative.
        """
        ...

    def commit(self) -> None:
        """Asks for a commit soon after the current record; it does not commit by itself (semantics 81).

        ::

            class Careful(Processor):
                def process(self, record):
                    self.context.forward(record)
                    if record.value == "gold":
                        self.context.commit()

            careful = orders.process(Careful)
            # ("ann", "gold") -> ("ann", "gold")
        """
        ...

    def app_configs(self) -> Mapping[str, Any]:
        """Returns the application's configuration under Kafka's dotted names, secrets masked.

        ::

            class Marked(Processor):
                def process(self, record):
                    guarantee = self.context.app_configs()["processing.guarantee"]
                    self.context.forward(record.with_value(f"{record.value}, {guarantee}"))

            marked = orders.process(Marked)
            # ("ann", "tea") -> ("ann", "tea, at_least_once")
        """
        ...

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Returns the settings of :meth:`app_configs` whose names begin with a prefix, by the rest of their names.

        ::

            class Paced(Processor):
                def process(self, record):
                    pace = self.context.app_configs_with_prefix("commit.interval.")
                    self.context.forward(record.with_value(", ".join(pace)))

            paced = orders.process(Paced)
            # ("ann", "tea") -> ("ann", "ms")
        """
        ...

    def metrics(self) -> StreamsMetrics:
        """Returns the registry for metrics of the user's own; ask in ``init`` and keep the sensor.

        ::

            class Measured(Processor):
                def init(self, context):
                    super().init(context)
                    self.sensor = context.metrics().add_rate_total_sensor("shop", "tea", "orders", RecordingLevel.INFO)

                def process(self, record):
                    self.sensor.record()
                    self.context.forward(record)

            measured = orders.process(Measured)
            # ("ann", "tea") -> ("ann", "tea")
        """
        ...

    def current_system_time_ms(self) -> int:
        """Returns the wall-clock time in ms since 1970.

        ::

            class Late(Processor):
                def process(self, record):
                    late_ms = self.context.current_system_time_ms() - record.timestamp
                    self.context.forward(record.with_value(late_ms))

            late = orders.process(Late)
            # ("ann", "tea") @ 0 -> ("ann", 0)
        """
        ...

    def current_stream_time_ms(self) -> int:
        """Returns the task's stream time in ms; -1 before the first record (semantics 1).

        ::

            class Behind(Processor):
                def process(self, record):
                    behind_ms = self.context.current_stream_time_ms() - record.timestamp
                    self.context.forward(record.with_value(behind_ms))

            behind = orders.process(Behind)
            # ("ann", "tea") @ 5_000, ("bob", "milk") @ 3_000 -> ("ann", 0), ("bob", 2_000)
        """
        ...


class ProcessorContext(ProcessingContext, Protocol[K, V]):
    """The context of a processor that may change keys.

    ::

        class Located(Processor):
            def process(self, record):
                place = self.context.record_metadata
                self.context.forward(record.with_value(f"{place.topic}, offset {place.offset}"))

        located = orders.process(Located)
        # ("ann", "tea"), ("ann", "milk") -> ("ann", "orders, offset 0"), ("ann", "orders, offset 1")
    """

    def forward(self, record: Record[K, V], child: str | None = None) -> None:
        """Sends the record to all children, or to one, and returns when they have processed it.

        ::

            class Routed(Processor):
                def process(self, record):
                    self.context.forward(record.with_key(record.value))
                    self.context.forward(record, "audit")  # to the child of this name alone

            topology = Topology().add_source("source", "lines").add_processor("routed", Routed, "source")
            topology.add_sink("audit", "audit", "routed").add_sink("out", "loud", "routed")
            # lines("ann", "hi") -> audit("hi", "hi"), audit("ann", "hi"), loud("hi", "hi")

        :param child: the name of a node below this one; ``None`` is all of them.
        :raises TopologyError: if there is no such child.
        """
        ...


class FixedKeyProcessorContext(ProcessingContext, Protocol[K, V]):
    """The context of a processor that keeps keys as they are.

    ::

        class Dated(FixedKeyProcessor):
            def process(self, record):
                self.context.forward(record.with_value(f"{record.value} at {record.timestamp}"))

        dated = orders.process_values(Dated)
        # ("ann", "tea") @ 700 -> ("ann", "tea at 700")
    """

    def forward(self, record: FixedKeyRecord[K, V], child: str | None = None) -> None:
        """Sends the record to all children, or to one, and returns when they have processed it.

        ::

            class Teas(FixedKeyProcessor):
                def process(self, record):
                    if record.value == "tea":
                        self.context.forward(record)

            teas = orders.process_values(Teas)
            # ("ann", "tea"), ("bob", "milk") -> ("ann", "tea")

        :param child: the name of a node below this one; ``None`` is all of them.
        :raises TopologyError: if there is no such child.
        """
        ...


HeldRecord = tuple[Any, Any, int, HeaderList | None, Any, Any]
"""A record that an operator holds back: key, value, timestamp and headers, and its origin, which only the runtime
reads."""

HandleTogether = Callable[[list[HeldRecord], Callable[[HeldRecord], None]], None]
"""``(records, resume)``: handles records that were held back, in the order in which they came. ``resume(record)`` makes
one of them the current record; it is called before something is forwarded for the record, or the record fails."""


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """Limits of what an operator holds back."""

    max_records: int
    max_wait_ms: int | None = None
    """How long the first record may wait by the wall clock; ``None`` until the round of processing ends."""


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """Describes the results of an operator that wait for its stream time to continue."""

    names: tuple[str, str]
    """The words for one of them, and for several."""
    count: int
    due_ms: int
    """The stream time at which the first of them is sent on."""
    at_least: bool = False
    """Whether there are more than ``count``."""

    @property
    def what(self) -> str:
        """The words for this many of them."""
        return f"{'at least ' if self.at_least else ''}{self.count} {self.names[self.count > 1]}"

    @classmethod
    def of(cls, names: tuple[str, str], due: Iterable[int], most: int | None) -> HeldBack | None:
        """Returns what waits until this many stream times, of which the first may be any; ``None`` if nothing waits.

        :param most: how many are counted at most; ``None`` counts all.
        """
        found = list(due if most is None else islice(due, most + 1))
        at_least = most is not None and len(found) > most
        return cls(names=names, count=len(found) - at_least, due_ms=min(found), at_least=at_least) if found else None


LookForHeld = Callable[[int | None], HeldBack | None]
"""``(most)`` to what an operator holds back; it reads at most about this many rows, or all with ``None``."""


class RecordRun(Protocol):
    """Some records that came one after the other, by their keys: none has headers, or a key or a value of ``None``."""

    @property
    def keys(self) -> Sequence[Any]:
        """The keys, each once, in the order of their last records."""
        ...

    def __iter__(self) -> Iterator[tuple[Any, int, int]]:
        """Yields each key with the number of its records and their largest timestamp in ms. The last of its records is
        the current one meanwhile."""
        ...


TakeRun = Callable[[RecordRun], bool]
"""Does what the function of an operator would do for each record of a run, and returns ``True``; or returns ``False``,
or raises, before it has done anything: then the records come one by one."""


class OperatorContext(Protocol):
    """The context of an operator of the DSL, given when it is bound to a task."""

    node: str
    """The name of its node."""
    forward: Forward
    """Sends a record to all children, in the order in which they were added."""
    clock: Clock
    """The task's clock."""

    def child(self, name: str) -> Forward:
        """Returns the function that sends a record to one child."""
        ...

    def children(self) -> Mapping[str, Forward]:
        """Returns the functions that send a record to each child, by name, in order."""
        ...

    def store(self, name: str) -> Any:
        """Returns a connected store in the form for operators: decoded keys and values, without wrapper objects."""
        ...

    def ignores(self, key_serde: Serde[Any], value_serde: Serde[Any]) -> bool:
        """Whether no child does anything with a change whose key and new value these serdes give back exactly, and that
        has no headers and a time after 0. So it is where nobody keeps what sinks write."""
        ...

    def take_runs(self, take: TakeRun) -> None:
        """Lets the operator take runs of records where its node is the only child of a source."""
        ...

    def fail(self, error: Exception, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        """Passes an error of user code to the processing handler: returns to drop the record, else raises."""
        ...

    def drop(self, reason: DropReason, why: str = "") -> None:
        """Counts a dropped record (``dropped-records``).

        :param why: says more than the reason, for who follows the record.
        """
        ...

    def dropping_late(self, reason: DropReason, setting: str, ms: int) -> Callable[[int], None]:
        """Returns a function that counts a record as dropped which arrived a number of ms too late: with a setting this
        much longer it would have been taken.

        :param setting: what decides, such as ``grace``.
        :param ms: the value of the setting.
        """
        ...

    def counting(self, reason: DropReason) -> Callable[[], None]:
        """Returns a function that counts a record which gives no result, and is not dropped."""
        ...

    def stream_time_ms(self) -> int:
        """Returns the task's stream time in ms; -1 before the first record."""
        ...

    def origin(self) -> tuple[str | None, int, int]:
        """Returns the topic, partition and offset of the current record; ``(None, -1, -1)`` if it came from none."""
        ...

    def keep_time(self, name: str, current: Callable[[], int], *, named: bool = False) -> int:
        """Returns the time in ms that was committed under a name when the task ran last; -1 if none was.

        :param name: one that the next deployment of the topology gives to the same operator: that of its store, and
            what tells operators of one store apart.
        :param current: returns the time that the next commit keeps; -1 keeps what was committed before.
        :param named: commits it under the name itself, for Kafka Streams to read, not under a short form of it.
        """
        ...

    def keep_progress(self, name: str, current: Callable[[], int], *, since: str) -> int:
        """Returns the number that was committed when the task ran last, 0 if none was: how far something is done that a
        commit may leave in the middle.

        :param current: returns the number that the next commit keeps. It grows until the time under ``since`` moves,
            with which it is 0 again.
        :param since: a name of :meth:`keep_time`.
        """
        ...

    def with_record(self, do: Callable[[], T]) -> Callable[[], T]:
        """Returns a function that does something later as if the current record were still the current one: its topic,
        partition, offset and headers."""
        ...

    def handing_headers(self, serde: Serde[Any]) -> Serde[Any]:
        """Returns a serde that gets the headers of the current record, if it takes any."""
        ...

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """Returns the object that operators of the task share under a name; the first that asks makes it."""
        ...

    def schedule(
        self, interval: Duration, kind: PunctuationType, callback: Punctuator, *, start_time: Timestamp | None = None
    ) -> Cancellable:
        """Schedules a punctuation as :meth:`ProcessingContext.schedule` does."""
        ...

    def report_held(self, store: str, look: LookForHeld) -> None:
        """Has ``look`` say what the operator holds back in a store, for who asks what the task waits for.

        It is called between records, by the thread of the task. Of several operators with one store, the first in the
        topology is asked.
        """
        ...

    def through(self, forward: Callable[..., None]) -> OperatorContext:
        """Returns the same context, but whatever goes to the children goes through ``forward`` as a record.

        :param forward: the call of a user's context: ``(record)`` or ``(record, child)``.
        """
        ...

    def processing_context(self) -> ProcessorContext[Any, Any]:
        """Returns the context that users' processors get, for operators that run one."""
        ...

    def on_close(self, callback: Callable[[], None]) -> None:
        """Runs ``callback`` when the task closes."""
        ...

    def on_end(self, callback: Callable[[], bool]) -> None:
        """Runs ``callback`` when the task has processed the last record that there will ever be, for results that wait
        for later records. A live task never does; one over history does if it is asked for it.

        :param callback: sends some of them on, and returns whether there may be more; it is called until not.
        """
        ...

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Runs ``callback`` behind each commit of the task that held all that it had done by then. Nothing may be
        written or sent in it."""
        ...

    def in_parts(self, send: Callable[[], bool], *, left: bool) -> Callable[[], None]:
        """Returns a function that sends on what is due after a record: a part of it at once, and the rest in parts
        before the next record of the task, between which its thread may poll and commit.

        What is left must be in stores, so that a commit in between keeps it. All is sent at once where another
        branch of the topology may take the same record to a node below this one.

        :param send: sends a part on, and returns whether there is more.
        :param left: whether a former life of the task has left something, to be sent before the first record.
        """
        ...

    def hold_back(self, handle: HandleTogether, limits: BatchLimits) -> Forward:
        """Returns the function of an operator that holds records back and handles them together.

        They are handled when there are enough, when they have waited long enough, and before the next punctuation or
        commit of the task.
        """
        ...
