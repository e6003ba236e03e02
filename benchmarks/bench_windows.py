"""Measures window stores: the newest ten rows of a short and of a long history, puts beside a key-value store, and
expiry.

    python -m benchmarks windows [ROWS]

A history is loaded as a restore loads it, so that reads go to the engine. Each figure is the best of several
rounds, in time of the thread.
"""

from __future__ import annotations

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
from state.formats.keys import MAX_TIME, window_key
from state.registry.kinds import family_of, open_store, restore_of
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

STEP_MS = 1000
ROUNDS = 7
CALLS = 300
VALUE = b"v" * 20


def once(call: Callable[[], Any], calls: int = CALLS) -> float:
    """Returns the time of one call in microseconds of this thread, so that other work of the machine counts little."""
    begin = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - begin) / calls * 1e6


def best(call: Callable[[], Any], calls: int = CALLS) -> float:
    return min(once(call, calls) for _ in range(ROUNDS))


class Bench:
    """One store on one engine."""

    def __init__(self, builder: StoreBuilder[Any, Any], root: Path) -> None:
        persistent = builder.supplier.persistent
        self.builder = builder
        self.engine: Any = RocksEngine(root, [family_of(builder)]) if persistent else MemoryEngine()
        self.cursor = Cursor()
        self.cursor.timestamp = 1

    def load(self, rows: int, keys: int) -> None:
        """Loads rows a second apart, each of the next key."""
        restore = restore_of(self.builder, self.engine)
        names = [b"key-%05d" % i for i in range(keys)]
        for start in range(0, rows, 10_000):
            numbers = range(start, min(start + 10_000, rows))
            batch = self.engine.batch()
            logged = [window_key(names[i % keys], i * STEP_MS) for i in numbers]
            restore(batch, logged, [VALUE] * len(numbers), [1] * len(numbers), [None] * len(numbers))
            self.engine.load(batch)
        self.engine.flush()

    def open(self) -> OpenStore:
        return open_store(
            self.builder,
            engine=self.engine,
            cursor=self.cursor,
            budget=Budget(64 << 20),
            log=lambda key, value, timestamp: None,
            key_serde=Serdes.BYTES,
            value_serde=Serdes.BYTES,
        )

    def commit(self, store: OpenStore) -> float:
        """Commits, and returns the time in seconds of this thread."""
        begin = time.thread_time()
        store.drain()
        batch = self.engine.batch()
        store.apply(batch)
        self.engine.write(batch)
        store.applied()
        return time.thread_time() - begin


def builders(rows: int) -> dict[str, StoreBuilder[Any, Any]]:
    retention = max(rows * STEP_MS, STEP_MS)
    persistent, memory = Stores.persistent_window_store, Stores.in_memory_window_store
    suppliers = {
        "rocksdb": persistent("w", retention, STEP_MS),
        "rocksdb, by time": persistent("w", retention, STEP_MS, time_ordered=True),
        "memory": memory("w", retention, STEP_MS),
    }
    return {name: Stores.window_store_builder(one, Serdes.BYTES, Serdes.BYTES) for name, one in suppliers.items()}


def newest_ten(rows: int, root: Path) -> None:
    print(f"the newest 10 of a key's history, us: 100 rows, {rows} rows, ratio")
    for name in builders(1):
        reads, engines = [], []
        for size in (100, rows):
            bench = Bench(builders(size)[name], root / f"newest {name} {size}")
            bench.load(size, keys=1)
            engines.append(bench.engine)
            reads.append(reader(bench.open().facade))
        short, long = (min(seen) for seen in zip(*[[once(read) for read in reads] for _ in range(ROUNDS)], strict=True))
        print(f"  {name}: {short:.1f}, {long:.1f}, {long / short:.2f}")
        for engine in engines:
            engine.close()


def reader(facade: Any) -> Callable[[], None]:
    def read() -> None:
        with facade.backward_fetch_range(b"key-00000", 0, MAX_TIME) as found:
            assert len(list(islice(found, 10))) == 10

    return read


def puts_and_fetches(root: Path) -> None:
    print("us a put, a fetch of the window just put, and a put with a fetch of 10 windows of its key")
    for name, builder in builders(1_000_000).items():
        bench = Bench(builder, root / f"puts {name}")
        facade = bench.open().facade
        put, fetch, clock = facade.put, facade.fetch, iter(range(0, MAX_TIME, 10))
        fetch_range = facade.fetch_range
        keys = [b"key-%05d" % i for i in range(1000)]

        def puts(put: Any = put, clock: Any = clock, keys: Any = keys) -> None:
            for key in keys:
                put(key, VALUE, next(clock))

        seen = [best(puts, 10) / len(keys)]
        seen.append(best(lambda fetch=fetch: fetch(b"key-00000", 0)))  # type: ignore[misc]

        def joins(put: Any = put, fetch: Any = fetch_range, clock: Any = clock, keys: Any = keys) -> None:
            for key in keys:
                now = next(clock)
                put(key, VALUE, now)
                with fetch(key, max(now - 100_000, 0), now) as found:
                    list(found)

        seen.append(best(joins, 1) / len(keys))
        bench.engine.close()
        print(f"  {name}: {seen[0]:.2f}, {seen[1]:.2f}, {seen[2]:.2f}")


def expiry(rows: int, root: Path) -> None:
    print(f"ms of a commit that deletes {rows} expired rows, of one that deletes none; then us of a fetch of 1 row")
    for name, builder in builders(rows).items():
        bench = Bench(builder, root / f"expiry {name}")
        bench.load(rows, keys=1000)
        store = bench.open()
        later = 3 * rows * STEP_MS
        store.facade.put(b"key-00000", VALUE, later)
        first = bench.commit(store) * 1e3
        store.facade.put(b"key-00000", VALUE, later + 1)
        second = bench.commit(store) * 1e3

        def read(facade: Any = store.facade, later: int = later) -> None:
            with facade.fetch_range(b"key-00000", later, later) as found:
                assert len(list(found)) == 1

        print(f"  {name}: {first:.2f}, {second:.2f}; {best(read):.1f}")
        bench.engine.close()


def main(arguments: list[str]) -> None:
    rows = int(arguments[0]) if arguments else 1_000_000
    with tempfile.TemporaryDirectory() as root:
        newest_ten(rows, Path(root))
        puts_and_fetches(Path(root))
        expiry(rows, Path(root))


if __name__ == "__main__":
    main(sys.argv[1:])
