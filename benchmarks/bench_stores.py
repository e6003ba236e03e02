"""Measures every kind of store beside the bare engine, for the same bytes in the same run.

    python -m benchmarks stores [ROWS]

Figures are the best of several rounds, in time of the thread (a pause is wall-clock time). `floor` is rocksdict itself,
with the options of our stores: get and put of a row's bytes, and a batch written without our buffers. A miss is a read
of a row that is in no buffer, through a full cache; its floor is the same rows read by rocksdict.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from rocksdict import Rdict, WriteBatch

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from state.engine.memory import MemoryEngine
from state.formats.keys import MAX_TIME, session_key, window_key
from state.registry.kinds import families_of, open_store, restore_of
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import SharedMemory
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

ROUNDS = 5
CALLS = 10_000
VALUE = "v" * 20
RETENTION_MS = 1 << 50
BIG, FULL = 1 << 34, 1 << 19
S = Serdes.STRING
KINDS = ("key-value", "timestamped", "headers", "versioned", "lru", "window", "session")


def builder_of(kind: str, engine: str) -> StoreBuilder[Any, Any]:
    rocks = engine == "rocksdb"
    kv = Stores.persistent_key_value_store if rocks else Stores.in_memory_key_value_store
    if kind == "key-value":
        return Stores.key_value_store_builder(kv("s"), S, S)
    if kind == "timestamped":
        return Stores.timestamped_key_value_store_builder(kv("s"), S, S)
    if kind == "headers":
        return Stores.timestamped_key_value_store_with_headers_builder(kv("s"), S, S)
    if kind == "versioned":
        versioned = Stores.persistent_versioned_key_value_store if rocks else Stores.in_memory_versioned_key_value_store
        return Stores.versioned_key_value_store_builder(versioned("s", RETENTION_MS), S, S)
    if kind == "lru":
        return Stores.key_value_store_builder(Stores.lru_map("s", 1 << 30), S, S)
    if kind == "window":
        window = Stores.persistent_window_store if rocks else Stores.in_memory_window_store
        return Stores.window_store_builder(window("s", RETENTION_MS, 1000), S, S)
    session = Stores.persistent_session_store if rocks else Stores.in_memory_session_store
    return Stores.session_store_builder(session("s", RETENTION_MS), S, S)


class Bench:
    """One store on one engine."""

    def __init__(self, kind: str, engine: str, root: Path, memory: SharedMemory) -> None:
        self.kind, self.builder = kind, builder_of(kind, engine)
        families = families_of(self.builder)
        self.engine: Any = RocksEngine(root, families, memory) if engine == "rocksdb" else MemoryEngine()
        self.cursor = Cursor()
        self.cursor.timestamp = 1
        self.store: OpenStore

    def open(self, cache_bytes: int) -> Any:
        self.store = open_store(
            self.builder,
            engine=self.engine,
            cursor=self.cursor,
            budget=Budget(cache_bytes),
            log=lambda *row: None,
            log_each=False,
            key_serde=S,
            value_serde=S,
        )
        return self.store.facade

    def load(self, keys: list[str], times: range = range(1)) -> None:
        """Loads rows as a restore does, so that reads go to the engine."""
        restore, value = restore_of(self.builder, self.engine), VALUE.encode()
        rows = [(key.encode(), at) for at in times for key in keys]
        for start in range(0, len(rows), 10_000):
            part = rows[start : start + 10_000]
            batch = self.engine.batch()
            logged = [self._logged(key, at) for key, at in part]
            count = len(part)
            restore(batch, logged, [value] * count, [at for _, at in part], [None] * count)
            self.engine.load(batch)
        self.engine.flush()

    def _logged(self, key: bytes, at: int) -> bytes:
        if self.kind == "window":
            return window_key(key, at)
        return session_key(key, at, at) if self.kind == "session" else key

    def commit(self) -> None:
        self.store.drain()
        batch = self.engine.batch()
        self.store.apply(batch)
        self.engine.write(batch)
        self.store.applied()

    def close(self) -> None:
        self.store.close()
        self.engine.close()


def timed(call: Callable[[Any], Any], arguments: list[Any]) -> float:
    """Returns the time of one call, in microseconds."""
    begin = time.thread_time()
    for argument in arguments:
        call(argument)
    return (time.thread_time() - begin) / len(arguments) * 1e6


def best(call: Callable[[Any], Any], arguments: list[Any], rounds: int = ROUNDS) -> float:
    return min(timed(call, arguments) for _ in range(rounds))


def nothing(argument: Any) -> None:
    """Returns the time of a loop over arguments."""


def get_of(kind: str, facade: Any) -> Callable[[str], Any]:
    if kind == "window":
        return lambda key: facade.fetch(key, 0)
    if kind == "session":
        return lambda key: facade.fetch_session(key, 0, 0)
    found: Callable[[str], Any] = facade.get
    return found


def all_of(kind: str, facade: Any) -> Any:
    if kind == "session":
        return facade.fetch_keys("key-", "key-z")
    return facade.range() if kind == "versioned" else facade.all()


def put_of(kind: str, facade: Any) -> Callable[[str], Any]:
    if kind == "timestamped":
        given: Any = ValueAndTimestamp(VALUE, 1)
    elif kind == "headers":
        given = ValueTimestampHeaders(VALUE, 1, [])
    else:
        given = VALUE
    if kind in ("versioned", "window"):
        return lambda key: facade.put(key, given, 1)
    if kind == "session":
        return lambda key: facade.put(Windowed(key, Window(1, 1)), given)
    return lambda key: facade.put(key, given)


class Floor:
    """The floor of the measures: rocksdict with the options of our stores, and nothing else."""

    def __init__(self, root: Path, memory: SharedMemory) -> None:
        self.db = Rdict(str(root), memory.options(), column_families={"s": memory.options()})
        self.table, self.handle = self.db.get_column_family("s"), self.db.get_column_family_handle("s")

    def compact(self) -> None:
        """Compacts the database, as it would be after a long time without writes."""
        self.table.flush(True)
        self.table.compact_range(None, None)

    def close(self) -> None:
        self.table.close()
        self.handle = None
        self.db.close()

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        batch = WriteBatch(raw_mode=True)
        put, handle = batch.put, self.handle
        for key, value in rows:
            put(key, value, handle)
        self.db.write(batch)


def floors(keys: list[str], floor: Floor) -> dict[str, float]:
    value = VALUE.encode()
    rows = [(key.encode(), value) for key in keys]
    spent = []
    for _ in range(ROUNDS):
        begin = time.thread_time()
        floor.write(rows)
        spent.append((time.thread_time() - begin) / len(rows) * 1e6)
    floor.compact()
    asked = [key.encode() for key in random.Random(1).sample(keys, min(CALLS, len(keys)))]
    found = {"batch": min(spent), "get": best(floor.table.get, asked) - best(nothing, asked)}
    put = floor.table.put
    found["put"] = best(lambda key: put(key, value), asked) - best(nothing, asked)
    floor.compact()  # otherwise the reads would find the rows in memory
    iterated = []
    for _ in range(ROUNDS):
        begin = time.thread_time()
        rows_seen = sum(1 for _ in floor.table.items())
        iterated.append((time.thread_time() - begin) / rows_seen * 1e6)
    found["iterate"] = min(iterated)
    return found


def misses(kind: str, bench: Bench, get: Any, asked: list[str], floor: Floor) -> dict[str, float]:
    """Measures reads that go to the engine, in turn with the floor, since machines have slow moments; operators of the
    DSL get pairs, no objects."""
    calls = {"miss": (get, asked), "floor": (floor.table.get, [key.encode() for key in asked])}
    if kind == "timestamped":
        calls["operator's miss"] = bench.store.operator.get, asked
    turns = [{name: timed(*call) for name, call in calls.items()} for _ in range(4 * ROUNDS)]
    return {name: min(turn[name] for turn in turns) for name in calls}


def measure(
    kind: str, engine: str, keys: list[str], root: Path, memory: SharedMemory, floor: Floor
) -> dict[str, float]:
    bench = Bench(kind, engine, root / f"{kind} {engine}", memory)
    bench.load(keys)
    if engine == "rocksdb":
        for family in families_of(bench.builder):
            bench.engine.family(family)._table.compact_range(None, None)
    asked = random.Random(1).sample(keys, min(CALLS, len(keys)))
    loop = best(nothing, asked)
    facade = bench.open(FULL)
    get = get_of(kind, facade)
    for key in reversed(keys):
        get(key)
    found = {name: micros - loop for name, micros in misses(kind, bench, get, asked, floor).items()}
    iterated = []
    for _ in range(3):
        begin = time.thread_time()
        with all_of(kind, facade) as rows:
            count = sum(1 for _ in rows)
        iterated.append((time.thread_time() - begin) / count * 1e6)
    found["iterate"] = min(iterated)
    bench.store.close()
    facade = bench.open(BIG)
    get, put = get_of(kind, facade), put_of(kind, facade)
    for key in asked:
        get(key)
    found["get"] = best(get, asked) - loop
    found["put"] = best(put, asked) - loop
    commits = []
    for _ in range(3):
        for key in keys:
            put(key)
        begin = time.thread_time()
        bench.commit()
        commits.append((time.thread_time() - begin) / len(keys) * 1e6)
    found["commit"] = min(commits)
    bench.close()
    return found


def newest_ten(kind: str, engine: str, root: Path, memory: SharedMemory, rows: int) -> tuple[float, float]:
    """Measures the newest ten rows of a history of 100 rows and of many, in microseconds."""
    seen = []
    for size in (100, rows):
        bench = Bench(kind, engine, root / f"newest {kind} {engine} {size}", memory)
        bench.load(["key"], range(1, size + 1)) if kind in ("window", "session", "versioned") else bench.load(
            [f"key-{i:08d}" for i in range(size)]
        )
        facade = bench.open(64 << 20)

        def read(_: Any, facade: Any = facade) -> None:
            if kind == "window":
                rows = facade.backward_fetch_range("key", 0, MAX_TIME)
            elif kind == "session":
                rows = facade.backward_find_sessions("key", 0, MAX_TIME)
            elif kind == "versioned":
                rows = facade.backward_versions("key")
            else:
                rows = facade.reverse_all()
            with rows as found:
                assert len(list(islice(found, 10))) == 10

        seen.append(best(read, list(range(200))))
        bench.close()
    return seen[0], seen[1]


class Pauses(threading.Thread):
    """A thread that wakes up all the time, and keeps the longest time between two of its wake-ups."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        last = time.perf_counter()
        while not self._over.wait(0.0005):
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now

    def stop(self) -> float:
        """Ends the thread, and returns the longest pause in milliseconds."""
        self._over.set()
        self.join()
        return self.longest * 1e3


def large_commit(root: Path, memory: SharedMemory, count: int = 100_000) -> None:
    """Measures a commit of so many dirty keys, and the longest pause it causes in another thread of the process."""
    keys = [f"key-{i:08d}" for i in random.Random(3).sample(range(count), count)]
    bench = Bench("timestamped", "rocksdb", root / "commit", memory)
    put = put_of("timestamped", bench.open(BIG))
    results, quiet = [], []
    for _ in range(ROUNDS):
        for key in keys:
            put(key)
        idle = Pauses()
        idle.start()
        threading.Event().wait(0.1)  # about the time of a commit, without one
        quiet.append(idle.stop())
        pauses = Pauses()
        pauses.start()
        begin = time.thread_time()
        bench.store.drain()
        drained = time.thread_time()
        batch = bench.engine.batch()
        bench.store.apply(batch)
        applied = time.thread_time()
        bench.engine.write(batch)
        written = time.thread_time()
        bench.store.applied()
        end = time.thread_time()
        results.append(
            (end - begin, drained - begin, applied - drained, written - applied, end - written, pauses.stop())
        )
    total, *parts, _ = min(results)
    print(f"commit of {count} keys: {count / total:,.0f} keys/s; us a key: ", end="")
    print(
        ", ".join(
            f"{w} {s / count * 1e6:.2f}" for w, s in zip(("drain", "fill", "write", "forget"), parts, strict=True)
        )
    )
    longest = sorted(result[5] for result in results)
    print(f"  longest pause of another thread, ms: {longest[0]:.0f} to {longest[-1]:.0f}, idle {max(quiet):.0f}")
    bench.close()


def against_direct_writes(keys: list[str], root: Path, memory: SharedMemory) -> None:
    """Measures the claim of KIP-892: a store whose writes wait for the commit is no slower than one that writes
    each."""
    bench, value = Bench("timestamped", "rocksdb", root / "transactional", memory), VALUE.encode()
    put = put_of("timestamped", bench.open(BIG))
    floor, pack = Floor(root / "direct", memory), (1).to_bytes(8, "big")
    table, direct = floor.table, []
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for key in keys:
            table.put(key.encode(), pack + value)
        direct.append(time.thread_time() - begin)
    print(f"each put written by rocksdict at once {min(direct) / len(keys) * 1e6:.2f} us; put and committed", end="")
    for size in (1000, 10_000, len(keys)):
        transactional = []
        for _ in range(ROUNDS):
            begin = time.thread_time()
            for start in range(0, len(keys), size):
                for key in keys[start : start + size]:
                    put(key)
                bench.commit()
            transactional.append(time.thread_time() - begin)
        print(f", {size} at a time {min(transactional) / len(keys) * 1e6:.2f}", end="")
    print()
    bench.close()


def main(arguments: list[str]) -> None:
    rows = int(arguments[0]) if arguments else 100_000
    keys = [f"key-{i:08d}" for i in range(rows)]
    random.Random(7).shuffle(keys)
    memory = SharedMemory()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        floor = Floor(root / "floor", memory)
        shown = floors(keys, floor)
        print(f"{rows} rows, us: floor: " + ", ".join(f"{name} {micros:.2f}" for name, micros in shown.items()))
        for engine in ("rocksdb", "memory"):
            for kind in KINDS:
                if kind == "lru" and engine == "rocksdb":
                    continue
                found = measure(kind, engine, keys, root, memory, floor)
                least = found.pop("floor")
                text = ", ".join(f"{name} {micros:.2f}" for name, micros in found.items())
                floors_of = ", ".join(f"{name} {found[name] / least:.1f}" for name in found if name.endswith("miss"))
                print(f"  {engine}, {kind}: {text}; floors: {floors_of}", flush=True)
        floor.close()
        print("newest 10 of a history, us: 100 rows, 200000 rows")
        for engine in ("rocksdb", "memory"):
            for kind in ("timestamped", "versioned", "window", "session"):
                short, long = newest_ten(kind, engine, root, memory, 200_000)
                print(f"  {engine}, {kind}: {short:.1f}, {long:.1f}", flush=True)
        large_commit(root, memory)
        against_direct_writes(keys, root, memory)


if __name__ == "__main__":
    main(sys.argv[1:])
