"""The time from a record to its result, and the processor time of the worker meanwhile, on a real broker.

    python -m benchmarks latency [--rate N] [--seconds N] [--rounds N] [--workload W1] [--guarantee at_least_once]
                                 [--variant NAME=SETTING=VALUE,... ...]

Records come evenly, each with the time at which it was written, and another process reads the results. One worker runs
for each variant, which take turns: `streams` with the defaults, and what `--variant` says. It prints the median and the
99th percentile of the times in ms, and the cores that the worker used. `--rate 0 --partitions 400` shows an idle one.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from benchmarks.cluster import Cluster, padded, seconds_of
from benchmarks.even_line import OURS
from tools.kafka.broker import Broker

KEYS = 400
SIZE = 120
TICK_S = 0.001
SETTLE_S = 4.0
"""The time before the figures count: the worker has joined, and its functions are warm."""


def feed(bootstrap: str, topic: str, rate: int, seconds: float) -> None:
    """Writes records evenly."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "partitioner": "murmur2_random"})
    number, begin = 0, time.monotonic()
    while (elapsed := time.monotonic() - begin) < seconds:
        while number < elapsed * rate:
            front = b'{"id":%d,"amount":%d,"at":%.6f' % (number, 50 + number % 50, time.monotonic())
            producer.produce(topic, padded(front, SIZE), b"k%08d" % (number * 7919 % KEYS))
            number += 1
        producer.poll(0)
        time.sleep(TICK_S)
    producer.flush(10)


def follow(bootstrap: str, topic: str, partitions: int, seconds: float) -> None:
    """Prints the times of the results in ms, as JSON."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "follow", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in range(partitions)])
    found, end = list[float](), time.monotonic() + seconds
    while time.monotonic() < end:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append((time.monotonic() - json.loads(message.value() or b"")["at"]) * 1000)
    consumer.close()
    print(json.dumps(found))


def measure(cluster: Cluster, given: argparse.Namespace, settings: str) -> tuple[list[float], float]:
    """Returns the times in ms, and the cores that the worker used."""
    name = f"latency-{uuid.uuid4().hex[:8]}"
    source, target = f"{name}-in", f"{name}-out"
    cluster.create(source, target, partitions=given.partitions)
    here = [sys.executable, "-m", "benchmarks.bench_latency"]
    words = [*shlex.split(OURS), given.workload, "--bootstrap", cluster.bootstrap, "--app-id", name, "--input", source]
    words += ["--output", target, "--guarantee", given.guarantee, "--threads", "1", "--no-cache"]
    words += ["--commit-interval-ms", str(given.commit_ms)]
    words += [part for one in settings.split(",") if one for part in ("--setting", one)]
    with tempfile.TemporaryDirectory() as directory:
        worker = subprocess.Popen([*words, "--state-dir", directory], stdout=subprocess.PIPE)
        feeder = None
        try:
            assert worker.stdout is not None
            while b"running" not in (line := worker.stdout.readline()):
                if not line:
                    raise SystemExit("the worker has ended before it ran")
            if given.rate:
                total = SETTLE_S + given.seconds + 2
                feeder = subprocess.Popen([*here, "--feed", cluster.bootstrap, source, str(given.rate), str(total)])
            time.sleep(SETTLE_S)
            used, begun = seconds_of(worker.pid), time.monotonic()
            where = [cluster.bootstrap, target, str(given.partitions), str(given.seconds)]
            found = subprocess.run([*here, "--follow", *where], stdout=subprocess.PIPE, check=True).stdout
            cores = (seconds_of(worker.pid) - used) / (time.monotonic() - begun)
            times: list[float] = json.loads(found)
            return times, cores
        finally:
            for process in filter(None, (worker, feeder)):
                process.kill()
                process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--workload", default="W1")
    parser.add_argument("--guarantee", default="at_least_once")
    parser.add_argument("--commit-ms", type=int, default=100)
    parser.add_argument("--bootstrap", help="of a broker that runs; otherwise one is started")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=SETTINGS")
    given = parser.parse_args()
    variants = {"streams": "", **dict(one.split("=", 1) for one in given.variant)}
    with ExitStack() as stack:
        cluster = Cluster(given.bootstrap or stack.enter_context(Broker()).bootstrap)
        for _ in range(given.rounds):
            for name, settings in variants.items():
                times, cores = measure(cluster, given, settings)
                print(f"{name:>12}: {described(times)}, {cores:.3f} cores", flush=True)


def described(times: list[float]) -> str:
    if len(times) < 100:
        return f"{len(times)} results"
    cuts = statistics.quantiles(times, n=100)
    return f"p50 {cuts[49]:5.1f}, p90 {cuts[89]:5.1f}, p99 {cuts[98]:5.1f} ms of {len(times)} results"


if __name__ == "__main__":
    roles = {"--feed": (feed, (str, str, int, float)), "--follow": (follow, (str, str, int, float))}
    if len(sys.argv) > 1 and sys.argv[1] in roles:
        role, kinds = roles[sys.argv[1]]
        role(*[kind(word) for kind, word in zip(kinds, sys.argv[2:], strict=True)])
    else:
        main()
