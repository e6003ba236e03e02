"""The records of a compacted log that make a table without missing keys: those of a range, or as many more as needed.

A compaction removes a record whose key comes again in what it has looked at. So in a range of offsets a key may be
missing, though it was there when the range ended: its record was removed because of one behind the range. Both ways out
of that follow from how far a compaction can have looked, which is never beyond the last stable offset of its time
(docs/decisions/spark.md, "An incomplete table is rejected").
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from processor_api.clock import SystemClock
from processor_api.errors import ConfigError, RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.client_errors import LOST
from streams.spark.errors import OffsetRangeLost
from streams.spark.sources.partition_reader import STUCK_S, WAIT_S, place_of, read_range, read_with
from streams.spark.sources.ranges import OffsetRange

TRIES = 5
ANSWER_S = 30.0
END_OF_LOG = sys.maxsize
Evidence = Callable[[], bool]


@dataclass(frozen=True)
class WholeRange:
    """Reads a range of a compacted log so that no key is missing.

    :param is_pinned: whether the table must be that of the end of the range. Otherwise it may be that of a later end,
        and begin at the offset that is the first one by then.
    :param needs_all: whether no compaction may have removed any record of the range, for whatever reason.
    :param instead: what to do if the table of a pinned end is no longer available, as a sentence.
    """

    settings: Mapping[str, Any]
    """The consumer's."""
    wanted: OffsetRange
    is_pinned: bool
    instead: str
    needs_all: bool = False

    def read(self, has_repeats: Evidence, holds: Callable[[bytes], bool] | None) -> Iterator[list[Any]]:
        """Yields the records; the evidence is asked for when all of the range was taken.

        :param has_repeats: whether a key was found twice: no compaction had looked at the second of its records when
            the first one was read, and so none had looked beyond the range.
        :param holds: whether a record with a key was read, where that is known.
        :raises OffsetRangeLost: if the range is pinned, and keys may be missing or records were deleted.
        """
        count = 0
        for messages in read_range(self.settings, self.wanted):
            count += len(messages)
            yield messages
        if count >= self.wanted.end - self.wanted.start:
            return
        if self.needs_all:
            if has_all_records(self.settings, self.wanted):
                return
            raise OffsetRangeLost(
                f"{self.wanted.topic}-{self.wanted.partition} has been compacted, and rows that it had may be missing."
                f" {self.instead}",
                **place_of(self.wanted),
            )
        if has_repeats() or self._is_whole(holds):
            return
        if self.is_pinned:
            raise OffsetRangeLost(
                f"{self.wanted.topic}-{self.wanted.partition} was written behind the pinned end {self.wanted.end}, and"
                " has been compacted: rows of keys that were written again may be missing."
                f" {self.instead}",
                **place_of(self.wanted),
                offset=self.wanted.end,
            )
        yield from read_on(self.settings, self.wanted)

    def moved(self) -> WholeRange | None:
        """Returns what to read where the first records were deleted meanwhile; ``None`` where that is not to be read,
        or the log ends before the range, as that of a topic which was made again."""
        if self.is_pinned:
            return None
        from streams.kafka.confluent.clients import ConfluentClients

        place, wanted = TopicPartition(self.wanted.topic, self.wanted.partition), self.wanted
        consumer = ConfluentClients().consumer(self.settings)
        try:
            low, high = (ask([place])[place] for ask in (consumer.beginning_offsets, consumer.end_offsets))
        finally:
            consumer.close()
        if low <= wanted.start or high < wanted.end:
            return None
        moved = OffsetRange(wanted.topic, wanted.partition, low, high)
        return replace(self, wanted=moved)

    def _is_whole(self, holds: Callable[[bytes], bool] | None) -> bool:
        return is_not_compacted(self.settings, self.wanted, holds) or has_all_records(self.settings, self.wanted)


def read_on(settings: Mapping[str, Any], wanted: OffsetRange) -> Iterator[list[Any]]:
    """Yields the records behind a range, up to the end that the partition has when the last of them was read.

    The end comes with an answer of the broker that has no records: it is the last stable offset at a time when all
    records had been fetched. A compaction that has removed one of them before had looked no further.
    """
    from streams.kafka.confluent.clients import ConfluentClients

    behind = OffsetRange(wanted.topic, wanted.partition, wanted.end, END_OF_LOG)
    # An answer without records must not be held back until there are some.
    consumer = ConfluentClients().consumer({**settings, "fetch.wait.max.ms": 0, "fetch.min.bytes": 1})
    try:
        consumer.assign({TopicPartition(wanted.topic, wanted.partition): wanted.end})
        yield from read_with(consumer, behind, STUCK_S, to_end=True)
    finally:
        consumer.close()


def is_not_compacted(settings: Mapping[str, Any], wanted: OffsetRange, holds: Callable[[bytes], bool] | None) -> bool:
    """Returns whether the next record shows that no compaction has removed one of the range because of one behind it.

    It has looked at nothing behind the range if there is nothing, or if the first record behind it has a key that is
    still in the range.
    """
    from streams.kafka.confluent.clients import ConfluentClients

    consumer = ConfluentClients().consumer(settings)
    try:
        place = TopicPartition(wanted.topic, wanted.partition)
        if consumer.end_offsets([place])[place] <= wanted.end:
            return True
        if holds is None:
            return False
        consumer.assign({place: wanted.end})
        clock = SystemClock()
        until = clock.monotonic() + STUCK_S
        while clock.monotonic() < until:
            message = consumer.poll(WAIT_S)
            if message is None:
                continue
            if message.error() is None:
                return message.offset() == wanted.end and holds(message.key() or b"")
            if message.error().code() == consumer.partition_eof or message.error().name() in LOST:
                return False
        raise RetryableError(f"no record came for {STUCK_S:g} s: see whether the brokers run", **place_of(wanted))
    finally:
        consumer.close()


def has_all_records(settings: Mapping[str, Any], wanted: OffsetRange) -> bool:
    """Returns whether the log still has all that was ever written into a range, so that no compaction has removed
    anything. Offsets without records are markers of transactions then, or records of aborted ones.

    It reads the headers of batches, which takes the time of the network: the brokers send the records, too.
    """
    from streams.kafka.wire.cluster_queries import ClusterQueries
    from streams.kafka.wire.codec import MalformedMessage
    from streams.kafka.wire.connection import UnsupportedRequest

    place, at = TopicPartition(wanted.topic, wanted.partition), wanted.start
    try:
        queries = ClusterQueries(settings)
    except ConfigError:  # such as a login by Kerberos
        return False
    try:
        while at < wanted.end:
            headers = queries.batch_headers(place, at, ANSWER_S)
            if not headers:
                return False
            for one in headers:
                if one.first > at or one.records != one.last - one.first + 1:
                    return False
                at = max(at, one.last + 1)
                if at >= wanted.end:
                    break
        return True
    except (MalformedMessage, UnsupportedRequest):
        return False
    except StreamsError as error:
        if isinstance(error, RetryableError) and "OFFSET_OUT_OF_RANGE" in error.message:
            return False
        raise
    finally:
        queries.close()
