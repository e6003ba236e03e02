"""Pauses brokers and workers, and says how long partitions stood still after it: ``python -m tools.chaos``.

Three brokers and three workers run; a feeder writes to all partitions, and a watcher follows the committed ends of the
output. Each kind of pause is made in turn, for some rounds. A round passes if every partition moves again within 5 s of
the end of the pause or of a session that it has cost, no process has ended, and no worker has logged more than ten
lines at level warning or above.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tools.chaos.cluster import SESSION_S, Cluster

PARTITIONS = 6
SOON_S = 5.0
ANSWER_S = 30.0
"""So long answers that were swallowed are waited for (``request.timeout.ms``)."""
TRANSACTION_S = 10.0
"""So long a producer waits for answers exactly once."""
LINES_MAX = 10
PATIENCE_S = 120.0
APPLICATION = "chaos-pauses"


class Workers:
    """Three processes of the application, each with a state directory and a log of its own."""

    def __init__(self, folder: Path, bootstrap: str, guarantee: str) -> None:
        self._folder, self._bootstrap, self._guarantee = folder, bootstrap, guarantee
        self.processes: list[subprocess.Popen[bytes]] = []

    def log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"

    def start(self, number: int) -> subprocess.Popen[bytes]:
        settings = {
            "application.id": APPLICATION,
            "bootstrap.servers": self._bootstrap,
            "state.dir": str(self._folder / f"worker-{number}"),
            "processing.guarantee": self._guarantee,
            "commit.interval.ms": "100",
            "statestore.cache.max.bytes": "0",
            "consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
        }
        command = [sys.executable, "-m", "streams", "run", "tools/chaos/application.py", "--log-format", "json"]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with open(self.log(number), "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def start_all(self) -> None:
        self.processes = [self.start(number) for number in range(3)]

    def replace_ended(self) -> list[int]:
        """Starts those again that have ended; returns their statuses."""
        ended = []
        for number, process in enumerate(self.processes):
            status = process.poll()
            if status is not None:
                ended.append(status)
                self.processes[number] = self.start(number)
        return ended

    def lines(self) -> list[int]:
        """Returns how many lines at level warning or above each has logged."""
        return [sum(map(_is_loud, self.log(n).read_text(errors="replace").splitlines())) for n in range(3)]

    def close(self) -> None:
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _is_loud(line: str) -> bool:
    try:
        return json.loads(line)["level"] in ("warning", "error", "critical")
    except (ValueError, TypeError, KeyError):
        return True  # a line of something else than the log


class Watch:
    """Feeds the input, and follows when each partition of the output has moved, as a reader of committed records.

    Its clients go past the proxies, and give a broker that does not answer up soon: they would measure themselves."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 5000,
        }
        self._ended = threading.Event()
        self.moved = [0.0] * PARTITIONS
        for each in (self._feed, self._follow):
            threading.Thread(target=each, daemon=True).start()

    def _feed(self) -> None:
        producer = Producer({**self._settings, "linger.ms": 10})
        number = 0
        while not self._ended.wait(0.02):
            for partition in range(PARTITIONS):
                number += 1
                try:
                    producer.produce("in", b"v", f"{partition}-{number % 500}", partition)
                except BufferError:
                    break
            producer.poll(0)

    def _follow(self) -> None:
        settings = {**self._settings, "group.id": "watch"}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "latest"})
        consumer.assign([TopicPartition("out", partition, OFFSET_END) for partition in range(PARTITIONS)])
        while not self._ended.is_set():
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    self.moved[message.partition() or 0] = time.monotonic()

    def stood_still(self, since: float) -> float:
        """Returns how long after a time all partitions have moved; no longer than it waits for that."""
        deadline = time.monotonic() + PATIENCE_S
        while min(self.moved) <= since and time.monotonic() < deadline:
            time.sleep(0.1)
        still = [number for number, moved in enumerate(self.moved) if moved <= since]
        if still:
            print(f"partitions that do not move: {still}", flush=True)
        return round(max(0.0, time.monotonic() - since), 1)

    def close(self) -> None:
        self._ended.set()


Pause = Callable[[Cluster, Workers, random.Random], float]
"""Makes a pause; returns at its end, and how long what it cost may still last, such as a session."""


def frozen_broker(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    node = chance.choice(cluster.nodes)
    node.freeze()
    time.sleep(chance.uniform(9, 14))  # longer than its session with the controller: its leaders' epochs rise
    node.thaw()
    return SESSION_S


def frozen_cluster(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    for node in cluster.nodes:
        node.freeze()
    time.sleep(chance.uniform(9, 14))
    cluster.heal()
    return SESSION_S


def handed_over(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    """A worker that ends just after a pause gives its tasks to others, whose clients have old epochs; it comes back."""
    frozen_cluster(cluster, workers, chance)
    time.sleep(chance.uniform(0, 5))
    number = chance.randrange(3)
    process = workers.processes[number]
    process.terminate()
    process.wait()
    workers.processes[number] = workers.start(number)
    return SESSION_S


def slow_broker(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    chance.choice(cluster.proxies).delay_s = 0.3
    time.sleep(15)
    cluster.heal()
    return 0.0


def half_open_broker(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    chance.choice(cluster.proxies).swallows = True
    time.sleep(chance.uniform(9, 14))
    cluster.heal()
    return ANSWER_S


def forgotten_connections(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    """A firewall on the way has forgotten all connections to a broker, and says so to neither end."""
    chance.choice(cluster.proxies).forget()
    return TRANSACTION_S + ANSWER_S  # a producer and, when its tasks are opened again, a consumer wait for answers


def moved_leaders(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    """Coordinators and leaders move from one broker to the next, twice, in pauses of each."""
    for node in chance.sample(cluster.nodes, 2):
        node.freeze()
        time.sleep(11)
        node.thaw()
        time.sleep(2)
    return SESSION_S


def suspended_worker(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    process = chance.choice(workers.processes)
    process.send_signal(signal.SIGSTOP)
    time.sleep(22)  # longer than its session and its transaction
    process.send_signal(signal.SIGCONT)
    return 0.0


def killed_worker(cluster: Cluster, workers: Workers, chance: random.Random) -> float:
    number = chance.randrange(3)
    os.killpg(workers.processes[number].pid, signal.SIGKILL)
    workers.processes[number].wait()
    time.sleep(SESSION_S)
    workers.processes[number] = workers.start(number)
    return 0.0


PAUSES: dict[str, Pause] = {
    "frozen broker": frozen_broker,
    "frozen cluster": frozen_cluster,
    "worker stopped after a freeze": handed_over,
    "slow broker": slow_broker,
    "half open broker": half_open_broker,
    "forgotten connections": forgotten_connections,
    "moved leaders": moved_leaders,
    "suspended worker": suspended_worker,
    "killed worker": killed_worker,
}


def run(folder: Path, guarantee: str, kinds: list[str], rounds: int, seed: int) -> int:
    """Returns how many rounds have failed."""
    chance, failed = random.Random(seed), 0
    cluster = Cluster(folder / "cluster")
    workers = Workers(folder, cluster.bootstrap, guarantee)
    watch: Watch | None = None
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for name, future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in ("in", "out")]).items():
            try:
                future.result(60)
            except KafkaException as error:
                raise SystemExit(f"topic {name!r} cannot be created: {error}") from error
        workers.start_all()
        watch = Watch(cluster.past_proxies)
        print(f"{guarantee}: all partitions move after {watch.stood_still(time.monotonic())} s", flush=True)
        for number in range(rounds):
            for kind in kinds:
                failed += _round(cluster, workers, watch, f"{kind} {number + 1}", PAUSES[kind], chance)
    finally:
        if watch is not None:
            watch.close()
        workers.close()
        cluster.close()
    return failed


def _round(cluster: Cluster, workers: Workers, watch: Watch, name: str, pause: Pause, chance: random.Random) -> int:
    before = workers.lines()
    costs_s = pause(cluster, workers, chance)
    still_s = watch.stood_still(time.monotonic())
    watch.stood_still(time.monotonic() + 3)  # all move on, so that the next round begins well
    ended = workers.replace_ended()
    lines = [now - then for then, now in zip(before, workers.lines(), strict=True)]
    is_good = still_s <= SOON_S + costs_s and not ended and max(lines) <= LINES_MAX
    said = f"{still_s} s of at most {SOON_S + costs_s:g}, ended {ended}, lines {lines}"
    print(f"{'ok' if is_good else 'NO'}  {name}: {said}", flush=True)
    return 0 if is_good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guarantee", default="exactly_once_v2", choices=("exactly_once_v2", "at_least_once"))
    parser.add_argument("--only", action="append", choices=sorted(PAUSES), help="one kind of pause; may be repeated")
    parser.add_argument("--dir", type=Path, help="keep logs and data there (default: a temporary folder)")
    given = parser.parse_args()
    folder = given.dir or Path(tempfile.mkdtemp(prefix="chaos-pauses-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        failed = run(folder, given.guarantee, given.only or list(PAUSES), given.rounds, given.seed)
    finally:
        if given.dir is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{failed} rounds failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
