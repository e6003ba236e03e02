"""State that a task over history begins with: the rows of its stores, and the times of its inputs and operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from processor_api.errors import TopologyError
from processor_api.record import NO_TIMESTAMP
from processor_api.task_id import TopicPartition
from state.registry.kinds import restore_of
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.producing.zero_timestamps import as_written
from streams.runtime.runner.changelog_capture import ChangelogCapture, ChangelogRow
from streams.runtime.tasks.task import Task

LOAD_ROWS = 10_000


def load_rows(task: Task, state: Mapping[str, Iterable[ChangelogRow]], capture: ChangelogCapture) -> None:
    """Fills the stores of a task that has not started with rows of their changelogs, which are captured too.

    :raises TopologyError: if the task has no store with such a changelog.
    """
    stores = {topic: store for store, topic in task.plan.changelogs.items()}
    for topic, rows in state.items():
        if topic not in stores:
            raise TopologyError(
                f"task {task.id} has no store with the changelog {topic!r}; its changelogs are"
                f" {', '.join(sorted(stores)) or 'none'}",
                topic=topic,
                task=str(task.id),
            )
        own = topic in capture.topics  # else it is a topic that the task reads, without marks
        _load(task, stores[topic], rows, capture.writer(topic) if own else _ignore, marked=own)


def _load(task: Task, store: str, rows: Iterable[ChangelogRow], captured: Callable[..., None], *, marked: bool) -> None:
    engine = task.stores.engine_of(store)
    restore = restore_of(task.plan.topology.stores[store], engine)
    left = iter(rows)
    while some := list(islice(left, LOAD_ROWS)):
        keys, values, stamps, headers = zip(*some, strict=True)
        batch = engine.batch()
        times, found = as_written(stamps, headers) if marked else (list(stamps), list(headers))
        restore(batch, iter(keys), iter(values), times, iter(found))
        engine.load(batch)
        for row in some:
            captured(*row)


def _ignore(*row: object) -> None:
    """Does nothing: the changelog is a topic that the task reads."""


def start_offsets(
    task: Task, partition_times: Mapping[str, int], processor_times: Mapping[str, int]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the committed offsets by which a task begins with the times of its inputs and operators."""
    if not partition_times and not processor_times:
        return {}
    times = {place: partition_times.get(place.topic, NO_TIMESTAMP) for place in task.plan.partitions(task.id.partition)}
    return {
        place: OffsetAndMetadata(0, TopicPartitionMetadata(time, processor_times).encode())
        for place, time in times.items()
    }
