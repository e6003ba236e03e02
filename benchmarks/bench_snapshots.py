"""Starts a worker without state: with the snapshot of a live worker, and by replaying the changelog, on a real broker.

    python -m benchmarks snapshots                     a million keys; starts a broker of its own
    python -m benchmarks.bench_snapshots ADDRESS KEYS ROUNDS [disk|memory]

For a store on disk, then for one in memory, or for one of them. At last, for how long a write to an engine in memory
waits while its rows are written to files.

Rows of 150 bytes in one partition, whose changelog is written beforehand. A first worker restores it and writes the
snapshot. Then workers without state start by turns: the time is from the start until RUNNING, by the clock and by the
processor time of this process; ratios are of the best. A hundredth of the keys is written again behind the snapshot.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.kept_rows import topology
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from streams import KafkaStreams
from streams.app.states import ClientState
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import NewTopic
from tools.kafka.broker import Broker

VALUE_BYTES, PAUSE_S = 122, 0.005


class Written(logging.Handler):
    """The lines that say that a snapshot was written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "snapshot of a task written":
            self.lines.append(record)


def produce(address: str, topic: str, count: int, keys: int, *, shuffled: bool) -> None:
    """Writes rows to partition 0 of a topic: each key once in any order, or random keys."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    step = 7_919 if keys % 7_919 else 7_927
    for number in range(count):
        key = random.randrange(keys) if shuffled else number * step % keys
        while True:
            try:
                producer.produce(topic, os.urandom(VALUE_BYTES), b"key-%020d" % key, 0)
                break
            except BufferError:
                producer.poll(0.2)
    producer.flush()


def until(condition: Callable[[], Any], app: KafkaStreams) -> None:
    while not condition():
        assert app.failure is None, app.failure
        time.sleep(PAUSE_S)


def start(
    config: dict[str, Any], directory: Path, make: Callable[[str], Any], **settings: Any
) -> tuple[KafkaStreams, float, float]:
    """Starts a worker; returns it with how long it took to run, by the clock and by the processor, in s."""
    app = KafkaStreams(topology(make), {**config, "state.dir": str(directory), **settings})
    times: dict[ClientState, tuple[float, float]] = {}
    app.set_state_listener(lambda new, old: times.setdefault(new, (time.monotonic(), time.process_time())))
    app.start()
    until(lambda: ClientState.RUNNING in times, app)
    begin, end = times[ClientState.REBALANCING], times[ClientState.RUNNING]
    return app, end[0] - begin[0], end[1] - begin[1]


def closed(app: KafkaStreams) -> None:
    assert app.close(120)


def starts(
    config: dict[str, Any],
    root: Path,
    snapshots: dict[str, Any],
    rounds: int,
    what: str,
    make: Callable[[str], Any],
) -> None:
    best: dict[str, tuple[float, float]] = {}
    for number in range(rounds):
        for name, settings in (("replayed", {}), ("snapshot", snapshots)):
            with tempfile.TemporaryDirectory(prefix=f"state-{number}-", dir=root) as state:
                app, wall, cpu = start(config, Path(state), make, **settings)
                closed(app)
            before = best.get(name, (wall, cpu))
            best[name] = min(wall, before[0]), min(cpu, before[1])
    print(f"{what:44}     wall       CPU")
    for name, (wall, cpu) in best.items():
        print(f"  {name:42} {wall:8.2f} s {cpu:8.2f} s", flush=True)
    replayed, taken = best["replayed"], best["snapshot"]
    print(f"  {'ratio':42} {replayed[0] / taken[0]:8.1f}   {replayed[1] / taken[1]:8.1f}", flush=True)


def run(address: str, keys: int, rounds: int, root: Path, make: Callable[[str], Any]) -> None:
    application = f"bench-{time.time_ns()}"
    changelog = f"{application}-kept-changelog"
    admin = ConfluentClients(address).admin({})
    inputs = [] if admin.topics(["bench-input"]) else [NewTopic(name="bench-input", partitions=1)]
    admin.create_topics([*inputs, NewTopic(name=changelog, partitions=1, configs={"cleanup.policy": "compact"})])
    config = {
        "application.id": application, "bootstrap.servers": address,
        "default.key.serde": Serdes.BYTES, "default.value.serde": Serdes.BYTES,
    }  # fmt: skip
    produce(address, changelog, keys, keys, shuffled=False)
    seen = Written()
    logging.getLogger("streams.snapshots").addHandler(seen)
    logging.getLogger("streams.snapshots").setLevel(logging.INFO)
    snapshots = {"state.snapshot.dir": str(root / "snapshots")}
    app, wall, cpu = start(config, root / "state", make, **snapshots, **{"state.snapshot.interval.ms": 1_000})
    until(lambda: len(seen.lines) >= 4, app)
    closed(app)
    first, second = seen.lines[0], seen.lines[-1]
    print(f"{keys:,} keys, restored from the changelog in {wall:.1f} s ({cpu:.1f} CPU s)")
    print(f"  first snapshot {first.bytes / 1e6:.0f} MB in {first.elapsed_ms} ms")
    print(f"  the fourth, without changes: {second.new_bytes / 1e3:.0f} kB new in {second.elapsed_ms} ms", flush=True)
    starts(config, root, snapshots, rounds, "a start without state, nothing behind", make)
    produce(address, changelog, keys // 100, keys, shuffled=True)
    starts(config, root, snapshots, rounds, f"the same with {keys // 100:,} records behind", make)


def waits(keys: int, root: Path) -> None:
    """Writes a batch of a thousand rows, a tenth of them new, every 100 ms, alone and while a checkpoint is written."""
    engine = MemoryEngine()
    rows = engine.family("kept").rows
    rows.update((b"key-%020d" % (number * 7_919), os.urandom(VALUE_BYTES)) for number in range(keys))
    for what, call in (("list the keys", lambda: list(rows)), ("copy the dictionary", rows.copy)):
        begin = time.thread_time()
        call()
        print(f"  {keys:,} rows: to {what} takes {(time.thread_time() - begin) * 1e3:.1f} ms of CPU", flush=True)
    for number in range(3):
        until_s = time.perf_counter() + 3
        print(f"  alone: {_writes(engine, keys, lambda until_s=until_s: time.perf_counter() > until_s)}", flush=True)
        cpu: list[float] = []
        begin = time.perf_counter()
        complete = engine.checkpoint(root / f"rows-{number}", ["kept"])
        begun = time.perf_counter() - begin
        thread = threading.Thread(target=lambda complete=complete, cpu=cpu: cpu.append(_cpu_of(complete)))
        thread.start()
        text = _writes(engine, keys, lambda thread=thread: not thread.is_alive())
        print(f"  meanwhile: {text}; begun in {begun * 1e6:.0f} µs, written with {cpu[0]:.2f} s of CPU", flush=True)


def _cpu_of(call: Callable[[], None]) -> float:
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def _writes(engine: MemoryEngine, keys: int, is_over: Callable[[], bool]) -> str:
    """Writes batches until it is over; says how long they took."""
    took: list[float] = []
    while not is_over():
        batch, handle = engine.batch(), engine.family("kept").handle
        for one in random.sample(range(keys), 900):
            batch.put(b"key-%020d" % (one * 7_919), b"changed", handle)
        for _ in range(100):
            batch.put(b"new-%020d" % random.randrange(10**18), b"new", handle)
        begin = time.perf_counter()
        engine.write(batch)
        took.append((time.perf_counter() - begin) * 1e3)
        time.sleep(0.1)
    return f"a write of 1,000 rows takes {sum(took) / len(took):.2f} ms, {max(took):.2f} ms at most"


def main(arguments: list[str]) -> int:
    with ExitStack() as held:
        root = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="bench-snapshots-")))
        address = arguments[0] if arguments else held.enter_context(Broker()).bootstrap
        keys = int(arguments[1]) if len(arguments) > 1 else 1_000_000
        rounds = int(arguments[2]) if len(arguments) > 2 else 3
        kinds = {"disk": Stores.persistent_key_value_store, "memory": Stores.in_memory_key_value_store}
        wanted = arguments[3:] or list(kinds)
        for name in wanted:
            print(f"a store on {name}" if name == "disk" else "a store in memory", flush=True)
            own = root / name
            own.mkdir()
            run(address, keys, rounds, own, kinds[name])
        if "memory" in wanted:
            print("an engine in memory", flush=True)
            waits(keys, root)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
