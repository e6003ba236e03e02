"""An application goes on when a worker is killed, and counts every record as its guarantee says."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from integration_support.topics import Topics
from integration_support.workers import Worker, Workers, alive, supervised
from streams.kafka.confluent.clients import ConfluentClients
from waiting import wait_until

PARTITIONS = (8, 4)
COMMON = {"consumer.session.timeout.ms": 6000, "consumer.heartbeat.interval.ms": 500, "commit.interval.ms": 100}
LONG_SESSIONS: Mapping[str, Mapping[str, int]] = {
    "classic": {"consumer.session.timeout.ms": 45_000},
    "streams": {},
}
"""Settings of workers whose sessions are as long as by default: in the streams protocol the brokers have them."""
TAKEN_OVER = "a process is taken over: its transactions are ended and its members leave the group"
ROUNDS = 6
LINES = 400
WORDS = [f"word-{number}" for number in range(40)]


class WordCount:
    """The application, its topics, and the totals that are due."""

    def __init__(self, topics: Topics, workers: Workers, guarantee: str) -> None:
        self.topics, self.workers = topics, workers
        self.inputs = [topics.create(f"lines-{count}", count) for count in PARTITIONS]
        self.output = topics.create("counts", 4)
        self.due: Counter[str] = Counter()
        self._settings = {**COMMON, "processing.guarantee": guarantee}
        self._sent = 0

    def start(
        self, *words: str, settings: Mapping[str, object] | None = None, app: str = "word_count", **env: str
    ) -> Worker:
        env |= {"INPUTS": ",".join(self.inputs), "OUTPUT": self.output}
        return self.workers.start(f"{app}:topology", *words, settings={**self._settings, **(settings or {})}, env=env)

    def send(self, rounds: int) -> None:
        """More lines into every partition of both topics."""
        for _ in range(rounds):
            for topic, partitions in zip(self.inputs, PARTITIONS, strict=True):
                words = [WORDS[(self._sent + number) * 7 % len(WORDS)] for number in range(LINES)]
                self._sent += LINES
                lines = [f"{word} {word} all" for word in words]
                self.due.update(word for line in lines for word in line.split())
                self.topics.send(topic, ((None, line) for line in lines), partitions)

    def at_least(self, reader: object) -> bool:
        latest = reader.latest  # type: ignore[attr-defined]
        return all(int(latest.get(word, 0)) >= count for word, count in self.due.items())

    def missing(self, reader: object) -> dict[str, tuple[int, int]]:
        latest = reader.latest  # type: ignore[attr-defined]
        return {word: (int(latest.get(word, 0)), due) for word, due in self.due.items() if latest.get(word) != str(due)}


def check_totals(reader: object, application: WordCount, guarantee: str) -> None:
    """Exactly once: the totals, and no count of a word was ever told twice or out of order. Else never too low."""
    totals = {word: int(count) for word, count in reader.latest.items()}  # type: ignore[attr-defined]
    if guarantee == "exactly_once_v2":
        assert totals == dict(application.due)
        for word, counts in reader.values.items():  # type: ignore[attr-defined]
            numbers = [int(count) for count in counts]
            assert numbers == sorted(set(numbers)), word
    else:
        assert {word: total for word, total in totals.items() if total < application.due[word]} == {}
        assert totals.keys() == application.due.keys()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_a_killed_worker_is_replaced(topics: Topics, workers: Workers, guarantee: str) -> None:
    """Three workers share a state directory; one dies in the middle of its input, others take over, it comes back."""
    application = WordCount(topics, workers, guarantee)
    application.send(1)
    running = [application.start() for _ in range(3)]
    for worker in running:
        worker.wait_running()
    with topics.reader(application.output) as reader:
        reader.until("some words are counted", lambda found: len(found.records) > 20)
        application.send(ROUNDS)
        before = len(reader.records)
        reader.until("counting goes on", lambda found: len(found.records) > before)
        running[1].kill()
        application.send(1)
        reader.until("the others count all", application.at_least, tell=lambda: application.missing(reader))
        running[1] = application.start()
        running[1].wait_for("task runs")
        application.send(1)
        reader.until("all three count all", application.at_least, tell=lambda: application.missing(reader))
        for worker in running:
            worker.terminate()
        assert [worker.wait() for worker in running] == [0, 0, 0]
        reader.to_end()
        check_totals(reader, application, guarantee)


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_supervised_worker_that_is_killed_is_taken_over(topics: Topics, workers: Workers, protocol: str) -> None:
    """Others get its tasks long before its session and its transaction have timed out, and it comes back."""
    application = WordCount(topics, workers, "exactly_once_v2")
    application.send(1)
    settings = {"group.protocol": protocol, "producer.transaction.timeout.ms": 60_000, **LONG_SESSIONS[protocol]}
    supervisor = application.start("--workers", "3", settings=settings)
    pids = wait_until("three workers are started", lambda: len(found := supervised(supervisor)) == 3 and found)
    wait_until("all tasks run", lambda: len(supervisor.events("task runs")) >= 16)
    wait_until("all have tasks", lambda: len({one["thread"] for one in supervisor.events("task runs")}) == 3)
    with topics.reader(application.output) as reader:
        application.send(ROUNDS)
        reader.until("counting goes on", lambda found: len(found.records) > 20)
        before = len(supervisor.events("assignment"))
        os.kill(pids[1], signal.SIGKILL)
        supervisor.wait_for("worker died, restarting", deadline_s=20, status="SIGKILL")
        line = supervisor.wait_for(TAKEN_OVER)
        assert line["members"]
        assert line["reason"] == "worker 1 died: SIGKILL"
        assert line["transactional_ids"] == f"{workers.application}-{line['process_id']}-1"

        def given_to_others() -> list[dict[str, object]]:
            later = supervisor.events("assignment")[before:]
            return [one for one in later if one["new"] and line["process_id"] not in one["thread"]]

        wait_until("others get its tasks", given_to_others)
        application.send(1)
        reader.until("all three count all", application.at_least, tell=lambda: application.missing(reader))
        again = wait_until("a fourth worker is started", lambda: supervised(supervisor)[3:])
        assert alive(again[0])
        supervisor.stop()
        assert not any(alive(pid) for pid in supervised(supervisor))
        reader.to_end()
        check_totals(reader, application, "exactly_once_v2")


def test_a_start_first_ends_the_transaction_of_the_process_before(
    topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """While the module of the application is imported, readers do not wait for what its killed predecessor began."""
    application = WordCount(topics, workers, "exactly_once_v2")
    settings = {"commit.interval.ms": 100_000, "producer.transaction.timeout.ms": 110_000}
    former = application.start(settings=settings).wait_running()
    transactional_id = re.compile(f"{re.escape(workers.application)}-.*-1")
    with closing(ConfluentClients().admin({"bootstrap.servers": workers.bootstrap})) as admin:

        def open_ids() -> list[str]:
            return [one for one in admin.open_transactions() if transactional_id.fullmatch(one)]

        application.send(1)
        wait_until("a transaction is open", open_ids)
        former.kill()
        assert open_ids()
        gate = tmp_path / "gate"
        worker = application.start(app="gated", settings=settings, GATE=str(gate))
        wait_until("it imports its application", lambda: "importing" in worker.text)
        wait_until("the transaction is ended", lambda: not open_ids())
        line = worker.wait_for(
            "the open transactions of the former process are ended, before the application is loaded"
        )
        assert transactional_id.fullmatch(line["transactional_ids"])
        assert not worker.events("state")
    gate.touch()
    worker.wait_running()
    worker.stop()
