"""The environment of one task: what its nodes and stores share."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import ConfigError, StreamsError, TopologyError, UserCodeError
from processor_api.handlers import ProducerRecord
from processor_api.metrics import StreamsMetrics
from processor_api.record import DropReason, HeaderList
from processor_api.serde import Serde, with_default
from processor_api.stores.builder import StoreBuilder
from processor_api.task_id import TaskId
from processor_api.texts import kind_and_text
from processor_api.timestamps import TimestampExtractor
from state.row_format.record_context import Cursor
from state.write_buffer.store_kind import OpenStore
from streams.kafka.ports import NotDelivered
from streams.metrics.registry import Metrics, ThreadMetrics
from streams.metrics.windows import SampleWindows
from streams.runtime.processing.drops import Setting, TaskDrops
from streams.runtime.processing.error_policy import ErrorPolicy
from streams.runtime.processing.node_samples import NodeSamples
from streams.runtime.processing.operator_times import TaskOperators
from streams.runtime.processing.pace import Pace
from streams.runtime.processing.probe import Probe, ProbeMaker

if TYPE_CHECKING:
    from streams.config import StreamsConfig


# Limits how far the time of a record may be ahead of the wall clock (``timestamp.after.max.ms``; semantics 160).
#
# Stream time never goes back, so one record whose time is in microseconds would close all windows for ever, and let
# every row with a time to live expire.

log = logging.getLogger("streams.tasks")

FAIL, DROP, TAKE = "fail", "drop", "take"
DAY_MS = 86_400_000
MANY_DAYS = 10_000
NEVER = 1 << 63
"""Later than every time of a record."""

_DROPPED = "record dropped: its time is further ahead of the clock than timestamp.after.max.ms"
_TAKEN = "stream time moves to a record that is further ahead of the clock than timestamp.after.max.ms"

_now_ms = SystemClock().time_ms


class TimeLimit:
    """The limit for the records of one task.

    The clock of a test driver or a backfill may be stopped at an early time, so the machine's clock also counts if it
    is later.

    :param clock: the task's.
    :param max_ms: how far a record may be ahead; -1 removes the limit.
    :param handler: what happens to a record that is: ``fail``, ``drop`` or ``take``.
    """

    def __init__(self, clock: Clock, max_ms: int, handler: str) -> None:
        self._time_ms = clock.time_ms
        self._max_ms = max_ms
        self._handler = handler
        self._met = 0
        self.latest = NEVER
        """The latest time that is allowed, as of the last record that was later: now it may be later still."""
        self._find_latest()

    def _find_latest(self) -> int:
        """Brings :attr:`latest` up to date; returns the time of the clock."""
        now = max(self._time_ms(), _now_ms())
        if self._max_ms >= 0:
            self.latest = now + self._max_ms
        return now

    def leaves_out(self, timestamp: int, place: Mapping[str, Any]) -> bool:
        """Decides on a record that is later than :attr:`latest`; returns whether it is dropped.

        :raises UserCodeError: if it is too late, and such records fail the task.
        """
        now = self._find_latest()
        if timestamp <= self.latest:
            return False
        if self._handler == FAIL:
            raise UserCodeError(self._failure(timestamp, now))
        self._met += 1
        if self._met & (self._met - 1) == 0:
            what = _DROPPED if self._handler == DROP else _TAKEN
            log.warning(what, extra={**place, "time": timestamp, "clock": now, "records": self._met})
        return self._handler == DROP

    def _failure(self, timestamp: int, now: int) -> str:
        ahead = timestamp - now
        by = f"{ahead // DAY_MS} days" if ahead > DAY_MS else f"{ahead} ms"
        unit = (
            "; it may be in microseconds or nanoseconds instead of milliseconds." if ahead > MANY_DAYS * DAY_MS else "."
        )
        return (
            f"the time of the record, {timestamp}, is {by} ahead of the clock, more than timestamp.after.max.ms"
            f" ({self._max_ms}){unit} Correct the producer or the timestamp extractor; to continue without such"
            " records, set timestamp.after.max.handler to drop"
        )


class SnapshotCounters:
    """Counts the snapshots of a task. Written by the thread that writes them, read by any."""

    def __init__(self) -> None:
        self.made_ms = -1
        """When the last one was made, by the wall clock; -1 before the first of this worker."""
        self.size = 0
        """The bytes of the last one."""
        self.written_bytes = 0
        """The bytes of all that was written."""
        self.elapsed_ms = 0
        """How long writing the last one took."""
        self.failures = 0
        """How many could not be written."""

    def wrote(self, made_ms: int, size: int, new_size: int, elapsed_ms: int) -> None:
        """Counts one that was written."""
        self.made_ms, self.size, self.elapsed_ms = made_ms, size, elapsed_ms
        self.written_bytes += new_size


class TaskMetrics:
    """Counts what one task has done, once for each batch."""

    def __init__(self, nodes: NodeSamples) -> None:
        self.nodes = nodes
        self.records_processed = self.dropped_records = self.punctuations = 0
        self.punctuate_s = self.punctuate_s_max = 0.0
        """The time of punctuations, and the longest of the window."""
        self.windows: SampleWindows | None = None
        """The windows that rates of these counters are computed from, where metrics are kept."""
        self.drops = TaskDrops()
        """Counts records without a result by node and reason."""
        self.snapshots = SnapshotCounters()

    def punctuated(self, seconds: float) -> None:
        """Adds a punctuation."""
        self.punctuations += 1
        self.punctuate_s += seconds
        if seconds > self.punctuate_s_max:
            self.punctuate_s_max = seconds

    def begin_windows(self, metrics: Metrics) -> None:
        """Keeps windows of the counters from now on."""
        totals = "records_processed", "dropped_records", "punctuations", "punctuate_s"
        self.windows = metrics.windows(self, totals, ("punctuate_s_max",))

    def sample(self) -> None:
        """Samples the counters, for rates."""
        if self.windows is not None:
            self.windows.sample()
        self.nodes.sample()


GlobalStoreReader = Callable[[str, str], OpenStore | None]
"""``(store, node)`` to a global store that the node may read; ``None`` if there is no such store."""


def no_global_store(name: str, node: str) -> OpenStore | None:
    """Returns ``None``, for applications without global stores."""
    return None


def _owner_in_development() -> int | None:
    return threading.get_ident() if sys.flags.dev_mode else None


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The facts about its application that a task needs."""

    application_id: str
    app_configs: Mapping[str, Any]
    """Every setting in effect, under Kafka's names."""
    default_key_serde: Serde[Any] | None
    default_value_serde: Serde[Any] | None
    default_timestamp_extractor: TimestampExtractor | None
    exactly_once: bool = False
    log_each_put: bool = True
    """Whether stores without a cache log each put when it happens, or the last of each key before a commit."""
    global_store: GlobalStoreReader = no_global_store
    registry: Metrics | None = None
    """The metrics of the process; without them nothing but plain counters is kept."""
    is_global: bool = False
    """Whether the nodes fill global stores, outside of tasks."""
    timestamp_after_max_ms: int = -1
    """How far the time of a record may be ahead of the clock; -1 removes the limit."""
    timestamp_after_max_handler: str = FAIL
    """The treatment of a record that is further ahead."""
    warns_of_schemas: bool = False
    """Whether a task runs whose stores have rows that its serdes cannot read."""
    kept_outputs: Collection[str] | None = None
    """The topics whose records are kept, where those that sinks write to others are dropped; ``None`` keeps all."""
    keeps_origins: bool = False
    """Whether records of repartition topics name the record that they were made from, for dead letters."""

    @classmethod
    def of(
        cls,
        config: StreamsConfig,
        *,
        log_each_put: bool = True,
        global_store: GlobalStoreReader = no_global_store,
        registry: Metrics | None = None,
        is_global: bool = False,
        kept_outputs: Collection[str] | None = None,
        keeps_origins: bool = True,
    ) -> TaskSettings:
        """Returns the settings of tasks under a configuration."""
        return cls(
            application_id=config.application_id,
            app_configs=config.dotted(),
            default_key_serde=config.default_key_serde,
            default_value_serde=config.default_value_serde,
            default_timestamp_extractor=config.default_timestamp_extractor,
            exactly_once=config.exactly_once,
            log_each_put=log_each_put,
            global_store=global_store,
            registry=registry,
            is_global=is_global,
            timestamp_after_max_ms=config.timestamp_after_max_ms,
            timestamp_after_max_handler=config.timestamp_after_max_handler,
            warns_of_schemas=config.state_on_schema_change == "warn",
            kept_outputs=kept_outputs,
            keeps_origins=keeps_origins and config.errors_dead_letter_queue_topic_name is not None,
        )


@dataclass(frozen=True, kw_only=True)
class TaskThread:
    """The facts about its thread that a task needs; the defaults are for a task without one."""

    pace: Pace | None = None
    """``None`` where nothing but processing is ever due."""
    store_owner: int | None = field(default_factory=_owner_in_development)
    """The id of the thread whose processors may use the stores; ``None`` where that is not checked."""
    metrics: StreamsMetrics | None = None
    """Takes the metrics that processors add."""
    probe: ProbeMaker | None = None
    """Makes what sees the records of a task; ``None`` where nothing does."""


class UserProcessors:
    """Holds what the contexts of users' processors and stores of one task need beside their node."""

    def __init__(self, metrics: StreamsMetrics | None, clock: Clock) -> None:
        self.initialised = False
        """Whether the processors are: before, there is no record that a context could describe."""
        self.commit_requested = False
        """Whether one of them has asked for a commit."""
        self._metrics = metrics
        self._clock = clock

    def request_commit(self) -> None:
        """Asks for a commit soon."""
        self.commit_requested = True

    def metrics(self) -> StreamsMetrics:
        """Returns what takes their metrics; a registry of its own where no thread gave one."""
        if self._metrics is None:
            self._metrics = ThreadMetrics(Metrics(self._clock.time_ms), threading.current_thread().name)
        return self._metrics


class Environment:
    """Holds what the nodes and stores of one task share, or those of all global stores.

    :param thread: the thread that runs the task, if there is one.
    """

    def __init__(
        self,
        task_id: TaskId,
        settings: TaskSettings,
        errors: ErrorPolicy,
        *,
        clock: Clock,
        state_dir: Path,
        thread: TaskThread | None = None,
    ) -> None:
        thread = thread or TaskThread()
        self.task_id = task_id
        self.settings = settings
        self.errors = errors
        self.clock = clock
        self.state_dir = state_dir
        self.thread = thread
        self.cursor = Cursor()
        self.cursor.keeps_messages = errors.wants_messages
        limit_ms, handler = settings.timestamp_after_max_ms, settings.timestamp_after_max_handler
        self.time_limit = TimeLimit(clock, limit_ms, handler)
        self.operators = TaskOperators(str(task_id), clock, thread.pace)
        self.users = UserProcessors(thread.metrics, clock)
        self.metrics = TaskMetrics(nodes=NodeSamples(self.cursor, clock, settings.registry))
        if settings.registry is not None:
            self.metrics.begin_windows(settings.registry)
        self.probe: Probe | None = None
        """Sees the records of the task; nodes and stores are made with it or without."""
        if thread.probe is not None:
            name = "global" if settings.is_global else str(task_id)
            self.probe = thread.probe(name, self.cursor, lambda: self.metrics.dropped_records)
            self.cursor.probe = self.probe.rows

    def drop(self, node: str, reason: DropReason) -> None:
        """Counts a record that a node dropped."""
        self.metrics.dropped_records += 1
        self.metrics.drops.of(node).counts[reason] += 1

    def drop_unread(self, node: str, key: Any, reason: DropReason, why: str) -> None:
        """Counts the current record, which was dropped before it reached the nodes."""
        self.drop(node, reason)
        if self.probe is not None:
            self.probe.unread(node, key, why)

    def dropping(self, node: str) -> Callable[..., None]:
        """Returns the function by which a node drops the current record: ``(reason, why)``.

        ``why`` says more than the text of the reason.
        """
        metrics, probe, counts = self.metrics, self.probe, self.metrics.drops.of(node).counts

        def drop(reason: DropReason, why: str = "") -> None:
            metrics.dropped_records += 1
            counts[reason] += 1
            if probe is not None:
                probe.dropped(node, why or reason.text)

        return drop

    def dropping_late(
        self, node: str, reason: DropReason, setting: Setting, *, probed: bool = True
    ) -> Callable[..., None]:
        """Returns the function by which a node drops the current record if it arrived this many ms too late.

        :param probed: whether the probe sees it by this.
        """
        metrics, probe, drops = self.metrics, self.probe if probed else None, self.metrics.drops.of(node)
        counts, late = drops.counts, drops.lateness(reason, setting)

        def drop(by_ms: int = 0) -> None:
            metrics.dropped_records += 1
            counts[reason] += 1
            if by_ms > late.recent_ms:
                late.recent_ms = by_ms
            if probe is not None:
                probe.dropped(node, reason.text)

        return drop

    def dropping_by_store(self, store: StoreBuilder[Any, Any], nodes: Sequence[str]) -> Callable[..., None]:
        """Returns the function that counts a put of a record which came too late for a store: ``(by_ms)``.

        :param nodes: those that may write the store; the first counts for all.
        """
        parameters = store.supplier.parameters
        history = parameters.get("history_retention_ms")
        reason = DropReason.ROW_EXPIRED if history is None else DropReason.HISTORY_ENDED
        setting = Setting("retention", int(history or parameters.get("retention_ms") or 0))
        return self.dropping_late(nodes[0] if nodes else store.name, reason, setting, probed=False)

    def store_serdes(self, builder: StoreBuilder[Any, Any], topic: str) -> dict[str, Any]:
        """Returns the serdes of the records that are the rows of a store, by the names of their parts.

        :param topic: the topic that they are bound to.
        """
        what = f"store {builder.name!r}"
        return {
            "key_serde": self.key_serde(builder.key_serde, what, topic),
            "value_serde": self.value_serde(builder.value_serde, what, topic),
        }

    def key_serde(self, given: Serde[Any] | None, what: str, topic: str) -> Serde[Any]:
        """Returns the serde of keys in a topic, bound to it."""
        return self._bound(resolve_serde(given, self.settings.default_key_serde, what, "key"), what, topic, is_key=True)

    def value_serde(self, given: Serde[Any] | None, what: str, topic: str) -> Serde[Any]:
        """Returns the serde of values in a topic, bound to it."""
        return self._bound(
            resolve_serde(given, self.settings.default_value_serde, what, "value"), what, topic, is_key=False
        )

    def _bound(self, serde: Serde[Any], what: str, topic: str, *, is_key: bool) -> Serde[Any]:
        try:
            return serde.bind(topic, is_key=is_key)
        except StreamsError as error:
            raise error.locate(topic=topic, task=str(self.task_id))  # noqa: B904 - the same error, with its place
        except Exception as error:
            part = "key" if is_key else "value"
            raise TopologyError(
                f"the {part} serde of {what} cannot be used for topic {topic!r}: {kind_and_text(error)}",
                topic=topic,
                task=str(self.task_id),
            ) from error


class NodeErrors:
    """Handles the errors of one node by the error policy, as a `SinkErrors` of the record collector."""

    def __init__(self, environment: Environment, node: str) -> None:
        self._environment = environment
        self._policy = environment.errors
        self._node = node
        self.task = str(environment.task_id)
        self.wants_refused = environment.errors.wants_refused
        self._drop = environment.dropping(node)

    def fail(self, error: Exception, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        """Handles an error of user code: returns to drop the record, else raises."""
        self._policy.processing(self._node, error, key, value, timestamp, headers, self._environment.cursor)
        self._drop(DropReason.FAILED, f"failed, and the handler resumes: {kind_and_text(error)}")

    def unserializable(self, error: Exception, part: str, record: ProducerRecord) -> None:
        """Handles a ``key`` or ``value`` that cannot be serialised, or ``headers`` that cannot be sent: returns to drop
        the record, else raises."""
        self._policy.serialization(self._node, error, part, record, self._environment.cursor)
        self._drop(DropReason.UNWRITABLE, f"its {part} cannot be written: {kind_and_text(error)}")

    def undelivered(
        self, failure: StreamsError, record: ProducerRecord
    ) -> tuple[StreamsError | None, Iterable[ProducerRecord]]:
        """Handles a record that the broker refused: returns the error to raise, or ``None``, and the dead letters."""
        verdict, letters = self._policy.undelivered(self._node, failure, record)
        if verdict is None:
            self.drop(DropReason.REFUSED)
        return verdict, letters

    def unwritable(self, failure: NotDelivered, record: ProducerRecord) -> None:
        """Handles a record whose topic does not exist: returns to drop the record, else raises."""
        self._policy.unwritable(self._node, failure, record, self._environment.cursor)
        self._drop(DropReason.UNWRITABLE, f"cannot be written: {failure.message}")

    def drop(self, reason: DropReason) -> None:
        """Counts a record that the node drops."""
        self._environment.drop(self._node, reason)


def resolve_serde(given: Serde[Any] | None, default: Serde[Any] | None, what: str, part: str) -> Serde[Any]:
    """Returns the serde given, or the application's default.

    :raises ConfigError: if there is neither.
    """
    found = with_default(given, default)
    if found is None:
        raise ConfigError(
            f"{what} has no {part} serde and the application has no default: give {part}_serde= there, or set"
            f" default.{part}.serde"
        )
    return found
