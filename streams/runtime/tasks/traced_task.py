"""A task that follows records: its punctuations and commits have lines in the trace."""

from __future__ import annotations

from collections.abc import Mapping

from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment
from streams.runtime.processing.punctuations import Schedule
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_stores import TaskStores
from streams.runtime.tracing.task_trace import TaskTrace


class _TracedTask(Task):
    def __init__(self, plan: TaskPlan, environment: Environment, stores: TaskStores, trace: TaskTrace) -> None:
        super().__init__(plan, environment, stores)
        self._trace = trace

    def _punctuate(self, schedule: Schedule, now_ms: int) -> None:
        with self._trace.punctuation(schedule.node, now_ms):
            super()._punctuate(schedule, now_ms)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        super().committed(offsets)
        self._trace.committed()

    def _close_chain(self, *, dirty: bool) -> None:
        super()._close_chain(dirty=dirty)
        self._trace.rolled_back()


def make_task(plan: TaskPlan, environment: Environment, stores: TaskStores) -> Task:
    """Makes a task with open engines; it follows records if its environment does."""
    trace = environment.trace
    if trace is None:
        return Task(plan, environment, stores)
    return _TracedTask(plan, environment, stores, trace)
