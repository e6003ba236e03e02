"""Hundreds of stores in one process: bounded memory and descriptors, and a limit of open files that is raised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
MIB = 1 << 20

APP = """
import json, logging, os, resource, sys
from pathlib import Path
from streams import *
from processor_api.clock import SystemClock
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

CLOCK = SystemClock()
state, tasks, stores, files = sys.argv[1], *map(int, sys.argv[2:5])
if files:
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, int(sys.argv[5])))
logging.basicConfig(stream=sys.stderr, level="INFO", format="%(message)s")
NAMES = [f"store-{number}" for number in range(stores)]
ROWS, SIZE, TEXT = 400, 1000, Serdes.STRING

class Fill(Processor):
    "Puts rows into each store for every record."
    def init(self, context):
        self.context = context
        self.stores = [context.get_state_store(name) for name in NAMES]
    def process(self, record):
        for store in self.stores:
            for row in range(ROWS):
                store.put(f"{record.key}-{row}", record.value)
        self.context.forward(record.with_value(str(self.stores[-1].get(f"{record.key}-0") == record.value)))

topology = Topology().add_source("source", "in").add_processor("fill", Fill, "source")
for name in NAMES:
    builder = Stores.key_value_store_builder(Stores.persistent_key_value_store(name), TEXT, TEXT)
    topology = topology.add_state_store(builder.with_logging_disabled(), "fill")
topology = topology.add_sink("sink", "out", "fill")
broker = EmbeddedBroker()
broker.create_topic("in", tasks)
broker.create_topic("out", 1)
clients = EmbeddedClients(broker)
config = {"application.id": "app", "bootstrap.servers": "in-memory:9092", "state.dir": state, "poll.ms": 5,
          "commit.interval.ms": 50, "default.key.serde": TEXT, "default.value.serde": TEXT}

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def told():
    found = {"descriptors": len(os.listdir("/proc/self/fd")), "resident": resident() - before}
    found["limit"] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return found

before, found = resident(), {}
for round in ("new", "again"):
    app = KafkaStreams(topology, config, clients=clients)
    begin = CLOCK.monotonic()
    app.start()
    assert app.wait(60, state=ClientState.RUNNING) and app.state == "RUNNING", (app.state, app.failure)
    found[round] = {"seconds": CLOCK.monotonic() - begin, "opened": told()}
    producer = clients.producer({})
    for partition in range(tasks):
        producer.produce("in", b"x" * SIZE, f"{round}-{partition}".encode(), partition, None, None, 0, None)
    producer.flush()
    deadline = CLOCK.monotonic() + 120
    while len(broker.records("out")) < tasks * len(found) and app.state == "RUNNING":
        assert CLOCK.monotonic() < deadline, len(broker.records("out"))
        CLOCK.wait(0.01)
    found[round]["filled"] = told()
    assert app.close(60) and app.failure is None, app.failure
assert {record.value() for record in broker.records("out")} == {b"True"}
print(json.dumps(found))
"""


def run(folder: Path, tasks: int, stores: int, files: int = 0, hard: int = 0) -> tuple[dict[str, Any], str]:
    """What the application told, and its log."""
    command = [sys.executable, "-c", APP, str(folder), *map(str, (tasks, stores, files, hard))]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found, done.stderr


def test_200_stores_are_opened_within_a_gibibyte_and_1000_descriptors(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """In 20 tasks, empty and again with 400 rows of a kilobyte in each, through a running application."""
    found, _ = run(tmp_path, tasks=20, stores=10, files=1000, hard=1000)
    for how in ("new", "again"):
        record_property(f"seconds to open, {how}", found[how]["seconds"])
        print(f"200 stores, {how}: {found[how]}")
        for when in ("opened", "filled"):
            assert found[how][when]["resident"] < 1024 * MIB
            assert found[how][when]["descriptors"] < 1000
    assert len(list(tmp_path.rglob("CURRENT"))) == 20
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.sst")) > 0


@pytest.mark.parametrize(
    ("soft", "hard", "limit", "warned"),
    [(256, 20_000, 20_000, False), (256, 512, 512, True), (5000, 5000, 5000, False)],
)
def test_the_limit_of_open_files_is_raised(tmp_path: Path, soft: int, hard: int, limit: int, warned: bool) -> None:
    """As far as the system lets it; that it is low is told once."""
    found, log = run(tmp_path, tasks=1, stores=1, files=soft, hard=hard)
    assert found["new"]["opened"]["limit"] == limit
    assert log.count("limit of open files raised") == (soft != limit)
    assert ("few files may be open" in log) == warned
