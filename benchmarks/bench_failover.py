"""Measures for how long partitions give no output after one of two workers is killed, on a real broker.

    python -m benchmarks failover [--rounds N] [--command NAME=COMMAND ...] [--more NAME=ARGUMENTS ...]

Two workers of one application run a workload over four partitions; records come evenly. One is killed by SIGKILL and
not started again. The time until each partition that stood still has output again is printed. The session is 10 s: a
command, which takes the arguments of `benchmarks/runner.py`, is given that by what `--more` has for it.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import tempfile
import time
import uuid
from contextlib import ExitStack

from benchmarks.cluster import PARTITIONS, Cluster
from benchmarks.even_line import OURS, Line, arguments, started
from tools.kafka.broker import Broker

SESSION = "--setting consumer.session.timeout.ms=10000"


def run(cluster: Cluster, command: str, more: str, workload: str) -> list[float]:
    """Returns the seconds for which each partition that stood still had no output."""
    name = f"failover-{uuid.uuid4().hex[:8]}"
    source, target = f"{name}-in", f"{name}-out"
    cluster.create(source, target)
    workers: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as directory, Line(cluster.bootstrap, source, target, PARTITIONS) as line:
        try:
            for number in range(2):
                words = [*shlex.split(command), workload, *arguments(cluster.bootstrap, name, "at_least_once")]
                workers.append(started([*words, "--state-dir", f"{directory}/{number}", *shlex.split(more)]))
            line.wait_flowing()
            line.forget()
            workers[0].send_signal(signal.SIGKILL)
            time.sleep(5)
            line.wait_flowing()
            return sorted(gap for gap in line.gaps if gap > 3)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", default="W2")
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    parser.add_argument("--command", action="append", default=[], metavar="NAME=COMMAND", help="another runner")
    parser.add_argument("--more", action="append", default=[], metavar="NAME=ARGUMENTS", help="what it also takes")
    given = parser.parse_args()
    commands = {"streams": OURS, **dict(one.split("=", 1) for one in given.command)}
    more = {"streams": SESSION, **dict(one.split("=", 1) for one in given.more)}
    with ExitStack() as stack:
        cluster = Cluster(given.bootstrap or stack.enter_context(Broker()).bootstrap)
        for _ in range(given.rounds):
            for name, command in commands.items():
                gaps = run(cluster, command, more.get(name, ""), given.workload)
                print(f"{name:>10}: {', '.join(f'{gap:.1f}' for gap in gaps) or 'none stood still'} s", flush=True)


if __name__ == "__main__":
    main()
