"""Measures for how long partitions give no output when a second worker is added, on a real broker.

    python -m benchmarks scale_out [--keys N] [--rounds N] [--workload W2]

One worker has a store with many keys. Records come evenly. A second worker is added, on an empty disk, until each has
half of the tasks. The longest time without output of each partition is printed, by turns for tasks that move when their
copies are near, and for tasks that move at once and are restored then (`acceptable.recovery.lag` without a limit).
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
import uuid
from contextlib import ExitStack

from benchmarks.cluster import PARTITIONS, Cluster
from benchmarks.even_line import DEADLINE_S, OURS, Line, arguments, one_record_a_key, started
from tools.kafka.broker import Broker

AT_ONCE = "acceptable.recovery.lag=9223372036854775807"
MODES = {"when near": "acceptable.recovery.lag=10000", "at once": AT_ONCE}


def spread(cluster: Cluster, name: str) -> list[int]:
    """Returns how many tasks each member of the group has, without those that have none."""
    group = cluster.admin.describe_consumer_groups([name])[name].result()
    owned = [
        sum(place.topic.endswith("-tasks") for place in member.assignment.topic_partitions) for member in group.members
    ]
    return sorted(filter(None, owned))


def wait(what: str, condition: object) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {DEADLINE_S:g} s")
        time.sleep(0.2)


def run(cluster: Cluster, setting: str, workload: str, keys: int) -> tuple[list[float], float]:
    """Returns the longest seconds without output of each partition, and those until both workers have their tasks."""
    name = f"scale-out-{uuid.uuid4().hex[:8]}"
    source, target = f"{name}-in", f"{name}-out"
    cluster.create(source, target)
    cluster.write(one_record_a_key(source, keys))
    workers: list[subprocess.Popen[bytes]] = []

    def start(directory: str) -> None:
        words = [*OURS.split(), workload, *arguments(cluster.bootstrap, name, "at_least_once")]
        workers.append(started([*words, "--state-dir", directory, "--setting", setting]))

    with tempfile.TemporaryDirectory() as directory:
        try:
            start(f"{directory}/0")
            wait("all keys are processed", lambda: cluster.committed(name, [source]) >= keys)
            with Line(cluster.bootstrap, source, target, PARTITIONS) as line:
                line.wait_flowing()
                line.forget()
                begin = time.monotonic()
                start(f"{directory}/1")
                wait("both have tasks", lambda: spread(cluster, name) == [PARTITIONS // 2] * 2)
                took_s = time.monotonic() - begin
                time.sleep(5)
                line.wait_flowing()
                return sorted(line.gaps), took_s
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--workload", default="W2")
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    given = parser.parse_args()
    with ExitStack() as stack:
        cluster = Cluster(given.bootstrap or stack.enter_context(Broker()).bootstrap)
        for _ in range(given.rounds):
            for mode, setting in MODES.items():
                gaps, took_s = run(cluster, setting, given.workload, given.keys)
                shown = ", ".join(f"{gap:.1f}" for gap in gaps)
                print(
                    f"{mode:>10}: longest time without output {shown} s; tasks have moved after {took_s:.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
