"""A process with one task of all kinds of stores, to be killed; its broker is a journal that outlives it.

``python -m runtime_support.crashing_task STATE JOURNAL GUARANTEE [STEP]``: restores what the stores lack, then commits
every few records for ever, or until it kills itself behind a step of its third commit. It prints the number of each
commit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processor_api.task_id import TopicPartition
from runtime_support.task_kit import TaskKit
from state.directory.state_directory import StateDirectory
from state.engine.port import OFFSETS
from state.formats.offsets import write_offset
from state.registry.kinds import restore_of
from state_support.all_kinds import KINDS, topology
from state_support.store_kit import LogRecord
from streams.kafka.ports import OffsetAndMetadata

__all__ = ["AT_LEAST_ONCE", "EXACTLY_ONCE", "RECORDS_PER_COMMIT", "STEPS", "Journal"]

RECORDS_PER_COMMIT = 7
AT_LEAST_ONCE = ("drain", "flush", "log", "apply", "commit")
EXACTLY_ONCE = ("drain", "flush", "log and commit", "apply")
STEPS = {"at_least_once": AT_LEAST_ONCE, "exactly_once": EXACTLY_ONCE}
INPUT = TopicPartition("in", 0)


class Journal:
    """What a broker would keep: changelogs and the committed input offset. A write is whole or ends the file."""

    def __init__(self, path: Path) -> None:
        self.changelogs: dict[str, list[LogRecord]] = {name: [] for name in KINDS}
        self.committed = 0
        self.ends: dict[str, int] = dict.fromkeys(KINDS, 0)
        """Where the changelogs ended at the last commit of the input offset."""
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if line.endswith(b"\n"):
                self._take(json.loads(line))

    def _take(self, entry: dict[str, Any]) -> None:
        for store, key, value, timestamp, headers in entry.get("records", ()):
            data = None if value is None else bytes.fromhex(value)
            shown = None if headers is None else [(name, bytes.fromhex(each)) for name, each in headers]
            self.changelogs[store].append((bytes.fromhex(key), data, timestamp, shown))
        if "committed" in entry:
            self.committed = entry["committed"]
            self.ends = {name: len(records) for name, records in self.changelogs.items()}


def record(number: int) -> tuple[str, str, int]:
    """Key, value and timestamp of an input record."""
    chance = random.Random(number)
    value = "-" if chance.random() < 0.2 else f"{number}-" + "x" * chance.randrange(200)
    return f"key-{chance.randrange(60)}", value, 10 * number + 1


class _Process:
    def __init__(self, state: Path, journal: Path, guarantee: str, die_behind: str | None) -> None:
        self._file = os.open(journal, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.ftruncate(self._file, journal.read_bytes().rfind(b"\n") + 1)  # who was killed may have written half a line
        self._known = Journal(journal)
        self._guarantee, self._die_behind = guarantee, die_behind
        self._commits = 0
        self.kit = TaskKit(topology(), StateDirectory.open(state, "app").path, start=False)
        producer = self.kit._input
        for name, records in self._known.changelogs.items():
            for key, value, timestamp, headers in records:
                producer.produce(f"app-{name}-changelog", value, key, 0, None, None, timestamp, headers)
        for _ in range(self._known.committed):
            producer.produce("in", b"", b"", 0, None, None, 0, None)
        producer.flush()
        self._seen = {name: len(records) for name, records in self._known.changelogs.items()}

    def restore(self) -> None:
        stores = self.kit.task.stores
        for name, records in self._known.changelogs.items():
            offset = stores.progress.stored_offset(name)
            missing = records[0 if offset is None else offset + 1 :]
            if missing:
                engine = stores.progress.engine_of(name)
                batch = engine.batch()
                columns: Any = zip(*missing, strict=True)
                restore_of(topology().stores[name], engine)(batch, *columns)
                offset_key = stores.progress.offset_key(name)
                batch.put(offset_key, write_offset(len(records) - 1), engine.family(OFFSETS).handle)
                engine.load(batch)
                engine.flush()
        start = OffsetAndMetadata(self._known.committed, "")
        self.kit.task.start(self.kit.collector, {INPUT: start}, self._seen)

    def run(self) -> None:
        number = self._known.committed
        while True:
            for _ in range(RECORDS_PER_COMMIT):
                key, value, time = record(number)
                self.kit.pipe("in", key.encode(), value.encode(), time)
                number += 1
            self._commit(number)

    def _commit(self, position: int) -> None:
        kit = self.kit
        committed = {"committed": position}
        steps: dict[str, Callable[[], object]] = {
            "drain": kit.task.drain,
            "flush": kit.collector.flush,
            "log": lambda: self._append({"records": self._new_records()}),
            "log and commit": lambda: self._append({"records": self._new_records(), **committed}),
            "apply": kit.task.apply,
            "commit": lambda: self._append(committed),
        }
        self._commits += 1
        for name in STEPS[self._guarantee]:
            steps[name]()
            if self._commits == 3 and name == self._die_behind:
                os.kill(os.getpid(), signal.SIGKILL)
        kit.task.committed()
        print(self._commits, flush=True)

    def _new_records(self) -> list[Any]:
        found = []
        for name in KINDS:
            records = self.kit.broker.records(f"app-{name}-changelog", read_committed=False)
            for one in records[self._seen[name] :]:
                value = one.value()
                headers = one.headers()
                shown = None if headers is None else [(each, data.hex()) for each, data in headers]
                found.append((name, one.key().hex(), None if value is None else value.hex(), one.timestamp()[1], shown))
            self._seen[name] = len(records)
        return found

    def _append(self, entry: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")


if __name__ == "__main__":
    process = _Process(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else None)
    process.restore()
    process.run()
