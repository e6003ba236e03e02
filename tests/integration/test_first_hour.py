"""Wrong steps of a first hour on a real Kafka: one line that says what to do, and neither topics, nor a group, nor
state is left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from first_hour_support import IMPORT, environment, left_behind, said, streams
from quick_process import is_left

DEADLINE_S = 60
COUNT = """{start}
(
    builder.stream("{topic}")
    .group_by(lambda key, word: word)
    .count()
    .to_stream()
    .to("{topic}-out")
)
"""
JOIN = """{start}
builder.stream("{topic}-a").join(builder.table("{topic}-b"), lambda a, b: a + b).to("{topic}-out")
"""
START = IMPORT + "\nbuilder = StreamsBuilder(key_serde='string', value_serde='string')"

FAILED_START = [
    "info streams.client: state [state=REBALANCING, before=CREATED]",
    "info streams.client: state [state=PENDING_ERROR, before=REBALANCING]",
    "info streams.client: state [state=ERROR, before=PENDING_ERROR]",
]


class Cluster:
    """The cluster that all tests share, and the names of one test."""

    def __init__(self, address: str, name: str) -> None:
        self.name = name
        self.environment = {"STREAMS_BOOTSTRAP_SERVERS": address, "STREAMS_APPLICATION_ID": name}
        self._admin = AdminClient({"bootstrap.servers": address})

    def create(self, **partitions: int) -> None:
        wanted = [
            NewTopic(f"{self.name}-{name}" if name != "input" else self.name, n, 1) for name, n in partitions.items()
        ]
        for future in self._admin.create_topics(wanted).values():
            future.result(DEADLINE_S)

    def topics(self) -> set[str]:
        return {name for name in self._admin.list_topics(timeout=DEADLINE_S).topics if name.startswith(self.name)}

    def groups(self) -> list[str]:
        listed = self._admin.list_consumer_groups().result(DEADLINE_S).valid
        return [group.group_id for group in listed if group.group_id.startswith(self.name)]


@pytest.fixture
def cluster(kafka: str, unique_name: Callable[[str], str]) -> Cluster:
    return Cluster(kafka, unique_name("first-hour"))


def app(folder: Path, code: str, topic: str) -> None:
    (folder / "app.py").write_text(code.format(start=START, topic=topic))


def test_no_topic(cluster: Cluster, tmp_path: Path) -> None:
    app(tmp_path, COUNT, cluster.name)
    found = streams(tmp_path, "run", "app.py", **cluster.environment)
    assert (found.status, found.out) == (1, "")
    assert found.err == (
        f"error: source topics do not exist: '{cluster.name}'. Create them, then start again"
        f" [topic='{cluster.name}'], made"
        f" at app.py:5 (topic '{cluster.name}')\n"
    )
    missing = (
        "output topics do not exist: a record for one of them holds its task up, unless the brokers make the topic."
        f" Create them [topics={cluster.name}-out]"
    )
    assert [event for event in found.events if missing not in event] == FAILED_START
    assert len(found.events) == len(FAILED_START) + 1
    assert (cluster.topics(), cluster.groups(), left_behind(tmp_path)) == (set(), [], [])


def test_one_topic_with_too_few_partitions(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create(a=3, b=1, out=1)
    before = cluster.topics()
    app(tmp_path, JOIN, cluster.name)
    found = streams(tmp_path, "run", "app.py", **cluster.environment)
    assert (found.status, found.out) == (2, "")
    a, b = f"'{cluster.name}-a'", f"'{cluster.name}-b'"
    assert found.err == (
        f"error: topics that are joined or grouped together need the same number of partitions: {a} has 3, {b} has 1."
        f" Repartition one side, or create the topics with the same number, made at app.py:4 (topic {a}), app.py:4"
        f" (topic {b})\n"
    )
    assert found.events == FAILED_START
    assert (cluster.topics(), cluster.groups(), left_behind(tmp_path)) == (before, [], [])


class Running:
    """A `streams run` that goes on, whose standard error is read line by line."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streams", "run", "app.py"],
            cwd=folder,
            env=environment(folder, **cluster.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._deadline = threading.Timer(DEADLINE_S, self.process.kill)
        self._deadline.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._deadline.cancel()
        self.process.kill()
        self.process.communicate()

    def until(self, *words: str) -> str:
        """Reads to the first line with all of these words; ends with an error if it ends without."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if all(word in line for word in words):
                return line
        raise AssertionError("".join(self.lines))

    def interrupted(self) -> list[str]:
        """Ends it by Ctrl-C: cleanly, with nothing but its log, which it returns."""
        self.process.send_signal(signal.SIGINT)
        out, rest = self.process.communicate(timeout=DEADLINE_S)
        found = said(self.process.returncode, out, "".join(self.lines) + rest)
        assert (found.status, found.out, found.err) == (0, "", ""), found
        assert not is_left(self.process.pid)
        return found.events


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "first", tmp_path / "second"
    for folder in folders:
        folder.mkdir()
    return folders


def test_two_applications_with_one_id(cluster: Cluster, two: tuple[Path, Path]) -> None:
    """The second waits, and says for what, until the first has left: they may be two versions of one application."""
    cluster.create(input=1, out=1)
    first, second = two
    app(first, COUNT, cluster.name)
    app(second, '{start}\nbuilder.stream("{topic}").to("{topic}-out")\n', cluster.name)
    with Running(first, cluster) as one:
        one.until("RUNNING")
        with Running(second, cluster) as other:
            other.until("waiting: the application already runs another topology")
            first_state, waiting, *others = other.interrupted()
            assert first_state == FAILED_START[0]
            assert re.sub(r"-topology-[0-9a-f]{8}", "", waiting) == (
                "warning streams.thread: waiting: the application already runs another topology; this worker joins"
                " when its workers have left. If it is another application, give this one its own application.id"
                f" [members={cluster.name}-UUID-0-StreamThread-1-consumer]"
            )
            assert others == [
                "info streams.cli: closing [reason=SIGINT, timeout_ms=30000]",
                "info streams.client: state [state=PENDING_SHUTDOWN, before=REBALANCING]",
                "info streams.client: state [state=NOT_RUNNING, before=PENDING_SHUTDOWN]",
            ]
        one.interrupted()
