"""The metrics of the runtime, under Kafka's names: made from plain counters when they are read.

Latencies of threads and tasks are in ms, those of stores in ns, as in Kafka Streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, cast

from processor_api.metrics import Metric, MetricName
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from processor_api.task_id import TaskId
from processor_api.topology.nodes import SinkNode
from state.engine.port import Engine
from state.registry.kinds import families_of
from state.registry.statistics import (
    ROCKSDB_PROPERTIES,
    ROCKSDB_STATISTICS,
    DatabaseStatistics,
    HasProperties,
    HasStatistics,
    rocksdb_property,
    uncommitted,
)
from state.write_buffer.store_kind import OpenStore
from streams.metrics.registry import Gauge
from streams.metrics.windows import SampleWindows
from streams.restore.reports import RestoreCounters
from streams.runtime.engines.store_counters import OperationCounter, StoreCounters
from streams.runtime.global_stores.thread import GlobalStreamThread
from streams.runtime.processing.drops import TaskDrops
from streams.runtime.processing.environment import SnapshotCounters, TaskMetrics
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.node_samples import Latencies, NodeEstimate
from streams.runtime.tasks.task import Task
from streams.runtime.threads.stream_thread import StreamThread
from streams.runtime.threads.thread_metrics import GroupCounters
from streams.runtime.threads.thread_state import ThreadState

# The metrics of stores, under Kafka's names: of commits (KIP-892), of operations, and of RocksDB (KIP-607).
#
# Latencies are in nanoseconds, as there.

STATE = "stream-state-metrics"
CACHE = "stream-record-cache-metrics"
NS = 1e9


def scope_of(store: OpenStore) -> str:
    """Returns the start of the tag with a store's name: its engine and its kind, as in Kafka Streams."""
    engine, scope = store.builder.supplier.engine, store.kind.metrics_scope
    engine = "rocksdb" if engine == ROCKSDB else "in-memory"
    return f"{engine}-{scope}" if scope else engine


def store_metrics(store: OpenStore, counters: StoreCounters | None, tags: Mapping[str, str]) -> Iterator[Metric]:
    """Yields the metrics of a store.

    :param tags: of the thread and the task.
    """
    tags = {**tags, f"{scope_of(store)}-state-id": store.builder.name}
    yield Gauge(
        MetricName("uncommitted-entries", STATE, "entries that are not committed yet", tags),
        lambda: uncommitted(store)[0],
    )
    yield Gauge(
        MetricName("uncommitted-bytes", STATE, "bytes that are not committed yet", tags), lambda: uncommitted(store)[1]
    )
    if counters is None:
        return
    windows = counters.windows
    rate = MetricName("commit-rate", STATE, "commits per second", tags)
    yield Gauge(rate, partial(windows.rate, "commits"))
    what = "of a commit of the store's engine, in ns"
    yield from _store_latency("commit", what, windows, ("commit_s", "commits", "commit_s_max"), tags)
    for name, operation in sorted(counters.operations.items()):
        yield from _operation(name, operation, tags)
    if counters.iterators is not None:
        durations = ("seconds", "timed", "seconds_max")
        what = "time for which an iterator was open, in ns"
        yield from _store_latency("iterator-duration", what, counters.iterators.windows, durations, tags, suffix="")
        is_open = MetricName("num-open-iterators", STATE, "open iterators", tags)
        yield Gauge(is_open, partial(getattr, counters, "open_iterators"))
        since = "when the oldest open iterator was opened, in ms since 1970"
        yield Gauge(MetricName("oldest-iterator-open-since-ms", STATE, since, tags), counters.oldest_iterator_ms)


def cache_metrics(store: str, windows: SampleWindows, tags: Mapping[str, str]) -> Iterator[Metric]:
    """Yields how many of the reads of a store its memory has answered.

    :param tags: of the thread and the task.
    """
    tags = {**tags, "record-cache-id": store}
    what = "share of row reads served from memory"
    yield Gauge(MetricName("hit-ratio-avg", CACHE, what, tags), partial(windows.mean, "hits", "reads"))
    for suffix, word, of in (("min", "least", min), ("max", "largest", max)):
        name = MetricName(f"hit-ratio-{suffix}", CACHE, f"{word} {what}, by windows of time", tags)
        yield Gauge(name, partial(_of_ratios, windows, of))


def _of_ratios(windows: SampleWindows, of: Callable[[list[float]], float]) -> float:
    found = windows.means("hits", "reads")
    return of(found) if found else math.nan


def _operation(name: str, counter: OperationCounter, tags: Mapping[str, str]) -> Iterator[Metric]:
    yield Gauge(
        MetricName(f"{name}-rate", STATE, f"calls of {name} per second", tags), partial(counter.windows.rate, "calls")
    )
    yield from _store_latency(
        name, f"latency of {name}, in ns", counter.windows, ("seconds", "timed", "seconds_max"), tags
    )


def _store_latency(
    name: str,
    what: str,
    windows: SampleWindows,
    of: tuple[str, str, str],
    tags: Mapping[str, str],
    suffix: str = "-latency",
) -> Iterator[Metric]:
    seconds, count, most = of
    mean = MetricName(f"{name}{suffix}-avg", STATE, f"mean {what}", tags)
    yield Gauge(mean, lambda: windows.mean(seconds, count) * NS)
    largest = MetricName(f"{name}{suffix}-max", STATE, f"largest {what}", tags)
    yield Gauge(largest, lambda: windows.largest(most, count) * NS)


def engine_metrics(store: OpenStore, engine: Engine, tags: Mapping[str, str]) -> Iterator[Metric]:
    """Yields the metrics that a store has from its engine: RocksDB's, or the number of keys in memory."""
    tags = {**tags, f"{scope_of(store)}-state-id": store.builder.name}
    if store.builder.supplier.engine == MEMORY:
        family = engine.family(families_of(store.builder)[0])
        yield Gauge(MetricName("num-keys", STATE, "committed rows", tags), family.approximate_count)
    if store.builder.supplier.engine != ROCKSDB:
        return
    for name, description in ROCKSDB_PROPERTIES.items():
        yield Gauge(
            MetricName(name, STATE, description, tags),
            partial(rocksdb_property, store, cast(HasProperties, engine), name),
        )


CLIENT = "stream-metrics"
THREAD = "stream-thread-metrics"
TASK = "stream-task-metrics"
CONSUMER = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
TOPIC = "stream-topic-metrics"
NODE = "stream-processor-node-metrics"
MS = 1000.0

Tags = Mapping[str, str]


def client_metrics(
    tags: Mapping[str, str], values: Mapping[str, tuple[str, Callable[[], Any]]], state: Callable[[], int]
) -> Iterator[Metric]:
    """Yields the metrics of the application itself.

    :param tags: those of ``client-state``, ``client-id`` among them, which is the only one of the others (KIP-1221).
    :param values: description and value by name.
    :param state: returns the number of the state.
    """
    yield Gauge(MetricName("client-state", CLIENT, "the number of the state", tags), state)
    for name, (description, read) in values.items():
        yield Gauge(MetricName(name, CLIENT, description, {"client-id": tags["client-id"]}), read)


def thread_metrics(threads: Iterable[StreamThread]) -> Iterator[Metric]:
    """Yields the metrics of each thread, each of its tasks and each of their stores."""
    for thread in threads:
        yield from _of_thread(thread)
        if thread.state is not ThreadState.DEAD:
            for task in thread.running_tasks():
                yield from _of_task(task, thread.name)
            for task_id, restored in thread.restore_counters().items():
                yield from _of_restore(task_id, restored, thread.name)
            for task_id, applied in thread.standby_counters().items():
                yield from _of_standby(task_id, applied, thread.name)


def _of_thread(thread: StreamThread) -> Iterator[Metric]:
    counters, tags = thread.counters, {"thread-id": thread.name}
    windows = counters.windows
    done = (
        ("process", "records processed", "processed", "process_s"),
        ("commit", "commits", "commits", "commit_s"),
        ("poll", "polls of the consumer", "polls", "poll_s"),
    )
    for name, what, total, seconds in done:
        yield from _count(name, what, THREAD, tags, counters, total, windows)
        each = "a record" if name == "process" else f"a {name}"
        yield from _latency(name, each, THREAD, tags, windows, (seconds, total, f"{seconds}_max"))
        ratio = f"share of the time that the thread spends on {what}, from 0 to 1"
        yield Gauge(MetricName(f"{name}-ratio", THREAD, ratio, tags), partial(windows.rate, seconds))
    ago = MetricName("last-commit-seconds-ago", THREAD, "seconds since the last good commit, or look for one", tags)
    yield Gauge(ago, counters.times.since_commit_s)
    yield from _of_group(counters.group, tags)
    stalled = "input partitions that have records but deliver none"
    yield Gauge(MetricName("stalled-partitions", THREAD, stalled, tags), thread.stalled_partitions)
    away = (
        "times that tasks were reset because a service that a record needs, such as a schema registry, was unavailable"
    )
    yield Gauge(MetricName("service-outage-total", THREAD, away, tags), thread.outages)
    since = "when the thread was started, in ms since 1970"
    yield _gauge("thread-start-time", since, THREAD, tags, counters.times, "started_at_ms")
    yield _gauge("thread-state", "the state of the thread", THREAD, tags, thread, "state")
    yield _gauge("state", "the state of the thread", THREAD, tags, thread, "state")


def _of_group(group: GroupCounters, tags: Tags) -> Iterator[Metric]:
    """Yields what the group does to the tasks of a thread."""
    windows = group.windows
    yield from _count("task-created", "tasks opened", THREAD, tags, group, "tasks_created", windows)
    yield from _count("task-closed", "tasks closed", THREAD, tags, group, "tasks_closed", windows)
    for name, what, total in (
        ("rebalance", "completed rebalances", "rebalances"),
        ("failed-rebalance", "times that the thread lost its tasks without a revocation", "failed"),
    ):
        yield _gauge(f"{name}-total", what, COORDINATOR, tags, group, total)
        rate = MetricName(f"{name}-rate-per-hour", COORDINATOR, f"{what}, per hour", tags)
        yield Gauge(rate, partial(_per_hour, windows, total))
    yield from _latency(
        "rebalance", "a rebalance", COORDINATOR, tags, windows, ("rebalance_s", "rebalances", "rebalance_s_max")
    )
    all_time = MetricName("rebalance-latency-total", COORDINATOR, "time of all rebalances, in ms", tags)
    yield Gauge(all_time, lambda: group.rebalance_s * MS)
    ago = MetricName("last-rebalance-seconds-ago", COORDINATOR, "seconds since the last rebalance, or -1", tags)
    yield Gauge(ago, group.since_last_s)


def _per_hour(windows: SampleWindows, total: str) -> float:
    return windows.rate(total) * 3600


def _of_task(task: Task, thread: str) -> Iterator[Metric]:
    tags = {"thread-id": thread, "task-id": str(task.id)}
    environment = task.environment
    yield from _of_counters(environment.metrics, environment.metrics.windows, tags)
    for queue in task.inputs.all():
        place = {**tags, "topic": queue.partition.topic, "partition": str(queue.partition.partition)}
        what = "offsets between the next record to process and the end of the partition"
        yield Gauge(MetricName("records-lag", CONSUMER, what, place), partial(_lag, queue))
    waiting = (
        ("active-buffer-count", "buffered input records", lambda: sum(map(len, task.inputs.all()))),
        (
            "input-buffer-bytes-total",
            "estimated bytes of buffered input records",
            lambda: sum(queue.buffered_bytes() for queue in task.inputs.all()),
        ),
    )
    for name, what, read in waiting:
        yield Gauge(MetricName(name, TASK, what, tags), read)
    yield from _of_snapshots(environment.metrics.snapshots, tags)
    yield from _of_topics(task, tags)
    yield from _of_drops(environment.metrics.drops, tags)
    for node in list(environment.metrics.nodes.nodes.values()):
        yield from _of_node(node, {**tags, "processor-node-id": node.name})
    for (topic, partition), sample in list(task.inputs.samples.items()):
        place = {**tags, "topic": topic, "partition": str(partition)}
        what = "sampled keys that are in another partition than the same key of the co-partitioned topic"
        yield _gauge("misplaced-keys-total", what, TASK, place, sample, "misplaced")
    stores = task.stores
    for name, store in list(stores.stores.items()):
        counters = stores.counters.get(name)
        yield from store_metrics(store, counters, tags)
        if counters is not None and counters.read_windows is not None:
            yield from cache_metrics(name, counters.read_windows, tags)
        engine = stores.engines.get(store.builder.supplier.engine)
        if engine is not None:
            yield from engine_metrics(store, engine, tags)
    if ROCKSDB in stores.engines:
        yield from _of_database(cast(HasStatistics, stores.engines[ROCKSDB]), {**tags, "rocksdb-state-id": "all"})


def _of_snapshots(snapshots: SnapshotCounters, tags: Tags) -> Iterator[Metric]:
    """Yields the metrics of a task's snapshots, once it has written one or failed to."""
    if snapshots.made_ms < 0 and not snapshots.failures:
        return
    values = (
        ("snapshot-time", "when the last snapshot of the task was written, in ms since 1970; -1 if none", "made_ms"),
        ("snapshot-size-bytes", "bytes of the last snapshot", "size"),
        ("snapshot-written-bytes-total", "bytes of files written by snapshots", "written_bytes"),
        ("snapshot-latency", "time to write the last snapshot, in ms", "elapsed_ms"),
        ("snapshot-failures-total", "snapshots that failed", "failures"),
    )
    for name, what, attribute in values:
        yield _gauge(name, what, TASK, tags, snapshots, attribute)


def _of_topics(task: Task, tags: Tags) -> Iterator[Metric]:
    """Yields what sources have read, and what sinks have written as estimated (KIP-846)."""
    queues: dict[str, list[InputQueue]] = {}
    for queue in task.inputs.all():
        queues.setdefault(queue.partition.topic, []).append(queue)
    for topic, read in queues.items():
        place = {**tags, "processor-node-id": read[0].reader.source.node, "topic": topic}
        for name in ("records", "bytes"):
            described = MetricName(f"{name}-consumed-total", TOPIC, f"{name} read from the topic", place)
            yield Gauge(described, partial(_consumed, read, name))
    for node in list(task.environment.metrics.nodes.nodes.values()):
        sink = task.plan.topology.nodes.get(node.name)
        if isinstance(sink, SinkNode) and sink.topic is not None:
            place = {**tags, "processor-node-id": node.name, "topic": task.plan.real_name(sink.topic)}
            what = "records written to the topic, estimated by a sample"
            yield Gauge(MetricName("records-produced-total", TOPIC, what, place), partial(_rounded, node))


def _consumed(queues: Iterable[InputQueue], name: str) -> int:
    found: float = sum(getattr(queue.reader.consumed, name) for queue in queues)
    return round(found)


def _rounded(node: NodeEstimate) -> int:
    return round(node.records)


def _of_database(engine: HasStatistics, tags: Tags) -> Iterator[Metric]:
    """Yields RocksDB's statistics of the database of a task (KIP-471), where they are kept."""
    statistics = DatabaseStatistics(engine)
    if statistics.read():
        for name, (description, *_) in ROCKSDB_STATISTICS.items():
            yield Gauge(MetricName(name, STATE, description, tags), partial(statistics.value, name))


def _of_node(node: NodeEstimate, tags: Tags) -> Iterator[Metric]:
    """Yields what is estimated of a node, and its end-to-end latencies (KIP-613) if it is a source or has no
    children."""
    if node.windows is not None:
        estimate = "records passed to the node, estimated by a sample"
        yield Gauge(MetricName("process-total", NODE, estimate, tags), partial(_rounded, node))
        rate = MetricName("process-rate", NODE, f"{estimate}, per second", tags)
        yield Gauge(rate, partial(node.windows.rate, "records"))
        time = MetricName("process-ratio", NODE, "time in the node itself, estimated by a sample, in s per s", tags)
        yield Gauge(time, partial(node.windows.rate, "seconds"))
    if node.latencies is not None:
        yield from _ages(node.latencies, tags)


def _ages(latencies: Latencies, tags: Tags) -> Iterator[Metric]:
    stats = (("avg", latencies.avg, "mean"), ("min", latencies.least, "least"), ("max", latencies.largest, "largest"))
    for suffix, stat, word in stats:
        name = MetricName(f"record-e2e-latency-{suffix}", NODE, f"{word} age of records at the node, in ms", tags)
        yield Gauge(name, partial(latencies.measure, stat))


def _lag(queue: InputQueue) -> float:
    lag = queue.lag
    return math.nan if lag is None else lag


def _of_counters(counters: TaskMetrics, windows: SampleWindows | None, tags: Tags) -> Iterator[Metric]:
    yield from _count("process", "records processed", TASK, tags, counters, "records_processed", windows)
    yield from _count("dropped-records", "records dropped", TASK, tags, counters, "dropped_records", windows)
    yield from _count("punctuate", "punctuations run", TASK, tags, counters, "punctuations", windows)
    if windows is not None:
        of = "punctuate_s", "punctuations", "punctuate_s_max"
        yield from _latency("punctuate", "a punctuation", TASK, tags, windows, of)


def _of_drops(drops: TaskDrops, tags: Tags) -> Iterator[Metric]:
    what = "records without a result at the node, for this reason"
    for node in drops.nodes():
        for reason in list(node.counts):
            of = {**tags, "processor-node-id": node.node, "reason": reason.tag}
            name = MetricName("no-result-records-total", NODE, what, of)
            yield Gauge(name, partial(node.counts.get, reason))


def _of_restore(task: TaskId, restored: RestoreCounters, thread: str) -> Iterator[Metric]:
    """Yields the metrics of a task's restores (KIP-869)."""
    tags = {"thread-id": thread, "task-id": str(task)}
    yield from _count("restore", "records restored", TASK, tags, restored, "restored", restored.windows)
    left = "offsets that remain to be restored"
    yield _gauge("restore-remaining-records-total", left, TASK, tags, restored, "remaining")


def _of_standby(task: TaskId, applied: RestoreCounters, thread: str) -> Iterator[Metric]:
    """Yields the metrics of a standby task (KIP-869)."""
    tags = {"thread-id": thread, "task-id": str(task)}
    yield from _count("update", "records applied to a standby task", TASK, tags, applied, "restored", applied.windows)
    left = "offsets that a standby task lags behind its changelogs"
    yield _gauge("update-remaining-records-total", left, TASK, tags, applied, "remaining")


def global_metrics(thread: GlobalStreamThread) -> Iterator[Metric]:
    """Yields the metrics of the global thread and of the global stores."""
    tags = {"thread-id": thread.name}
    yield _gauge("thread-state", "the state of the thread", THREAD, tags, thread, "state")
    task = thread.task
    environment, stores = task.environment, task.stores
    tags = {**tags, "task-id": str(environment.task_id)}
    yield from _of_counters(environment.metrics, environment.metrics.windows, tags)
    yield from _of_drops(environment.metrics.drops, tags)
    for name, store in list(stores.stores.items()):
        yield from store_metrics(store, stores.counters.get(name), tags)
        engine = stores.engines.get(store.builder.supplier.engine)
        if engine is not None:
            yield from engine_metrics(store, engine, tags)


def _count(
    name: str, what: str, group: str, tags: Tags, of: Any, total: str, windows: SampleWindows | None
) -> Iterator[Metric]:
    """Yields a total, and its rate where windows are kept."""
    yield _gauge(f"{name}-total", what, group, tags, of, total)
    if windows is not None:
        yield Gauge(MetricName(f"{name}-rate", group, f"{what} per second", tags), partial(windows.rate, total))


def _latency(
    name: str, of_what: str, group: str, tags: Tags, windows: SampleWindows, of: tuple[str, str, str]
) -> Iterator[Metric]:
    """Yields the mean and the largest latency.

    :param of: the names of three counters: seconds in total, events in total, the largest number of seconds.
    """
    seconds, count, most = of
    mean = MetricName(f"{name}-latency-avg", group, f"mean time of {of_what}, in ms", tags)
    yield Gauge(mean, lambda: windows.mean(seconds, count) * MS)
    largest = MetricName(f"{name}-latency-max", group, f"largest time of {of_what}, in ms", tags)
    yield Gauge(largest, lambda: windows.largest(most, count) * MS)


def _gauge(name: str, description: str, group: str, tags: Tags, of: Any, field: str) -> Metric:
    """Returns a metric that reads a counter when it is read."""
    return Gauge(MetricName(name, group, description, tags), partial(getattr, of, field))
