"""An application that moves between Kafka Streams for Java and here, over the same topics, with what it has to send."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration_support.topics import Reader, Topics
from integration_support.workers import Worker, Workers


class Moving(ABC):
    """The application, its topics, and what it has to have sent to two of them: ``totals`` and ``minutes``."""

    def __init__(self, topics: Topics, workers: Workers, guarantee: str, names: Mapping[str, str]) -> None:
        self.topics, self.workers, self.guarantee, self.names = topics, workers, guarantee, names
        self.env = {kind.upper(): name for kind, name in names.items()}
        self.totals: dict[str, list[str]] = defaultdict(list)
        """By key, every total, in order."""
        self.minutes: dict[str, list[str]] = defaultdict(list)
        """By key and minute, every value, in order."""

    @abstractmethod
    def send(self) -> None:
        """Sends the records of the next phase, and notes what has to come of them."""

    @abstractmethod
    def start_java(self, state_dir: Path) -> Worker:
        """Starts the application in Java."""

    @abstractmethod
    def start(self, state_dir: Path) -> Worker:
        """Starts the application here."""

    def run_java(self, state_dir: Path, readers: tuple[Reader, Reader]) -> Worker:
        """Runs the application in Java for a phase."""
        self.send()
        java = self.start_java(state_dir)
        self.read(*readers)
        stop_java(java)
        return java

    def run_here(self, state_dir: Path, readers: tuple[Reader, Reader]) -> Worker:
        """Runs the application here for a phase; it has state to restore."""
        self.send()
        here = self.start(state_dir)
        self.read(*readers)
        assert sum(event["records"] for event in here.events("restored")) > 0
        here.stop()
        return here

    @contextmanager
    def readers(self) -> Iterator[tuple[Reader, Reader]]:
        """Gives readers of both topics."""
        with self.topics.reader(self.names["totals"]) as totals, self.topics.reader(self.names["minutes"]) as minutes:
            yield totals, minutes

    def start_here(self, topology: str, state_dir: Path, settings: Mapping[str, Any] | None = None) -> Worker:
        """Starts a worker of this project."""
        given = {
            "processing.guarantee": self.guarantee,
            "commit.interval.ms": 100,
            "statestore.cache.max.bytes": 0,
            "auto.offset.reset": "earliest",
            "state.dir": state_dir,
            **(settings or {}),
        }
        return self.workers.start(topology, settings=given, env=self.env)

    def read(self, totals: Reader, minutes: Reader) -> None:
        """Until everything that was sent is counted; each count came once, and in order."""
        for reader, due in ((totals, self.totals), (minutes, self.minutes)):
            last = {key: values[-1] for key, values in due.items()}
            reader.until(
                "the phase is counted",
                lambda found, last=last: found.latest == last,
                tell=lambda reader=reader, last=last: dict(reader.latest.items() ^ last.items()),
            )
            reader.to_end()
            assert reader.values == due


def stop_java(worker: Worker) -> None:
    """Ends it in order; a program that is terminated ends with 143."""
    worker.terminate()
    assert worker.wait() == 143, worker.tail
    assert worker.events("closed") == [{"event": "closed", "in_time": True}], worker.tail
