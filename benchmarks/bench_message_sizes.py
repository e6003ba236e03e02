"""The rate of joins that read two topics with a backlog, by the size of a message, on a real broker.

    python -m benchmarks message_sizes
    python -m benchmarks.bench_message_sizes [--bootstrap HOST:PORT] [--records N] [WORKLOAD ...]

Half of the records lie in each topic before the application starts. W2, which counts, reads all of them from one topic:
what two inputs cost is the ratio to it. Rates and seconds of processor time count from when the application runs until
all is committed. At the largest sizes there are fewer records, so that a topic stays below 512 MiB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import IsolationLevel, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from processor_api.task_id import TopicPartition
from streams.kafka.confluent.group_reader import GroupReader
from streams.kafka.confluent.outage import OutageLog
from tools.kafka.broker import Broker

WORKLOADS = ("W2", "W4", "W5", "W7")
SIZES = (20, 200, 2_000, 10_240)
PARTITIONS = 4
KEYS = 20_000
BEGIN_MS = 1_704_067_200_000
MOST_BYTES = 512 * 1024 * 1024
DEADLINE_S = 600.0
TICKS = os.sysconf("SC_CLK_TCK")


def padded(front: bytes, size: int) -> bytes:
    """Returns a JSON object of that size, or without a filler if it is small already."""
    filler = size - len(front) - len(b',"x":""}')
    return front + b',"x":"' + b"x" * filler + b'"}' if filler >= 0 else front + b"}"


def row(workload: str, second: bool, number: int, size: int) -> tuple[bytes, bytes]:
    """Returns key and value of a record of the first or the second input."""
    if workload == "W7" and second:
        return b"g%06d" % number, padded(b'{"name":"g"', size)
    key = b"k%06d" % (number % KEYS)
    if workload == "W7":
        return key, padded(b'{"group":"g%06d"' % (number % KEYS), size)
    if workload == "W4" and second:
        return key, padded(b'{"name":"n"', size)
    return key, padded(b'{"id":%d' % number, size)


class Cluster:
    """Topics and offsets of the broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.reader = GroupReader({"bootstrap.servers": bootstrap}, OutageLog(bootstrap))

    def create(self, *topics: str, partitions: int = PARTITIONS) -> None:
        for made in self.admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
            made.result()

    def fill(self, topic: str, workload: str, second: bool, records: int, size: int) -> None:
        """Records of one partition are ordered by time, and both topics cover the same ten minutes."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "partitioner": "murmur2_random"})
        for number in range(records):
            key, value = row(workload, second, number, size)
            at = BEGIN_MS + number * 600_000 // records
            while True:
                try:
                    producer.produce(topic, value, key, timestamp=at)
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


def run(cluster: Cluster, workload: str, size: int, records: int) -> tuple[float, float]:
    """Returns records per second, and seconds of processor time per million records."""
    name = f"sizes-{uuid.uuid4().hex[:8]}"
    inputs, output = [f"{name}-in"] + ([f"{name}-in2"] if workload != "W2" else []), f"{name}-out"
    cluster.create(*inputs, output)
    for number, topic in enumerate(inputs):
        cluster.fill(topic, workload, number == 1, records // len(inputs), size)
    due = cluster.end(inputs)
    with tempfile.TemporaryDirectory() as directory:
        words = [sys.executable, str(Path(__file__).with_name("runner.py")), workload, "--bootstrap", cluster.bootstrap]
        words += ["--app-id", name, "--input", inputs[0], "--input2", inputs[-1], "--output", output]
        words += ["--state-dir", directory, "--guarantee", "at_least_once"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            try:
                rate, seconds = watch(cluster, process, name, inputs, output, due)
            finally:
                process.terminate()
    for deleted in cluster.admin.delete_topics(cluster.topics(name)).values():
        deleted.result()
    return rate, seconds / due * 1e6


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", default=WORKLOADS)
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        bootstrap = arguments.bootstrap or stack.enter_context(Broker()).bootstrap
        cluster = Cluster(bootstrap)
        for size in arguments.sizes:
            for workload in arguments.workloads:
                records = min(arguments.records, 2 * MOST_BYTES // size)
                rate, seconds = run(cluster, workload, size, records)
                print(
                    f"{workload} {size:6,} bytes, {records:,} records: {rate:9,.0f} records/s, "
                    f"{rate * size / 1e6:6.1f} MB/s, {seconds:6.1f} s of the processor per million",
                    flush=True,
                )


if __name__ == "__main__":
    main()
