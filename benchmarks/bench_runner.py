"""One task over history without Spark: records per second of processor time, and memory by rows and keys.

    python -m benchmarks runner [RECORDS] [--keys N] [--buffer-mib N] [--capture-mib N] [--outputs] [--memory]

Counts by key on RocksDB with captured changelogs. Without options it prints the rates with and without outputs, three
rounds each by turns. With ``--memory`` it runs once and prints the peak of the resident memory.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import repeat

from benchmarks.histories import counted
from streams.runtime.runner.options import RunnerOptions
from streams.runtime.runner.task_runner import TaskRunner
from streams.runtime.threads.gc_tuning import relax_collector

BATCH = 10_000
ROUNDS = 3
CONFIG = {"application.id": "app", "bootstrap.servers": "unused:9092"}
COUNTS = {"in": 1, "out": 1}
VALUE = b"x" * 60


def run(records: int, keys: int, options: RunnerOptions) -> tuple[float, int]:
    """Returns the seconds of processor time and the rows of the changelog."""
    runner = TaskRunner(counted, CONFIG, COUNTS, 0, 0, options)
    begin = time.process_time()
    for first in range(0, records, BATCH):
        last = min(first + BATCH, records)
        names = [b"k%08d" % (number * 7919 % keys) for number in range(first, last)]
        runner.feed("in", names, [VALUE] * len(names), range(first, last), repeat(None, len(names)), range(first, last))
        runner.run()
        if runner.wants_commit():
            runner.commit()
        runner.take()
    runner.commit()
    rows = sum(1 for rows in runner.changelog().values() for _ in rows)
    seconds = time.process_time() - begin
    runner.close()
    return seconds, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--buffer-mib", type=int, default=64)
    parser.add_argument("--capture-mib", type=int, default=64)
    parser.add_argument("--outputs", action="store_true")
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    relax_collector()

    def options(outputs: bool) -> RunnerOptions:
        return RunnerOptions(
            kept_outputs=None if outputs else frozenset(),
            buffer_bytes=given.buffer_mib << 20,
            capture_bytes=given.capture_mib << 20,
        )

    if given.memory:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        seconds, rows = run(given.records, given.keys, options(given.outputs))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{given.records:>10,} records of {rows:>9,} keys: {given.records / seconds:>8,.0f} per CPU s,"
            f" at most {after} MiB ({before} at the start)"
        )
        return
    for _ in range(ROUNDS):
        for outputs in (False, True):
            seconds, rows = run(given.records, given.keys, options(outputs))
            what = "with outputs" if outputs else "state only"
            print(f"{what:>12}: {given.records / seconds:>8,.0f} records per CPU s, {rows:,} changelog rows")


if __name__ == "__main__":
    main()
