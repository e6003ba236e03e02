"""The application that `benchmarks/bench_takeover.py --workers` runs: a workload by name, on the topics of its
environment."""

from __future__ import annotations

import os

from benchmarks.workloads import WORKLOADS, Inputs
from streams import StreamsBuilder


def topology() -> StreamsBuilder:
    """The environment names the workload and the topics."""
    topics = Inputs(os.environ["BENCH_INPUT"], "", os.environ["BENCH_OUTPUT"])
    return WORKLOADS[os.environ["BENCH_WORKLOAD"]](topics)
