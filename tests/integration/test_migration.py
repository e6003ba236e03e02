"""An application moves from Kafka Streams for Java to here and back, over the same topics."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from integration_support.moving import Moving, stop_java
from integration_support.topics import Topics
from integration_support.workers import APPS, Worker, Workers

PARTITIONS = 4
WORDS = 20
LINES = 60
"""Of two words each, in each phase."""
MINUTE_MS = 60_000
UNREADABLE = "metadata of a committed offset cannot be read"


class Migrated(Moving):
    """The application, its topics, and what it has to have counted."""

    def __init__(self, topics: Topics, workers: Workers, guarantee: str) -> None:
        names = {kind: topics.create(kind, PARTITIONS) for kind in ("lines", "labels", "totals", "minutes")}
        super().__init__(topics, workers, guarantee, names)
        self._labels: dict[str, str] = {}
        self._counted: dict[str, int] = defaultdict(int)
        self._phase = 0
        # Of today: a broker deletes rows of windows from their changelog some time after the timestamps of these.
        self._first = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS

    def send(self) -> None:
        """The next phase: labels of some words, then lines in the minute before and in a new one. A task reads by
        timestamp, so that labels come before the words of their phase."""
        start = self._first + self._phase * MINUTE_MS
        before = max(self._first, start - MINUTE_MS)
        labels = {f"word-{n}": f"label-{self._phase}" for n in range(WORDS) if n % 4 == self._phase}
        self._labels |= labels
        self.topics.send(self.names["labels"], labels.items(), timestamp=before + 1)
        for minute in sorted({before, start}):
            words = [(f"word-{n % WORDS}", f"word-{n * 7 % WORDS}") for n in range(self._phase, self._phase + LINES)]
            self.topics.send(
                self.names["lines"], ((None, " ".join(pair)) for pair in words), PARTITIONS, timestamp=minute + 2
            )
            for word in (word for pair in words for word in pair):
                self._counted[word] += 1
                self.totals[word].append(f"{self._labels.get(word, 'none')}:{self._counted[word]}")
                counts = self.minutes[f"{word}@{minute}"]
                counts.append(str(len(counts) + 1))
        self._phase += 1

    def start_java(self, state_dir: Path) -> Worker:
        arguments = [self.workers.bootstrap, self.workers.application, str(state_dir), self.guarantee]
        return self.workers.start_java("migration.WordCount", *arguments, *self.names.values())

    def start(self, state_dir: Path) -> Worker:
        return self.start_here("migrated:topology", state_dir)

    def describe(self) -> str:
        """The text of the topology here."""
        command = [sys.executable, "-m", "streams", "describe", "migrated:topology"]
        done = subprocess.run(command, cwd=APPS, env=os.environ | self.env, capture_output=True, text=True, check=True)
        return done.stdout

    def internal_topics(self) -> dict[str, int]:
        """Names without the application's, and partitions."""
        prefix = f"{self.workers.application}-"
        names = [name.removeprefix(prefix) for name in self.topics.names() if name.startswith(prefix)]
        return {name: self.topics.partitions(prefix + name) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_an_application_moves_from_java_and_back(
    topics: Topics, workers: Workers, tmp_path: Path, guarantee: str
) -> None:
    """Java, here, Java again with an empty state directory, here again with its own: each goes on from the other's
    offsets, repartition topic and changelogs, and every record is counted once. A worker that starts while Java's
    members are in the group is refused, and does not disturb them."""
    app = Migrated(topics, workers, guarantee)
    with app.readers() as readers:
        java = app.run_java(tmp_path / "java", readers)
        made_by_java = app.internal_topics()
        assert set(made_by_java.values()) == {PARTITIONS}
        assert java.events("topology")[0]["text"] == app.describe()

        here = app.run_here(tmp_path / "here", readers)
        assert here.events(UNREADABLE) == []
        assert app.internal_topics().items() >= made_by_java.items()
        added = app.internal_topics().keys() - made_by_java
        assert all(name.endswith("-tasks") for name in added), added

        app.send()
        java = app.start_java(tmp_path / "other-java")
        java.wait_for("state", state="RUNNING")
        too_soon = app.start(tmp_path / "too-soon")
        assert too_soon.wait() != 0
        assert "of another protocol" in too_soon.errors[0]
        app.read(*readers)
        stop_java(java)

        again = app.run_here(tmp_path / "here", readers)
        assert again.events(UNREADABLE) == []
