"""`streams spark runs`: lists the runs of a backfill with where each stands."""

from __future__ import annotations

import argparse
import json
from typing import Any

from streams.cli.output.causes import CLEAN
from streams.cli.output.terminal import say


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "runs",
        help="list the runs of a backfill with their positions",
        description="Lists the runs that `streams spark backfill --runs DIR` has created in a directory: whether each"
        " is complete, and the offset and the latest time of each partition at its end.",
    )
    parser.add_argument("runs", metavar="DIR", help="the directory of the runs")
    parser.add_argument("--json", action="store_true", help="print the positions as JSON, one line per run")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    from streams.spark.position import time_text
    from streams.spark.runs.listed_runs import Runs

    found = Runs(arguments.runs).all()
    if not found and not arguments.json:
        say(f"no runs exist in {arguments.runs}")
    for one in found:
        if arguments.json:
            position = None if one.position is None else one.position.data()
            say(json.dumps({"run": one.number, "path": str(one.path), "position": position}))
            continue
        say(f"run {one.number}: {'not complete' if one.position is None else 'complete'} ({one.path})")
        topics = {} if one.position is None else one.position.topics
        for topic, place in sorted(topics.items()):
            for number, at in sorted(place.partitions.items()):
                offset = "no offsets" if at.offset is None else f"offset {at.offset}"
                say(f"  {topic}-{number}: {offset}, latest time {time_text(at.time_ms)}")
    return CLEAN
