"""The contract of logs over time: the records that compaction and retention leave, and searches of a log by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from client_contracts.client_kit import Cluster, read_to_end, send
from processor_api.task_id import TopicPartition

__all__ = ["LogContract"]

HOUR_MS = 60 * 60 * 1000
MIB = 1 << 20


class LogContract:
    """A broker removes records in its own time, which the tests wait for, and by whole segments."""

    cluster: Cluster

    def fill(self, topic: str, *rows: tuple[bytes | None, bytes | None, int], partition: int = 0) -> None:
        """Sends ``(key, value, timestamp)``, each in a batch of its own."""
        producer = self.cluster.producer()
        for key, value, timestamp in rows:
            send(producer, topic, value, key=key, timestamp=timestamp, partition=partition)
            producer.flush()

    def rows(self, topic: str, partition: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
        with self.cluster.reading() as consumer:
            records = read_to_end(self.cluster.until, consumer, [TopicPartition(topic, partition)])
        return [(record.offset(), record.key(), record.value()) for record in records]

    def cleaned(self, topic: str, what: str, attempt: Callable[[], Any]) -> None:
        def clean_and_read() -> Any:
            self.cluster.clean(topic)
            return attempt()

        self.cluster.until(what, clean_and_read)

    def starts(self, topic: str, partitions: int) -> list[int]:
        with self.cluster.reading() as consumer:
            found = consumer.beginning_offsets([TopicPartition(topic, number) for number in range(partitions)])
        return [found[TopicPartition(topic, number)] for number in range(partitions)]

    def compacted(self, **settings: str) -> str:
        configs = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.001"}
        return self.cluster.topic(configs=configs | _dotted(settings))

    def test_compaction_leaves_the_last_record_of_a_key(self) -> None:
        """The last record stays at its offset, in every segment but the newest; offsets of removed records are skipped,
        also where reading starts."""
        topic = self.compacted()
        old = [(b"a", b"1", 1000), (b"b", b"1", 1001), (b"a", b"2", 1002), (b"c", b"1", 1003)]
        self.fill(topic, *old, (b"b", b"2", 3000), (b"b", b"3", 3001))
        expected = [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"b", b"3")]
        with_b = [(1, b"b", b"1"), *expected]
        self.cleaned(topic, "the older segment was compacted", lambda: self.rows(topic) in (expected, sorted(with_b)))
        partition, consumer = TopicPartition(topic, 0), self.cluster.consumer()
        assert consumer.end_offsets([partition]) == {partition: 6}
        records = read_to_end(self.cluster.until, consumer, [partition], start=0)
        assert records[0].offset() in (1, 2)

    def test_a_tombstone_outlives_the_first_compaction(self) -> None:
        """A tombstone hides earlier records, and goes ``delete.retention.ms`` later with another compaction
        (KIP-534)."""
        topic = self.compacted(delete_retention_ms="0")
        self.fill(topic, (b"a", b"1", 1000), (b"a", None, 1001), (b"b", b"1", 1002), (b"c", b"1", 3000))
        self.cleaned(topic, "the record before the tombstone went", lambda: (0, b"a", b"1") not in self.rows(topic))
        assert (2, b"b", b"1") in self.rows(topic)
        self.fill(topic, (b"c", b"2", 5000))
        expected = [(2, b"b", b"1"), (3, b"c", b"1"), (4, b"c", b"2")]
        self.cleaned(topic, "the tombstone went", lambda: self.rows(topic) == expected)

    def test_a_compacted_log_is_searched_by_time(self) -> None:
        """The search finds the first record that is left at or after the time."""
        topic = self.compacted()
        partition = TopicPartition(topic, 0)
        self.fill(topic, (b"a", b"1", 1000), (b"b", b"1", 1500), (b"a", b"2", 1600), (b"c", b"1", 9000))
        self.cleaned(topic, "the log was compacted", lambda: (0, b"a", b"1") not in self.rows(topic))
        assert self.cluster.consumer().offsets_for_time({partition: 1500}) == {partition: 1}
        assert self.cluster.consumer().offsets_for_time({partition: 1501}) == {partition: 2}

    def test_retention_by_time_is_by_segments(self) -> None:
        """A segment goes when all of its records are too old and all before it went, the newest one too; one young
        record keeps the old ones of its segment."""
        day_ms = 24 * HOUR_MS
        topic = self.cluster.topic(4, {"retention.ms": str(2 * HOUR_MS), "segment.ms": str(10 * HOUR_MS)})
        now_ms = self.cluster.now_ms()
        old, young = (b"k", b"old", now_ms - day_ms), (b"k", b"young", now_ms)
        mixed = (b"k", b"old", now_ms - 5 * HOUR_MS)
        self.fill(topic, mixed, young, partition=1)
        self.fill(topic, young, old, partition=2)
        self.fill(topic, old, old, partition=3)
        self.fill(topic, old, old, young, partition=0)
        self.cleaned(topic, "the old segments went", lambda: self.starts(topic, 4) == [2, 0, 0, 2])
        assert [value for _, _, value in self.rows(topic)] == [b"young"]
        ends = [TopicPartition(topic, number) for number in range(4)]
        assert list(self.cluster.consumer().end_offsets(ends).values()) == [3, 2, 2, 2]
        self.fill(topic, young, partition=3)
        assert self.rows(topic, 3) == [(2, b"k", b"young")]

    def test_retention_by_bytes_is_by_segments(self) -> None:
        """The oldest segments go as long as what is left is not less than ``retention.bytes``."""
        topic = self.cluster.topic(2, {"retention.bytes": "700000", "segment.bytes": str(MIB)})
        large, now_ms = bytes(600_000), self.cluster.now_ms()
        self.fill(topic, *[(b"k", large, now_ms)] * 4, partition=1)
        self.fill(topic, (b"k", large, now_ms), (b"k", b"", now_ms), partition=0)
        self.cleaned(topic, "the oldest segments went", lambda: self.starts(topic, 2) == [0, 2])

    def test_a_log_cut_short_is_searched_by_time(self) -> None:
        """The search begins at the start of the log."""
        partition = TopicPartition(self.cluster.topic(), 0)
        self.fill(partition.topic, *[(b"k", b"v", 1_000 * number) for number in range(1, 5)])
        self.cluster.admin.delete_records({partition: 2})
        times = {0: 2, 1_000: 2, 3_001: 3, 5_000: 4}
        for time, offset in times.items():
            assert self.cluster.consumer().offsets_for_time({partition: time}) == {partition: offset}

    def test_append_time_is_searched_by_the_broker_s_time(self) -> None:
        partition = TopicPartition(self.cluster.topic(configs={"message.timestamp.type": "LogAppendTime"}), 0)
        self.fill(partition.topic, (b"k", b"v", 5))
        now_ms = self.cluster.now_ms()
        for time, offset in ((0, 0), (now_ms - HOUR_MS, 0), (now_ms + HOUR_MS, 1)):
            assert self.cluster.consumer().offsets_for_time({partition: time}) == {partition: offset}


def _dotted(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}
