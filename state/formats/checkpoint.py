"""Kafka Streams' checkpoint files, ``.checkpoint`` (formats 13): text with a version, a count, and a line for each
partition with topic, partition and offset."""

from __future__ import annotations

from collections.abc import Mapping

from processor_api.errors import StateError
from processor_api.task_id import TopicPartition

OFFSET_UNKNOWN = -4
"""The offset of a partition that is known but of which nothing was applied."""

_VERSION = 0


def write_checkpoint(offsets: Mapping[TopicPartition, int]) -> str | None:
    """The file's text, or ``None`` when there is nothing to write, and a file that is there is to be removed.

    :raises ValueError: if an offset is negative and not `OFFSET_UNKNOWN`.
    """
    for partition, offset in offsets.items():
        if not _valid(offset):
            raise ValueError(f"the offset {offset} of {partition} cannot be written to a checkpoint file")
    if not offsets:
        return None
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""])


def read_checkpoint(text: str) -> dict[TopicPartition, int]:
    """The offsets in a file's text. Lines with a negative offset other than `OFFSET_UNKNOWN` are left out.

    :raises StateError: if the text is of another version or damaged.
    """
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
        if version != _VERSION:
            raise StateError(f"a checkpoint file of version {version} cannot be read, only version {_VERSION}")
        rows = [line.split() for line in lines[2:]]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except (IndexError, ValueError):
        raise StateError("a checkpoint file is damaged; remove it, and the store is restored from its start") from None
    if len(rows) != count:
        raise StateError(f"a checkpoint file announces {count} offsets and has {len(rows)}; remove it")
    return {partition: offset for partition, offset in offsets.items() if _valid(offset)}


def _valid(offset: int) -> bool:
    return offset >= 0 or offset == OFFSET_UNKNOWN
