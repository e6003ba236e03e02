"""Records that come evenly, and the times for which partitions of an output stand still meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.cluster import padded

OURS = f"{sys.executable} {Path(__file__).with_name('runner.py')}"
"""The command of our runner."""
SIZE = 120
RATE = 400
DEADLINE_S = 180.0


class Line:
    """Writes records evenly, and follows when each partition of the output had the last one.

    :param keys: of the records, each in its turn.
    """

    def __init__(self, bootstrap: str, source: str, target: str, partitions: int, keys: int = 400) -> None:
        self._bootstrap, self._source, self._target, self._keys = bootstrap, source, target, keys
        self._ended = threading.Event()
        self.last = [0.0] * partitions
        self.gaps = [0.0] * partitions
        """The longest time between two outputs of each partition."""
        self.resumed = 0.0
        """When the last gap of more than a second ended, in monotonic time."""
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
                producer.produce(self._source, **record(number, number * 7919 % self._keys))
                number += 1
            producer.poll(0)
        producer.flush(10)

    def _follow(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "follow", "fetch.wait.max.ms": 20})
        consumer.assign([TopicPartition(self._target, number, OFFSET_END) for number in range(len(self.last))])
        while not self._ended.is_set():
            messages = consumer.consume(1000, 0.05)
            now = time.monotonic()
            for number in {message.partition() or 0 for message in messages if message.error() is None}:
                if self.last[number]:
                    gap = now - self.last[number]
                    self.gaps[number] = max(self.gaps[number], gap)
                    self.resumed = now if gap > 1 else self.resumed
                self.last[number] = now
        consumer.close()

    def forget(self) -> None:
        """Forgets the gaps up to now."""
        self.gaps = [0.0] * len(self.last)
        self.resumed = time.monotonic()

    def wait_flowing(self, deadline_s: float = DEADLINE_S) -> None:
        """Returns when all partitions have had output for some seconds."""
        deadline = time.monotonic() + deadline_s
        begin = time.monotonic()
        while time.monotonic() < begin + 8:
            if time.monotonic() > deadline:
                raise SystemExit("the partitions do not all have output")
            if min(self.last) < time.monotonic() - 3:
                begin = time.monotonic()
            time.sleep(0.1)


def record(number: int, key: int) -> dict[str, bytes]:
    """Returns key and value of one record, as `Producer.produce` takes them."""
    value = padded(b'{"id":%d,"amount":%d' % (number, 50 + number % 50), SIZE)
    return {"value": value, "key": b"k%08d" % key}


def one_record_a_key(topic: str, keys: int) -> Iterator[Mapping[str, Any]]:
    """Yields a record of each key, for `Cluster.write`."""
    return ({"topic": topic, **record(number, number)} for number in range(keys))


def arguments(bootstrap: str, name: str, guarantee: str) -> list[str]:
    """Returns what runners of all libraries take, but for the state directory: the topics are called as the
    application."""
    return [
        *("--bootstrap", bootstrap, "--app-id", name, "--input", f"{name}-in", "--output", f"{name}-out"),
        *("--guarantee", guarantee, "--threads", "1", "--commit-interval-ms", "200"),
    ]


def started(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts a worker; what it prints is read, so that it never waits for a full pipe."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    threading.Thread(target=lambda: list(process.stdout or ()), daemon=True).start()
    return process
