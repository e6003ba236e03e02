"""Measures views: the cost of a read of a running store, of taking a snapshot, and of readers for the writer.

    python -m benchmarks views [ROWS]

A cached key-value store has so many rows on its engine, and as many wait for the commit. Times are the best of several
rounds, in time of the thread. The writer puts rows while another thread reads; its rate beside no reader is shown too.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel
from state.engine.memory import MemoryEngine
from state.read_views.view import open_view
from state.registry.kinds import families_of, open_store
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

ROUNDS, CALLS = 7, 2000
WRITES_S = 1.5
GETS_PER_S = 10_000


def opened(persistent: bool, root: Path) -> tuple[OpenStore, Any]:
    supplier = Stores.persistent_key_value_store("s") if persistent else Stores.in_memory_key_value_store("s")
    builder = Stores.key_value_store_builder(supplier, Serdes.STRING, Serdes.LONG).with_caching_enabled()
    engine: Any = RocksEngine(root, families_of(builder)) if persistent else MemoryEngine()
    store = open_store(
        builder,
        engine=engine,
        cursor=Cursor(),
        budget=Budget(1 << 30),
        log=lambda *_: None,
        key_serde=Serdes.STRING,
        value_serde=Serdes.LONG,
    )
    return store, engine


def commit(store: OpenStore, engine: Any) -> None:
    store.drain()
    batch = engine.batch()
    store.apply(batch)
    engine.write(batch)
    store.applied()


def best(call: Callable[[], Any], calls: int = 1) -> float:
    """Returns the best time of a call, in microseconds."""
    found = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(calls):
            call()
        found.append((time.thread_time() - start) / calls)
    return min(found) * 1e6


def reads(store: OpenStore, rows: int, level: IsolationLevel) -> None:
    view = open_view(store, level)
    dirty, absent = f"key-{rows // 2}", "no such key"
    get, scan = view.store.get, view.store.range
    opening = best(lambda: open_view(store, level), CALLS)
    found, missed = best(lambda: get(dirty), CALLS), best(lambda: get(absent), CALLS)
    frozen = best(view.frozen, 3) / 1000
    short = best(lambda: list(islice(scan(dirty, None), 10)), 5) / 1000
    two = best(lambda: list(scan(dirty, dirty + "0")), 50) / 1000
    long = best(lambda: sum(1 for _ in view.store.all())) / 1000
    print(
        f"  {level.value}: open {opening:.2f} us, get {found:.2f} us, absent {missed:.2f} us, frozen {frozen:.2f} ms,"
    )
    print(f"    a range of 2 rows {two:.3f} ms, the first 10 of half of them {short:.2f} ms, all {long:.0f} ms")


def writes(store: OpenStore, engine: Any, rows: int, read: Callable[[], Any] | None, pause_s: float = 0.0) -> float:
    """Returns the puts per second, with a commit now and then, while another thread reads."""
    stop, done = threading.Event(), [0]

    def reader() -> None:
        assert read is not None
        while not stop.is_set():
            read()
            done[0] += 1
            if pause_s and done[0] % 100 == 0:
                stop.wait(pause_s * 100)

    thread = threading.Thread(target=reader) if read is not None else None
    put, count = store.operator.put, 0
    if thread is not None:
        thread.start()
    start = time.perf_counter()
    while time.perf_counter() - start < WRITES_S:
        for i in range(20_000):
            put(f"key-{(count + i) % rows}", i, 5, None)
        count += 20_000
        commit(store, engine)
    spent = time.perf_counter() - start
    stop.set()
    if thread is not None:
        thread.join()
        print(f"    ({done[0] / spent:,.0f} reads/s)", end="")
    return count / spent


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for persistent in (True, False):
        with tempfile.TemporaryDirectory() as root:
            store, engine = opened(persistent, Path(root) / "db")
            for waiting in (False, True):
                for i in range(rows):
                    store.operator.put(f"key-{i}", i, 5, None)
                if not waiting:
                    commit(store, engine)
            print(f"{'rocksdb' if persistent else 'memory'}, {rows:,} rows, all of them dirty again")
            for level in IsolationLevel:
                reads(store, rows, level)
            commit(store, engine)
            print(f"  no reader: {writes(store, engine, rows, None):,.0f} puts/s")
            for level in IsolationLevel:
                rate = writes(store, engine, rows, getter(store, level), 1 / GETS_PER_S)
                print(f" gets, {level.value}: {rate:,.0f} puts/s")
            store.close()
            engine.close()


def getter(store: OpenStore, level: IsolationLevel) -> Callable[[], Any]:
    get = open_view(store, level).store.get
    return lambda: get("key-7")


if __name__ == "__main__":
    main()
