"""Restores a RocksDB store from its changelog, by write batches of several sizes and by sorted files that are ingested.

    python -m benchmarks restore [RECORDS]

A million records of 100 bytes, by a consumer that makes them up: each key once in any order, and a tenth of the keys
ten times. Write batches go through the restorer; files are made of the last row of each key among so many records,
sorted, and ingested. Each case runs in a process of its own; figures are the best of three. The time of the process
includes RocksDB's own threads, that of making the records is taken off both; `floor` only reads. Memory is the peak
above that before the first record.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rocksdict import IngestExternalFileOptions, SstFileWriter

from processor_api.clock import SystemClock
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId, TopicPartition
from state.formats.offsets import offset_key, write_offset
from state.registry.kinds import families_of, family_of, restore_of
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import SharedMemory
from state.row_format.codec import TIMESTAMPED
from streams.restore.jobs import RestoreJob
from streams.restore.restorer import Restorer

PARTITION = TopicPartition("changelog", 0)
VALUE_BYTES = 88
CASES = ("floor", "batch-2000", "batch-10000", "batch-50000", "files-25000", "files-100000", "files-250000")
HISTORIES = ("each key once", "each key ten times")
ROUNDS = 3


class Message:
    """A record of the changelog."""

    __slots__ = ("_key", "_offset", "_value")

    def __init__(self, key: bytes, value: bytes, offset: int) -> None:
        self._key, self._value, self._offset = key, value, offset

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._offset

    def headers(self) -> None:
        return None

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "changelog"

    def partition(self) -> int:
        return 0


class Feed:
    """A consumer of so many records, which gives them a batch at a time."""

    partition_eof = -191

    def __init__(self, records: int, keys: int, batch: int) -> None:
        self._records, self._batch, self._next = records, batch, 0
        order = list(range(keys))
        random.Random(1).shuffle(order)
        self._order = order
        self.spent = 0.0
        """Seconds of this thread's time that went into making records."""

    def consume(self, most: int, timeout_s: float) -> Sequence[Message]:
        begin = time.thread_time()
        start, order, keys = self._next, self._order, len(self._order)
        self._next = stop = min(self._records, start + self._batch)
        made = [Message(b"key-%08d" % order[i % keys], b"%088d" % i, i) for i in range(start, stop)]
        self.spent += time.thread_time() - begin
        return made

    def poll(self, timeout_s: float) -> None:
        return None

    def assign(self, positions: Any) -> None: ...

    def unassign(self, partitions: Any) -> None: ...

    def position(self, partition: TopicPartition) -> int:
        return self._next

    def close(self) -> None: ...


def peak_mib() -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def batches(engine: RocksEngine, builder: StoreBuilder[Any, Any], feed: Feed, records: int) -> None:
    restorer = Restorer(feed, SystemClock())  # type: ignore[arg-type]
    restore, key = restore_of(builder, engine), offset_key(*PARTITION)
    job = RestoreJob(TaskId(0, 0), builder.name, PARTITION, engine, restore, 0, records, key)  # type: ignore[arg-type]
    restorer.add([job])
    while restorer.active:
        restorer.step(0.0)


def files(engine: RocksEngine, builder: StoreBuilder[Any, Any], feed: Feed, size: int, folder: Path) -> None:
    """Ingests sorted files, as a restorer would: the offset is written behind each file, in a write of its own."""
    table = engine.family(family_of(builder))._table
    write, number = TIMESTAMPED.write, 0
    moving = IngestExternalFileOptions()
    moving.set_move_files(True)
    rows: dict[bytes, bytes] = {}
    seen = 0
    while True:
        messages = feed.consume(10_000, 0.0)
        for message in messages:
            rows[message.key()] = write(message.value(), message.timestamp()[1])
        seen += len(messages)
        if rows and (seen >= size or not messages):
            writer = SstFileWriter(SharedMemory().options())
            path = folder / f"{number}.sst"
            number, seen = number + 1, 0
            writer.open(str(path))
            for key in sorted(rows):
                writer[key] = rows[key]
            writer.finish()
            table.ingest_external_file([str(path)], moving)
            rows.clear()
            batch = engine.batch()
            batch.put(
                offset_key(*PARTITION), write_offset(feed.position(PARTITION) - 1), engine.family("offsets").handle
            )
            engine.load(batch)
        if not messages:
            engine.flush()
            return


def measure(case: str, records: int, keys: int) -> dict[str, float]:
    builder = Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store("s"), Serdes.BYTES, Serdes.BYTES
    )
    kind, _, size = case.partition("-")
    with tempfile.TemporaryDirectory() as folder:
        engine = RocksEngine(Path(folder) / "db", families_of(builder), SharedMemory())
        feed = Feed(records, keys, int(size) if kind == "batch" else 10_000)
        before = peak_mib()
        begin, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
        if kind == "batch":
            batches(engine, builder, feed, records)
        elif kind == "files":
            files(engine, builder, feed, int(size), Path(folder))
        else:
            while feed.consume(10_000, 0.0):
                pass
        wall, cpu, thread = time.perf_counter() - begin, time.process_time() - cpu, time.thread_time() - thread
        peak = peak_mib() - before
        found = {"cpu": cpu - feed.spent, "thread": thread - feed.spent, "wall": wall, "peak": peak}
        if kind != "floor":
            assert sum(1 for _ in engine.family(family_of(builder)).range()) == keys
            get = engine.family(family_of(builder)).get
            asked = [b"key-%08d" % key for key in random.Random(2).sample(range(keys), min(20_000, keys))]
            begin = time.thread_time()
            assert all(map(get, asked))
            found["get"] = (time.thread_time() - begin) / len(asked)
        engine.close()
    return found


def main(arguments: list[str]) -> None:
    if len(arguments) == 3:
        print(json.dumps(measure(arguments[0], int(arguments[1]), int(arguments[2]))))
        return
    records = int(arguments[0]) if arguments else 1_000_000
    for history in HISTORIES:
        keys = records if history == HISTORIES[0] else records // 10
        print(
            f"{records} records, {history}: us of the thread, of the process; records/s; peak MiB; us of a get after it"
        )
        best: dict[str, dict[str, float]] = {}
        for _ in range(ROUNDS):
            for case in CASES:
                command = [sys.executable, "-m", "benchmarks.bench_restore", case, str(records), str(keys)]
                found = json.loads(subprocess.check_output(command, text=True))
                known = best.setdefault(case, found)
                best[case] = {name: min(known[name], found[name]) for name in found}
        for case, found in best.items():
            thread, cpu = (found[name] / records * 1e6 for name in ("thread", "cpu"))
            rate = records / found["wall"]
            after = f"; {found['get'] * 1e6:.1f}" if "get" in found else ""
            print(f"  {case}: {thread:.2f}, {cpu:.2f}; {rate:,.0f}; {found['peak']:.0f}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
