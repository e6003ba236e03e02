"""The producer of a task without Kafka: it keeps the records of sinks, and the latest record of each changelog key."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NoReturn

from processor_api.errors import ProductionError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata

__all__ = ["CapturingProducer", "ChangelogRow", "Output"]

Output = tuple[str, bytes | None, bytes | None, int, HeaderList | None, int]
"""``(topic, key, value, timestamp_ms, headers, partition)`` of a record that a sink wrote; the partition is -1 where it
was left to the hash of the key."""

ChangelogRow = tuple[bytes, bytes | None, int, HeaderList | None]
"""``(key, value, timestamp_ms, headers)`` of the last record of a changelog key."""


class CapturingProducer:
    """Implements `streams.kafka.ports.Producer` for a task of which everything that it writes is captured.

    :param changelogs: the changelogs of the task's stores.
    :param versioned: those of them that keep each version of a key, by its timestamp.
    :param partition_counts: of the topics that sinks write to.
    :param zero_timestamp_ms: the timestamp written in place of 0, as the adapter of the live application does.
    """

    def __init__(
        self,
        changelogs: Collection[str],
        versioned: Collection[str],
        partition_counts: Mapping[str, int],
        kept_outputs: Collection[str] | None = None,
        zero_timestamp_ms: int = 1,
    ) -> None:
        self.zero_timestamp_ms = zero_timestamp_ms
        self.outputs: list[Output] = []
        self._counts = partition_counts
        self.changelogs = tuple(changelogs)
        self._logs: dict[str, dict[Any, tuple[bytes | None, int, HeaderList | None]]] = {one: {} for one in changelogs}
        self._versioned = frozenset(versioned)
        self._kept = None if kept_outputs is None else frozenset(kept_outputs)
        self.produce: Callable[..., None] = self._produce()

    def _produce(self) -> Callable[..., None]:
        logs, versioned, append, kept = self._logs, self._versioned, self.outputs.append, self._kept

        def produce(
            topic: str,
            value: bytes | None,
            key: bytes | None,
            partition: int,
            _delivered: Any,
            _none: None,
            timestamp: int,
            headers: HeaderList | None,
        ) -> None:
            log = logs.get(topic)
            if log is None:
                if kept is None or topic in kept:
                    append((topic, key, value, timestamp, headers, partition))
                return
            place = (key, timestamp) if topic in versioned else key
            log.pop(place, None)  # the order of the last updates, as a compacted topic has it
            log[place] = (value, timestamp, headers)

        return produce

    def changelog(self, topic: str) -> Iterator[ChangelogRow]:
        """Yields the last record of each key of a changelog in the order in which they were written."""
        versioned = topic in self._versioned
        for place, (value, timestamp, headers) in self._logs[topic].items():
            if versioned:
                yield place[0], value, timestamp, headers
            elif value is not None:
                yield place, value, timestamp, headers

    def partition_count(self, topic: str) -> int:
        """Returns the number of partitions of a topic.

        :raises ProductionError: if it is not known.
        """
        count = self._counts.get(topic)
        if count is None:
            raise ProductionError(
                f"the number of partitions of topic {topic!r} is not known: give it with the counts of the other"
                " topics",
                topic=topic,
            )
        return count

    def refused(self, error: Exception, topic: str) -> NoReturn:
        """Raises the error of a record that cannot be kept."""
        raise ProductionError(f"cannot keep a record of topic {topic!r}: {error}", topic=topic) from error

    def poll(self, timeout: float = 0) -> int:
        return 0

    def flush(self, timeout_s: float = math.inf) -> bool:
        """Does nothing: everything is there."""
        return True

    def prepare(self, topics: Collection[str]) -> None:
        """Does nothing: there is no broker to ask."""

    def init_transactions(self) -> None:
        """Does nothing: there is no other producer to fence."""

    def begin_transaction(self) -> None:
        """Does nothing: nothing is read before the end."""

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: Any) -> None:
        """Does nothing: there is no group."""

    def commit_transaction(self) -> None:
        """Does nothing: nothing is read before the end."""

    def abort_transaction(self) -> None:
        """Does nothing: nothing is read before the end."""

    def close(self) -> None:
        """Does nothing: there is no connection."""
