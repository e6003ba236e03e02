"""The cost of a time to live for a put, a get and a commit, and two ways to find what has expired.

    python -m benchmarks expiry [KEYS]

The first table is of stores, without a time to live and by each of its two measures; the second of engines alone, with
the rolling scan that the stores use and with an index by time. Time of the thread, the best of several rounds.
"""

from __future__ import annotations

import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.registry.kinds import families_of, open_store
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget

ROUNDS, PUTS = 5, 1000
HOUR = 3_600_000
VALUE = b"v" * 40
LEAST, FACTOR = 1000, 4
TIME = struct.Struct(">q")
pack, unpack = TIME.pack, TIME.unpack_from


def best(call: Callable[[], Any], per: int) -> float:
    """Returns the best time of several rounds, in microseconds."""
    seen = []
    for _ in range(ROUNDS):
        begin = time.thread_time()
        call()
        seen.append((time.thread_time() - begin) / per * 1e6)
    return min(seen)


# ------------------------------------------------------------------------ stores


def builders() -> dict[str, StoreBuilder[Any, Any]]:
    made = {}
    for engine, supplier in (
        ("rocksdb", Stores.persistent_key_value_store("s")),
        ("memory", Stores.in_memory_key_value_store("s")),
    ):
        builder = Stores.key_value_store_builder(supplier, Serdes.STRING, Serdes.BYTES)
        made[f"{engine}, none"] = builder
        for by in ("record_time", "access"):
            made[f"{engine}, {by}"] = builder.with_time_to_live(HOUR, by)
    return made


def stores(keys: int, root: Path) -> None:
    print("us: a put; a get from memory; a get from the engine; a commit, for each of its keys, all put or all read")
    names = [f"key-{i:07d}" for i in range(keys)]
    for name, builder in builders().items():
        persistent = builder.supplier.persistent
        engine: Any = RocksEngine(root / name, families_of(builder)) if persistent else MemoryEngine()
        cursor = Cursor()

        def opened(cache: int, builder: Any = builder, engine: Any = engine, cursor: Any = cursor) -> Any:
            return open_store(
                builder,
                engine=engine,
                cursor=cursor,
                budget=Budget(cache),
                log=lambda key, value, timestamp, headers=None: None,
                log_each=False,
                key_serde=Serdes.STRING,
                value_serde=Serdes.BYTES,
            )

        def commit(store: Any, engine: Any = engine) -> None:
            store.drain()
            batch = engine.batch()
            store.apply(batch)
            engine.write(batch)
            store.applied()

        def step(cursor: Any = cursor) -> None:
            cursor.stream_time = cursor.timestamp = cursor.timestamp + 1000

        cursor.timestamp = 0
        step()
        store = opened(1 << 30)

        def puts(store: Any = store) -> None:
            put = store.facade.put
            for key in names:
                put(key, VALUE)

        def gets(store: Any = store) -> None:
            get = store.facade.get
            for key in names:
                get(key)

        put, commits, reads, read_commits = [], [], [], []
        for _ in range(ROUNDS):
            step()
            put.append(once(puts, keys))
            commits.append(once(lambda store=store: commit(store), keys))  # type: ignore[misc]
            step()
            reads.append(once(gets, keys))
            read_commits.append(once(lambda store=store: commit(store), keys))  # type: ignore[misc]
        store.close()
        cold = opened(0)
        get, some = cold.facade.get, random.Random(1).sample(names, min(keys, 20_000))
        miss = best(lambda get=get, some=some: [get(key) for key in some], len(some))  # type: ignore[misc]
        print(
            f"  {name}: {min(put):.2f}; {min(reads):.2f}; {miss:.2f}; {min(commits):.2f}, {min(read_commits):.2f}",
            flush=True,
        )
        cold.close()
        engine.close()


def once(call: Callable[[], Any], per: int) -> float:
    begin = time.thread_time()
    call()
    return (time.thread_time() - begin) / per * 1e6


# ------------------------------------------------------------------------ ways to find what has expired


class Nothing:
    """Never deletes anything."""

    families = ("rows",)

    def __init__(self, engine: Any, length: int) -> None:
        self.rows, self.length = engine.family("rows"), length

    def written(self, batch: Any, keys: Iterable[bytes], now: int) -> None: ...

    def remove(self, batch: Any, count: int, now: int) -> None: ...


class Scan(Nothing):
    """Scans a piece of the store with each commit, whenever half of the time to live has passed."""

    at: bytes | None = b""
    began = 0

    def remove(self, batch: Any, count: int, now: int) -> None:
        if self.at is None and now - self.began < self.length // 2:
            return
        if not self.at:
            self.at, self.began = b"", now
        left, key, limit = LEAST + FACTOR * count, b"", now - self.length
        for key, row in islice(self.rows.range(self.at), left):
            left -= 1
            if unpack(row)[0] <= limit:
                batch.delete(key, self.rows.handle)
        self.at = None if left else key + b"\0"


class Index(Nothing):
    """Keeps a row for each key and 64th of the time to live, which is read when that is over."""

    families = ("rows", "index")
    at: bytes | None = None
    """The key behind the last one removed: a seek would pass all deleted rows before it."""

    def __init__(self, engine: Any, length: int) -> None:
        super().__init__(engine, length)
        self.index, self.span = engine.family("index"), max(length // 64, 1)

    def written(self, batch: Any, keys: Iterable[bytes], now: int) -> None:
        front, handle = pack(now // self.span), self.index.handle
        for key in keys:
            batch.put(front + key, b"", handle)

    def remove(self, batch: Any, count: int, now: int) -> None:
        limit = now - self.length
        due = self.index.range(self.at, pack(max(limit // self.span, 0)))
        get, delete = self.rows.get, batch.delete
        for found, _ in islice(due, LEAST + FACTOR * count):
            key = found[8:]
            row = get(key)
            if row is not None and unpack(row)[0] <= limit:
                delete(key, self.rows.handle)
            delete(found, self.index.handle)
            self.at = found + b"\0"


def ways(keys: int, root: Path) -> None:
    """Measures each way: every commit puts a thousand keys; a key is put once and gone, or put again every quarter of
    its time."""
    print("us a put, with its share of commits and removal; rows left (live ones)")
    length = keys // PUTS * 1000  # enough commits to put all keys, one each second
    for persistent in (True, False):
        for label, spread in (("each key once", None), ("the same keys again", keys // 4)):
            for way in (Nothing, Scan, Index):
                path = root / f"{way.__name__} {label}"
                engine: Any = RocksEngine(path, way.families) if persistent else MemoryEngine()
                seen, left, live = run(engine, way(engine, length), spread, length)
                name = "rocksdb" if persistent else "memory"
                print(f"  {name}, {label}, {way.__name__.lower()}: {seen:.2f}; {left} ({live})", flush=True)
                engine.close()


def run(engine: Any, way: Nothing, spread: int | None, length: int) -> tuple[float, int, int]:
    rows, commits = engine.family("rows"), 4 * length // 1000
    begin, number, now = time.thread_time(), 0, 0
    for now in range(1, commits * 1000, 1000):
        numbers = range(number, number + PUTS)
        number += PUTS
        keys = [b"key-%09d" % (i if spread is None else i * 7919 % spread) for i in numbers]
        batch = engine.batch()
        value, handle, put = pack(now) + VALUE, rows.handle, batch.put
        way.remove(batch, PUTS, now)
        for key in keys:
            put(key, value, handle)
        way.written(batch, keys, now)
        engine.write(batch)
    spent = (time.thread_time() - begin) / number * 1e6
    times = [unpack(row)[0] for _, row in rows.range()]
    return spent, len(times), sum(seen > now - length for seen in times)


def main(arguments: list[str]) -> None:
    keys = int(arguments[0]) if arguments else 200_000
    with tempfile.TemporaryDirectory() as root:
        stores(keys, Path(root) / "stores")
        ways(keys, Path(root) / "ways")


if __name__ == "__main__":
    main(sys.argv[1:])
