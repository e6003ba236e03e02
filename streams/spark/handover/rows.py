"""The rows of changelogs: read from a backfill, written to Kafka, summed up in both places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.record import HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.task_id import TopicPartition
from state.registry.kinds import kind_of
from state.windowed.segments import Retention
from streams.kafka.ports import Consumer, Producer
from streams.kafka.producing.deliveries import not_delivered
from streams.kafka.producing.transactions import transaction
from streams.kafka.record_ranges import read_ranges
from streams.spark.handover.finished_run import FinishedTask, RunRow
from streams.spark.handover.plan import PlannedChangelog

MASK = (1 << 64) - 1
POLL_ROWS = 10_000
CHUNK_ROWS, CHUNK_BYTES = 50_000, 16 << 20
"""The most rows, and bytes of keys and values, of one transaction."""


@dataclass
class Sum:
    """Counts rows, and adds up their hashes: the same for the same rows in any order."""

    rows: int = 0
    total: int = 0

    def add(self, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderList | None) -> None:
        """Adds one row."""
        digest = blake2b(timestamp.to_bytes(8, "big", signed=True), digest_size=8)
        for part in (key, value):
            digest.update(b"-" if part is None else b"%d:" % len(part))
            digest.update(part or b"")
        for name, header in headers or ():
            raw = name.encode()
            digest.update(b"%d:" % len(raw) + raw + (b"-" if header is None else b"%d:" % len(header) + header))
        self.total = (self.total + int.from_bytes(digest.digest(), "big")) & MASK
        self.rows += 1


def live_rows(changelog: PlannedChangelog, task: FinishedTask) -> tuple[Iterator[RunRow], Callable[[], int]]:
    """Returns the rows of one partition that a live store would still have, and the number of others so far.

    Rows of windows and sessions expire by the time of their store, which is the largest time in it. A broker may delete
    them at once, and a live store would not take them from a restore.
    """
    left_out = 0
    time_of = _time_of(changelog.builder)
    if time_of is None:
        return task.state(changelog.source), lambda: 0
    retention = Retention.of(changelog.builder, persistent=True, shows_limit=True)
    latest = max((time_of(row.key or b"") for row in task.state(changelog.source)), default=-1)
    first = max(0, (latest - retention.at_least_ms) // retention.interval_ms * retention.interval_ms)

    def rows() -> Iterator[RunRow]:
        nonlocal left_out
        for row in task.state(changelog.source):
            if time_of(row.key or b"") < first:
                left_out += 1
            else:
                yield row

    return rows(), lambda: left_out


def _time_of(builder: StoreBuilder[Any, Any]) -> Callable[[bytes], int] | None:
    """Returns the function from the key of a row to the time by which it expires (formats 9)."""
    if "retention_ms" not in builder.supplier.parameters:
        return None
    tail = kind_of(builder).changelog_form.tail_bytes
    assert tail, f"store {builder.name!r} has a retention and no times in its keys"
    return lambda key: int.from_bytes(key[-tail : 8 - tail], "big", signed=True)


class Sender:
    """Writes rows to the partitions of one topic.

    :param producer: which nothing else uses meanwhile.
    """

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._failed: StreamsError | None = None

    def send(self, rows: Iterable[RunRow]) -> Sum:
        """Gives rows to the producer; they are delivered after :meth:`finish`.

        :raises StreamsError: with the broker's reason, if a row was not delivered.
        """
        producer, topic, written = self._producer, self._topic, Sum()
        for partition, key, value, time, headers in rows:
            while True:
                try:
                    producer.produce(topic, value, key, partition, self._delivered, None, time, headers)
                    break
                except BufferError:
                    producer.poll(0.1)
                except Exception as error:
                    producer.refused(error, topic)
            written.add(key, value, time, headers)
            if written.rows % POLL_ROWS == 0:
                producer.poll(0)
                self._check()
        return written

    def finish(self) -> None:
        """Waits until all rows are delivered.

        :raises StreamsError: with the broker's reason, if one was not.
        """
        self._producer.flush()
        self._check()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failed is None:
            partition = None if message is None else message.partition()
            self._failed = not_delivered(error, self._topic, partition)

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed


def send_numbered(
    producer: Producer, rows: Iterator[tuple[str, RunRow]], done: int, commit: Callable[[int], None]
) -> int:
    """Sends rows in transactions, each of which also commits how many rows have been sent. So each row is sent once: a
    call after a kill continues after the last committed number. Returns that of the last row.

    :param producer: a transactional producer, which nothing else uses in the meantime.
    :param rows: topics and rows, without those that were sent before; they have the same order in each call.
    :param done: the number of rows that were sent before.
    :param commit: adds a number of rows to the open transaction.
    """
    for chunk in _chunks(rows):
        done += len(chunk)
        with transaction(producer):
            for topic in dict.fromkeys(name for name, _ in chunk):
                sender = Sender(producer, topic)
                sender.send(row for name, row in chunk if name == topic)
                sender.finish()
            commit(done)
    return done


def _chunks(rows: Iterator[tuple[str, RunRow]]) -> Iterator[list[tuple[str, RunRow]]]:
    """Yields the rows of each transaction."""
    chunk: list[tuple[str, RunRow]] = []
    size = 0
    for one in rows:
        chunk.append(one)
        size += len(one[1].key or b"") + len(one[1].value or b"")
        if len(chunk) >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def sums_in_kafka(
    reader: Consumer, ranges: Mapping[TopicPartition, tuple[int, int]], clock: Clock | None = None
) -> dict[TopicPartition, Sum]:
    """Reads partitions and returns the sum of what is in each.

    :param ranges: the first offset of each, and the one behind the last.
    :raises RetryableError: if the broker sends nothing for a minute.
    """
    found = {place: Sum() for place in ranges}
    for message in read_ranges(reader, ranges, clock):
        found[TopicPartition(message.topic(), message.partition())].add(
            message.key(), message.value(), message.timestamp()[1], message.headers()
        )
    return found
