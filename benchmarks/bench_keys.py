"""Measures a count by the number of keys in its store, on a real broker, and beside it other libraries.

    python -m benchmarks keys [--keys N ...] [--records N] [--bootstrap HOST:PORT] [--command NAME=COMMAND ...]

Each key is written once; when a worker has counted all of them, records of keys drawn at random are written, and the
seconds of its processor time until it has committed them are printed, per million. A command takes the arguments of
`benchmarks/runner.py`, and is measured by turns.
"""

from __future__ import annotations

import argparse
import random
import shlex
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.cluster import Cluster, padded, seconds_of
from tools.kafka.broker import Broker

SIZE = 120
DEADLINE_S = 3600.0
OURS = f"{sys.executable} {Path(__file__).with_name('runner.py')}"


def messages(topic: str, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
    for number in numbers:
        yield {"topic": topic, "key": b"k%08d" % number, "value": padded(b'{"id":%d' % number, SIZE)}


def wait_for(cluster: Cluster, process: subprocess.Popen[bytes], group: str, topic: str) -> None:
    due, deadline = cluster.end([topic]), time.monotonic() + DEADLINE_S
    while cluster.committed(group, [topic]) < due:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{group} did not read its {due} records")
        time.sleep(0.1)


def run(cluster: Cluster, command: str, keys: int, records: int) -> float:
    """Returns seconds of processor time per million records."""
    name = f"keys-{uuid.uuid4().hex[:8]}"
    topic, output = f"{name}-in", f"{name}-out"
    cluster.create(topic, output)
    with tempfile.TemporaryDirectory() as directory:
        words = [*shlex.split(command), "W2", "--bootstrap", cluster.bootstrap, "--app-id", name, "--input", topic]
        words += ["--output", output, "--state-dir", directory, "--guarantee", "at_least_once"]
        words += ["--threads", "1", "--commit-interval-ms", "1000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                assert process.stdout is not None
                while b"running" not in (line := process.stdout.readline()):
                    if not line:
                        raise SystemExit(f"{command} has ended before it ran")
                cluster.write(messages(topic, range(keys)))
                wait_for(cluster, process, name, topic)
                spent = seconds_of(process.pid)
                cluster.write(messages(topic, random.Random(7).choices(range(keys), k=records)))
                wait_for(cluster, process, name, topic)
                spent = seconds_of(process.pid) - spent
            finally:
                process.terminate()
    for deleted in cluster.admin.delete_topics(cluster.topics(name)).values():
        deleted.result()
    return spent / records * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="*", default=(10_000, 100_000, 1_000_000, 10_000_000))
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    parser.add_argument("--command", action="append", default=[], metavar="NAME=COMMAND", help="another runner")
    given = parser.parse_args()
    commands = {"streams": OURS, **dict(one.split("=", 1) for one in given.command)}
    with ExitStack() as stack:
        cluster = Cluster(given.bootstrap or stack.enter_context(Broker()).bootstrap)
        for keys in given.keys:
            for name, command in commands.items():
                seconds = run(cluster, command, keys, given.records)
                print(f"{name:>10}, {keys:>12,} keys: {seconds:6.1f} s of the processor per million", flush=True)


if __name__ == "__main__":
    main()
