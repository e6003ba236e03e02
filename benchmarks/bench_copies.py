"""Measures what snapshots and standby tasks cost the worker that processes, on a real broker.

    python -m benchmarks copies                            one task, then 200 tasks; starts a broker of its own
    python -m benchmarks copies --records 500000 --tasks 0
    python -m benchmarks copies --records 0 --tasks 200

One task: a worker puts records of 150 bytes into a store on disk as fast as it can. By turns it does nothing else,
writes a snapshot every ten seconds, or another worker keeps a standby of its task. The figure is the processor time of
its process for a record, from the first record to the commit of the last one; ratios are of the best of each. The store
in memory is tried in the same way.

Many tasks: two workers share them, without standbys and with one of each task in the other worker. The figures are the
time until everything is open, and of one worker its memory, and the part of a core that it takes while nothing comes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.kept_rows import topology
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from streams import KafkaStreams
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import NewTopic
from tools.kafka.broker import Broker

INPUT, VALUE_BYTES, KEYS = "bench-input", 122, 100_000
IDLE_S = 20.0
DEADLINE_S = 900.0
MODES = ("none", "snapshots", "standby")
SUPPLIERS = {"disk": Stores.persistent_key_value_store, "memory": Stores.in_memory_key_value_store}


# ---------------------------------------------------------------------- in a worker's process


def resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work(kind: str, settings: dict[str, Any]) -> None:
    """Runs a worker that answers each line of its standard input with what it has done, until that ends."""
    given = {**settings, "default.key.serde": Serdes.BYTES, "default.value.serde": Serdes.BYTES}
    app = KafkaStreams(topology(SUPPLIERS[kind]), given)
    app.start()
    for _ in sys.stdin:
        assert app.failure is None, app.failure
        status = app.status()
        threads = app.metadata_for_local_threads()
        answer = {
            "state": status.state,
            "active": sum(task.state == "RUNNING" for task in status.tasks),
            "standbys": len({one.task for one in status.standbys}),
            "planned": sum(len(thread.standby_tasks) for thread in threads),
            "committed": sum(part.committed or 0 for task in status.tasks for part in task.partitions),
            "snapshots": sum(task.snapshot is not None for task in status.tasks),
            "snapshot_ms": max((task.snapshot.elapsed_ms for task in status.tasks if task.snapshot), default=0),
            "cpu_s": time.process_time(),
            "resident_bytes": resident_bytes(),
        }
        print(json.dumps(answer), flush=True)
    assert app.close(120)


# ---------------------------------------------------------------------- around the workers


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, kind: str, settings: dict[str, Any]) -> None:
        words = [sys.executable, "-m", "benchmarks.bench_copies", "--work", kind, json.dumps(settings)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Returns the first answer that meets a condition."""
        until = time.monotonic() + DEADLINE_S
        while not condition(found := self.ask()):
            assert time.monotonic() < until, found
            time.sleep(0.2)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)


@contextmanager
def worker(kind: str, settings: dict[str, Any], root: Path) -> Iterator[WorkerProcess]:
    with tempfile.TemporaryDirectory(prefix="state-", dir=root) as state:
        process = WorkerProcess(kind, {**settings, "state.dir": state})
        try:
            yield process
        finally:
            process.close()


def make_topic(address: str, partitions: int) -> None:
    admin = ConfluentClients(address).admin({})
    admin.delete_topics([INPUT])
    until = time.monotonic() + 60
    while True:
        try:
            admin.create_topics([NewTopic(name=INPUT, partitions=partitions)])
            return
        except Exception:  # it is being deleted
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def produce(address: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        while True:
            try:
                producer.produce(INPUT, os.urandom(VALUE_BYTES), b"key-%020d" % (number * 7_919 % KEYS), 0)
                break
            except BufferError:
                producer.poll(0.2)
    producer.flush()


def settings_of(address: str, mode: str, place: Path) -> dict[str, Any]:
    given: dict[str, Any] = {"application.id": f"bench-{time.time_ns()}", "bootstrap.servers": address}
    if mode == "standby":
        given["num.standby.replicas"] = 1
    if mode == "snapshots":
        given |= {"state.snapshot.dir": str(place), "state.snapshot.interval.ms": 10_000}
    return given


def cost_of_a_record(address: str, mode: str, kind: str, records: int, root: Path) -> tuple[float, dict[str, Any]]:
    """Returns the processor time of the active worker for a record, in µs, and its last answer."""
    make_topic(address, 1)
    settings = settings_of(address, mode, root / "place")
    with ExitStack() as held:
        active = held.enter_context(worker(kind, settings, root))
        active.until(lambda one: one["state"] == "RUNNING" and one["active"] == 1)
        if mode == "standby":
            other = held.enter_context(worker(kind, settings, root))
            other.until(lambda one: one["planned"] == 1)
            active.until(lambda one: one["active"] == 1)
        before = active.ask()["cpu_s"]
        produce(address, records)
        found = active.until(lambda one: one["committed"] >= records)
    return (found["cpu_s"] - before) / records * 1e6, found


def one_task(address: str, records: int, rounds: int, root: Path) -> None:
    for kind in ("disk", "memory"):
        costs: dict[str, list[float]] = {mode: [] for mode in MODES}
        for _ in range(rounds):
            for mode in MODES:
                cost, found = cost_of_a_record(address, mode, kind, records, root)
                costs[mode].append(cost)
                more = f", last snapshot in {found['snapshot_ms']} ms" if found["snapshots"] else ""
                print(f"  {kind:6} {mode:10} {cost:6.2f} µs of CPU for a record{more}", flush=True)
        base = min(costs["none"])
        for mode in MODES[1:]:
            more = min(costs[mode]) / base - 1
            print(f"{kind}, {mode}: {more:+.1%} CPU of the active worker for a record, best of {rounds}", flush=True)


def many_tasks(address: str, tasks: int, root: Path) -> None:
    for mode in ("none", "standby"):
        make_topic(address, tasks)
        settings = settings_of(address, mode, root / "place")
        copies = tasks if mode == "standby" else 0
        begin = time.monotonic()
        with worker("disk", settings, root) as first, worker("disk", settings, root) as second:
            while True:
                answers = [first.ask(), second.ask()]
                open_ = sum(one["active"] for one in answers), sum(one["planned"] for one in answers)
                if open_ == (tasks, copies) and all(one["active"] for one in answers):
                    break
                assert time.monotonic() < begin + DEADLINE_S, answers
                time.sleep(0.5)
            started_s = time.monotonic() - begin
            time.sleep(IDLE_S / 2)
            before, idle = first.ask(), time.monotonic()
            time.sleep(IDLE_S)
            after = first.ask()
            share = (after["cpu_s"] - before["cpu_s"]) / (time.monotonic() - idle)
        print(
            f"{tasks} tasks, {mode}: open after {started_s:.1f} s ({after['cpu_s']:.1f} s of CPU in all);"
            f" idle {share:.1%} of a core, {after['resident_bytes'] / 1e6:.0f} MB",
            flush=True,
        )


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--work"]:
        work(arguments[1], json.loads(arguments[2]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks copies")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--address", help="of a broker; one is started if none is given")
    given = parser.parse_args(arguments)
    with ExitStack() as held:
        root = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="bench-copies-")))
        address = given.address or held.enter_context(Broker()).bootstrap
        if given.records:
            one_task(address, given.records, given.rounds, root)
        if given.tasks:
            many_tasks(address, given.tasks, root)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
