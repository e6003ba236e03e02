"""Queries of keys over HTTP beside a running count, and ranges over several workers, on a real broker.

    python -m benchmarks http_queries [--bootstrap HOST:PORT] [--seconds S] [--records N] [--workers N ...]
        [--percents P ...] [--ranges]

W2 counts by key behind `streams run`, one worker or two, while two clients ask for keys on some connections each: one
key and wait, 16 requests of one key before they wait, or 100 keys in a request; or on some threads by `streams.remote`
(`benchmarks/http_client.py`). Latencies are from a request to its answer, of the slower client. The rate of W2 is that
of all workers; its share is of its rate without queries, measured just before. With `--ranges`, four workers have
100,000 rows in eight partitions, and one request reads all of them: the seconds to its first byte and to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cluster import PARTITIONS, Cluster, padded
from benchmarks.workloads import WORKLOADS, Inputs
from streams import StreamsBuilder
from tools.kafka.broker import Broker, free_ports

HERE = Path(__file__).parent
KEYS = 20_000
BYTES = 100
CLIENTS = 2
WAYS = (("single", 8), ("single", 32), ("pipelined", 8), ("remote", 64), ("many", 8))
"""How a client asks, and on how many connections or threads."""
PERCENTS = [5, 25, 100]
RANGE_ROWS, RANGE_PARTITIONS, RANGE_WORKERS = 100_000, 8, 4
BEGIN_MS = 1_704_067_200_000


def w2() -> StreamsBuilder:
    """The count, as `streams run` finds it; the environment names the topics."""
    return WORKLOADS["W2"](Inputs(os.environ["BENCH_INPUT"], "", os.environ["BENCH_OUTPUT"]))


@contextmanager
def running(bootstrap: str, prefix: str, workers: int, percent: int) -> Iterator[int]:
    """Runs the count, and yields its port once it answers."""
    [port] = free_ports(1)
    settings = {
        "application.id": f"{prefix}-{uuid.uuid4().hex[:8]}",
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "http.max.cpu.percent": percent,
    }
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "streams", "run", "benchmarks.bench_http_queries:w2"]
        command += ["--http", f"127.0.0.1:{port}", "--workers", str(workers), "-c", f"state.dir={state}"]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        env = {**os.environ, "BENCH_INPUT": f"{prefix}-in", "BENCH_OUTPUT": f"{prefix}-out"}
        with open(Path(state) / "log", "wb") as log:
            process = subprocess.Popen(command, cwd=HERE.parent, env=env, stdout=log, stderr=log)
        try:
            until(lambda: process.poll() is not None or asked(port, "/ready") is not None)
            if process.poll() is not None:
                raise SystemExit((Path(state) / "log").read_text())
            yield port
        finally:
            process.terminate()
            process.wait()


def asked(port: int, path: str) -> Any:
    """Returns an answer as JSON; ``None`` without one."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError):
        return None


def until(condition: Any, deadline_s: float = 300.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the application does not get there")
        time.sleep(0.05)


def processed(port: int) -> tuple[float, int]:
    """Returns the time, and the records that all workers have processed."""
    found = asked(port, "/state")
    states = found.get("workers", [found])
    if None in states:
        raise SystemExit("a worker does not answer")
    return time.monotonic(), sum(task["processed"] for state in states for task in state["tasks"])


def rate_while(port: int, way: tuple[str, int] | None, seconds: float) -> tuple[float, list[dict[str, Any]]]:
    """Returns the records per second while clients ask in a way, and what each of them got."""
    clients = []
    if way is not None:
        command = [sys.executable, "-m", "benchmarks.http_client", str(port), way[0], str(seconds), str(KEYS)]
        for _ in range(CLIENTS):
            clients.append(
                subprocess.Popen([*command, str(way[1])], cwd=HERE.parent, stdout=subprocess.PIPE, text=True)
            )
        time.sleep(0.3)
    since, before = processed(port)
    time.sleep(seconds - 0.6)
    now, after = processed(port)
    return (after - before) / (now - since), [json.loads(one.communicate()[0]) for one in clients]


def queries(bootstrap: str, prefix: str, seconds: float, chosen: list[int], percents: list[int]) -> None:
    print("workers  cpu %  way            keys/s  requests/s  p50 ms  p99 ms  W2 k/s  of W2 alone  not 200")
    for workers in chosen:
        for percent in percents:
            for way in WAYS:
                with running(bootstrap, prefix, workers, percent) as port:
                    until(lambda port=port, workers=workers: is_shared(port, workers))
                    until(lambda port=port: processed(port)[1] > 2 * KEYS)
                    alone, _ = rate_while(port, None, seconds)
                    beside, found = rate_while(port, way, seconds)
                keys, answers = (sum(one[name] / one["seconds"] for one in found) for name in ("keys", "answers"))
                p50, p99 = (max(one[name] or 0 for one in found) for name in ("p50_ms", "p99_ms"))
                wrong = sum(count for one in found for status, count in one["statuses"].items() if status != "200")
                print(
                    f"{workers:7}  {percent:5}  {way[0]:9} x{way[1]:2}  {keys:7.0f}  {answers:10.0f}  {p50:6.1f}"
                    f"  {p99:6.1f}  {beside / 1000:6.1f}  {beside / alone:11.0%}  {wrong:7}",
                    flush=True,
                )


def here(port: int, worker: int) -> list[int]:
    """Returns the partitions that a worker has."""
    found: list[int] = (asked(port, f"/workers/{worker}/stores/counts") or {"here": []})["here"]
    return found


def is_shared(port: int, workers: int) -> bool:
    """Whether each worker of a supervisor has as many partitions; they move once when all have started."""
    return workers == 1 or all(len(here(port, number)) == PARTITIONS // workers for number in range(workers))


def range_s(port: int) -> tuple[float, float] | None:
    """Returns the seconds to the first byte and to the end of an answer; ``None`` if it lacks rows."""
    begun = time.monotonic()
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/stores/counts/range?limit={RANGE_ROWS}", timeout=60
        ) as answer:
            answer.read(1)
            first = time.monotonic() - begun
            body = answer.read()
    except OSError:
        return None
    whole = time.monotonic() - begun
    return (first, whole) if json.loads(body.splitlines()[-1]).get("rows") == RANGE_ROWS else None


def ranges(bootstrap: str, prefix: str, times: int = 7) -> None:
    with running(bootstrap, prefix, RANGE_WORKERS, 100) as port:
        until(
            lambda: all(len(here(port, number)) == RANGE_PARTITIONS // RANGE_WORKERS for number in range(RANGE_WORKERS))
        )
        until(lambda: range_s(port) is not None)
        found = [range_s(port) for _ in range(times)]
        firsts, wholes = zip(*(one for one in found if one is not None), strict=True)
        print(f"{RANGE_ROWS} rows, {RANGE_WORKERS} workers, {RANGE_PARTITIONS} partitions, {times} times:")
        for name, found in (("first byte", firsts), ("whole", wholes)):
            print(f"{name:10}  best {min(found):.3f} s, median {sorted(found)[times // 2]:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a broker; one is started if it is not given")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--percents", type=int, nargs="+", default=PERCENTS)
    parser.add_argument("--ranges", action="store_true")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        bootstrap = arguments.bootstrap or stack.enter_context(Broker()).bootstrap
        cluster, prefix = Cluster(bootstrap), f"queries-{uuid.uuid4().hex[:8]}"
        partitions = RANGE_PARTITIONS if arguments.ranges else PARTITIONS
        keys, records = (RANGE_ROWS, RANGE_ROWS) if arguments.ranges else (KEYS, arguments.records)
        cluster.create(f"{prefix}-in", f"{prefix}-out", partitions=partitions)
        cluster.write(
            {
                "topic": f"{prefix}-in",
                "key": b"k%07d" % (number * 7919 % keys),
                "value": padded(b'{"amount":%d' % number, BYTES),
                "timestamp": BEGIN_MS + number,
            }
            for number in range(records)
        )
        if arguments.ranges:
            ranges(bootstrap, prefix)
        else:
            queries(bootstrap, prefix, arguments.seconds, arguments.workers, arguments.percents)


if __name__ == "__main__":
    main()
