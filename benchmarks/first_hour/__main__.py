"""The table of a newcomer's first hour, for this library and for Quix Streams on the same broker.

    python -m benchmarks.first_hour [--bootstrap HOST:PORT] [--python PATH] [--without-quix] [--times N]

Without an address it starts Apache Kafka. ``--python`` measures the version that another interpreter has installed.
Quix Streams is installed by pip into an environment of its own, which is kept for the next run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.first_hour.contestants import Contestant, ours, quix
from benchmarks.first_hour.measures import (
    Cluster,
    next_output_s,
    running,
    trial_s,
    wrong_record,
)
from tools.kafka.broker import Broker

ENVIRONMENT = Path(tempfile.gettempdir()) / "streams-first-hour-quix"
WORDS = b"to be or not to be"
SETTLE_S = 5.0
"""Seconds in which the other outputs of the first record come too."""


@dataclass
class Row:
    """The measures of one library; seconds are lists where they were measured several times."""

    name: str
    lines: int
    trial: list[float]
    first: float
    following: list[float]
    commands: int
    to_read: str
    wrong: list[str]


def measured(contestant: Contestant, address: str, times: int, folder: Path) -> Row:
    """Measures one library. The first output of an application comes once, so that is measured once."""
    trials = [trial_s(contestant, folder) for _ in range(times)]
    cluster = Cluster(address)
    cluster.create(contestant.source, contestant.sink)
    cluster.send(contestant.source, WORDS)
    begin = time.monotonic()
    with running(contestant, cluster, folder) as process:
        first = cluster.seen(contestant.sink, 1, process) - begin
        time.sleep(SETTLE_S)
        following = [next_output_s(contestant, cluster, process) for _ in range(times)]
        wrong = wrong_record(contestant, cluster, process, folder)
    commands = 1 if contestant.makes_topics else 2
    to_read = "1 command" if {"consume", "state"} & contestant.commands else "own code"
    found = [each for each in trials if each is not None]
    return Row(contestant.name, contestant.lines(), found, first, following, commands, to_read, wrong)


def table(rows: Sequence[Row]) -> str:
    """Returns the table of all measures."""
    steps = [
        ("word count without Kafka: lines, command, seconds", [_trial(row) for row in rows]),
        ("on a cluster: lines, commands", [f"{row.lines}, {row.commands}" for row in rows]),
        ("from the command to the first output, s", [f"{row.first:.1f}" for row in rows]),
        ("from a record to its output, s", [_seconds(row.following) for row in rows]),
        ("read the counts", [row.to_read for row in rows]),
        ("the first wrong record: lines of output", [str(len(row.wrong)) for row in rows]),
    ]
    wide = max(len(step) for step, _ in steps)
    widths = [max(len(row.name), *(len(cells[n]) for _, cells in steps)) for n, row in enumerate(rows)]
    lines = [" " * wide + "".join(f"  {row.name:<{width}}" for row, width in zip(rows, widths, strict=True))]
    for step, cells in steps:
        lines.append(f"{step:<{wide}}" + "".join(f"  {cell:<{w}}" for cell, w in zip(cells, widths, strict=True)))
    return "\n".join(line.rstrip() for line in lines)


def _trial(row: Row) -> str:
    return f"{row.lines}, 1, {_seconds(row.trial)}" if row.trial else "no such command"


def _seconds(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker without these topics")
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="the interpreter with this library")
    parser.add_argument("--without-quix", action="store_true", help="measure this library alone")
    parser.add_argument("--times", type=int, default=3, metavar="N", help="how often; the median is shown")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-first-hour-")))
        address = given.bootstrap or stack.enter_context(Broker()).bootstrap
        contestants = [ours(given.python), *([] if given.without_quix else [quix(ENVIRONMENT)])]
        rows = []
        for contestant in contestants:
            place = folder / contestant.file.stem
            place.mkdir()
            rows.append(measured(contestant, address, given.times, place))
        print(table(rows))
        for row in rows:
            print(f"\n{row.name}, the first wrong record:")
            print("\n".join(row.wrong))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
