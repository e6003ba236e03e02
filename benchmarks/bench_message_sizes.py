"""The rate of joins that read two topics with a backlog, by the size of a message, on a real broker.

    python -m benchmarks message_sizes
    python -m benchmarks.bench_message_sizes [--bootstrap HOST:PORT] [--records N] [WORKLOAD ...]

Half of the records lie in each topic before the application starts. W2, which counts, reads all of them from one topic:
what two inputs cost is the ratio to it. Rates and seconds of processor time count from when the application runs until
all is committed. At the largest sizes there are fewer records, so that a topic stays below 512 MiB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.cluster import Cluster, padded, watch
from tools.kafka.broker import Broker

WORKLOADS = ("W2", "W4", "W5", "W7")
SIZES = (20, 200, 2_000, 10_240)
KEYS = 20_000
BEGIN_MS = 1_704_067_200_000
MOST_BYTES = 512 * 1024 * 1024


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


def messages(topic: str, workload: str, second: bool, records: int, size: int) -> Iterator[dict[str, Any]]:
    """Records of one partition are ordered by time, and both topics cover the same ten minutes."""
    for number in range(records):
        key, value = row(workload, second, number, size)
        at = BEGIN_MS + number * 600_000 // records
        yield {"topic": topic, "key": key, "value": value, "timestamp": at}


def run(cluster: Cluster, workload: str, size: int, records: int) -> tuple[float, float]:
    """Returns records per second, and seconds of processor time per million records."""
    name = f"sizes-{uuid.uuid4().hex[:8]}"
    inputs, output = [f"{name}-in"] + ([f"{name}-in2"] if workload != "W2" else []), f"{name}-out"
    cluster.create(*inputs, output)
    for number, topic in enumerate(inputs):
        cluster.write(messages(topic, workload, number == 1, records // len(inputs), size))
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
