"""The metrics of stores, under Kafka's names: of commits (KIP-892), of operations, and of RocksDB (KIP-607).

Latencies are in nanoseconds, as there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

from processor_api.metrics import Metric, MetricName
from processor_api.stores.suppliers import ROCKSDB
from state.engine.port import Engine
from state.registry.statistics import ROCKSDB_PROPERTIES, HasProperties, rocksdb_property, uncommitted
from state.write_buffer.store_kind import OpenStore
from streams.metrics.registry import Gauge
from streams.metrics.windows import Windows
from streams.runtime.engines.store_counters import OperationCounter, StoreCounters

STATE = "stream-state-metrics"
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
        MetricName("uncommitted-entries", STATE, "entries that wait for a commit", tags), lambda: uncommitted(store)[0]
    )
    yield Gauge(
        MetricName("uncommitted-bytes", STATE, "bytes that wait for a commit", tags), lambda: uncommitted(store)[1]
    )
    if counters is None:
        return
    windows = counters.windows
    rate = MetricName("commit-rate", STATE, "commits per second", tags)
    yield Gauge(rate, partial(windows.rate, "commits"))
    what = "of a commit of the engine that holds the store, in ns"
    yield from _latency("commit", what, windows, ("commit_s", "commits", "commit_s_max"), tags)
    for name, operation in sorted(counters.operations.items()):
        yield from _operation(name, operation, tags)
    if counters.iterators is not None:
        durations = ("seconds", "timed", "seconds_max")
        what = "time of an iterator from its opening to its close, in ns"
        yield from _latency("iterator-duration", what, counters.iterators.windows, durations, tags, suffix="")
        is_open = MetricName("num-open-iterators", STATE, "iterators that are open", tags)
        yield Gauge(is_open, partial(getattr, counters, "open_iterators"))


def _operation(name: str, counter: OperationCounter, tags: Mapping[str, str]) -> Iterator[Metric]:
    yield Gauge(
        MetricName(f"{name}-rate", STATE, f"calls of {name} per second", tags), partial(counter.windows.rate, "calls")
    )
    yield from _latency(name, f"latency of {name}, in ns", counter.windows, ("seconds", "timed", "seconds_max"), tags)


def _latency(
    name: str,
    what: str,
    windows: Windows,
    of: tuple[str, str, str],
    tags: Mapping[str, str],
    suffix: str = "-latency",
) -> Iterator[Metric]:
    seconds, count, most = of
    mean = MetricName(f"{name}{suffix}-avg", STATE, f"mean {what}", tags)
    yield Gauge(mean, lambda: windows.mean(seconds, count) * NS)
    largest = MetricName(f"{name}{suffix}-max", STATE, f"largest {what}", tags)
    yield Gauge(largest, lambda: windows.largest(most, count) * NS)


def rocksdb_metrics(store: OpenStore, engine: Engine, tags: Mapping[str, str]) -> Iterator[Metric]:
    """Yields the metrics of a store on RocksDB; none of other stores."""
    if store.builder.supplier.engine != ROCKSDB:
        return
    tags = {**tags, f"{scope_of(store)}-state-id": store.builder.name}
    for name, description in ROCKSDB_PROPERTIES.items():
        yield Gauge(
            MetricName(name, STATE, description, tags),
            partial(rocksdb_property, store, cast(HasProperties, engine), name),
        )
