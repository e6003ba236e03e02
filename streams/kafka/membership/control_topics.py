"""The control topics of an application: one for each subtopology, with a partition for each task."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from processor_api.errors import TopologyError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.port import GroupTopology
from streams.kafka.own_names import control_topic
from streams.kafka.ports import Admin, NewTopic

CONTROL_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1"}


class ControlTopics:
    """Makes and grows the control topics of a topology, and knows which task a partition of them is."""

    def __init__(self, admin: Admin, topology: GroupTopology) -> None:
        self._admin = admin
        self.topology = topology
        self._subtopologies = {
            control_topic(topology.prefix, part): part for part, count in topology.task_counts.items() if count
        }

    @property
    def names(self) -> list[str]:
        return list(self._subtopologies)

    @property
    def first(self) -> str | None:
        """Returns the topic of the first subtopology that has tasks."""
        return min(self._subtopologies, key=self._subtopologies.__getitem__, default=None)

    def tasks(self, partitions: Collection[TopicPartition]) -> set[TaskId]:
        """Returns the tasks that partitions stand for; those of other topics are left out."""
        known = self._subtopologies
        return {TaskId(known[topic], number) for topic, number in partitions if topic in known}

    def partition(self, task: TaskId) -> TopicPartition:
        """Returns the partition that stands for a task."""
        return TopicPartition(control_topic(self.topology.prefix, task.subtopology), task.partition)

    def create(self) -> None:
        """Creates the topics that are not there, and grows those whose subtopology may have got more tasks.

        :raises TopologyError: if a topic has another number of partitions than there are tasks.
        """
        topology = self.topology
        counts = {name: topology.task_counts[part] for name, part in self._subtopologies.items()}
        existing = {name: info.partitions for name, info in self._admin.topics(list(counts)).items()}
        for name, count in counts.items():
            # One that grows may have more partitions than tasks are known here: it is never made smaller.
            if existing.get(name, count) != count and self._subtopologies[name] not in topology.growing:
                raise TopologyError(
                    f"control topic {name!r} has {existing[name]} partitions but the subtopology has {count} tasks:"
                    " the partition counts of its source topics have changed. Restore the former counts, or reset the"
                    " application",
                    topic=name,
                )
        self._admin.create_topics(
            [
                NewTopic(name=name, partitions=count, configs=CONTROL_CONFIGS)
                for name, count in counts.items()
                if name not in existing
            ]
        )
        self._grow({name: count for name, count in counts.items() if existing.get(name, count) < count})

    def extend(self, topology: GroupTopology) -> None:
        """Adds partitions for new tasks; the group assigns them when its leader sees them."""
        known, self.topology = self.topology.task_counts, topology
        self._grow(
            {
                control_topic(topology.prefix, part): count
                for part, count in topology.task_counts.items()
                if part in topology.growing and count > known.get(part, 0)
            }
        )

    def _grow(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self._admin.add_partitions(name, count)
