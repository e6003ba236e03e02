"""Makes the status of a worker, or of parts of it, from what its threads keep anyway.

Any thread may do so at any time: nothing is locked, and no broker is asked. What changes meanwhile may be seen before
or after the change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from processor_api.record import NO_TIMESTAMP
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import ROCKSDB
from processor_api.topology.topology import Topology
from state.engine.port import Engine
from state.registry.kinds import families_of, kind_name
from state.registry.statistics import HasProperties, uncommitted
from state.write_buffer.store_kind import OpenStore
from streams.kafka.client_statistics import BrokerFigures, ClientStatistics
from streams.observing.accounting import dropped_by, drops_of, held_by, place_of
from streams.observing.status import (
    BrokerStatus,
    CopyingStatus,
    NodeStatus,
    PartitionStatus,
    SnapshotStatus,
    StandbyStatus,
    StoreStatus,
    TaskStatus,
    ThreadStatus,
)
from streams.runtime.global_stores.thread import GlobalStreamThread, GlobalThreadState
from streams.runtime.processing.environment import Environment, SnapshotCounters
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.node_samples import NodeSamples
from streams.runtime.snapshots.snapshot_starts import SnapshotDownload
from streams.runtime.tasks.task import Task
from streams.runtime.threads.stream_thread import StreamThread
from streams.runtime.threads.task_manager import OwnedTask
from streams.runtime.threads.thread_state import ThreadState

ASSIGNED = "ASSIGNED"
"""The state of a task that the worker owns and has not opened."""

_SIZES = ("live-sst-files-size", "cur-size-all-mem-tables")


def thread_status(thread: StreamThread) -> ThreadStatus:
    """Returns what a stream thread does now."""
    counters = thread.counters
    windows = counters.windows
    latency = windows.mean("commit_s", "commits")
    return ThreadStatus(
        name=thread.name,
        state=thread.state.value,
        processed=counters.processed,
        commits=counters.commits,
        rate=windows.rate("processed"),
        process_ratio=windows.rate("process_s"),
        commit_ratio=windows.rate("commit_s"),
        poll_ratio=windows.rate("poll_s"),
        commit_latency_ms=None if math.isnan(latency) else latency * 1000,
        commit_age_ms=int(counters.times.since_commit_s() * 1000),
        waits_for_topology=thread.waits_for_another_topology(),
        group_status=thread.group_status(),
        outages=thread.outages(),
    )


def task_statuses(topology: Topology, thread: StreamThread) -> Iterator[TaskStatus]:
    """Yields what each task of a thread does now."""
    if thread.state is ThreadState.DEAD:
        return
    for owned in thread.list_tasks():
        yield _of_task(topology, owned, thread.name)


def _of_task(topology: Topology, owned: OwnedTask, thread: str) -> TaskStatus:
    task = owned.task
    if task is None:
        return TaskStatus(
            id=str(owned.id),
            thread=thread,
            state=ASSIGNED,
            processed=0,
            rate=0.0,
            stream_time_ms=None,
            dropped=0,
            partitions=tuple(_unread(owned)),
            nodes=tuple(node_status(topology, name) for name in owned.plan.nodes),
        )
    metrics = task.environment.metrics
    windows = metrics.windows
    return TaskStatus(
        id=str(owned.id),
        thread=thread,
        state=task.state.value,
        processed=metrics.records_processed,
        rate=0.0 if windows is None else windows.rate("records_processed"),
        stream_time_ms=_time(task.environment.cursor.stream_time),
        dropped=metrics.dropped_records,
        partitions=tuple(_partition(queue, task) for queue in task.inputs.all()) or tuple(_unread(owned)),
        nodes=tuple(_measured(topology, owned.plan.nodes, task.environment)),
        latency_ms=_latency(metrics.nodes),
        drops=drops_of(task),
        held=held_by(task),
        stores=tuple(_restored(name, owned, task) for name in owned.plan.stores),
        snapshot=_snapshot(metrics.snapshots),
        copying=_copying(owned.download),
        dead_letters=task.environment.errors.sent_letters,
    )


def global_status(topology: Topology, thread: GlobalStreamThread) -> TaskStatus:
    """Returns what fills the global stores as a task. Its partitions have no end and no lag: nothing is committed."""
    task = thread.task
    environment = task.environment
    metrics, filling = environment.metrics, thread.state is GlobalThreadState.CREATED
    nodes = [name for spec in task.specs.values() for name in (spec.source, spec.processor)]
    return TaskStatus(
        id=str(environment.task_id),
        thread=thread.name,
        state="RESTORING" if filling else "RUNNING" if thread.state is GlobalThreadState.RUNNING else "CLOSED",
        processed=metrics.records_processed,
        rate=0.0 if metrics.windows is None else metrics.windows.rate("records_processed"),
        stream_time_ms=None,
        dropped=metrics.dropped_records,
        partitions=tuple(_global_partition(queue) for queue in task.list_queues()),
        nodes=tuple(_measured(topology, nodes, environment)),
        drops=dropped_by(metrics.drops, topology),
        stores=tuple(
            replace(_store(spec.builder, task.stores.engines, task.stores.stores.get(spec.name)), restoring=filling)
            for spec in task.specs.values()
        ),
    )


def _global_partition(queue: InputQueue) -> PartitionStatus:
    return PartitionStatus(
        topic=queue.partition.topic,
        partition=queue.partition.partition,
        position=queue.position,
        committed=None,
        end=None,
        lag=None,
        buffered=len(queue),
        caught_up=False,
        stream_time_ms=_time(queue.partition_time),
    )


def _snapshot(counters: SnapshotCounters) -> SnapshotStatus | None:
    made = counters.made_ms >= 0
    if not made and not counters.failures:
        return None
    return SnapshotStatus(
        made_ms=counters.made_ms if made else None,
        size=counters.size,
        elapsed_ms=counters.elapsed_ms,
        failures=counters.failures,
    )


def _copying(download: SnapshotDownload | None) -> CopyingStatus | None:
    return None if download is None else CopyingStatus(bytes=download.bytes, size=download.size)


def standby_statuses(thread: StreamThread) -> Iterator[StandbyStatus]:
    """Yields the stores of the standby tasks of a thread."""
    if thread.state is ThreadState.DEAD:
        return
    counters = thread.standby_counters()
    for copy in thread.list_standbys():
        counted = counters.get(copy.id)
        for store, followed in sorted(copy.changelogs.items()):
            yield StandbyStatus(
                task=str(copy.id),
                thread=thread.name,
                store=store,
                position=followed.next_offset,
                lag=followed.lag,
                applied=0 if counted is None else counted.restored,
                rate=0.0 if counted is None else counted.windows.rate("restored"),
                warms_up=copy.is_warm_up,
            )


def node_status(topology: Topology, name: str) -> NodeStatus:
    """Returns a node's place in the user's script."""
    return NodeStatus(name=name, **place_of(topology, name))


def _measured(topology: Topology, names: Iterable[str], environment: Environment) -> Iterator[NodeStatus]:
    """Yields nodes with what is estimated of them, and their last errors."""
    samples, errors = environment.metrics.nodes, environment.errors.last
    seconds = {
        name: node.windows.rate("seconds") for name, node in list(samples.nodes.items()) if node.windows is not None
    }
    all_s = sum(seconds.values())
    for name in names:
        found, node = node_status(topology, name), samples.nodes.get(name)
        if node is not None and node.windows is not None:
            share = seconds.get(name, 0.0) / all_s if all_s > 0 else None
            found = replace(found, records=round(node.records), rate=node.windows.rate("records"), time_share=share)
        yield replace(found, last_error=errors[name]) if name in errors else found


def _latency(samples: NodeSamples) -> float | None:
    """Returns the mean end-to-end latency at the nodes without children."""
    ends = [node.latencies for node in list(samples.nodes.values()) if node.latencies and not node.is_source]
    found = [latency for one in ends if not math.isnan(latency := one.measure(one.avg))]
    return sum(found) / len(found) if found else None


def _unread(owned: OwnedTask) -> Iterator[PartitionStatus]:
    for topic, partition in sorted(owned.plan.partitions(owned.id.partition)):
        yield PartitionStatus(
            topic=topic,
            partition=partition,
            position=None,
            committed=None,
            end=None,
            lag=None,
            buffered=0,
            caught_up=False,
            stream_time_ms=None,
        )


def _partition(queue: InputQueue, task: Task) -> PartitionStatus:
    known = task.inputs.known_offsets.get(queue.partition)
    return PartitionStatus(
        topic=queue.partition.topic,
        partition=queue.partition.partition,
        position=queue.next_offset,
        committed=None if known is None else known.offset,
        end=queue.end,
        lag=queue.lag,
        buffered=len(queue),
        caught_up=queue.caught_up,
        stalled=queue.ends.stalled,
        stream_time_ms=_time(queue.partition_time),
        last_read_ms=queue.ends.read_ms,
    )


def _restored(name: str, owned: OwnedTask, task: Task) -> StoreStatus:
    found = _store(owned.plan.topology.stores[name], task.stores.engines, task.stores.stores.get(name))
    restore = owned.restores.get(name)
    return found if restore is None else replace(found, restoring=True, restore_remaining=restore.remaining)


def _store(builder: StoreBuilder[Any, Any], engines: Mapping[str, Engine], store: OpenStore | None) -> StoreStatus:
    kept_in = builder.supplier.engine
    engine = engines.get(kept_in)
    families = families_of(builder)
    entries = size = None
    if engine is not None and kept_in == ROCKSDB:
        properties = cast(HasProperties, engine)
        entries = properties.property(families[0], "rocksdb.estimate-num-keys")
        size = sum(properties.property(one, f"rocksdb.{part}") for one in families for part in _SIZES)
    elif engine is not None and store is not None:
        entries = engine.family(families[0]).approximate_count()
    return StoreStatus(
        name=builder.name,
        kind=kind_name(builder),
        engine=kept_in,
        restoring=False,
        restore_remaining=0,
        entries=entries,
        size=size,
        uncommitted=None if store is None else uncommitted(store)[0],
    )


def _time(ms: int) -> int | None:
    return None if ms == NO_TIMESTAMP else ms


def broker_statuses(clients: Iterable[ClientStatistics]) -> tuple[BrokerStatus, ...]:
    """Returns the brokers by id. Latencies are those of producers: a fetch waits at the broker for records."""
    found: dict[tuple[int, str], list[tuple[bool, BrokerFigures]]] = {}
    for client in clients:
        for broker in client.brokers:
            address = "" if broker.node >= 0 else broker.address  # the ids of those that were given are all -1
            found.setdefault((broker.node, address), []).append((client.is_producer, broker))
    return tuple(_added(node, parts) for (node, _), parts in sorted(found.items(), key=lambda each: each[0]))


def _added(node: int, parts: list[tuple[bool, BrokerFigures]]) -> BrokerStatus:
    brokers = [broker for _, broker in parts]
    means = [one.latency_avg_ms for is_producer, one in parts if is_producer and one.latency_avg_ms is not None]
    slowest = [one.latency_p99_ms for is_producer, one in parts if is_producer and one.latency_p99_ms is not None]
    return BrokerStatus(
        id=node,
        address=brokers[-1].address,
        connected=sum(one.state == "UP" for one in brokers),
        unreachable=sum(one.is_unreachable for one in brokers),
        partitions=max(one.partitions for one in brokers),
        latency_ms=sum(means) / len(means) if means else None,
        latency_p99_ms=max(slowest, default=None),
        queued=sum(one.queued for one in brokers),
        unanswered=sum(one.timeouts for one in brokers),
        disconnects=sum(one.disconnects for one in brokers),
    )
