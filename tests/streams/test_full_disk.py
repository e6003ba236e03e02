"""A disk that is full in the middle of a run, and has room again later: the application waits, and nothing is lost.

On a small file system of its own, in a mount namespace, which not every machine allows;
`tests/runtime/test_full_disk_app.py` needs no such thing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDS, KEYS, SIZE = 600, 300, 24_000  # the last values of all keys are more than the disk holds

APP = """
import json, logging, random, subprocess, sys, time
from streams import *
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

state, guarantee = sys.argv[1:3]
records, keys, size = map(int, sys.argv[3:])

class Keep(Processor):
    "Keeps each value by its key, and tells how often the key was seen."
    def init(self, context):
        self.context = context
        self.kept = context.get_state_store("kept")
    def process(self, record):
        seen = int((self.kept.get(record.key) or "0 ").split()[0]) + 1
        self.kept.put(record.key, f"{seen} {record.value}")
        self.context.forward(record.with_value(str(seen)))

TEXT = Serdes.STRING
kept = Stores.key_value_store_builder(Stores.persistent_key_value_store("kept"), TEXT, TEXT)
topology = Topology().add_source("source", "in", key_serde=TEXT, value_serde=TEXT)
topology.add_processor("keep", Keep, "source").add_state_store(kept, "keep")
topology.add_sink("sink", "out", "keep", key_serde=TEXT, value_serde=TEXT)

broker = EmbeddedBroker()
broker.create_topic("in")
broker.create_topic("out")
clients = EmbeddedClients(broker)
source = clients.producer({})
for number in range(records):
    value = random.randbytes(size // 2).hex()
    source.produce("in", value.encode(), b"key-%d" % (number % keys), 0, None, None, number, None)
source.flush()
settings = {
    "application.id": "app", "bootstrap.servers": "in-memory:9092", "state.dir": state,
    "processing.guarantee": guarantee, "commit.interval.ms": 20, "poll.ms": 10,
    "statestore.uncommitted.max.bytes": 1 << 20,  # a fast machine would commit all at once
}

def committed():
    offsets = broker.groups.group("app").offsets
    return max([one.offset for place, one in offsets.items() if place.topic == "in"], default=0)

class Lines(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []
    def emit(self, line):
        self.lines.append([line.getMessage(), getattr(line, "directory", None), getattr(line, "error", None)])

log = Lines()
logging.getLogger("streams").addHandler(log)

def until(reached):
    end = time.monotonic() + 100
    while not reached():
        assert time.monotonic() < end, (log.lines, app.state, committed())
        app.wait(0.02)

with KafkaStreams(topology, settings, clients=clients) as app:
    until(lambda: log.lines)
    full = {"state": app.state, "committed": committed()}
    subprocess.run(["mount", "-o", "remount,size=300m", state], check=True)
    until(lambda: committed() == records and len(log.lines) > 1)
    counts = [int(one.value()) for one in broker.records("out", read_committed=True)]
    roomy = {"state": app.state, "counts": len(counts), "most": max(counts)}
print(json.dumps([full, roomy, log.lines]))
"""


def run(directory: Path, guarantee: str) -> subprocess.CompletedProcess[str]:
    probe = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*probe, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs user and mount namespaces")
    (directory / "app.py").write_text(APP)
    state = directory / "state"
    state.mkdir()
    script = 'mount -t tmpfs -o size=3m none "$1" && exec "$2" app.py "$1" "$3" "$4" "$5" "$6"'
    words = ["sh", str(state), sys.executable, guarantee, str(RECORDS), str(KEYS), str(SIZE)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [*probe, "sh", "-c", script, *words],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_an_application_waits_for_room_and_goes_on(guarantee: str, tmp_path: Path) -> None:
    """It ended, and each restart of it did. Now there is one line that names the place, and one when there is room;
    under each guarantee every record is counted once."""
    found = run(tmp_path, guarantee)
    assert found.returncode == 0, found.stderr[-2000:]
    full, roomy, lines = json.loads(found.stdout.splitlines()[-1])
    assert full["state"] == "RUNNING"
    assert full["committed"] < RECORDS
    assert roomy == {"state": "RUNNING", "counts": RECORDS, "most": RECORDS // KEYS}
    assert [text for text, _, _ in lines] == [
        "the disk is full: free some space there, and processing goes on by itself; nothing is lost",
        "the disk has room again: processing goes on",
    ]
    (_, directory, error), _ = lines
    assert directory == str(tmp_path / "state" / "app")
    assert "bytes remain" in error
