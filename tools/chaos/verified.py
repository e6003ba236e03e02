"""Kills and freezes workers and brokers for some minutes, then computes what must have come out and compares.

``python -m tools.chaos.verified --minutes 3``: three brokers, three workers and now and then a fourth run windows,
sessions, joins of each kind, suppression, deduplication and an aggregation of a table behind a repartition. Workers are
killed, stopped, frozen past their session and their transaction, added, started as another version of the same layout,
and lose or exchange their disks; brokers are killed and frozen. At the end the topics are read as any other program
would read them, and compared with results that are computed from the input in plain Python.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tools.chaos.cluster import SESSION_S, Cluster
from tools.chaos.feed import PATIENCE_S, Feed, read_topics
from tools.chaos.results import INPUTS, OUTPUTS, Problems, wrong_results

PARTITIONS = 4
SHOWN = 5
APPLICATION = "chaos"
WRONG_USE = 2
"""The status of `streams run` where it does not understand what it is given."""


class Crew:
    """The workers: processes with a state directory and a log each. The last one runs only now and then."""

    def __init__(self, folder: Path, bootstrap: str, settings: Sequence[str]) -> None:
        self._folder, self._bootstrap, self._settings = folder, bootstrap, settings
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ended: list[tuple[int, int]] = []
        """Workers that ended by themselves, each with its status."""

    def log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"

    def disk(self, number: int) -> Path:
        return self._folder / f"worker-{number}"

    def start(self, number: int, version: int = 1) -> None:
        settings = [
            f"application.id={APPLICATION}",
            f"bootstrap.servers={self._bootstrap}",
            f"state.dir={self.disk(number)}",
            "commit.interval.ms=100",
            "statestore.cache.max.bytes=0",
            f"consumer.session.timeout.ms={int(SESSION_S * 1000)}",
            *self._settings,
        ]
        command = [sys.executable, "-m", "streams", "run", "tools/chaos/shop.py", "--log-format", "json"]
        for one in settings:
            command += ["-c", one]
        environment = {**os.environ, "VERSION": str(version)}
        with open(self.log(number), "ab") as log:
            self._processes[number] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=environment
            )

    def running(self) -> list[int]:
        return sorted(self._processes)

    def signal(self, number: int, sent: signal.Signals) -> None:
        self._processes[number].send_signal(sent)

    def end(self, number: int, sent: signal.Signals) -> None:
        """Ends a worker; returns when it has ended, which a clean close may take a time for."""
        process = self._processes.pop(number)
        if process.poll() is not None:
            self.ended.append((number, process.returncode))
            return
        process.send_signal(sent)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.ended.append((number, -signal.SIGTERM))

    def replace_ended(self) -> None:
        """Starts those again that have ended by themselves.

        :raises SystemExit: if one could not begin at all, as with a setting that it does not know.
        """
        for number, process in list(self._processes.items()):
            if process.poll() is not None:
                if process.returncode == WRONG_USE:
                    lines = self.log(number).read_text(errors="replace").splitlines()
                    raise SystemExit(f"worker {number} could not begin: {lines[-1] if lines else 'see its log'}")
                self.ended.append((number, process.returncode))
                self.start(number)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


class Chaos:
    """Does things to the brokers and the workers. Each act leaves three workers running, and all brokers."""

    def __init__(self, cluster: Cluster, crew: Crew, chance: random.Random) -> None:
        self._cluster, self._crew, self._chance = cluster, crew, chance
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        """Does one thing, drawn at random."""
        name, act = self._chance.choice(sorted(self._acts().items()))
        print(f"  {time.strftime('%H:%M:%S')} {name}", flush=True)
        act()
        self.done[name] += 1
        self._crew.replace_ended()

    def _acts(self) -> dict[str, Callable[[], None]]:
        return {
            "kill, start again": lambda: self._kill(0),
            "kill, start after the session": lambda: self._kill(SESSION_S + 4),
            "kill two": self._kill_two,
            "kill, delete the disk": self._without_disk,
            "kill two, exchange their disks": self._exchange,
            "stop, start again": self._stop,
            "freeze for a moment": lambda: self._freeze(self._chance.uniform(1, 6)),
            "freeze past the session": lambda: self._freeze(self._chance.uniform(12, 25)),
            "add a worker, stop it": lambda: self._add(signal.SIGTERM),
            "add a worker, kill it": lambda: self._add(signal.SIGKILL),
            "another version": self._roll,
            "kill a broker": self._broker,
            "freeze a broker": self._frozen_broker,
        }

    def _kill(self, pause_s: float) -> None:
        number = self._chance.choice(self._crew.running())
        self._crew.end(number, signal.SIGKILL)
        time.sleep(pause_s)
        self._crew.start(number)

    def _two(self) -> list[int]:
        two = self._chance.sample(self._crew.running(), 2)
        for number in two:
            self._crew.end(number, signal.SIGKILL)
        return two

    def _kill_two(self) -> None:
        for number in self._two():
            self._crew.start(number)

    def _without_disk(self) -> None:
        number = self._chance.choice(self._crew.running())
        self._crew.end(number, signal.SIGKILL)
        shutil.rmtree(self._crew.disk(number), ignore_errors=True)
        self._crew.start(number)

    def _exchange(self) -> None:
        one, other = self._two()
        first, second, aside = self._crew.disk(one), self._crew.disk(other), self._crew.disk(one).with_suffix(".aside")
        for source, target in ((first, aside), (second, first), (aside, second)):
            if source.exists():
                source.rename(target)
        self._crew.start(one)
        self._crew.start(other)

    def _stop(self) -> None:
        number = self._chance.choice(self._crew.running())
        self._crew.end(number, signal.SIGTERM)
        self._crew.start(number)

    def _freeze(self, seconds: float) -> None:
        number = self._chance.choice(self._crew.running())
        self._crew.signal(number, signal.SIGSTOP)
        time.sleep(seconds)
        self._crew.signal(number, signal.SIGCONT)

    def _add(self, sent: signal.Signals) -> None:
        self._crew.start(3)
        time.sleep(self._chance.uniform(8, 16))
        self._crew.end(3, sent)

    def _roll(self) -> None:
        number = self._chance.choice(self._crew.running())
        self._crew.end(number, signal.SIGTERM)
        self._crew.start(number, version=self._chance.choice((1, 2)))

    def _broker(self) -> None:
        node = self._chance.choice(self._cluster.nodes)
        node.kill()
        time.sleep(self._chance.uniform(0, 8))
        node.restart()
        self._cluster.wait()

    def _frozen_broker(self) -> None:
        node = self._chance.choice(self._cluster.nodes)
        node.freeze()
        time.sleep(self._chance.uniform(2, 14))
        node.thaw()


class Verification:
    """Reads the topics, and says what is wrong."""

    def __init__(self, bootstrap: str, *, exactly_once: bool) -> None:
        self._bootstrap, self._exactly_once = bootstrap, exactly_once

    def wrong(self) -> dict[str, Problems]:
        inputs = read_topics(self._bootstrap, INPUTS)
        outputs = read_topics(self._bootstrap, OUTPUTS)
        return wrong_results(inputs, outputs, exactly_once=self._exactly_once)

    def wrong_after_a_time(self) -> dict[str, Problems]:
        """Waits for what is on its way; returns what is wrong for good."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.wrong()) and time.monotonic() < deadline:
            time.sleep(2)
        return found


def run(folder: Path, minutes: float, seed: int, rate: int, settings: Sequence[str], *, exactly_once: bool) -> bool:
    """Returns whether all results are right."""
    chance, cluster = random.Random(seed), Cluster(folder / "cluster")
    guarantee = "exactly_once_v2" if exactly_once else "at_least_once"
    crew = Crew(folder, cluster.bootstrap, [f"processing.guarantee={guarantee}", *settings])
    chaos = Chaos(cluster, crew, chance)
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.past_proxies, "log_level": 0})
        made = admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (*INPUTS, *OUTPUTS)])
        for future in made.values():
            future.result(60)
        feed = Feed(cluster.past_proxies, rate, seed)
        feed.start()
        for number in range(3):
            crew.start(number)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(chance.uniform(1, 6))
            chaos.act()
        feed.stop()
        checks = Verification(cluster.past_proxies, exactly_once=exactly_once)
        wrong = checks.wrong_after_a_time()
        if not wrong:
            feed.close_windows()
            wrong = checks.wrong_after_a_time()
            time.sleep(5)  # what is too many comes late
            wrong = wrong or checks.wrong()
        print(f"{guarantee}, {minutes:g} minutes, seed {seed}: {feed.written} records, {dict(chaos.done)}", flush=True)
    finally:
        crew.close()
        cluster.close()
    for name, problems in wrong.items():
        print(f"WRONG {name}: {len(problems)}, such as", *problems[:SHOWN], sep="\n    ")
    if crew.ended:
        print(f"workers that ended by themselves (number, status): {crew.ended}")
    print("all results are right" if not wrong else "results are wrong", flush=True)
    return not wrong and not crew.ended


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=100, help="records a second")
    parser.add_argument("--guarantee", default="exactly_once_v2", choices=("exactly_once_v2", "at_least_once"))
    parser.add_argument("-c", dest="settings", action="append", default=[], help="a setting of the workers, KEY=VALUE")
    parser.add_argument("--dir", type=Path, help="keep logs and data there (default: a temporary folder)")
    given = parser.parse_args()
    folder = given.dir or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    is_right = False
    try:
        is_right = run(
            folder,
            given.minutes,
            given.seed,
            given.rate,
            given.settings,
            exactly_once=given.guarantee == "exactly_once_v2",
        )
    finally:
        if given.dir is None and is_right:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"logs and data are in {folder}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
