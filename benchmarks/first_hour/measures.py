"""The measures of one library: seconds to outputs, and the lines that the first wrong record costs a reader."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.first_hour.contestants import Contestant

__all__ = ["Cluster", "next_output_s", "running", "trial_s", "wrong_record"]

DEADLINE_S = 120.0
QUIET = re.compile(r"\[(info|debug) *\]|\[INFO\]|\"level\": \"(info|debug)\"")
WRONG = None
"""A record without a value, which the function of the word count does not expect."""


class Cluster:
    """The broker that both libraries use."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address})
        self._producer = Producer({"bootstrap.servers": address})

    def create(self, *topics: str) -> None:
        """Creates topics with one partition; those that exist stay."""
        missing = set(topics) - self._admin.list_topics(timeout=DEADLINE_S).topics.keys()
        for future in self._admin.create_topics([NewTopic(topic, 1, 1) for topic in sorted(missing)]).values():
            future.result(DEADLINE_S)

    def send(self, topic: str, value: bytes | None) -> float:
        """Sends a record, and returns when it was acknowledged."""
        self._producer.produce(topic, value)
        self._producer.flush(DEADLINE_S)
        return time.monotonic()

    def count(self, topic: str) -> int:
        """Counts the records of a topic with one partition."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "first-hour-reader", "log_level": 0})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S)
        finally:
            consumer.close()
        return int(high) - int(low)

    def seen(self, topic: str, records: int, process: subprocess.Popen[bytes]) -> float:
        """Waits until a topic has so many records, and returns when it had.

        :param process: the application, which has to run meanwhile.
        :raises TimeoutError: if it does not come to that.
        """
        settings = {"bootstrap.servers": self.address, "group.id": "first-hour-reader", "log_level": 0}
        consumer = Consumer({**settings, "enable.auto.commit": False, "fetch.wait.max.ms": 50})
        deadline, found = time.monotonic() + DEADLINE_S, 0
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while time.monotonic() < deadline and process.poll() is None:
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    found += 1
                    if found >= records:
                        return time.monotonic()
        finally:
            consumer.close()
        raise TimeoutError(f"topic {topic} has {found} records, not {records}; the application: {process.poll()}")


@contextmanager
def running(contestant: Contestant, cluster: Cluster, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the application in a folder, where its output goes to ``output``; it is interrupted at the end."""
    shutil.copy(contestant.file, folder)
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            [contestant.python, *contestant.run],
            cwd=folder,
            env=contestant.environment(cluster.address, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def next_output_s(contestant: Contestant, cluster: Cluster, process: subprocess.Popen[bytes]) -> float:
    """Returns the seconds from a record to its output, while the application runs and has nothing else to do."""
    before = cluster.count(contestant.sink)
    sent = cluster.send(contestant.source, b"again")
    return cluster.seen(contestant.sink, before + 1, process) - sent


def wrong_record(contestant: Contestant, cluster: Cluster, process: subprocess.Popen[bytes], folder: Path) -> list[str]:
    """Sends a record that the application cannot process.

    :returns: the lines that are shown for it, without those of progress.
    """
    before = len((folder / "output").read_text(errors="replace").splitlines())
    cluster.send(contestant.source, WRONG)
    process.wait(DEADLINE_S)
    lines = (folder / "output").read_text(errors="replace").splitlines()[before:]
    return [line for line in lines if line.strip() and not QUIET.search(line)]


def trial_s(contestant: Contestant, folder: Path) -> float | None:
    """Returns the seconds of a word count without Kafka; ``None`` if the library has no command for it."""
    if "try" not in contestant.commands:
        return None
    shutil.copy(contestant.file, folder)
    begin = time.monotonic()
    found = subprocess.run(
        [contestant.python, "-m", "streams", "try", "app.py"],
        cwd=folder,
        input=b"to be or not to be\n",
        capture_output=True,
        timeout=DEADLINE_S,
    )
    taken = time.monotonic() - begin
    if found.returncode != 0 or b"counts-by-word" not in found.stdout:
        raise RuntimeError(f"streams try failed:\n{found.stdout.decode()}{found.stderr.decode()}")
    return taken
