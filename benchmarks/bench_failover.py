"""Measures for how long partitions give no output after one of two workers is killed, on a real broker.

    python -m benchmarks failover [--rounds N] [--command NAME=COMMAND ...] [--more NAME=ARGUMENTS ...]

Two workers of one application run a workload over four partitions; records come evenly. One is killed by SIGKILL and
not started again. The time until each partition that stood still has output again is printed. The session is 10 s: a
command, which takes the arguments of `benchmarks/runner.py`, is given that by what `--more` has for it.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.cluster import PARTITIONS, Cluster, padded
from tools.kafka.broker import Broker

SIZE = 120
KEYS = 400
RATE = 400
DEADLINE_S = 180.0
OURS = f"{sys.executable} {Path(__file__).with_name('runner.py')}"
SESSION = "--setting consumer.session.timeout.ms=10000"


class Line:
    """Writes records evenly, and follows when each partition of the output had the last one."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self._ended = threading.Event()
        self.last = [0.0] * PARTITIONS
        self.gaps = [0.0] * PARTITIONS
        """The longest time between two outputs of each partition."""
        self._threads = [threading.Thread(target=each) for each in (self._feed, self._follow)]

    def __enter__(self) -> Line:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _feed(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"})
        number, begin = 0, time.monotonic()
        while not self._ended.wait(0.01):
            while number < (time.monotonic() - begin) * RATE:
                value = padded(b'{"id":%d,"amount":%d' % (number, 50 + number % 50), SIZE)
                producer.produce(self._source, value, b"k%08d" % (number % KEYS))
                number += 1
            producer.poll(0)
        producer.flush(10)

    def _follow(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "follow", "fetch.wait.max.ms": 20})
        consumer.assign([TopicPartition(self._target, number, OFFSET_END) for number in range(PARTITIONS)])
        while not self._ended.is_set():
            messages = consumer.consume(1000, 0.05)
            now = time.monotonic()
            for number in {message.partition() or 0 for message in messages if message.error() is None}:
                if self.last[number]:
                    self.gaps[number] = max(self.gaps[number], now - self.last[number])
                self.last[number] = now
        consumer.close()

    def wait_flowing(self) -> None:
        """Returns when all partitions have had output for some seconds."""
        deadline = time.monotonic() + DEADLINE_S
        begin = time.monotonic()
        while time.monotonic() < begin + 8:
            if time.monotonic() > deadline:
                raise SystemExit("the partitions do not all have output")
            if min(self.last) < time.monotonic() - 3:
                begin = time.monotonic()
            time.sleep(0.1)


def started(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts a worker; what it prints is read, so that it never waits for a full pipe."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    threading.Thread(target=lambda: list(process.stdout or ()), daemon=True).start()
    return process


def run(cluster: Cluster, command: str, more: str, workload: str) -> list[float]:
    """Returns the seconds for which each partition that stood still had no output."""
    name = f"failover-{uuid.uuid4().hex[:8]}"
    source, target = f"{name}-in", f"{name}-out"
    cluster.create(source, target)
    workers: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as directory, Line(cluster.bootstrap, source, target) as line:
        try:
            for number in range(2):
                words = [*shlex.split(command), workload, "--bootstrap", cluster.bootstrap, "--app-id", name]
                words += ["--input", source, "--output", target, "--state-dir", f"{directory}/{number}"]
                words += ["--guarantee", "at_least_once", "--threads", "1", "--commit-interval-ms", "200"]
                workers.append(started([*words, *shlex.split(more)]))
            line.wait_flowing()
            line.gaps = [0.0] * PARTITIONS
            workers[0].send_signal(signal.SIGKILL)
            time.sleep(5)
            line.wait_flowing()
            return sorted(gap for gap in line.gaps if gap > 3)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", default="W2")
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    parser.add_argument("--command", action="append", default=[], metavar="NAME=COMMAND", help="another runner")
    parser.add_argument("--more", action="append", default=[], metavar="NAME=ARGUMENTS", help="what it also takes")
    given = parser.parse_args()
    commands = {"streams": OURS, **dict(one.split("=", 1) for one in given.command)}
    more = {"streams": SESSION, **dict(one.split("=", 1) for one in given.more)}
    with ExitStack() as stack:
        cluster = Cluster(given.bootstrap or stack.enter_context(Broker()).bootstrap)
        for _ in range(given.rounds):
            for name, command in commands.items():
                gaps = run(cluster, command, more.get(name, ""), given.workload)
                print(f"{name:>10}: {', '.join(f'{gap:.1f}' for gap in gaps) or 'none stood still'} s", flush=True)


if __name__ == "__main__":
    main()
