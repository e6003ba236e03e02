"""Measures commits to RocksDB with its log, which is how the stores write, and without.

    python -m benchmarks log

Batches of rows of 12 and 100 bytes in any order, into a database that grows by them; milliseconds a batch, the median,
and microseconds a row. The two take turns, so that other work of the machine affects both.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from state.rocksdb.engine import RocksEngine

VALUE = b"v" * 100
CASES = {20: 400, 2_000: 100, 100_000: 9}
"""Rows of a batch, and rounds."""


def measure(rows: int, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as root:
        engines = [RocksEngine(Path(root) / how, ["s.rows"]) for how in ("log", "none")]
        writes: dict[str, tuple[Any, Callable[[Any], None]]] = {
            "log": (engines[0], engines[0].write),
            "none": (engines[1], engines[1].load),
        }
        seconds: dict[str, list[float]] = {how: [] for how in writes}
        numbers = random.Random(5)
        for number in range(rounds):
            keys = [b"key-%08d" % numbers.randrange(10**8) for _ in range(rows)]
            for how, (engine, write) in sorted(writes.items(), reverse=bool(number % 2)):
                batch, handle = engine.batch(), engine.family("s.rows").handle
                for key in keys:
                    batch.put(key, VALUE, handle)
                begin = time.perf_counter()
                write(batch)
                seconds[how].append(time.perf_counter() - begin)
                handle = None
        for engine in engines:
            engine.close()
    return {how: statistics.median(seen) for how, seen in seconds.items()}


def main() -> int:
    for rows, rounds in CASES.items():
        found = measure(rows, rounds)
        results = (f"{how}: {s * 1e3:.3f} ms, {s / rows * 1e6:.2f} us a row" for how, s in found.items())
        print(f"{rows} rows; {'; '.join(results)}; {found['log'] / found['none']:.2f} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
