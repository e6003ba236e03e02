"""Stores come back from their changelogs, and no more is read than is missing."""

from __future__ import annotations

import shutil

import pytest

from integration_support.counting import WORDS, Counting
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers

SLICE = 300


def restored(worker: Worker) -> int:
    return sum(event["records"] for event in worker.events("restored"))


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
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


def test_state_that_is_damaged_under_a_running_worker_is_restored(topics: Topics, workers: Workers) -> None:
    """Its transaction is rolled back, its tasks begin anew with other clients, and each word is counted once."""
    counting = Counting(topics, workers, "exactly_once_v2", statestore_cache_max_bytes=0)
    counting.send()
    worker = counting.start()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        worker.stop()
        worker = counting.start().wait_running()
        files = [*workers.state_dir.glob("*/*/rocksdb/*.sst")]
        for file in files:
            with file.open("r+b") as opened:
                opened.write(b"\xff" * (file.stat().st_size // 2))
        counting.send()
        counting.read_round(reader)
        told = worker.events("store is rebuilt from its changelog: it is damaged on disk")
        told += worker.events("the stores of a task are rebuilt from their changelogs: what they share is damaged")
        assert {event["task"] for event in told} == {f"1_{partition}" for partition in range(4)}, (len(files), told)
        assert restored(worker) == WORDS
        worker.stop()
        counting.check(reader)
