"""Tasks and partitions by name."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TaskId(NamedTuple):
    """A task: a subtopology and a partition, written ``<subtopology>_<partition>`` as in Kafka Streams."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Returns the task that a text such as ``0_1`` names, the reverse of ``str``.

        :raises ValueError: if the text is not a task id.
        """
        subtopology, underscore, partition = text.partition("_")
        if not (underscore and subtopology.isascii() and partition.isascii()):
            raise ValueError(f"{text!r} is not a task id such as 0_1")
        if not (subtopology.isdigit() and partition.isdigit()):
            raise ValueError(f"{text!r} is not a task id such as 0_1")
        return cls(int(subtopology), int(partition))
