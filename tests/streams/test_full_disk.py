"""A disk that is full in the middle of a run: one clear error, and nothing is lost once there is room again.

On a small file system of its own, in a mount namespace; not every machine allows that.
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
RECORDS, KEYS, SIZE = 2_000, 500, 24_000  # the last values of all keys are more than the disk holds

APP = """
import json, random, shutil, sys
from streams import *
from streams.kafka.embedded import EmbeddedBroker, EmbeddedClients

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
}

def committed():
    offsets = broker.groups.group("app").offsets
    return max([one.offset for place, one in offsets.items() if place.topic == "in"], default=0)

def seen():
    return {one.key().decode(): int(one.value()) for one in broker.records("out", read_committed=True)}

full = KafkaStreams(topology, settings, clients=clients)
full.start()
assert full.wait(60_000), full.state
first = {"state": full.state, "error": str(full.failure), "committed": committed(), "seen": len(seen())}

roomy = state + "-roomy"  # as it would be found after the end of this process, which still holds locks of the database
shutil.copytree(state, roomy)
with KafkaStreams(topology, settings | {"state.dir": roomy}, clients=clients) as again:
    for _ in range(600):
        if committed() == records or again.wait(100):
            break
counts = list(seen().values())
counts = [len(counts), min(counts), max(counts)]
print(json.dumps([first, {"state": again.state, "committed": committed(), "counts": counts}]))
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


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_disk_that_is_full_ends_the_application_and_loses_nothing(guarantee: str, tmp_path: Path) -> None:
    """One error that names the place; with more room, a new start goes on where the store is."""
    found = run(tmp_path, guarantee)
    assert found.returncode == 0, found.stderr[-2000:]
    full, again = json.loads(found.stdout.splitlines()[-1])
    assert full["state"] == "ERROR"
    assert "the disk is full" in full["error"]
    assert str(tmp_path / "state") in full["error"]
    if guarantee == "at_least_once":  # exactly once the store has the rows after the commit, and replays them
        assert full["committed"] < RECORDS
    assert again["state"] == "NOT_RUNNING"
    assert again["committed"] == RECORDS
    number, least, most = again["counts"]
    assert number == KEYS
    assert least >= RECORDS // KEYS
    if guarantee == "exactly_once_v2":
        assert most == RECORDS // KEYS
