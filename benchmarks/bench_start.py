"""The start of a worker with many tasks, on a real broker: the time until it runs, and its processor time.

    python -m benchmarks start [TASKS] [--guarantee GUARANTEE] [--profile]

One count has as many tasks as its input has partitions. The worker starts twice: without any state or committed
offset, and again with both. Time and processor time are from `start()` to RUNNING, of this process with its clients;
`--profile` prints the functions of the stream thread that take longest.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import threading
import time
import uuid
from datetime import timedelta

from benchmarks.cluster import Cluster
from streams import ClientState, KafkaStreams, StreamsBuilder
from tools.kafka.broker import Broker

PARTS = 1
DEADLINE = timedelta(minutes=10)


def counts(name: str) -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    for number in range(PARTS):
        builder.stream(f"{name}-in-{number}").group_by_key().count(materialized=f"counts-{number}")
    return builder


def started(name: str, settings: dict[str, object], profile: cProfile.Profile | None) -> str:
    """Starts the worker and closes it; returns its figures as text."""
    app = KafkaStreams(counts(name).build(), settings)
    if profile is not None:
        threading.setprofile(lambda *_: profile.enable() if "StreamThread" in threading.current_thread().name else None)
    begin, used = time.monotonic(), time.process_time()
    app.start()
    threading.setprofile(None)
    assert app.wait(DEADLINE, state=ClientState.RUNNING), app.state
    text = f"{time.monotonic() - begin:7.1f} s {time.process_time() - used:7.1f} CPU s"
    app.close()
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", type=int, nargs="?", default=400)
    parser.add_argument("--guarantee", default="exactly_once_v2")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        cluster, name = Cluster(broker.bootstrap), f"start-{uuid.uuid4().hex[:8]}"
        topics = [f"{name}-in-{number}" for number in range(PARTS)]
        cluster.create(*topics, partitions=given.tasks // PARTS)
        settings = {
            "application.id": name,
            "bootstrap.servers": broker.bootstrap,
            "state.dir": folder,
            "processing.guarantee": given.guarantee,
        }
        for what in ("without state", "with state"):
            profile = cProfile.Profile() if given.profile else None
            print(f"{given.tasks} tasks, {what:14}{started(name, settings, profile)}", flush=True)
            if profile is not None:
                pstats.Stats(profile).sort_stats("cumtime").print_stats(60)


if __name__ == "__main__":
    main()
