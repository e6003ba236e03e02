"""A real broker as benchmarks use it: topics, messages, offsets of groups, and processor time of processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.group_offsets import GroupReader
from streams.kafka.confluent.outage import ClusterOutage

PARTITIONS = 4
DEADLINE_S = 600.0
TICKS = os.sysconf("SC_CLK_TCK")


def padded(front: bytes, size: int) -> bytes:
    """Returns a JSON object of that size, or without a filler if it is small already."""
    filler = size - len(front) - len(b',"x":""}')
    return front + b',"x":"' + b"x" * filler + b'"}' if filler >= 0 else front + b"}"


class Cluster:
    """Topics and offsets of the broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.reader = GroupReader({"bootstrap.servers": bootstrap}, ClusterOutage(bootstrap))

    def create(self, *topics: str, partitions: int = PARTITIONS) -> None:
        for made in self.admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
            made.result()

    def write(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Writes messages, each as the arguments of `Producer.produce`, and waits until all are delivered."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "partitioner": "murmur2_random"})
        for message in messages:
            while True:
                try:
                    producer.produce(**message)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(DEADLINE_S) == 0

    def end(self, topics: list[str]) -> int:
        """The number of records of topics from which none is deleted."""
        places = [ClientPartition(*place) for place in self.places_of(topics)]
        latest = dict.fromkeys(places, OffsetSpec.latest())
        found = self.admin.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
        return sum(each.result().offset for each in found.values())

    def committed(self, group: str, topics: list[str]) -> int:
        found = self.reader.offsets(group, [TopicPartition(*place) for place in self.places_of(topics)], DEADLINE_S)
        return sum(one.offset for one in found.values())

    def places_of(self, topics: list[str]) -> list[tuple[str, int]]:
        known = self.admin.list_topics(timeout=30).topics
        return [(topic, number) for topic in topics for number in known[topic].partitions]

    def topics(self, prefix: str) -> list[str]:
        return [topic for topic in self.admin.list_topics(timeout=30).topics if topic.startswith(prefix)]

    def is_done(self, group: str, output: str) -> bool:
        """Whether all that the group reads is committed, also the internal topics, however few records they have."""
        read = [topic for topic in self.topics(group) if topic != output and not topic.endswith("-changelog")]
        return self.committed(group, read) == self.end(read)


def seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def watch(
    cluster: Cluster, process: subprocess.Popen[bytes], group: str, topics: list[str], output: str, due: int
) -> tuple[float, float]:
    """Returns the rate from when the application runs, and the seconds of its processor time."""
    assert process.stdout is not None
    while b"running" not in (line := process.stdout.readline()):
        if not line:
            raise SystemExit(f"{group} has ended before it ran")
    begun, spent = time.monotonic(), seconds_of(process.pid)
    done = False
    while not done:
        if process.poll() is not None or time.monotonic() > begun + DEADLINE_S:
            raise SystemExit(f"{group} did not read its {due} records")
        time.sleep(0.1)
        done = cluster.committed(group, topics) == due and cluster.is_done(group, output)
    return due / (time.monotonic() - begun), seconds_of(process.pid) - spent
