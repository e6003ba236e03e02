"""Stores come back from their changelogs, and no more is read than is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count

import pytest

from integration_support.topics import Reader, Topics
from integration_support.workers import Worker, Workers

PARTITIONS = 4
WORDS = 3_000
SLICE = 300


class Counting:
    """A word count with one input, whose words each come once a round."""

    def __init__(self, topics: Topics, workers: Workers, guarantee: str) -> None:
        self._topics, self._workers = topics, workers
        self.input = topics.create("lines", PARTITIONS)
        self.output = topics.create("counts", PARTITIONS)
        self._settings = {"processing.guarantee": guarantee, "commit.interval.ms": 100}
        self._names: Iterator[int] = count()
        self.rounds = 0

    def start(self) -> Worker:
        env = {"INPUTS": self.input, "OUTPUT": self.output}
        return self._workers.start("word_count:topology", settings=self._settings, env=env)

    def send(self, first: int = 0, last: int = WORDS) -> None:
        """A round, or a part of one."""
        self.rounds += first == 0
        self._topics.send(self.input, ((None, f"word-{number}") for number in range(first, last)), PARTITIONS)

    def read_round(self, reader: Reader) -> None:
        """Until the last counts of all words are those of the rounds sent."""
        due = {f"word-{number}": str(self.rounds) for number in range(WORDS)}
        reader.until(
            f"round {self.rounds} is counted", lambda found: found.latest == due, tell=lambda: self.wrong(reader)
        )

    def wrong(self, reader: Reader) -> list[tuple[str, str]]:
        latest = reader.latest
        return [(f"word-{n}", f) for n in range(WORDS) if (f := latest.get(f"word-{n}", "none")) != str(self.rounds)][
            :5
        ]


def restored(worker: Worker) -> int:
    return sum(event["records"] for event in worker.events("restored"))


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_removed_state_is_restored(topics: Topics, workers: Workers, guarantee: str) -> None:
    """Without its state directory, a restart goes on from the changelog; with it, it reads nothing again."""
    counting = Counting(topics, workers, guarantee)
    counting.send()
    worker = counting.start()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        worker.stop()
        assert restored(worker) == 0

        kept = counting.start().wait_running()
        assert restored(kept) == 0
        kept.stop()

        shutil.rmtree(workers.state_dir)
        counting.send()
        again = counting.start()
        counting.read_round(reader)
        assert restored(again) == WORDS
        again.stop()
        reader.to_end()
        assert all(values == ["1", "2"] for values in reader.values.values())


def test_after_a_kill_only_the_tail_is_read(topics: Topics, workers: Workers) -> None:
    """Under exactly once, state survives the kill of its worker and is not thrown away: what was committed is there."""
    counting = Counting(topics, workers, "exactly_once_v2")
    counting.send()
    counting.send()
    worker = counting.start()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        for first in range(0, WORDS // 2, SLICE):
            counting.send(first, first + SLICE)
            last = f"word-{first}"
            reader.until("the third round goes on", lambda found, word=last: found.latest[word] == "3")
        counting.send(WORDS // 2, WORDS)
        worker.kill()
        again = counting.start().wait_running()
        counting.read_round(reader)
        assert restored(again) < WORDS  # of at least two rounds in the changelog
        assert again.events("store is rebuilt from its changelog: its offset is outside of the changelog") == []
        assert all(event["from"] > 0 for event in again.events("restoring"))
        again.stop()
        reader.to_end()
        assert all(values[-1] == "3" for values in reader.values.values())
        assert all(values == sorted(set(values)) for values in reader.values.values())
