"""Measures for how long there is no output when workers come and go, on a real broker: with large stores, with and
without standby copies, in groups of each protocol.

    python -m benchmarks takeover [--keys N] [--standbys N ...] [--protocols NAME ...] [--command NAME=COMMAND]

Three workers of one application count records by key. When all keys are counted, records come evenly, and one after
the other a worker is killed by SIGKILL and comes back, is stopped and comes back, is added and goes, is killed and
comes back without its disk. For each the longest time without output of a partition is printed, and after how long the
last partition had output again. The session is 10 s.

With ``--workers N`` they are workers of one `streams run --workers N` instead, on one state directory, and one of them
is killed, several times; its supervisor starts it again, or puts its spare in its place (``--spare``).

Another runner takes the arguments of `benchmarks/runner.py`, and its settings as `--set.NAME VALUE`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from benchmarks.cluster import Cluster
from benchmarks.even_line import OURS, Line, arguments, one_record_a_key, started
from tools.kafka.broker import Broker

TASKS = 6
WORKERS = 3
FILL_S = 3600.0
UNDERWAY_S = 0.2
"""Output that comes so soon after a worker is killed may be its own."""
CLASSIC, STREAMS = "classic", "streams"
SESSION_MS = "10000"
GROUPS = {
    "group.streams.min.session.timeout.ms": "5000",
    "group.streams.session.timeout.ms": SESSION_MS,
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "3000",
}
"""Settings of the broker instead of the members', for groups of the streams protocol."""


@dataclass(frozen=True)
class Runner:
    """A kind of workers, and their settings."""

    name: str
    command: str
    protocol: str
    standbys: int
    guarantee: str
    token: str = ""
    """A file with the token by which workers watch each other; they do not if it is empty."""

    def settings(self) -> dict[str, str]:
        settings = {"num.standby.replicas": str(self.standbys)}
        if self.token:
            settings |= {"http.listen": "127.0.0.1:0", "http.token.file": self.token, "http.peer.timeout.ms": "1500"}
        if self.protocol != CLASSIC:
            settings["group.protocol"] = self.protocol
        else:
            settings["session.timeout.ms" if self.name != "streams" else "consumer.session.timeout.ms"] = SESSION_MS
        if self.guarantee != "at_least_once":
            settings["producer.transaction.timeout.ms"] = "10000"
        return settings

    def words(self) -> list[str]:
        settings = self.settings()
        if self.name == "streams":
            given = [word for name, value in settings.items() for word in ("--setting", f"{name}={value}")]
        else:
            given = [word for name, value in settings.items() for word in (f"--set.{name}", value)]
        return [*shlex.split(self.command), "W2", *given]


class Workers:
    """The processes of one application, each with a directory of its own."""

    def __init__(self, cluster: Cluster, runner: Runner, name: str, directory: Path) -> None:
        self._words = [*runner.words(), *arguments(cluster.bootstrap, name, runner.guarantee)]
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        self._processes[number] = started([*self._words, "--state-dir", f"{self._directory}/{number}"])

    def end(self, number: int, how: signal.Signals) -> None:
        process = self._processes.pop(number)
        process.send_signal(how)
        process.wait()

    def lose_disk(self, number: int) -> None:
        self.end(number, signal.SIGKILL)
        shutil.rmtree(self._directory / str(number))
        self.start(number)

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


class Supervised:
    """Workers that one `streams run --workers` looks after."""

    def __init__(self, cluster: Cluster, runner: Runner, name: str, directory: Path, count: int, spare: bool) -> None:
        settings = {
            "state.dir": str(directory),
            "processing.guarantee": runner.guarantee,
            "commit.interval.ms": "200",
            **runner.settings(),
        }
        words = ["--application-id", name, "--bootstrap-servers", cluster.bootstrap, "--workers", str(count)]
        words += ["--spare"] if spare else []
        for setting, value in settings.items():
            words += ["-c", f"{setting}={value}"]
        environment = {"BENCH_WORKLOAD": "W2", "BENCH_INPUT": f"{name}-in", "BENCH_OUTPUT": f"{name}-out"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streams", "run", "benchmarks.supervised_app:topology", *words],
            env={**os.environ, **environment},
        )

    def kill_one(self) -> None:
        """Kills the worker that has used the processor most by SIGKILL: not the spare."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(max(children, key=_processor_ticks)), signal.SIGKILL)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def _processor_ticks(pid: str) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def fill(cluster: Cluster, name: str, keys: int) -> None:
    cluster.create(f"{name}-in", f"{name}-out", partitions=TASKS)
    cluster.write(one_record_a_key(f"{name}-in", keys))


def wait_counted(cluster: Cluster, name: str, keys: int) -> None:
    deadline = time.monotonic() + FILL_S
    counted = 0
    while counted < keys:
        if time.monotonic() > deadline:
            raise SystemExit(f"{name} has counted {counted} of {keys} keys")
        time.sleep(0.5)
        with suppress(KafkaException):  # the broker has no coordinator yet
            counted = cluster.committed(name, [f"{name}-in"])


def report(line: Line, what: str, act: Callable[[], None], settle_s: float) -> None:
    line.forget()
    begun = time.monotonic()
    act()
    acted = time.monotonic()
    while min(line.last) < acted + UNDERWAY_S:
        time.sleep(0.01)
    first = min(line.last) - acted
    line.wait_flowing(FILL_S)
    time.sleep(settle_s)  # copies and moves that are only due later
    longest, whole = max(line.gaps), max(0.0, line.resumed - begun)
    text = f"{longest:6.1f} s without output, {whole:6.1f} s until all have it"
    print(f"    {what:<24} {first:6.1f} s until each had it, {text}", flush=True)


def run(cluster: Cluster, runner: Runner, keys: int, settle_s: float) -> None:
    name = f"takeover-{uuid.uuid4().hex[:8]}"
    fill(cluster, name, keys)
    print(f"{runner.name}, {runner.protocol} group, {runner.standbys} standby copies", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        workers = Workers(cluster, runner, name, Path(directory))
        try:
            for number in range(WORKERS):
                workers.start(number)
            wait_counted(cluster, name, keys)
            with Line(cluster.bootstrap, f"{name}-in", f"{name}-out", TASKS, keys) as line:
                line.wait_flowing()
                time.sleep(settle_s)
                report(line, "killed", lambda: workers.end(0, signal.SIGKILL), settle_s)
                report(line, "comes back", lambda: workers.start(0), settle_s)
                report(line, "stopped", lambda: workers.end(1, signal.SIGTERM), settle_s)
                report(line, "comes back", lambda: workers.start(1), settle_s)
                report(line, "a fourth one", lambda: workers.start(WORKERS), settle_s)
                report(line, "the fourth one stopped", lambda: workers.end(WORKERS, signal.SIGTERM), settle_s)
                report(line, "without its disk", lambda: workers.lose_disk(2), settle_s)
        finally:
            workers.close()


def run_supervised(
    cluster: Cluster, runner: Runner, keys: int, settle_s: float, workers: int, rounds: int, *, spare: bool
) -> None:
    name = f"takeover-{uuid.uuid4().hex[:8]}"
    fill(cluster, name, keys)
    more = " and a spare" if spare else ""
    print(f"{workers} supervised workers{more}, {runner.protocol} group, {runner.standbys} standby copies", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        supervised = Supervised(cluster, runner, name, Path(directory), workers, spare)
        try:
            wait_counted(cluster, name, keys)
            with Line(cluster.bootstrap, f"{name}-in", f"{name}-out", TASKS, keys) as line:
                line.wait_flowing()
                time.sleep(settle_s)
                for _ in range(rounds):
                    report(line, "killed", supervised.kill_one, settle_s)
        finally:
            supervised.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--standbys", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--protocols", nargs="*", choices=[CLASSIC, STREAMS], default=[CLASSIC, STREAMS])
    parser.add_argument("--guarantee", default="exactly_once_v2")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds after each step")
    parser.add_argument("--watch", action="store_true", help="workers watch each other over HTTP")
    parser.add_argument("--workers", type=int, default=0, help="workers of one supervisor")
    parser.add_argument("--spare", action="store_true", help="the supervisor holds a spare process")
    parser.add_argument("--rounds", type=int, default=4, help="how often a supervised worker is killed")
    parser.add_argument("--command", action="append", default=[], metavar="NAME=COMMAND", help="another runner")
    given = parser.parse_args()
    commands = {"streams": OURS, **dict(one.split("=", 1) for one in given.command)}
    for standbys in given.standbys:
        for protocol in given.protocols:
            for name, command in commands.items():
                properties = GROUPS | {"group.streams.num.standby.replicas": str(standbys)}
                with Broker(properties=properties) as broker, tempfile.NamedTemporaryFile() as token:
                    token.write(uuid.uuid4().hex.encode())
                    token.flush()
                    watching = token.name if given.watch else ""
                    runner = Runner(name, command, protocol, standbys, given.guarantee, watching)
                    cluster = Cluster(broker.bootstrap)
                    if given.workers:
                        run_supervised(
                            cluster,
                            runner,
                            given.keys,
                            given.settle,
                            given.workers,
                            given.rounds,
                            spare=given.spare,
                        )
                    else:
                        run(cluster, runner, given.keys, given.settle)


if __name__ == "__main__":
    main()
