"""What the runtime counts, under Kafka's names: made when somebody asks, from plain counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from processor_api.metrics import Metric, MetricName
from streams.metrics.registry import Gauge
from streams.runtime.stream_thread import StreamThread
from streams.runtime.thread_state import ThreadState

__all__ = ["client_metrics", "thread_metrics"]

CLIENT = "stream-metrics"
THREAD = "stream-thread-metrics"
TASK = "stream-task-metrics"


def client_metrics(client_id: str, values: dict[str, tuple[str, Any]]) -> Iterator[Metric]:
    """:param values: description and value by name."""
    for name, (description, value) in values.items():
        yield _fixed(MetricName(name, CLIENT, description, {"client-id": client_id}), value)


def thread_metrics(threads: Iterable[StreamThread]) -> Iterator[Metric]:
    """Of each thread and each of its tasks."""
    for thread in threads:
        tags = {"thread-id": thread.name}
        totals = thread.totals
        for name, description, value in (
            ("process-total", "records processed", totals.processed),
            ("commit-total", "commits", totals.commits),
            ("thread-start-time", "when the thread was started, in ms since 1970", totals.started_at_ms),
            ("thread-state", "the state of the thread", thread.state.value),
        ):
            yield _fixed(MetricName(name, THREAD, description, tags), value)
        if thread.state is not ThreadState.DEAD:
            yield from _task_metrics(thread)


def _task_metrics(thread: StreamThread) -> Iterator[Metric]:
    for task, counters in thread.task_counters().items():
        tags = {"thread-id": thread.name, "task-id": str(task)}
        for name, description, value in (
            ("process-total", "records processed", counters.records_processed),
            ("dropped-records-total", "records dropped", counters.dropped_records),
            ("punctuate-total", "punctuations run", counters.punctuations),
        ):
            yield _fixed(MetricName(name, TASK, description, tags), value)


def _fixed(name: MetricName, value: Any) -> Metric:
    return Gauge(name, lambda: value)
