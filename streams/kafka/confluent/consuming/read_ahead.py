"""Keeps the messages that the client has fetched of paused partitions.

When a partition is paused, librdkafka drops the messages that it has fetched ahead, and fetches them again from the
broker when it is resumed. A merge of inputs by time pauses one input after another, many times a second. So a partition
is paused here, and its messages are kept, in order, until it is resumed; the client itself pauses a partition only
where too many bytes have come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import Any

from processor_api.task_id import TopicPartition
from state.row_format.record_context import message_bytes

MESSAGE_BYTES = 256
"""Bytes that a message takes beside its key, value and headers: 220 were measured with one byte each."""
SIZES_LOOKED_AT = 16

Partitions = Collection[TopicPartition]


class ReadAhead:
    """Holds the messages of paused partitions of one consumer.

    :param limit_bytes: how much may be kept of all partitions together. Once there is more, those with more than an
        equal part are not fetched until half of that part is left.
    :param stop: makes the client not fetch partitions, whose fetched messages it drops.
    :param fetch: makes it fetch them again.
    """

    def __init__(
        self, limit_bytes: int, stop: Callable[[Partitions], None], fetch: Callable[[Partitions], None]
    ) -> None:
        self._limit = limit_bytes
        self._stop = stop
        self._fetch = fetch
        self._paused: set[TopicPartition] = set()
        self._stopped: set[TopicPartition] = set()
        self._kept: dict[TopicPartition, deque[tuple[list[Any], float]]] = {}
        """Runs of messages, with the bytes that each message takes."""
        self._bytes: dict[TopicPartition, float] = {}
        self._total = 0.0
        self.active = False
        """Whether messages have to go through this object: if nothing is paused or kept, they do not."""

    # ------------------------------------------------------------------ partitions

    def pause(self, partitions: Partitions) -> None:
        """Pauses partitions: their messages are kept from now on."""
        self._paused.update(partitions)
        self.active = bool(self._paused or self._kept)

    def resume(self, partitions: Partitions) -> None:
        """Resumes partitions: gives out the kept messages, then those that come."""
        self._paused.difference_update(partitions)
        for partition in partitions:
            self._fetch_more(partition)
        self.active = bool(self._paused or self._kept)

    def forget(self, partitions: Partitions) -> None:
        """Drops partitions that are no longer read; they start unpaused when they are read again."""
        self.clear(partitions)
        self.resume(partitions)

    def clear(self, partitions: Partitions) -> None:
        """Drops the kept messages of partitions that are read from another position; they stay paused."""
        for partition in partitions:
            if self._kept.pop(partition, None) is not None:
                self._total -= self._bytes.pop(partition)
            self._fetch_more(partition)
        self.active = bool(self._paused or self._kept)

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the first message that is kept of a partition."""
        offsets = (message.offset() for run, _ in self._kept.get(partition, ()) for message in run)
        # Events stand among the messages, of which some have no offset.
        return next((offset for offset in offsets if offset is not None and offset >= 0), None)

    # ------------------------------------------------------------------ messages

    def keep(self, messages: Sequence[Any]) -> list[Any]:
        """Keeps messages of partitions that are paused, or of which earlier ones are kept; returns the others."""
        passed: list[Any] = []
        for partition, run in _runs(messages):
            if partition in self._paused or partition in self._kept:
                self._add(partition, run)
            else:
                passed += run
        self._limit_bytes()
        return passed

    def keep_all(self, messages: Sequence[Any]) -> None:
        """Keeps all messages for a later `take`, also of partitions that are not paused."""
        for partition, run in _runs(messages):
            self._add(partition, run)
        self._limit_bytes()

    def take(self, most: int) -> list[Any]:
        """Returns up to this many messages of partitions that are not paused, each partition's in order."""
        taken: list[Any] = []
        for partition in [one for one in self._kept if one not in self._paused]:
            runs, freed = self._kept.pop(partition), 0.0
            while runs and (room := most - len(taken)) > 0:
                run, each = runs.popleft()
                if len(run) > room:
                    runs.appendleft((run[room:], each))
                    run = run[:room]
                taken += run
                freed += each * len(run)
            self._total -= freed
            self._bytes[partition] -= freed
            if runs:
                self._kept[partition] = runs  # at the end: the others come first the next time
            else:
                self._total -= self._bytes.pop(partition)
            self._fetch_more(partition)
            if len(taken) >= most:
                break
        self.active = bool(self._paused or self._kept)
        return taken

    def _add(self, partition: TopicPartition, run: list[Any]) -> None:
        each = _bytes_each(run)
        self._kept.setdefault(partition, deque()).append((run, each))
        self._bytes[partition] = self._bytes.get(partition, 0.0) + each * len(run)
        self._total += each * len(run)
        self.active = True

    # ------------------------------------------------------------------ the limit

    def _part(self) -> float:
        return self._limit / max(1, len(self._kept.keys() | self._stopped))

    def _limit_bytes(self) -> None:
        if self._total <= self._limit:
            return
        part = self._part()
        over = [name for name, size in self._bytes.items() if size >= part and name not in self._stopped]
        over = [name for name in over if name in self._paused]  # the others are given out by the next take
        if over:
            self._stopped.update(over)
            self._stop(over)

    def _fetch_more(self, partition: TopicPartition) -> None:
        if partition in self._stopped and self._bytes.get(partition, 0.0) <= self._part() / 2:
            self._stopped.discard(partition)
            self._fetch([partition])


def _runs(messages: Sequence[Any]) -> Iterator[tuple[TopicPartition, list[Any]]]:
    """Yields messages in runs: consecutive ones of one partition, or of none."""
    if not messages:
        return
    # Methods of the type, which groupby calls without any Python code for each message.
    kind = type(messages[0])
    for number, by_partition in groupby(messages, kind.partition):
        for topic, run in groupby(by_partition, kind.topic):
            yield TopicPartition(topic or "", -1 if number is None else number), list(run)


def _bytes_each(run: Sequence[Any]) -> float:
    """Returns about how many bytes a message takes, by the sizes of some of them."""
    some = run[:: len(run) // SIZES_LOOKED_AT + 1]
    return MESSAGE_BYTES + sum(map(message_bytes, some)) / len(some)
