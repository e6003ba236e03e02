"""Measures the memory of rows that wait for a commit, up to `statestore.uncommitted.max.bytes`, and their commit.

    python -m benchmarks uncommitted [MIB]

Each case in a process of its own, on RocksDB, with keys of 12 bytes and values of 100, put once each. `counted` is the
value that the limit is compared with; `held` is the growth of the process by then, `peak` the largest growth during the
following commit, and `after` the growth after it. `through` commits every thousand rows, like a store that writes each
row at once.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from state.registry.kinds import families_of, open_store
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget

MIB = 1 << 20
CACHE = 10 * MIB
PAGE = resource.getpagesize()
CASES = ("key-value", "timestamped", "timestamped, cached", "window", "versioned", "timestamped, through")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def builder_of(case: str) -> StoreBuilder[Any, Any]:
    kind, _, how = case.partition(", ")
    if kind == "window":
        supplier = Stores.persistent_window_store("s", 3_600_000, 60_000)
        return Stores.window_store_builder(supplier, Serdes.STRING, Serdes.STRING)
    if kind == "versioned":
        supplier = Stores.persistent_versioned_key_value_store("s", 3_600_000)
        return Stores.versioned_key_value_store_builder(supplier, Serdes.STRING, Serdes.STRING)
    supplier = Stores.persistent_key_value_store("s")
    if kind == "key-value":
        return Stores.key_value_store_builder(supplier, Serdes.STRING, Serdes.STRING)
    made = Stores.timestamped_key_value_store_builder(supplier, Serdes.STRING, Serdes.STRING)
    return made.with_caching_enabled() if how == "cached" else made


def put_of(case: str, store: Any) -> Callable[[str, str], Any]:
    kind = case.partition(", ")[0]
    if kind in ("window", "versioned"):
        return lambda key, value: store.facade.put(key, value, 1_000)
    if kind == "key-value":
        return lambda key, value: store.facade.put(key, value)
    return lambda key, value: store.operator.put(key, value, 1_000)


def run(case: str, limit: int) -> dict[str, float]:
    builder, cache = builder_of(case), (2 * limit if case.endswith("cached") else CACHE)
    with tempfile.TemporaryDirectory() as root:
        engine: Any = RocksEngine(Path(root), families_of(builder))
        budget = Budget(cache, limit)
        store = open_store(
            builder,
            engine=engine,
            cursor=Cursor(),
            budget=budget,
            log=lambda key, value, timestamp, headers=None: None,
            log_each=False,
            key_serde=Serdes.STRING,
            value_serde=Serdes.STRING,
        )

        def commit() -> None:
            store.drain()
            batch = engine.batch()
            store.apply(batch)
            engine.write(batch)
            store.applied()

        put, through = put_of(case, store), case.endswith("through")
        gc.collect()
        start, rows = resident(), 0
        while budget.uncommitted + budget.dirty < limit and rows < limit // 158:
            put(f"key-{rows:08d}", f"{rows:0100d}")
            rows += 1
            if through and rows % 1000 == 0:
                commit()
        counted, held = budget.uncommitted + budget.dirty, resident() - start
        commit()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - start
        after = resident() - start
        store.close()
        engine.close()
    sizes = {"counted": counted, "held": held, "peak": peak, "after": after}
    return {"rows": rows, **{name: size / MIB for name, size in sizes.items()}}


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["one"]:
        print(json.dumps(run(arguments[1], int(arguments[2]))))
        return 0
    limit = int(arguments[0] if arguments else 64) * MIB
    print(f"{'MiB':22} {'rows':>9} {'counted':>8} {'held':>8} {'peak':>8} {'after':>8}")
    for case in CASES:
        command = [sys.executable, "-m", "benchmarks.bench_uncommitted", "one", case, str(limit)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        sizes = " ".join(f"{found[name]:8.0f}" for name in ("counted", "held", "peak", "after"))
        print(f"{case:22} {found['rows']:9} {sizes}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
