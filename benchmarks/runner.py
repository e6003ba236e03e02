"""A runner for the harness that measures stream processors side by side on one broker.

    runner.py WORKLOAD --bootstrap B --app-id ID --input T [--input2 T] --output T --state-dir D
        --guarantee at_least_once|exactly_once_v2 --threads N --commit-interval-ms X

It prints ``{"event": "running"}`` when it runs and processes until SIGTERM. The workloads are in `workloads.py`;
`docs/performance.md` says how the harness is called and what it showed.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import logging
import signal
import sys
import threading
from typing import Any

from processor_api.task_id import TopicPartition
from streams import KafkaStreams, StreamsConfig

# As a script, this folder is the first on the path; as `benchmarks.runner`, the repository is.
if __package__:
    from benchmarks.workloads import WORKLOADS, Inputs
else:
    from workloads import WORKLOADS, Inputs


def say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Restores:
    """Reports restores to the harness."""

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        say(event="restoring", changelog=str(partition), start=start, end=end)

    def on_batch_restored(self, partition: TopicPartition, store: str, end_offset: int, restored: int) -> None: ...

    def on_restore_end(self, partition: TopicPartition, store: str, restored: int) -> None:
        say(event="restored", records=restored, ms=0)


def is_stream_thread() -> bool:
    return "StreamThread" in threading.current_thread().name


def inputs(arguments: argparse.Namespace) -> Inputs:
    return Inputs(arguments.input, arguments.input2, arguments.output, arguments.cache)


def config(arguments: argparse.Namespace) -> StreamsConfig:
    settings: dict[str, Any] = {
        "application.id": arguments.app_id,
        "bootstrap.servers": arguments.bootstrap,
        "state.dir": arguments.state_dir,
        "processing.guarantee": arguments.guarantee,
        "num.stream.threads": arguments.threads,
        "commit.interval.ms": arguments.commit_interval_ms,
    }
    settings.update(pair.split("=", 1) for pair in arguments.setting)
    return StreamsConfig.of(settings)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    for name in ("bootstrap", "app-id", "input", "output", "state-dir", "guarantee"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--input2", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--commit-interval-ms", type=int, default=1000)
    parser.add_argument("--cache", action=argparse.BooleanOptionalAction, default=True, help="caching of the stores")
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE", help="a setting of the application"
    )
    parser.add_argument("--log", action="store_true", help="log to standard error")
    parser.add_argument("--profile", metavar="FILE", help="profile the stream thread into FILE (one thread)")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    if arguments.log:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    application = KafkaStreams(WORKLOADS[arguments.workload](inputs(arguments)).build(), config(arguments))
    application.set_global_state_restore_listener(Restores())
    application.set_state_listener(lambda new, old: say(event="running") if new == "RUNNING" else None)
    if arguments.profile:
        profile = cProfile.Profile()
        threading.setprofile(lambda *_: profile.enable() if is_stream_thread() else sys.setprofile(None))
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    application.start()
    while not stopping and not application.wait(0.2):
        pass
    application.close()
    if arguments.profile:
        profile.dump_stats(arguments.profile)
    if application.failure is not None:
        sys.stderr.write(f"{application.failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
