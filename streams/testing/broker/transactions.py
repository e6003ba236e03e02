"""Transactional ids: which producer may write under one, and what its open transaction wrote to.

As in Kafka, the broker has a transaction from its first record or offset on, and its timeout runs from there; an
empty one is never seen. Nothing here takes a lock: the broker holds its own around every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count

from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata
from streams.testing.broker.partition_log import PartitionLog


class TransactionalId:
    """The state of one transactional id. A producer of an older epoch is fenced."""

    __slots__ = ("epoch", "logs", "name", "offsets", "producer_id", "started_s", "timeout_s")

    def __init__(self, name: str, producer_id: int) -> None:
        self.name = name
        self.producer_id = producer_id
        self.epoch = -1
        self.timeout_s = 60.0
        self.started_s: float | None = None
        """The time at which the open transaction got its first record or offset; ``None`` while it is empty."""
        self.logs: dict[PartitionLog, None] = {}
        """Partitions with records of the open transaction, in order of the first one."""
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        """Pending offsets of the open transaction, by group."""


class TransactionCoordinator:
    """Holds all transactional ids of a broker.

    ``offsets_decided(producer_id, group, offsets, committed)`` is called for each group when a transaction ends.
    """

    def __init__(
        self, offsets_decided: Callable[[int, str, Mapping[TopicPartition, OffsetAndMetadata], bool], None]
    ) -> None:
        self._offsets_decided = offsets_decided
        self._ids: dict[str, TransactionalId] = {}
        self._producer_ids = count(1)

    def initialize(self, name: str, timeout_s: float) -> TransactionalId:
        """Starts a new epoch: aborts the open transaction and fences every earlier producer of the id."""
        known = self._ids.get(name)
        if known is None:
            known = self._ids[name] = TransactionalId(name, next(self._producer_ids))
        self.end(known, committed=False)
        known.epoch += 1
        known.timeout_s = timeout_s
        return known

    def end(self, known: TransactionalId, *, committed: bool) -> None:
        """Ends the open transaction, if there is one: markers into its partitions, offsets decided."""
        logs, offsets = known.logs, known.offsets
        known.logs, known.offsets, known.started_s = {}, {}, None
        for log in logs:
            log.end_transaction(known.producer_id, committed=committed)
        for group, pending in offsets.items():
            self._offsets_decided(known.producer_id, group, pending, committed)

    def expire(self, now_s: float) -> bool:
        """Aborts the transactions past their timeout and fences their producers; returns whether there was one."""
        expired = [known for known in self._open() if now_s >= _deadline(known)]
        for known in expired:
            self.end(known, committed=False)
            known.epoch += 1
        return bool(expired)

    def time_out(self, name: str) -> None:
        """Ends the open transaction of an id, if there is one, as if its timeout had passed."""
        known = self._ids.get(name)
        if known is not None and known.started_s is not None:
            self.end(known, committed=False)
            known.epoch += 1

    def open_ids(self) -> list[str]:
        """Returns the ids that have an open transaction, in order."""
        return sorted(known.name for known in self._open())

    def next_deadline_s(self) -> float:
        """Returns when the next transaction times out."""
        return min(map(_deadline, self._open()), default=float("inf"))

    def _open(self) -> Iterator[TransactionalId]:
        return (known for known in self._ids.values() if known.started_s is not None)


def _deadline(known: TransactionalId) -> float:
    return (known.started_s or 0.0) + known.timeout_s
