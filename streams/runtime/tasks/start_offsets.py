"""Where an input partition is read that has no committed offset, or one outside of its log (KIP-1106)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from processor_api.clock import Clock
from processor_api.errors import StateError, StreamsError
from processor_api.nodes import SourceNode
from processor_api.offset_reset import AutoOffsetReset
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Consumer, OffsetAndMetadata
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.tasks.task import Task

__all__ = ["check_positions", "offsets_by_policy", "reset_policy", "start_unrestored", "starting_offsets"]

log = logging.getLogger("streams.restore")


def check_positions(task: Task, committed: Collection[TopicPartition]) -> None:
    """Refuses a store that has consumed from partitions whose committed offsets are gone.

    :raises StateError: with what to do about it.
    """
    names = {str(partition): partition for partition in task.plan.partitions(task.id.partition)}
    for name, position in task.stores.stored_positions().items():
        partition = names.get(name)
        if partition is not None and partition not in committed:
            raise StateError(
                f"the stores of task {task.id} have consumed {name!r} up to offset {position}, but the group has no"
                " committed offset for it: it expired or was deleted. Set the group's offset (kafka-consumer-groups.sh"
                " --reset-offsets) to go on from there, or remove the task's directory"
                f" {task.environment.state_dir} and the changelogs to start anew",
                task=str(task.id),
                topic=partition.topic,
                partition=partition.partition,
                offset=position,
            )


def reset_policy(plan: TaskPlan, partition: TopicPartition, default: AutoOffsetReset) -> AutoOffsetReset:
    """Where to read a partition whose offset is missing or outside of its log."""
    if partition.topic in plan.repartition_topics:
        return AutoOffsetReset.earliest()  # its records are the application's own: none may be skipped
    node = plan.topology.nodes[plan.topics[partition.topic]]
    return (node.offset_reset if isinstance(node, SourceNode) else None) or default


def offsets_by_policy(
    reset: AutoOffsetReset, partitions: Collection[TopicPartition], consumer: Consumer, clock: Clock
) -> dict[TopicPartition, int]:
    """The offsets that a policy other than "none" means now."""
    if reset.policy == "earliest":
        return consumer.beginning_offsets(partitions)
    if reset.policy == "latest":
        return consumer.end_offsets(partitions)
    assert reset.duration_ms is not None
    since = max(0, clock.time_ms() - reset.duration_ms)
    return consumer.offsets_for_time(dict.fromkeys(partitions, since))


def start_unrestored(
    task: Task,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    starts: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """Says, once, which records stores lack that nothing restores, having no changelog; they go on from where the task
    starts.

    :param committed: offsets found committed.
    :param starts: these, and where partitions without one start.
    """
    for store, positions in task.stores.unlogged_positions().items():
        behind = [name for name, one in sorted(committed.items()) if positions.get(str(name), 0) < one.offset]
        if behind:
            log.warning(
                "store without a changelog lacks records that the group has consumed: the task ran elsewhere, its"
                " directory is an older copy, or a crash lost the last commits",
                extra={
                    "store": store,
                    "task": str(task.id),
                    "lacks": "; ".join(
                        f"{name} {positions.get(str(name), 0)}-{committed[name].offset}" for name in behind
                    ),
                },
            )
        later = {name: one.offset for name, one in starts.items() if positions.get(str(name), -1) < one.offset}
        if later:
            task.stores.note_positions(store, later)


def starting_offsets(
    task: Task, missing: Collection[TopicPartition], consumer: Consumer, default: AutoOffsetReset, clock: Clock
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to start at, resolved.

    :raises StreamsError: if the reset policy is "none".
    """
    found: dict[TopicPartition, int] = {}
    by_policy: dict[AutoOffsetReset, list[TopicPartition]] = {}
    for partition in missing:
        by_policy.setdefault(reset_policy(task.plan, partition, default), []).append(partition)
    for reset, partitions in by_policy.items():
        if reset.policy == "none":
            raise StreamsError(
                f"no committed offset for {', '.join(map(str, partitions))} and the offset reset policy is 'none':"
                " commit offsets for the group, or choose earliest, latest or a duration",
                task=str(task.id),
            )
        found.update(offsets_by_policy(reset, partitions, consumer, clock))
    return {partition: OffsetAndMetadata(offset) for partition, offset in found.items()}
