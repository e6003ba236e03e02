"""The cost of a record of each stateful operator, by the number of keys, of open windows for each key, and by its size.

    python -m benchmarks operators
    python -m benchmarks.bench_operators [records|keys|windows|sizes|ten-million-keys] ...

One task without a client runs the topologies that the harness measures (`workloads.py`): microseconds of the thread a
record, commits included, after a first round that fills stores and caches. Only figures of one run can be compared.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.task_rig import Input, TaskRig
from benchmarks.workloads import WORKLOADS, Inputs

RECORDS = 100_000
KEYS = (10_000, 100_000, 1_000_000)
FILLED_AT_ONCE = 500_000
WINDOWS = (10, 100, 1_000, 10_000)
SIZES = (20, 200, 2_000, 10_000)
NAMES = {
    "W2": "count",
    "W3": "tumbling count",
    "W8": "hopping count, six windows",
    "sliding": "sliding count",
    "W6": "session count",
    "W4": "stream-table join",
    "W5": "stream-stream join",
    "W7": "foreign-key join, left side",
}
SECOND, MINUTE = 1000, 60_000

Data = dict[str, Sequence[Input]]


def value(number: int, size: int) -> bytes:
    """Returns a JSON object of about so many bytes, with what the workloads look at."""
    front = b'{"id":%d,"group":"g%04d","name":"n","amount":%d.5,"note":"' % (number, number % 1000, number % 100)
    return front + b"x" * max(0, size - len(front) - 2) + b'"}'


def events(records: int, keys: int, span: int, size: int, begin: int) -> list[Input]:
    """Returns records of random keys, spread evenly over a span of time in ms."""
    draw = random.Random(begin).randrange
    return [(b"k%07d" % draw(keys), value(n, size), begin + n * span // records) for n in range(records)]


def data_of(workload: str, records: int, keys: int, span: int, size: int, begin: int) -> Data:
    """Returns the input of a round: joins have half of the records on each side."""
    if workload == "W5":
        half = records // 2
        rows = [(b"k%07d" % (n % keys), value(n, size), begin + n * span // half) for n in range(half)]
        return {"in": rows, "in2": [(key, data, time + 500) for key, data, time in rows]}
    if workload == "W7":
        groups = [(b"g%04d" % n, b'{"name":"g"}', 0) for n in range(1000)] if begin == 0 else []
        return {"in": events(records, keys, span, size, begin), "in2": groups}
    return {"in": events(records, keys, span, size, begin)}


class Run:
    """One operator on one task, measured round by round."""

    def __init__(self, workload: str, directory: Path) -> None:
        self.workload = workload
        topology = WORKLOADS[workload](Inputs("in", "in2", "out")).build()
        self.rig = TaskRig(topology, directory)
        self.begin = 0

    def fill(self, keys: int, size: int) -> None:
        """Gives the store a row of each key: of the table, of the left stream, or of what is counted."""
        topic = "in2" if self.workload == "W4" else "in"
        for first in range(0, keys, FILLED_AT_ONCE):
            numbers = range(first, min(keys, first + FILLED_AT_ONCE))
            self.rig.run({topic: [(b"k%07d" % n, value(n, size), self.begin) for n in numbers]})

    def round(self, records: int, keys: int, span: int, size: int) -> float:
        """Returns the microseconds a record."""
        data = data_of(self.workload, records, keys, span, size, self.begin)
        self.begin += span
        return self.rig.run(data) / sum(map(len, data.values())) * 1e6


def runs(workload: str, cases: Sequence[int], measure: Callable[[Run, int], float]) -> Iterator[float]:
    for case in cases:
        with tempfile.TemporaryDirectory() as directory:
            run = Run(workload, Path(directory))
            try:
                yield measure(run, case)
            finally:
                run.rig.close()


def by_records(run: Run, _: int) -> float:
    run.fill(10_000, 130)
    run.round(RECORDS, 10_000, 20 * MINUTE, 130)
    return min(run.round(RECORDS, 10_000, 20 * MINUTE, 130) for _ in range(3))


def by_keys(run: Run, keys: int) -> float:
    run.fill(keys, 130)
    run.round(RECORDS, keys, MINUTE, 130)
    return min(run.round(RECORDS, keys, MINUTE, 130) for _ in range(2))


def by_windows(run: Run, windows: int) -> float:
    """Ten keys that have so many windows each before the measured rounds."""
    run.round(10 * windows, 10, windows * 10 * SECOND, 130)
    return min(run.round(2000, 10, 2000 * SECOND, 130) for _ in range(3))


def by_size(run: Run, size: int) -> float:
    run.fill(10_000, size)
    run.round(RECORDS // 4, 10_000, 5 * MINUTE, size)
    return min(run.round(RECORDS // 4, 10_000, 5 * MINUTE, size) for _ in range(2))


TABLES: dict[str, tuple[str, Sequence[int], Callable[[Run, int], float], Sequence[str]]] = {
    "records": ("", (0,), by_records, tuple(NAMES)),
    "keys": ("keys", KEYS, by_keys, tuple(NAMES)),
    "windows": ("windows a key", WINDOWS, by_windows, ("W3", "W8", "sliding", "W6", "W5")),
    "ten-million-keys": ("keys", (10_000, 10_000_000), by_keys, ("W2", "W3", "W4")),
    "sizes": ("bytes a value", SIZES, by_size, ("W4", "W5", "W7")),
}


def main(arguments: list[str]) -> None:
    for table in arguments or ("records", "keys", "windows", "sizes"):
        what, cases, measure, workloads = TABLES[table]
        print(f"{what or 'us a record':28}" + "".join(f"{case:>10,}" for case in cases if what))
        for workload in workloads:
            figures = runs(workload, cases, measure)
            print(f"{NAMES[workload]:28}" + "".join(f"{figure:10.2f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
