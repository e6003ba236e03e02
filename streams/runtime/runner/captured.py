"""The producer of a task without Kafka: it keeps the records of sinks, and the latest record of each changelog key."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from processor_api.errors import ProductionError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from processor_api.texts import error_text
from streams.kafka.headers import UnsendableHeaders, sendable
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.runner.changelog_capture import ChangelogCapture

Output = tuple[str, bytes | None, bytes | None, int, HeaderList | None, int]
"""``(topic, key, value, timestamp_ms, headers, partition)`` of a record that a sink wrote; the partition is -1 where it
was left to the hash of the key."""


class CapturingProducer:
    """Implements `streams.kafka.ports.Producer` for a task of which everything that it writes is captured.

    :param changelogs: keeps the records of the changelogs of the task's stores.
    :param partition_counts: of the topics that sinks write to.
    :param kept_outputs: the topics whose records are kept; those of other sinks are dropped. ``None`` keeps all.
    :param zero_timestamp_ms: the timestamp written instead of 0, as the adapter of the live application does.
    """

    def __init__(
        self,
        changelogs: ChangelogCapture,
        partition_counts: Mapping[str, int],
        kept_outputs: Collection[str] | None = None,
        zero_timestamp_ms: int = 1,
    ) -> None:
        self.zero_timestamp_ms = zero_timestamp_ms
        self.outputs: list[Output] = []
        self._counts = partition_counts
        self.produce: Callable[..., None] = self._produce(changelogs, kept_outputs)

    def _produce(self, changelogs: ChangelogCapture, kept_outputs: Collection[str] | None) -> Callable[..., None]:
        logs = {topic: changelogs.writer(topic) for topic in changelogs.topics}
        append, kept = self.outputs.append, None if kept_outputs is None else frozenset(kept_outputs)

        def produce(
            topic: str,
            value: bytes | None,
            key: bytes | None,
            partition: int,
            _delivered: Any,
            _none: None,
            timestamp: int,
            headers: HeaderList | None = None,
        ) -> None:
            log = logs.get(topic)
            checked = sendable(headers) if headers else headers
            if log is not None:
                log(key, value, timestamp, checked)  # type: ignore[arg-type]
            elif kept is None or topic in kept:
                append((topic, key, value, timestamp, checked, partition))

        return produce

    @property
    def produce_plain(self) -> Callable[..., None]:
        return self.produce

    def partition_count(self, topic: str) -> int:
        """Returns the number of partitions of a topic.

        :raises ProductionError: if it is not known.
        """
        count = self._counts.get(topic)
        if count is None:
            raise ProductionError(
                f"the number of partitions of topic {topic!r} is unknown: give it with the counts of the other topics",
                topic=topic,
            )
        return count

    def refused(self, error: Exception, topic: str) -> NoReturn:
        """Raises the error of a record that cannot be kept."""
        if isinstance(error, UnsendableHeaders):
            raise error.locate(topic=topic)
        raise ProductionError(f"cannot keep a record of topic {topic!r}: {error_text(error)}", topic=topic) from error

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
