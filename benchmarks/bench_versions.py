"""Measures versioned stores beside a key-value store: reads of the newest and of an old version, and puts.

    python -m benchmarks versions [KEYS]

Each key has 20 versions; the key-value store beside it has as many rows. Rows are loaded as a restore loads them, so
that reads go to the engine, and read once more from the memory of the store. Each figure is the best of several rounds,
in time of the thread.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.registry.kinds import families_of, open_store, restore_of
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

VERSIONS, STEP_MS = 20, 50
NEWEST, DEEP = VERSIONS * STEP_MS, 8 * STEP_MS + 20
RETENTION_MS = 1_000_000_000
ROUNDS, CALLS = 5, 10_000
VALUE = b"v" * 30


class Bench:
    """One store on one engine, with a cache that holds nothing or everything."""

    def __init__(self, builder: StoreBuilder[Any, Any], root: Path) -> None:
        self.builder = builder
        persistent = builder.supplier.persistent
        self.engine: Any = RocksEngine(root, families_of(builder)) if persistent else MemoryEngine()
        self.cursor = Cursor()
        self.cursor.timestamp = 1

    def load(self, rows: list[tuple[bytes, int]]) -> None:
        restore = restore_of(self.builder, self.engine)
        for start in range(0, len(rows), 10_000):
            part = rows[start : start + 10_000]
            batch = self.engine.batch()
            times = [time for _, time in part]
            restore(batch, [key for key, _ in part], [VALUE] * len(part), times, [None] * len(part))
            self.engine.load(batch)
        self.engine.flush()

    def open(self, cache_bytes: int) -> OpenStore:
        return open_store(
            self.builder,
            engine=self.engine,
            cursor=self.cursor,
            budget=Budget(cache_bytes),
            log=lambda key, value, timestamp: None,
            log_each=False,
            key_serde=Serdes.STRING,
            value_serde=Serdes.STRING,
        )

    def commit(self, store: OpenStore) -> None:
        store.drain()
        batch = self.engine.batch()
        store.apply(batch)
        self.engine.write(batch)
        store.applied()


def builders(engine: str) -> tuple[StoreBuilder[Any, Any], StoreBuilder[Any, Any]]:
    """Returns the builders of a key-value store and of a versioned one."""
    if engine == "rocksdb":
        plain, versioned = Stores.persistent_key_value_store, Stores.persistent_versioned_key_value_store
    else:
        plain, versioned = Stores.in_memory_key_value_store, Stores.in_memory_versioned_key_value_store
    return (
        Stores.key_value_store_builder(plain("plain"), Serdes.STRING, Serdes.STRING),
        Stores.versioned_key_value_store_builder(versioned("versioned", RETENTION_MS), Serdes.STRING, Serdes.STRING),
    )


def best(call: Callable[[str], Any], keys: list[str]) -> float:
    """Returns the best time of one call, in microseconds."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for key in keys:
            call(key)
        rounds.append((time.thread_time() - begin) / len(keys) * 1e6)
    return min(rounds)


def reads(engine: str, keys: list[str], root: Path) -> None:
    plain, versioned = (Bench(builder, root / builder.name) for builder in builders(engine))
    plain.load([(f"{key} {i}".encode(), i * STEP_MS) for i in range(VERSIONS) for key in keys])
    versioned.load([(key.encode(), i * STEP_MS) for i in range(VERSIONS) for key in keys])
    asked = random.Random(1).sample(keys, min(CALLS, len(keys)))
    for where, cache_bytes in (("the engine", 1), ("memory", 1 << 30)):
        a, b = plain.open(cache_bytes), versioned.open(cache_bytes)
        kv, get = a.facade.get, b.facade.get
        floor = best(lambda key, kv=kv: kv(f"{key} 7"), asked)  # type: ignore[misc]
        floor -= best(lambda key: f"{key} 7", asked)
        seen = {
            "get": best(get, asked),
            "get(as_of newest)": best(lambda key, get=get: get(key, NEWEST), asked),  # type: ignore[misc]
            "get(as_of deep)": best(lambda key, get=get: get(key, DEEP), asked),  # type: ignore[misc]
            "newest 5 versions": best(newest_five(b.facade), asked),
        }
        print(f"  {engine}, from {where}: key-value get {floor:.2f} us; versioned")
        for what, micros in seen.items():
            print(f"    {what}: {micros:.2f} us, {micros / floor:.1f} times")
        a.close()
        b.close()
    plain.engine.close()
    versioned.engine.close()


def newest_five(facade: Any) -> Callable[[str], None]:
    def read(key: str) -> None:
        with facade.backward_versions(key) as found:
            assert len(list(islice(found, 5))) == 5

    return read


def writes(engine: str, keys: list[str], root: Path) -> None:
    plain, versioned = (Bench(builder, root / f"{builder.name} writes") for builder in builders(engine))
    for bench in (plain, versioned):
        store = bench.open(1 << 30)
        is_plain = bench is plain
        put, spent = store.facade.put, [0.0, 0.0]
        for i in range(VERSIONS):
            begin = time.thread_time()
            for key in keys:
                put(key, "v") if is_plain else put(key, "v", i * STEP_MS)
            middle = time.thread_time()
            bench.commit(store)
            spent[0] += middle - begin
            spent[1] += time.thread_time() - middle
        each = [seconds / len(keys) / VERSIONS * 1e6 for seconds in spent]
        print(f"  {engine}, {bench.builder.name}: put {each[0]:.2f} us, commit {each[1]:.2f} us a key")
        store.close()
        bench.engine.close()


def main(arguments: list[str]) -> None:
    keys = [f"key-{i:08d}" for i in range(int(arguments[0]) if arguments else 20_000)]
    with tempfile.TemporaryDirectory() as root:
        for engine in ("rocksdb", "memory"):
            reads(engine, keys, Path(root))
            writes(engine, keys, Path(root))


if __name__ == "__main__":
    main(sys.argv[1:])
