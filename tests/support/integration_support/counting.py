"""An application that counts words, whose totals are known."""

from __future__ import annotations

from pathlib import Path

from integration_support.topics import Reader, Topics
from integration_support.workers import Worker, Workers
from waiting import DEADLINE_S

PARTITIONS = 4
TASKS = 2 * PARTITIONS
WORDS = 3_000
WAITS = (
    "waiting: the application already runs another topology; this worker joins when its workers have left. If it is"
    " another application, give this one its own application.id"
)
"""What a worker says that stays outside of its group."""


class Counting:
    """A word count with one input, whose words each come once a round."""

    def __init__(
        self, topics: Topics, workers: Workers, guarantee: str = "exactly_once_v2", **settings: object
    ) -> None:
        """:param settings: with ``_`` for ``.``."""
        self._topics, self._workers = topics, workers
        self.input = topics.create("lines", PARTITIONS)
        self.output = topics.create("counts", PARTITIONS)
        self._settings = {"processing.guarantee": guarantee, "commit.interval.ms": 100}
        self._settings |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.rounds = 0

    def start(
        self,
        *words: str,
        version: int = 1,
        busy: bool = False,
        state_dir: Path | None = None,
        terminal: bool = False,
    ) -> Worker:
        """:param version: of the topology: 1; 2, which has another operator; or 3, which has another store.
        :param busy: it has something to commit at all times, also without input.
        """
        env = {"INPUTS": self.input, "OUTPUT": self.output, "VERSION": str(version), "BUSY": "yes" if busy else ""}
        settings = {**self._settings, "state.dir": state_dir or self._workers.state_dir}
        return self._workers.start("word_count:topology", *words, settings=settings, env=env, terminal=terminal)

    def start_two(self, folder: Path | None = None) -> tuple[Worker, Worker]:
        """Starts two workers, and returns them when both have tasks.

        :param folder: where each has a state directory of its own; they have one together if not given.
        """
        first, second = (
            self.start(state_dir=None if folder is None else folder / name).wait_running() for name in ("one", "two")
        )
        second.wait_for("task runs")
        return first, second

    def send(self, first: int = 0, last: int = WORDS) -> None:
        """A round, or a part of one."""
        self.rounds += first == 0
        self._topics.send(self.input, ((None, f"word-{number}") for number in range(first, last)), PARTITIONS)

    def run_round(self, reader: Reader) -> None:
        """Has a worker count one more round, which is stopped then."""
        worker = self.start()
        self.send()
        self.read_round(reader)
        worker.stop()

    def read_round(self, reader: Reader, deadline_s: float = DEADLINE_S) -> None:
        """Until the last counts of all words are those of the rounds sent."""
        due = {f"word-{number}": str(self.rounds) for number in range(WORDS)}
        reader.until(
            f"round {self.rounds} is counted",
            lambda found: found.latest == due,
            deadline_s,
            tell=lambda: self.wrong(reader),
        )

    def read_round_or_more(self, reader: Reader, deadline_s: float = DEADLINE_S) -> None:
        """Until the last counts of all words are at least those of the rounds sent: at least once."""
        words = [f"word-{number}" for number in range(WORDS)]
        reader.until(
            f"round {self.rounds} is counted",
            lambda found: all(int(found.latest.get(word) or "0") >= self.rounds for word in words),
            deadline_s,
            tell=lambda: self.wrong(reader),
        )

    def wrong(self, reader: Reader) -> list[tuple[str, str]]:
        latest = reader.latest
        return [(f"word-{n}", f) for n in range(WORDS) if (f := latest.get(f"word-{n}", "none")) != str(self.rounds)][
            :5
        ]

    def check(self, reader: Reader) -> None:
        """Exactly once: each word was counted up by one each round. All workers have ended."""
        reader.to_end()
        due = [str(number + 1) for number in range(self.rounds)]
        wrong = {word: counts for word, counts in reader.values.items() if counts[-1:] != due[-1:]}
        assert wrong == {}
        assert len(reader.values) == WORDS
        for word, counts in reader.values.items():  # a round may be left out, since the last count of a commit is told
            assert counts == sorted(set(counts), key=int), word

    def check_killed_worker(self) -> None:
        """The tasks of a killed worker go to the other one: at least once, or exactly once if so set."""
        self.send()
        first, second = self.start_two()
        is_exact = self._settings["processing.guarantee"] == "exactly_once_v2"
        read = self.read_round if is_exact else self.read_round_or_more
        with self._topics.reader(self.output) as reader:
            read(reader)
            first.kill()
            self.send()
            read(reader)
            second.stop()

    def check_second_process(self, folder: Path) -> None:
        """Of two processes with one instance id the newer one has the place, and the older one says what to do."""
        self.send()
        first = self.start(state_dir=folder / "one").wait_running()
        with self._topics.reader(self.output) as reader:
            self.read_round(reader)
            second = self.start(state_dir=folder / "two")
            second.wait_for("takes the place of its former member in the group")
            assert first.wait() != 0
            assert "a state.dir of its own" in first.text
            self.send()
            self.read_round(reader)
            second.stop()
            self.check(reader)
