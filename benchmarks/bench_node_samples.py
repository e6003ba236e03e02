"""The cost of samples of nodes: seconds in which the nodes of a task are sampled, and seconds in which they are not.

    python -m benchmarks node_samples [PAIRS]

One task without a client. Seconds with and without a sample alternate: in each, the task processes the records that it
can in about a second, and commits once. The figures are milliseconds of the thread: of the sampled steps, which are
the first records of a second and its drain, and of whole seconds; medians, and of the differences of pairs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.bench_operators import value
from benchmarks.task_rig import Input, TaskRig
from benchmarks.workloads import WORKLOADS, Inputs
from streams import StreamsBuilder
from streams.runtime.processing.node_samples import SAMPLED_RECORDS

PAIRS = 10
SECOND = 200_000
"""The number of records that stand for a second."""
KEYS = 2_000
NODES = 5


def chain() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream("in")
    for _ in range(NODES):
        stream = stream.map_values(str.lower)
    stream.to("out")
    return builder


def second(rig: TaskRig, records: list[Input], *, sampled: bool) -> tuple[float, float]:
    """Returns the time of the steps that may be sampled, and of all, in ms."""
    if sampled:
        rig.task.environment.metrics.nodes.request()
    rig.add({"in": records})
    begin = time.thread_time()
    rig.process(SAMPLED_RECORDS)
    first = time.thread_time() - begin
    rig.process(len(records) - SAMPLED_RECORDS)
    drain = time.thread_time()
    rig.task.drain()
    first += time.thread_time() - drain
    rig.commit()
    return first * 1000, (time.thread_time() - begin) * 1000


def compare(name: str, builder: StreamsBuilder, pairs: int) -> None:
    """Prints the figures of a topology."""
    records: list[Input] = [(b"k%07d" % (n * 7919 % KEYS), value(n, 80), n) for n in range(SECOND)]
    with tempfile.TemporaryDirectory() as directory:
        rig = TaskRig(builder.build(), Path(directory))
        second(rig, records, sampled=True)
        found = [(second(rig, records, sampled=False), second(rig, records, sampled=True)) for _ in range(pairs)]
        rig.close()
    steps = median(on[0] - off[0] for off, on in found)
    off, on = (median(pair[which][1] for pair in found) for which in (0, 1))
    ratio = median(pair[1][1] / pair[0][1] for pair in found)
    print(f"{name:28} a sample {steps:5.2f} ms; whole seconds {off:6.1f} and {on:6.1f} ms with one ({ratio - 1:+.1%})")


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    compare("five nodes", chain(), pairs)
    for name, what in (("W2", "count"), ("W3", "tumbling count"), ("W6", "session count")):
        compare(what, WORKLOADS[name](Inputs("in", "", "out")), pairs)


if __name__ == "__main__":
    main()
