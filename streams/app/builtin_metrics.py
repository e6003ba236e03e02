"""What the runtime counts, under Kafka's names: made when somebody asks, from plain counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from processor_api.metrics import Metric, MetricName
from streams.metrics.registry import Gauge
from streams.runtime.stream_thread import StreamThread
from streams.runtime.thread_state import ThreadState

__all__ = ["client_metrics", "thread_metrics"]

CLIENT = "stream-metrics"
THREAD = "stream-thread-metrics"
TASK = "stream-task-metrics"


def client_metrics(client_id: str, values: Mapping[str, tuple[str, Callable[[], Any]]]) -> Iterator[Metric]:
    """:param values: description and value by name."""
    for name, (description, read) in values.items():
        yield Gauge(MetricName(name, CLIENT, description, {"client-id": client_id}), read)


def thread_metrics(threads: Iterable[StreamThread]) -> Iterator[Metric]:
    """Of each thread and each of its tasks."""
    for thread in threads:
        totals = thread.totals
        tags = {"thread-id": thread.name}
        yield _gauge("process-total", THREAD, "records processed", tags, totals, "processed")
        yield _gauge("commit-total", THREAD, "commits", tags, totals, "commits")
        since = "when the thread was started, in ms since 1970"
        yield _gauge("thread-start-time", THREAD, since, tags, totals, "started_at_ms")
        yield _gauge("thread-state", THREAD, "the state of the thread", tags, thread, "state")
        if thread.state is not ThreadState.DEAD:
            yield from _task_metrics(thread)


def _task_metrics(thread: StreamThread) -> Iterator[Metric]:
    for task, counters in thread.task_counters().items():
        tags = {"thread-id": thread.name, "task-id": str(task)}
        yield _gauge("process-total", TASK, "records processed", tags, counters, "records_processed")
        yield _gauge("dropped-records-total", TASK, "records dropped", tags, counters, "dropped_records")
        yield _gauge("punctuate-total", TASK, "punctuations run", tags, counters, "punctuations")


def _gauge(name: str, group: str, description: str, tags: Mapping[str, str], of: Any, field: str) -> Metric:
    """Reads a counter when the metric is read."""
    return Gauge(MetricName(name, group, description, tags), partial(getattr, of, field))
