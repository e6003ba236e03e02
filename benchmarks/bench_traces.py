"""The cost of OpenTelemetry traces to records that have none: `otel.traces` off, and at small shares of the records.

    python -m benchmarks traces [ROUNDS]

One task without a client; spans are made, and exported nowhere. The tasks take turns; microseconds of the thread per
record, commits included, medians of the rounds.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.bench_operators import value
from benchmarks.task_rig import Input, TaskRig
from benchmarks.workloads import WORKLOADS, Inputs
from streams.config import StreamsConfig
from streams.runtime.processing.environment import TaskThread
from streams.telemetry.spans import watch_of

ROUNDS = 11
RECORDS = 40_000
KEYS = 10_000
SHARES = (0.0, 0.0001, 0.01, 0.1)
NAMES = {"W1": "filter and map", "W2": "count", "W4": "stream-table join"}


def thread(share: float | None) -> TaskThread:
    """Returns the thread of a task with this share of traces; ``None`` has none."""
    if share is None:
        return TaskThread()
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "unused:9092"})
    return TaskThread(probe=watch_of(config, share).probe)


def compare(workload: str, rounds: int) -> None:
    """Prints the figures of a workload."""
    records: list[Input] = [(b"k%07d" % (n * 7919 % KEYS), value(n, 80), n) for n in range(RECORDS)]
    with tempfile.TemporaryDirectory() as directory, ExitStack() as tasks:
        rigs: dict[float | None, TaskRig] = {}
        for share in (None, *SHARES):
            topology = WORKLOADS[workload](Inputs("in", "in2", "out")).build()
            rigs[share] = TaskRig(topology, Path(directory) / str(share), thread=thread(share))
            tasks.callback(rigs[share].close)
            second = {"in2": records[:KEYS]} if workload == "W4" else {}
            rigs[share].run({**second, "in": records})
        costs: dict[float | None, list[float]] = {share: [] for share in rigs}
        for _ in range(rounds):
            for share, rig in rigs.items():
                costs[share].append(rig.run({"in": records}) / RECORDS * 1e6)
    off = median(costs[None])
    print(f"{NAMES[workload]:18} off {off:5.2f} us", end="")
    for share in SHARES:
        ratio = median(with_traces / none for with_traces, none in zip(costs[share], costs[None], strict=True))
        print(f"; {share:g} {median(costs[share]):5.2f} us ({ratio - 1:+.0%})", end="")
    print(flush=True)


def main() -> None:
    trace.set_tracer_provider(TracerProvider())
    for workload in NAMES:
        compare(workload, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)


if __name__ == "__main__":
    main()
