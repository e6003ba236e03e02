"""Files of a running application, and of one that is closed, are damaged at random: no count is lost, and none doubled.

Damage that comes again where a process has restored the state before may end the application with the error that says
so; another one goes on then.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from processor_api.errors import DamagedStateError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.files import files_of, opened
from runtime_support.running_app import Cluster
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from waiting import wait_until

S = Serdes.STRING
KEYS = [f"key-{number:04}" for number in range(400)]
STEPS = 25
DAY_MS = 86_400_000


class CountThrice(Processor[str, str, str, str]):
    """Forwards how often three stores saw the value; it reads them by key, as of a time, and by range."""

    def process(self, record: Record[str, str]) -> None:
        plain, versioned, window = (self.context.get_state_store(name) for name in ("plain", "versioned", "window"))
        value = record.value
        first = int((plain.get(value) or ValueAndTimestamp("0", 0)).value) + 1
        plain.put(value, ValueAndTimestamp(str(first), first))
        old = versioned.get(value)
        second = (int(old.value) if old else 0) + 1
        versioned.put(value, str(second), record.timestamp + second)
        with window.fetch_range(value, 0, DAY_MS) as found:
            third = max((int(count) for _, count in found), default=0) + 1
        window.put(value, str(third), third % 3)
        self.context.forward(record.with_value(f"{value}={first},{second},{third}"))


def topology() -> Topology:
    made = Topology().add_source("s", "in").add_processor("p", CountThrice, "s").add_sink("sink", "out", "p")
    for builder in (
        Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("plain"), S, S),
        Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("versioned", DAY_MS), S, S
        ),
        Stores.window_store_builder(Stores.persistent_window_store("window", DAY_MS, 100), S, S),
    ):
        made.add_state_store(builder, "p")
    return made


class Sufferer:
    """An application whose files are damaged, and what it has to put out."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = Cluster(directory, 2)
        self.databases = [directory / "state" / "app" / f"0_{partition}" / "rocksdb" for partition in range(2)]
        self.config = {
            "state.dir": str(directory / "state"),
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 10,
            "num.stream.threads": 2,
        }
        self.app = self.start()
        self.counts = dict.fromkeys(KEYS, 0)
        self.due: list[str] = []
        self.steps: list[str] = []

    def start(self) -> KafkaStreams:
        return self.cluster.app(topology(), self.config)

    def send(self) -> None:
        values = self.chance.choices(KEYS, k=self.chance.randrange(1, 200))
        for value in values:
            self.counts[value] += 1
            self.due.append(f"{value}=" + ",".join([str(self.counts[value])] * 3))
        for partition in range(2):
            self.cluster.send(*(value for value in values if int(value[4:]) % 2 == partition), partition=partition)

    def wait(self) -> None:
        wait_until("everything is counted", self._counted, lambda: (self.steps, self.cluster.told()))

    def _counted(self) -> bool:
        if self.app.state is ClientState.ERROR:
            assert isinstance(self.app.failure, DamagedStateError), self.app.failure
            self.restart()
        return sorted(self.cluster.values()) == sorted(self.due)

    def restart(self) -> None:
        assert self.app.close(60)
        self.app = self.start()

    def damage_closed(self) -> None:
        self.wait()
        assert self.app.close(60)
        self.damage()
        self.app = self.start()

    def damage(self) -> None:
        """Of one file: a bit, half of it in place, its end, or all of it."""
        database = self.chance.choice(self.databases)
        tables, roots = files_of(database, "*.sst"), [*files_of(database, "MANIFEST-*"), database / "CURRENT"]
        file = self.chance.choice(tables if tables and self.chance.random() < 0.8 else roots)
        how = self.chance.choice(["bit", "half", "end", "all"])
        self.steps.append(f"{how} of {file.name}")
        if how == "all":
            file.unlink(missing_ok=True)
            return
        with opened(file) as found:  # a running application deletes files
            if found is None or not (data := found.read()):
                return
            if how == "end":
                found.truncate(len(data) // 3)
                return
            at = self.chance.randrange(len(data)) if how == "bit" else 0
            found.seek(at)
            found.write(b"\xff" * (len(data) // 2) if how == "half" else bytes([data[at] ^ 4]))

    def suffer(self) -> None:
        steps = [self.send, self.send, self.wait, self.restart, self.damage_closed, self.damage]
        for _ in range(STEPS):
            step = self.chance.choice(steps)
            self.steps.append(step.__name__)
            step()
        self.wait()


def survive(directory: Path, seed: int) -> None:
    sufferer = Sufferer(directory, seed)
    try:
        sufferer.suffer()
    finally:
        for app in sufferer.cluster.apps:
            app.close(10)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_whatever_file_is_damaged(seed: int, tmp_path: Path) -> None:
    survive(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 104))
def test_nothing_is_lost_however_often_files_are_damaged(seed: int, tmp_path: Path) -> None:
    survive(tmp_path, seed)
