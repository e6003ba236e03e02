"""Starts a worker without state: with the snapshot of a handover, and by replaying the changelog, on a real broker.

    python -m benchmarks snapshot         starts a broker of its own
    python -m benchmarks.bench_snapshot ADDRESS [ROWS]

A million rows of about 60 bytes in one partition. Each way runs three times, in turns; the time is from the start of
the worker until it runs, by the clock and by the processor time of this process.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.kept_rows import topology
from processor_api.serde import Serdes
from streams import KafkaStreams
from streams.app.states import ClientState
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import NewTopic
from streams.spark.handover.bootstrap import bootstrap
from streams.spark.handover.cut import Cut
from tools.kafka.broker import Broker

ROUNDS, PAUSE_S = 3, 0.005


def write_run(path: Path, application: str, count: int) -> None:
    """Writes the run directory of a backfill with so many rows."""
    topic = f"{application}-kept-changelog"
    files = path / "stage=0" / "kind=state"
    files.mkdir(parents=True)
    rows = {
        "topic": [topic] * count,
        "partition": pa.array([0] * count, pa.int32()),
        "seq": list(range(count)),
        "key": [b"key-%020d" % (number * 7919 % count) for number in range(count)],
        "value": [b"value-%030d" % number for number in range(count)],
        "ts": [1_700_000_000_000 + number for number in range(count)],
        "headers": pa.nulls(count, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        "upstream": pa.array([0] * count, pa.int32()),
    }
    pq.write_table(pa.table(rows), files / "p0-a0.parquet")
    task = {
        "partition": 0, "subtopology": 0, "attempt": 0, "files": ["kind=state/p0-a0.parquet"], "counts": {topic: count},
        "partition_times": {"bench-input": 1}, "processor_times": {}, "positions": {},
    }  # fmt: skip
    (path / "stage=0" / "_DONE.json").write_text(json.dumps({"stage": 0, "tasks": [task]}))
    run = {"version": 1, "application_id": application, "inputs": {}, "options": {}, "stages": 1, "cut": None}
    (path / "run.json").write_text(json.dumps(run))


def start(config: dict[str, Any], directory: Path, snapshots: Path | None) -> tuple[float, float]:
    """Returns how long a worker took to run, by the clock and by the processor, in s."""
    given = {**config, "state.dir": str(directory), "state.snapshot.dir": "" if snapshots is None else str(snapshots)}
    app = KafkaStreams(topology(), given)
    times: dict[ClientState, tuple[float, float]] = {}
    app.set_state_listener(lambda new, old: times.setdefault(new, (time.monotonic(), time.process_time())))
    app.start()
    while app.state is not ClientState.RUNNING:
        assert app.failure is None, app.failure
        time.sleep(PAUSE_S)
    begin, end = times[ClientState.REBALANCING], times[ClientState.RUNNING]
    assert app.close(60)
    return end[0] - begin[0], end[1] - begin[1]


def run(address: str, count: int, root: Path) -> None:
    application = f"bench-{time.time_ns()}"
    admin = ConfluentClients(address).admin({})
    admin.create_topics([NewTopic(name="bench-input", partitions=1)])
    config = {
        "application.id": application, "bootstrap.servers": address,
        "default.key.serde": Serdes.BYTES, "default.value.serde": Serdes.BYTES,
    }  # fmt: skip
    write_run(root / "run", application, count)
    for snapshots in (None, root / "snapshots"):
        cut = Cut.at_end(config, ["bench-input"])
        began = time.monotonic(), time.process_time()
        bootstrap(root / "run", config, topology=topology(), cut=cut, snapshot_dir=snapshots)
        spent = time.monotonic() - began[0], time.process_time() - began[1]
        what = "bootstrap" if snapshots is None else "compared again, with snapshots"
        print(f"{what:32} {spent[0]:6.1f} s {spent[1]:6.1f} CPU s", flush=True)
    print(f"{count:,} rows, a start without state:     wall       CPU")
    best = {}
    for number in range(ROUNDS):
        for name, snapshots in (("replayed", None), ("snapshot", root / "snapshots")):
            found = start(config, root / f"state-{name}-{number}", snapshots)
            best[name] = tuple(map(min, zip(found, best.get(name, found), strict=True)))
    for name, (wall, cpu) in best.items():
        print(f"{name:32} {wall:8.2f} s {cpu:8.2f} s", flush=True)
    replayed, taken = best["replayed"], best["snapshot"]
    print(f"{'ratio':32} {replayed[0] / taken[0]:8.1f}   {replayed[1] / taken[1]:8.1f}", flush=True)


def main(arguments: list[str]) -> int:
    with ExitStack() as held:
        root = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="bench-snapshot-")))
        address = arguments[0] if arguments else held.enter_context(Broker()).bootstrap
        run(address, int(arguments[1]) if len(arguments) > 1 else 1_000_000, root)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
